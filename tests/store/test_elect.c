/* Which process is the leader, how many claim, whether there is anything to
 * take. */
#include "kit.h"

#include "base/time/clock.h"
#include "waiting.h"

#define KEEP_MS 600

static bool can_look(const struct kit *k)
{
    return store_ops(k->store)->capabilities & STORE_ELECTS;
}

/* The test is skipped on a store that does without. */
static void need_looks(const struct kit *k)
{
    if (!can_look(k))
        skip();
}

static struct store_election look(struct kit *k, int64_t keep_ms, bool claims)
{
    struct store_election election;
    struct redrive_err err = {0};
    if (store_ops(k->store)->elect(k->store, keep_ms, claims, &election, &err) != 0)
        fail_msg("%s: %s", err.message, err.detail);
    return election;
}

static bool keeps(struct kit *k)
{
    return look(k, KEEP_MS, false).is_leader;
}

KIT_TEST(the_slot_is_there_if_the_store_says_so)
{
    assert_int_equal(store_ops(k->store)->elect != NULL, can_look(k));
}

KIT_TEST(one_handle_is_leader)
{
    struct kit second;
    need_looks(k);
    kit_join(&second, k);
    assert_true(keeps(k));
    assert_false(keeps(&second));
    assert_true(keeps(k));
    kit_close(&second);
}

/* So long that it does not end within a test. All who ask name the same time. */
static bool keeps_long(struct kit *k)
{
    return look(k, 10 * WAIT_LIMIT_MS, false).is_leader;
}

KIT_TEST(time_that_is_given_back_goes_to_the_next_who_asks)
{
    struct kit second;
    need_looks(k);
    kit_join(&second, k);
    assert_true(keeps_long(k));
    assert_false(look(&second, 0, false).is_leader);
    assert_false(keeps_long(&second));
    assert_false(look(k, 0, false).is_leader);
    assert_true(keeps_long(&second));
    assert_false(keeps_long(k));
    kit_close(&second);
    /* That it has gone may be heard a moment later than that it is asked for. */
    WAIT_FOR(keeps_long(k));
}

KIT_TEST(one_that_no_longer_asks_loses_it)
{
    struct kit second;
    need_looks(k);
    kit_join(&second, k);
    assert_true(keeps(k));
    const int64_t since_ms = clock_monotonic_ms();
    WAIT_FOR(keeps(&second));
    assert_true(clock_monotonic_ms() - since_ms >= KEEP_MS / 2);
    WAIT_FOR(keeps(&second) && !keeps(k)); /* the first may have it again on a slow machine */
    kit_close(&second);
}

/* Asks again and again, for longer than it has asked for at a time. False: this machine was too
 * slow for that. */
static bool keeps_by_asking(struct kit *k, struct kit *second)
{
    const int64_t since_ms = clock_monotonic_ms();
    int64_t asked_ms = since_ms;
    bool is_leader = keeps(k);
    while (clock_monotonic_ms() - since_ms < 2 * KEEP_MS) {
        const int64_t now_ms = clock_monotonic_ms();
        const bool is_kept = is_leader && keeps(k) && !keeps(second);
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

KIT_TEST(who_has_it_may_keep_it_by_asking)
{
    struct kit second;
    need_looks(k);
    kit_join(&second, k);
    WAIT_FOR(keeps_by_asking(k, &second));
    kit_close(&second);
}

KIT_TEST(those_who_claim_are_counted)
{
    struct kit second, third;
    need_looks(k);
    kit_join(&second, k);
    kit_join(&third, k);
    assert_int_equal(look(k, 0, false).claimers, 0);
    (void)look(&second, 0, true);
    (void)look(&third, 0, true);
    assert_int_equal(look(k, 0, false).claimers, 2);
    kit_close(&second);
    kit_close(&third);
}

KIT_TEST(ready_jobs_are_seen_and_others_are_not)
{
    need_looks(k);
    assert_false(look(k, 0, true).has_ready);
    PUT(k, .process_after_ms = k->now_ms + 1000);
    assert_false(look(k, 0, true).has_ready);
    int64_t seq = PUT(k, .priority = 1);
    assert_true(look(k, 0, true).has_ready);
    (void)kit_start(k, seq);
    assert_false(look(k, 0, true).has_ready);
}

KIT_TEST(no_election_within_a_transaction)
{
    struct store_election election;
    need_looks(k);
    kit_begin(k);
    assert_int_equal(store_ops(k->store)->elect(k->store, 0, false, &election, NULL),
                     REDRIVE_E_STATE);
    kit_rollback(k);
}
