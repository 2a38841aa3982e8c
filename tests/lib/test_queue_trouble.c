/* A store that takes nothing for a while: what has ended is kept, and the work goes on by itself.
 */
#include "queue_for_test.h"

#include <sqlite3.h>

static sqlite3 *lock_file(const struct test_queue *tq)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(tq->store + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, LONG_MS);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

struct trouble {
    atomic_int arrived;
    atomic_int n_settle_failed;
    atomic_int n_lost;
    atomic_bool is_locked;
    atomic_int runs;
};

static void count_failures(const char *line, size_t len, void *ctx)
{
    struct trouble *trouble = ctx;
    if (memmem(line, len, "settlement_failed", 17))
        atomic_fetch_add(&trouble->n_settle_failed, 1);
    if (memmem(line, len, "settlement_lost", 15))
        atomic_fetch_add(&trouble->n_lost, 1);
}

static void open_with_log(struct test_queue *tq, struct trouble *trouble)
{
    const struct redrive_queue_options options = {
        .store = tq->store,
        .config = tq->config,
        .log = count_failures,
        .log_ctx = trouble,
    };
    assert_int_equal(redrive_queue_open(&options, &tq->queue, NULL), 0);
}

/* The first one returns when the file has been locked. */
static int end_in_trouble(struct redrive_task_run *run, void *arg)
{
    struct trouble *trouble = arg;
    atomic_fetch_add(&trouble->runs, 1);
    atomic_fetch_add(&trouble->arrived, 1);
    HOLD_UNTIL(atomic_load(&trouble->is_locked));
    return redrive_task_run_result(run, "kept", 4);
}

TEST(a_settlement_that_cannot_be_taken_is_tried_again)
{
    struct test_queue *tq = tq_new("sqlite:");
    struct trouble trouble = {0};
    struct worker worker;
    struct redrive_job_status job;
    open_with_log(tq, &trouble);
    submit(tq->queue, "t", "a");
    submit(tq->queue, "t", "b");
    assert_int_equal(redrive_queue_handle(tq->queue, "t", end_in_trouble, &trouble, NULL, NULL), 0);
    worker_start(&worker, tq->queue);
    WAIT_FOR(trouble.arrived >= 1);
    sqlite3 *lock = lock_file(tq);
    atomic_store(&trouble.is_locked, true);
    WAIT_FOR(trouble.n_settle_failed >= 1);
    sqlite3_close(lock);
    WAIT_FOR_STATE(tq->queue, "b", REDRIVE_STATE_COMPLETED);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&trouble.runs), 2);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(job.attempts, 1);
    assert_memory_equal(job.result, "kept", 4);
    redrive_queue_job_release(&job);
    tq_free(tq);
}

/* For longer than a lease: the busy wait of SQLite is five times as long. */
TEST(a_store_that_takes_nothing_is_waited_for_until_idle)
{
    struct test_queue *tq = tq_new("sqlite:");
    struct trouble trouble = {0};
    struct worker worker;
    write_file(tq->config, "tasks: {t: {lease: 1s}}\n");
    open_with_log(tq, &trouble);
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", end_in_trouble, &trouble, 1);
    worker_start_with(&worker, tq->queue, REDRIVE_WORK_UNTIL_IDLE);
    WAIT_FOR(trouble.arrived >= 1);
    sqlite3 *lock = lock_file(tq);
    atomic_store(&trouble.is_locked, true);
    WAIT_FOR(trouble.n_settle_failed >= 2);
    sqlite3_close(lock);
    worker_join(&worker);
    assert_int_equal(atomic_load(&trouble.n_lost), 0);
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_COMPLETED);
    tq_free(tq);
}

/* From now on the store does not take the success of the job with this number. */
static void refuse_success(const struct test_queue *tq, int seq)
{
    sqlite3 *db;
    char sql[200];
    snprintf(sql, sizeof sql,
             "CREATE TRIGGER no_end BEFORE UPDATE ON job_states WHEN NEW.state = %d AND "
             "NEW.seq = %d BEGIN SELECT RAISE(ABORT, 'no'); END",
             REDRIVE_STATE_COMPLETED, seq);
    assert_int_equal(sqlite3_open(tq->store + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, LONG_MS);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The others that ended with it are settled. */
TEST(a_settlement_that_is_refused_for_good_fails_alone)
{
    struct test_queue *tq = tq_new("sqlite:");
    struct trouble trouble = {0};
    struct worker worker;
    char id[16];
    open_with_log(tq, &trouble);
    for (int i = 1; i <= 8; i++) {
        snprintf(id, sizeof id, "%d", i);
        submit(tq->queue, "t", id);
    }
    refuse_success(tq, 5);
    tq_handle(tq->queue, "t", end_in_trouble, &trouble, 8);
    worker_start(&worker, tq->queue);
    WAIT_FOR(trouble.arrived >= 8);
    atomic_store(&trouble.is_locked, true);
    WAIT_FOR(trouble.n_lost >= 1);
    for (int i = 1; i <= 8; i++) {
        snprintf(id, sizeof id, "%d", i);
        WAIT_FOR_STATE(tq->queue, id, i == 5 ? REDRIVE_STATE_RUNNING : REDRIVE_STATE_COMPLETED);
    }
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&trouble.n_lost), 1);
    tq_free(tq);
}
