/* Rows that contradict each other are found, and do not stop other jobs. */
#include <inttypes.h>

#include "store_for_test.h"
#include "repairing.h"
#include "scans.h"
#include "stores_postgres.h"

STORE_TEST(a_job_that_waits_in_vain_is_found_out)
{
    struct redrive_err err = {0};
    const struct store_ops *ops = store_ops(ts->store);
    ts_begin(ts);
    const int64_t parent = PUT(ts, .children = 1);
    const int64_t child = PUT(ts, .parents = 1, .open_parents = 1);
    const struct job_edge edge = {.parent = parent, .child = child};
    assert_int_equal(ops->edges_put(ts->store, &edge, 1, NULL), 0);
    ts_commit(ts);
    assert_int_equal(ops->verify(ts->store, NULL, NULL, NULL), 0);
    stores_postgres_sql(ts->url, "UPDATE redrive.edges SET parent = 99", NULL, 0);
    assert_int_equal(ops->verify(ts->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "waits for a job that is not there"));
    stores_postgres_sql(ts->url, "UPDATE redrive.edges SET outcome = 1", NULL, 0);
    assert_int_equal(ops->verify(ts->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "as many jobs as it counts"));
}

STORE_TEST(a_store_that_is_not_whole_is_found_out)
{
    struct redrive_err err = {0};
    PUT(ts, .id = STR("x"));
    stores_postgres_sql(ts->url, "DELETE FROM redrive.specs", NULL, 0);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "no payload"));
    /* And the handle is of use afterwards. */
    ts_begin(ts);
    ts_rollback(ts);
}

/* ---- Jobs that cannot be read ---------------------------------------------------------------- */

enum damage {
    LOSE_SPEC,
    LOSE_PARTITION,
    LOSE_STATE,
};

static void spoil(struct test_store *ts, int64_t seq, enum damage damage)
{
    static const char *const SQL[] = {
        [LOSE_SPEC] = "DELETE FROM redrive.specs WHERE seq = %" PRId64,
        [LOSE_PARTITION] = "UPDATE redrive.job_states SET partition_id = 999 WHERE seq = %" PRId64,
        [LOSE_STATE] = "UPDATE redrive.job_states SET state = 99 WHERE seq = %" PRId64,
    };
    char sql[128];
    snprintf(sql, sizeof sql, SQL[damage], seq);
    stores_postgres_sql(ts->url, sql, NULL, 0);
}

static int64_t put_spoilt(struct test_store *ts, enum redrive_state state,
                          const struct job_spec *spec, enum damage damage)
{
    const int64_t seq = ts_put_in(ts, state, spec);
    spoil(ts, seq, damage);
    return seq;
}

static void check_left_out(const struct job_page *page, size_t n, int64_t first, const char *why)
{
    char number[32];
    snprintf(number, sizeof number, "job %" PRId64 ":", first);
    assert_int_equal(page->n_unreadable, n);
    assert_non_null(page->unreadable);
    assert_int_equal(page->unreadable->code, REDRIVE_E_CORRUPT);
    assert_non_null(strstr(page->unreadable->detail, number));
    assert_non_null(strstr(page->unreadable->detail, why));
}

/* Of one partition, and of several; whatever is asked for, the best that can be read are given. */
STORE_TEST(jobs_without_a_payload_do_not_stop_claims)
{
    const struct job_spec urgent = {.priority = 10};
    const struct str tasks[] = {STR("mail"), STR("sms")};
    const size_t one_each[] = {1, 1};
    const int64_t last = PUT(ts, .priority = 0);
    const int64_t first_bad = put_spoilt(ts, REDRIVE_STATE_QUEUED, &urgent, LOSE_SPEC);
    for (int i = 0; i < 4; i++)
        put_spoilt(ts, REDRIVE_STATE_QUEUED, &urgent, LOSE_SPEC);
    const int64_t best = PUT(ts, .priority = 10), second = PUT(ts, .priority = 5);
    for (int partitions = 1; partitions <= 2; partitions++) {
        for (int again = 0; again < 3; again++) { /* the first claim does not know of the others */
            check_seqs(READY(ts, .limit = 1), best);
            check_left_out(&ts->page, 5, first_bad, "what was submitted is gone");
            assert_true(ts->page.more);
            check_seqs(READY(ts, .limit = 2, .tenant = STR("acme")), best, second);
        }
        check_seqs(READY(ts, .tasks = tasks, .n_tasks = 2, .task_limits = one_each), best);
        if (partitions == 1)
            put_spoilt(ts, REDRIVE_STATE_QUEUED, &(struct job_spec){.task = STR("sms")}, LOSE_SPEC);
    }
    check_seqs(READY(ts, .limit = 100), best, second, last);
    assert_false(ts->page.more);
    stores_postgres_sql(ts->url,
                        "DELETE FROM redrive.job_states j WHERE NOT EXISTS (SELECT FROM "
                        "redrive.specs s WHERE s.seq = j.seq)",
                        NULL, 0);
    check_seqs(READY(ts, .limit = 2), best, second);
    assert_int_equal(ts->page.n_unreadable, 0);
}

/* The claim that was sent with the commit before. */
STORE_TEST(jobs_without_a_payload_do_not_stop_claims_ahead)
{
    const struct claim_filter filter = {.limit = 1};
    const struct job_spec urgent = {.priority = 10};
    const int64_t good = PUT(ts, .priority = 0);
    check_seqs(READY(ts, .limit = 1), good);
    const int64_t bad = put_spoilt(ts, REDRIVE_STATE_QUEUED, &urgent, LOSE_SPEC);
    for (int i = 0; i < 3; i++) {
        store_look(ts->store, true);
        ts_begin(ts);
        check_seqs(READY(ts, .limit = 1), good);
        check_left_out(&ts->page, 1, bad, "what was submitted is gone");
        store_ops(ts->store)->look_ahead(ts->store, &filter);
        ts_commit(ts);
    }
}

STORE_TEST(damaged_rows_do_not_stop_scans)
{
    const struct job_spec gated = {.breaker_key = STR("b")};
    int64_t next_ms;
    const int64_t due = put_spoilt(ts, REDRIVE_STATE_SCHEDULED, NULL, LOSE_PARTITION);
    ts_put_in(ts, REDRIVE_STATE_SCHEDULED, NULL);
    const int64_t ran = put_spoilt(ts, REDRIVE_STATE_RUNNING, NULL, LOSE_SPEC);
    ts_put_in(ts, REDRIVE_STATE_RUNNING, NULL);
    const int64_t parked = put_spoilt(ts, REDRIVE_STATE_PARKED, &gated, LOSE_PARTITION);
    ts_put_in(ts, REDRIVE_STATE_PARKED, &gated);
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    put_spoilt(ts, REDRIVE_STATE_COMPLETED, NULL, LOSE_PARTITION);
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    for (int order = SCAN_PARKED_OLDEST; order <= SCAN_PARKED_PROBES; order++) {
        assert_int_equal(ts_parked(ts, STR("b"), (enum scan_index)order, 10)->n, 1);
        check_left_out(&ts->page, 1, parked, "in no partition");
        assert_false(ts->page.more);
    }
    ts->now_ms += 3600000;
    assert_int_equal(ts_expired(ts, 10, &next_ms)->n, 1);
    check_left_out(&ts->page, 1, ran, "what was submitted is gone");
    assert_int_equal(next_ms, 0);
    assert_int_equal(ts_expired(ts, 1, &next_ms)->n, 0);
    assert_true(next_ms > ts->now_ms);
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    assert_int_equal(next_ms, 0);
    assert_int_equal(ts_promote(ts, 10, &next_ms), 0);
    assert_int_equal(ts_scan(ts, &(struct scan){.index = SCAN_DUE, .limit = 10})->n, 0);
    check_left_out(&ts->page, 1, due, "in no partition");
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), ts->now_ms, 10), 2);
}

STORE_TEST(a_damaged_row_makes_no_move_and_is_named)
{
    struct redrive_err err = {0};
    const struct job_name name = {STR("acme"), STR("x")};
    const int64_t good = PUT(ts, .priority = 1);
    const int64_t seqs[] = {PUT(ts, .id = STR("x")), good};
    for (int damage = LOSE_STATE; damage >= LOSE_PARTITION; damage--) {
        spoil(ts, seqs[0], (enum damage)damage);
        assert_int_equal(CHANGE(ts, .seq = seqs[0], .kind = MOVE_CANCEL).code, REDRIVE_E_CORRUPT);
        assert_int_equal(store_ops(ts->store)->lookup(ts->store, &name, 1, &ts->one, &err),
                         REDRIVE_E_CORRUPT);
        assert_non_null(strstr(err.detail, damage == LOSE_STATE ? "its state" : "in no partition"));
        assert_int_equal(store_ops(ts->store)->find(ts->store, seqs, 2, &ts->one, &err), 0);
        check_seqs(&ts->one, good);
        check_left_out(&ts->one, 1, seqs[0],
                       damage == LOSE_STATE ? "its state" : "in no partition");
    }
}

/* ---- Repair ---------------------------------------------------------------------------------- */

static void mend_first(void *ctx)
{
    stores_postgres_sql(((struct test_store *)ctx)->url,
                        "UPDATE redrive.job_states SET state = 2 WHERE state = 99", NULL, 0);
}

/* What another process has put right, or changed, between keeping and removing is left alone. */
STORE_TEST(a_job_that_was_changed_meanwhile_stays)
{
    struct taken t = TAKEN;
    struct store_repaired did;
    const int64_t seq = PUT(ts, .unique_key = STR("key"));
    PUT(ts);
    spoil(ts, seq, LOSE_STATE);
    t.meanwhile = mend_first;
    t.ctx = ts;
    assert_int_equal(ts_repair(ts, &t, &did), 0);
    assert_int_equal(did.jobs, 0);
    assert_int_equal(count_lines(&t), 1);
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_QUEUED);
    t.meanwhile = NULL;
    t.leave_code = REDRIVE_E_IO;
    spoil(ts, seq, LOSE_STATE);
    assert_int_equal(ts_repair(ts, &t, &did), REDRIVE_E_IO);
    t.leave_code = 0;
    assert_int_equal(ts_repair(ts, &t, &did), 0);
    assert_int_equal(did.jobs, 1);
    assert_int_equal(did.counts, 1);
    assert_null(ts_job(ts, seq));
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
    assert_int_equal(ts_queues(ts, (struct str){0})->counts[0].by_state[REDRIVE_STATE_QUEUED], 1);
    PUT(ts, .unique_key = STR("key"));
    buf_release(&t.lines);
}

/* What is not as the rows of jobs say is put right, whatever it is. */
STORE_TEST(what_contradicts_the_rows_is_put_right)
{
    static const char *const DAMAGES[] = {
        "DELETE FROM redrive.history",
        "INSERT INTO redrive.live_keys VALUES (1, 'x', 6)",
        "DELETE FROM redrive.live_keys",
        "INSERT INTO redrive.parked VALUES (77, 1, 'g', 1)",
        "UPDATE redrive.job_states SET lease_check_ms = NULL WHERE state = 3",
        "DELETE FROM redrive.count_deltas",
        ("INSERT INTO redrive.count_deltas SELECT partition_id, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 FROM "
         "redrive.partitions LIMIT 1"),
        "DELETE FROM redrive.job_states WHERE state = 5",
    };
    for (int s = 0; s < REDRIVE_STATE_WAITING; s++)
        ts_put_in(ts, (enum redrive_state)s, NULL);
    PUT(ts, .unique_key = STR("key"));
    for (size_t i = 0; i < sizeof DAMAGES / sizeof *DAMAGES; i++) {
        struct taken t = TAKEN;
        struct store_repaired did;
        struct redrive_err err = {0};
        stores_postgres_sql(ts->url, DAMAGES[i], NULL, 0);
        assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, &err),
                         REDRIVE_E_CORRUPT);
        assert_int_equal(ts_repair(ts, &t, &did), 0);
        assert_true(did.jobs + did.entries + did.counts > 0);
        if (store_ops(ts->store)->verify(ts->store, NULL, NULL, &err) != 0)
            fail_msg("%s: %s", DAMAGES[i], err.detail);
        assert_int_equal(ts_repair(ts, &t, &did), 0);
        assert_int_equal(did.jobs + did.entries + did.counts, 0);
        buf_release(&t.lines);
    }
}
