/* Rows that contradict each other are found, in a file whose pages are whole. */
#include <sqlite3.h>
#include <stdio.h>

#include "store_for_test.h"
#include "repairing.h"

static void run_sql(const struct test_store *ts, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(ts->url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    sqlite3_close(db);
}

static int verify(struct test_store *ts, struct redrive_err *err)
{
    *err = (struct redrive_err){0};
    return store_ops(ts->store)->verify(ts->store, NULL, NULL, err);
}

/* A job in each state, one with a unique key, and one that waits for another. */
static void fill(struct test_store *ts)
{
    const struct store_ops *ops = store_ops(ts->store);
    for (int state = 0; state < REDRIVE_STATE_WAITING; state++)
        ts_put_in(ts, (enum redrive_state)state, &(struct job_spec){.task = STR("t")});
    PUT(ts, .unique_key = STR("key"));
    ts_begin(ts);
    const int64_t parent = PUT(ts, .children = 1);
    const int64_t child = PUT(ts, .parents = 1, .open_parents = 1);
    const struct job_edge edge = {.parent = parent, .child = child};
    assert_int_equal(ops->edges_put(ts->store, &edge, 1, NULL), 0);
    ts_commit(ts);
}

static const struct {
    const char *sql;
    const char *finding;
} DAMAGES[] = {
    {"DELETE FROM specs WHERE seq = 3", "job 3: it has no payload"},
    {"DELETE FROM job_states WHERE seq = 3", "job 3: it has no state"},
    {"UPDATE job_states SET partition_id = 99 WHERE seq = 3", "job 3: it is in no partition"},
    {"DELETE FROM history WHERE history_id = (SELECT error_at FROM job_states WHERE state = 7)",
     "its latest error is gone"},
    {"DELETE FROM parked", "it is parked in one table, and not in the other"},
    {"UPDATE parked SET seq = 3", "it is parked in one table, and not in the other"},
    {"UPDATE time_locked SET process_after_ms = 1 WHERE seq = 1", "job 1: its time would not come"},
    {"DELETE FROM live_keys", "it does not hold its unique key"},
    {"INSERT INTO live_keys VALUES (1, 'x', 6)", "job 6: it holds a unique key"},
    {"DELETE FROM job_blocks WHERE partition_id = 1", "lists of its task would not find it"},
    {"UPDATE edges SET outcome = 1", "it waits, and all that it waits for is decided"},
    {"UPDATE edges SET parent = 99", "it waits for a job that is not there"},
    {"UPDATE partitions SET completed = completed + 1 WHERE partition_id = 1",
     "partition 1: its counts are not those of its jobs"},
    {"UPDATE partitions SET queued = queued + 1, running = running - 1 WHERE partition_id = 1",
     "partition 1: its counts are not those of its jobs"},
    {"INSERT INTO partitions (partition_id, tenant_id, queue, task, dead_letter) "
     "VALUES (99, 1, 'none', 'none', 7)",
     "partition 99: its counts are not those of its jobs"},
};

TEST(rows_that_contradict_each_other_are_found)
{
    for (size_t i = 0; i < sizeof DAMAGES / sizeof *DAMAGES; i++) {
        struct test_store ts;
        struct redrive_err err;
        ts_open(&ts, "sqlite");
        fill(&ts);
        if (verify(&ts, &err) != 0)
            fail_msg("%s", err.detail);
        run_sql(&ts, DAMAGES[i].sql);
        assert_int_equal(verify(&ts, &err), REDRIVE_E_CORRUPT);
        if (!strstr(err.detail, DAMAGES[i].finding))
            fail_msg("%s: %s", DAMAGES[i].sql, err.detail);
        const bool is_mended = strstr(err.hint, "--repair") != NULL;
        /* And the handle is of use afterwards. */
        ts_begin(&ts);
        ts_rollback(&ts);
        struct taken t = TAKEN;
        struct store_repaired did;
        assert_int_equal(ts_repair(&ts, &t, &did), 0);
        if (is_mended && t.n_left == did.jobs && verify(&ts, &err) != 0)
            fail_msg("%s: %s after a repair", DAMAGES[i].sql, err.detail);
        assert_int_equal(count_lines(&t), did.jobs);
        assert_int_equal(did.jobs, i < 3);
        assert_true(!is_mended || t.n_left + did.entries + did.counts > 0);
        buf_release(&t.lines);
        ts_close(&ts);
    }
}

static void mend_first(void *ctx)
{
    run_sql(ctx, "UPDATE job_states SET state = 2 WHERE seq = 1");
}

/* What another process has put right, or changed, between keeping and removing is left alone. */
TEST(a_job_that_was_changed_meanwhile_stays)
{
    struct test_store ts;
    struct taken t = TAKEN;
    struct store_repaired did;
    ts_open(&ts, "sqlite");
    PUT(&ts);
    PUT(&ts);
    run_sql(&ts, "UPDATE job_states SET state = 42 WHERE seq = 1");
    t.meanwhile = mend_first;
    t.ctx = &ts;
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    assert_int_equal(did.jobs, 0);
    assert_int_equal(count_lines(&t), 1);
    assert_int_equal(ts_state(&ts, 1), REDRIVE_STATE_QUEUED);
    t.meanwhile = NULL;
    t.leave_code = REDRIVE_E_IO;
    run_sql(&ts, "UPDATE job_states SET state = 42 WHERE seq = 1");
    assert_int_equal(ts_repair(&ts, &t, &did), REDRIVE_E_IO);
    t.leave_code = 0;
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    assert_int_equal(did.jobs, 1);
    assert_int_equal(did.counts, 1);
    assert_null(ts_job(&ts, 1));
    assert_int_equal(ts_queues(&ts, (struct str){0})->counts[0].by_state[REDRIVE_STATE_QUEUED], 1);
    buf_release(&t.lines);
    ts_close(&ts);
}
