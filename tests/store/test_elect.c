/* Which process is the leader, how many claim, whether there is anything to
 * take. */
#include "store_for_test.h"

#include "base/time/clock.h"
#include "waiting.h"

#define KEEP_MS 600

static bool can_look(const struct test_store *ts)
{
    return store_ops(ts->store)->capabilities & STORE_ELECTS;
}

/* The test is skipped on a store that does without. */
static void need_looks(const struct test_store *ts)
{
    if (!can_look(ts))
        skip();
}

static struct store_election look(struct test_store *ts, int64_t keep_ms, bool claims)
{
    struct store_election election;
    struct redrive_err err = {0};
    if (store_ops(ts->store)->elect(ts->store, keep_ms, claims, &election, &err) != 0)
        fail_msg("%s: %s", err.message, err.detail);
    return election;
}

static bool keeps(struct test_store *ts)
{
    return look(ts, KEEP_MS, false).is_leader;
}

STORE_TEST(the_slot_is_there_if_the_store_says_so)
{
    assert_int_equal(store_ops(ts->store)->elect != NULL, can_look(ts));
}

STORE_TEST(one_handle_is_leader)
{
    struct test_store second;
    need_looks(ts);
    ts_join(&second, ts);
    assert_true(keeps(ts));
    assert_false(keeps(&second));
    assert_true(keeps(ts));
    ts_close(&second);
}

/* So long that it does not end within a test. All who ask name the same time. */
static bool keeps_long(struct test_store *ts)
{
    return look(ts, 10 * WAIT_LIMIT_MS, false).is_leader;
}

STORE_TEST(time_that_is_given_back_goes_to_the_next_who_asks)
{
    struct test_store second;
    need_looks(ts);
    ts_join(&second, ts);
    assert_true(keeps_long(ts));
    assert_false(look(&second, 0, false).is_leader);
    assert_false(keeps_long(&second));
    assert_false(look(ts, 0, false).is_leader);
    assert_true(keeps_long(&second));
    assert_false(keeps_long(ts));
    ts_close(&second);
    /* That it has gone may be heard a moment later than that it is asked for. */
    WAIT_FOR(keeps_long(ts));
}

STORE_TEST(one_that_no_longer_asks_loses_it)
{
    struct test_store second;
    need_looks(ts);
    ts_join(&second, ts);
    assert_true(keeps(ts));
    const int64_t since_ms = clock_monotonic_ms();
    WAIT_FOR(keeps(&second));
    assert_true(clock_monotonic_ms() - since_ms >= KEEP_MS / 2);
    WAIT_FOR(keeps(&second) && !keeps(ts)); /* the first may have it again on a slow machine */
    ts_close(&second);
}

/* Asks again and again, for longer than it has asked for at a time. False: this machine was too
 * slow for that. */
static bool keeps_by_asking(struct test_store *ts, struct test_store *second)
{
    const int64_t since_ms = clock_monotonic_ms();
    int64_t asked_ms = since_ms;
    bool is_leader = keeps(ts);
    while (clock_monotonic_ms() - since_ms < 2 * KEEP_MS) {
        const int64_t now_ms = clock_monotonic_ms();
        const bool is_kept = is_leader && keeps(ts) && !keeps(second);
        if (clock_monotonic_ms() - asked_ms >= KEEP_MS) {
            (void)look(second, 0, false);
            return false;
        }
        assert_true(is_kept);
        asked_ms = now_ms;
        pass_ms(10);
    }
    return true;
}

STORE_TEST(who_has_it_may_keep_it_by_asking)
{
    struct test_store second;
    need_looks(ts);
    ts_join(&second, ts);
    WAIT_FOR(keeps_by_asking(ts, &second));
    ts_close(&second);
}

STORE_TEST(those_who_claim_are_counted)
{
    struct test_store second, third;
    need_looks(ts);
    ts_join(&second, ts);
    ts_join(&third, ts);
    assert_int_equal(look(ts, 0, false).claimers, 0);
    (void)look(&second, 0, true);
    (void)look(&third, 0, true);
    assert_int_equal(look(ts, 0, false).claimers, 2);
    ts_close(&second);
    ts_close(&third);
}

STORE_TEST(ready_jobs_are_seen_and_others_are_not)
{
    need_looks(ts);
    assert_false(look(ts, 0, true).has_ready);
    PUT(ts, .process_after_ms = ts->now_ms + 1000);
    assert_false(look(ts, 0, true).has_ready);
    int64_t seq = PUT(ts, .priority = 1);
    assert_true(look(ts, 0, true).has_ready);
    (void)ts_start(ts, seq);
    assert_false(look(ts, 0, true).has_ready);
}

STORE_TEST(no_election_within_a_transaction)
{
    struct store_election election;
    need_looks(ts);
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->elect(ts->store, 0, false, &election, NULL),
                     REDRIVE_E_STATE);
    ts_rollback(ts);
}
