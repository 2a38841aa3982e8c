/* The sums of limits: slots in use and candidates, which many handles add to at the same time. */
#include <pthread.h>
#include <stdatomic.h>

#include "store_for_test.h"
#include "waiting.h"

static struct shared_row limit(const char *key, int64_t version)
{
    return (struct shared_row){.kind = SHARED_LIMIT,
                               .tenant = STR("acme"),
                               .key = str_of(key),
                               .value = STR("value"),
                               .version = version};
}

static struct shared_row delta(const char *key, int64_t used, int64_t sent, int64_t max_used)
{
    struct shared_row row = limit(key, 0);
    row.value = (struct str){0};
    row.is_delta = true;
    row.add = (struct gate_sums){used, sent};
    row.max_used = max_used;
    return row;
}

/* Puts it in a transaction of its own. A refusal by itself and one of the whole transaction are the
 * same here. */
static int put(struct test_store *ts, struct shared_row row)
{
    struct move_result result = {0};
    int rc;
    while ((rc = ts_try_begin(ts)) ==
           REDRIVE_E_IO) /* where there is one writer, it is waited for */
        continue;
    assert_int_equal(rc, 0);
    rc = store_ops(ts->store)->shared_put(ts->store, &row, 1, &result, NULL);
    if (rc == 0)
        rc = result.code;
    if (rc == 0)
        rc = store_ops(ts->store)->commit(ts->store, NULL);
    ts_rollback(ts);
    return rc == REDRIVE_E_CANCELLED ? REDRIVE_E_STATE : rc;
}

static void check_sums(struct test_store *ts, const char *key, int64_t used, int64_t sent)
{
    const struct shared_page *page = ts_shared(ts, SHARED_LIMIT, STR("acme"));
    for (size_t i = 0; i < page->n; i++) {
        if (!str_is(page->rows[i].key, key))
            continue;
        assert_int_equal(page->rows[i].sums.used, used);
        assert_int_equal(page->rows[i].sums.sent, sent);
        return;
    }
    fail_msg("there is no limit %s", key);
}

STORE_TEST(what_is_added_is_told_after_the_commit)
{
    struct test_store other;
    struct merged_gate merged = MERGED_UNKNOWN;
    struct shared_row row = limit("l", 0);
    ts_join(&other, ts);
    row.add = (struct gate_sums){2, 1};
    row.merged = &merged;
    assert_int_equal(put(ts, row), 0);
    assert_int_equal(merged.sums.used, 2);
    assert_int_equal(merged.sums.sent, 1);
    assert_int_equal(put(&other, delta("l", 3, 4, 0)), 0);
    row = delta("l", 1, -2, 0);
    row.merged = &merged;
    assert_int_equal(put(ts, row), 0);
    assert_int_equal(merged.sums.used, 6);
    assert_int_equal(merged.sums.sent, 3);
    assert_int_equal(merged.version, 1);
    assert_int_equal(put(&other, limit("l", 1)), 0); /* others have put the row meanwhile */
    assert_int_equal(put(ts, row), 0);
    assert_int_equal(merged.version, 2);
    check_sums(&other, "l", 7, 1);
    ts_close(&other);
}

STORE_TEST(a_delta_leaves_value_and_versions_alone)
{
    assert_int_equal(put(ts, limit("l", 0)), 0);
    ts_begin(ts);
    ts_rollback(ts);
    const int64_t before = ts->shared_version;
    assert_int_equal(put(ts, delta("l", 1, 1, 0)), 0);
    ts_begin(ts);
    ts_rollback(ts);
    assert_int_equal(ts->shared_version, before);
    const struct shared_page *page = ts_shared(ts, SHARED_LIMIT, STR("acme"));
    assert_int_equal(page->rows[0].version, 1);
    check_str(page->rows[0].value, "value");
    struct shared_row row = limit("l", 1);
    row.value = STR("another");
    assert_int_equal(put(ts, row), 0);
    check_sums(ts, "l", 1, 1);
}

STORE_TEST(slots_are_added_up_to_the_maximum)
{
    struct shared_row row = limit("l", 0);
    row.add.used = 4;
    row.max_used = 3;
    assert_int_equal(put(ts, row), REDRIVE_E_STATE);
    row.add.used = 2;
    assert_int_equal(put(ts, row), 0);
    assert_int_equal(put(ts, delta("l", 2, 0, 3)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, delta("l", 1, 0, 3)), 0);
    assert_int_equal(put(ts, delta("l", 1, 0, 3)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, delta("l", 0, 1, 1)), 0); /* adds no slot */
    assert_int_equal(put(ts, delta("l", 1, 0, 0)), 0); /* nobody guards it */
    check_sums(ts, "l", 4, 1);
    assert_int_equal(put(ts, delta("l", -2, 0, 1)), 0);
    assert_int_equal(put(ts, delta("l", 1, 0, 3)), 0);
    check_sums(ts, "l", 3, 1);
}

STORE_TEST(a_put_that_is_refused_adds_nothing)
{
    struct shared_row row = limit("l", 0);
    assert_int_equal(put(ts, row), 0);
    row = limit("l", 7);
    row.add = (struct gate_sums){1, 1};
    assert_int_equal(put(ts, row), REDRIVE_E_STATE);
    check_sums(ts, "l", 0, 0);
    row = limit("l", 1);
    row.value = STR("too many");
    row.add = (struct gate_sums){2, 1};
    row.max_used = 1;
    assert_int_equal(put(ts, row), REDRIVE_E_STATE);
    check_sums(ts, "l", 0, 0);
    check_str(ts_shared(ts, SHARED_LIMIT, STR("acme"))->rows[0].value, "value");
    row.add.used = 1;
    assert_int_equal(put(ts, row), 0);
    check_sums(ts, "l", 1, 1);
    assert_int_equal(ts_shared(ts, SHARED_LIMIT, STR("acme"))->rows[0].version, 2);
}

STORE_TEST(no_sum_falls_below_0)
{
    struct shared_row row = limit("l", 0);
    row.add = (struct gate_sums){-1, -1};
    assert_int_equal(put(ts, row), 0);
    check_sums(ts, "l", 0, 0);
    assert_int_equal(put(ts, delta("l", 2, 1, 0)), 0);
    assert_int_equal(put(ts, delta("l", -5, -5, 0)), 0);
    assert_int_equal(put(ts, delta("l", 1, 1, 1)), 0);
    check_sums(ts, "l", 1, 1);
}

STORE_TEST(a_delta_needs_the_row_and_the_version_that_it_names)
{
    assert_int_equal(put(ts, delta("l", 1, 0, 0)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, limit("l", 0)), 0);
    struct shared_row row = delta("l", 1, 0, 0);
    row.version = 2;
    assert_int_equal(put(ts, row), REDRIVE_E_STATE);
    row.version = 1;
    assert_int_equal(put(ts, row), 0);
    assert_int_equal(put(ts, row), 0); /* it does not raise it */
    assert_int_equal(put(ts, limit("l", 1)), 0);
    assert_int_equal(put(ts, row), REDRIVE_E_STATE);
    check_sums(ts, "l", 2, 0);
}

STORE_TEST(a_limit_with_slots_in_use_is_not_taken_away)
{
    struct shared_row gone = limit("l", 1);
    gone.removed = true;
    assert_int_equal(put(ts, limit("l", 0)), 0);
    assert_int_equal(put(ts, delta("l", 2, 3, 0)), 0);
    assert_int_equal(put(ts, gone), REDRIVE_E_STATE);
    gone.add.used = -1;
    assert_int_equal(put(ts, gone), REDRIVE_E_STATE);
    check_sums(ts, "l", 2, 3);
    gone.add.used = -2;
    assert_int_equal(put(ts, gone), 0);
    assert_int_equal(ts_shared(ts, SHARED_LIMIT, STR("acme"))->n, 0);
    assert_int_equal(put(ts, delta("l", 1, 0, 0)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, limit("l", 0)), 0);
    check_sums(ts, "l", 0, 0);
}

STORE_TEST(several_puts_of_a_transaction_add_up_and_are_seen_by_it)
{
    struct merged_gate merged[2];
    struct shared_row rows[] = {delta("b", 1, 0, 2), delta("a", 1, 1, 0), delta("b", 1, 2, 2)};
    struct move_result results[3];
    assert_int_equal(put(ts, limit("a", 0)), 0);
    assert_int_equal(put(ts, limit("b", 0)), 0);
    rows[1].merged = &merged[0];
    rows[2].merged = &merged[1];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->shared_put(ts->store, rows, 3, results, NULL), 0);
    ts_commit(ts);
    assert_int_equal(merged[0].sums.used, 1);
    assert_int_equal(merged[1].sums.used, 2);
    check_sums(ts, "a", 1, 1);
    check_sums(ts, "b", 2, 2);
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->shared_put(ts->store, rows, 2, results, NULL),
                     0); /* b has no room: refused now, or at the commit */
    if (results[0].code == 0)
        assert_int_equal(store_ops(ts->store)->commit(ts->store, NULL), REDRIVE_E_CANCELLED);
    ts_rollback(ts);
    check_sums(ts, "a", 1, 1);

    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->shared_put(ts->store, &rows[1], 1, results, NULL), 0);
    check_sums(ts, "a", 2, 2);
    ts_rollback(ts);
    check_sums(ts, "a", 1, 1);
}

/* A transaction that has read all that is cached goes on with other kinds. */
STORE_TEST(sums_are_rows_of_no_kind)
{
    assert_int_equal(put(ts, limit("l", 0)), 0);
    assert_int_equal(put(ts, delta("l", 1, 1, 0)), 0);
    ts_begin(ts);
    for (int kind = 0; kind < SHARED_KIND_COUNT; kind++)
        assert_int_equal(ts_shared(ts, (enum shared_kind)kind, (struct str){0})->n,
                         kind == SHARED_LIMIT);
    ts_rollback(ts);
}

STORE_TEST(ready_tells_the_sums_of_the_limits_of_its_jobs)
{
    struct test_store other;
    ts_join(&other, ts);
    assert_int_equal(put(ts, limit("l", 0)), 0);
    assert_int_equal(put(ts, limit("m", 0)), 0);
    PUT(ts, .limit_key = STR("l"));
    PUT(ts, .limit_key = STR("l"), .breaker_key = STR("b"));
    PUT(ts, .limit_key = STR("none"));
    PUT(ts, .task = STR("other"), .limit_key = STR("m"));
    PUT(ts, .payload = STR("free"));
    for (int64_t i = 1; i <= 2; i++) {
        assert_int_equal(put(&other, delta("l", 2, 1, 0)), 0);
        const struct job_page *page = READY(ts, .limit = 10);
        int seen = 0;
        assert_int_equal(page->n, 5);
        for (size_t n = 0; n < page->n_limits; n++) {
            const struct limit_sums *sums = &page->limits[n];
            check_str(sums->tenant, "acme");
            seen += str_is(sums->key, "l");
            assert_int_equal(sums->sums.used, str_is(sums->key, "l") ? 2 * i : 0);
            assert_int_equal(sums->sums.sent, str_is(sums->key, "l") ? i : 0);
        }
        assert_true(seen >= 1);
    }
    ts_close(&other);
}

STORE_TEST(running_jobs_and_slots_in_use_are_counted_side_by_side)
{
    ts_start(ts, PUT(ts, .limit_key = STR("jobs")));
    ts_start(ts, PUT(ts, .limit_key = STR("both")));
    ts_start(ts, PUT(ts, .limit_key = STR("both")));
    PUT(ts, .limit_key = STR("both"));
    assert_int_equal(put(ts, limit("slots", 0)), 0);
    assert_int_equal(put(ts, limit("both", 0)), 0);
    assert_int_equal(put(ts, limit("neither", 0)), 0);
    assert_int_equal(put(ts, delta("slots", 5, 0, 0)), 0);
    assert_int_equal(put(ts, delta("both", 3, 1, 0)), 0);
    const struct count_page *page = ts_running(ts, STR("acme"));
    static const char *const NAMES[] = {"both", "jobs", "slots"};
    static const uint64_t JOBS[] = {2, 1, 0}, USED[] = {3, 0, 5};
    assert_int_equal(page->n, 3);
    for (int i = 0; i < 3; i++) {
        check_str(page->counts[i].gate, NAMES[i]);
        assert_int_equal(page->counts[i].jobs, JOBS[i]);
        assert_int_equal(page->counts[i].used, USED[i]);
    }
    assert_int_equal(ts_running(ts, STR("other"))->n, 0);
}

/* ---- Several at once ------------------------------------------------------------------------- */

#define HANDS 4
#define EACH  12

struct hand {
    pthread_t thread;
    struct test_store ts;
    int64_t max_used;
    int refused;
    int most; /* slots that were in use at the same time, as this one has seen */
};

static atomic_int in_use;

static void *take_and_give(void *arg)
{
    struct hand *h = arg;
    for (int i = 0; i < EACH; i++) {
        WAIT_RUNNING(put(&h->ts, delta("l", 1, 0, h->max_used)) == 0, (h->refused++, pass_ms(1)));
        const int now = atomic_fetch_add(&in_use, 1) + 1;
        h->most = now > h->most ? now : h->most;
        pass_ms(1);
        atomic_fetch_sub(&in_use, 1);
        while (put(&h->ts, delta("l", -1, 0, h->max_used)) != 0)
            h->refused++;
    }
    return h;
}

static void run_hands(struct test_store *ts, int64_t max_used, struct hand hands[HANDS])
{
    assert_int_equal(put(ts, limit("l", 0)), 0);
    atomic_store(&in_use, 0);
    for (int i = 0; i < HANDS; i++) {
        hands[i] = (struct hand){.max_used = max_used};
        ts_join(&hands[i].ts, ts);
    }
    for (int i = 0; i < HANDS; i++)
        assert_int_equal(pthread_create(&hands[i].thread, NULL, take_and_give, &hands[i]), 0);
    for (int i = 0; i < HANDS; i++) {
        void *done = NULL;
        pthread_join(hands[i].thread, &done);
        assert_non_null(done);
        ts_close(&hands[i].ts);
    }
    check_sums(ts, "l", 0, 0);
}

STORE_TEST(many_who_add_do_not_meet)
{
    struct hand hands[HANDS];
    run_hands(ts, 0, hands);
    for (int i = 0; i < HANDS; i++)
        assert_int_equal(hands[i].refused, 0);
}

STORE_TEST(of_many_who_want_the_last_slot_one_gets_it)
{
    struct hand hands[HANDS];
    run_hands(ts, 1, hands);
    for (int i = 0; i < HANDS; i++)
        assert_int_equal(hands[i].most, 1);
}
