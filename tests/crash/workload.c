#include "workload.h"

#include <stdlib.h>

#define DAY_MS    INT64_C(86400000)
#define CLAIM_MAX 16
#define BIG_BYTES 20000

/* ---- Verbs ----------------------------------------------------------------------------------- */

/* An existing job that stands for the new one is an answer too. */
#define PUT(te, ...) assert_true(te_try_submit(te, &(struct job_spec){__VA_ARGS__}) >= 0)

/* A string of JSON that takes several pages of the file. */
static void put_big(struct test_engine *te, const char *id)
{
    char *payload = malloc(BIG_BYTES);
    assert_non_null(payload);
    memset(payload, 'x', BIG_BYTES);
    payload[0] = payload[BIG_BYTES - 1] = '"';
    PUT(te, .id = str_of(id), .task = STR("mail"), .payload = {payload, BIG_BYTES});
    free(payload);
}

static void put_many(struct test_engine *te, const char *task, unsigned first, size_t n)
{
    struct job_spec specs[CLAIM_MAX];
    char ids[CLAIM_MAX][24];
    struct submit_op op;
    assert_true(n <= CLAIM_MAX);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%s-%u", task, first + (unsigned)i);
        specs[i] = (struct job_spec){
            .id = str_of(ids[i]),
            .task = str_of(task),
            .payload = STR("{\"to\":\"a@example.org\"}"),
            .priority = (int32_t)(i % 3),
        };
    }
    assert_int_equal(submit_op_init(&op, te->engine, specs, n, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    submit_op_release(&op);
}

/* Two jobs, one that waits for both, one that waits for its failure, and one that comes at the end
 * of the first, in one array. */
static void put_flow(struct test_engine *te, const char *name, int32_t priority)
{
    static const char *const PARTS[] = {"a", "b", "zip", "oops", "after"};
    char ids[5][24];
    struct job_after after[4];
    struct job_spec specs[5];
    struct submit_op op;
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%s-%s", name, PARTS[i]);
        specs[i] = (struct job_spec){
            .id = str_of(ids[i]), .task = STR("mail"), .priority = priority, .n_after = 0};
    }
    after[0] = (struct job_after){specs[0].id, {AFTER_SUCCESS, AFTER_DEAD_WAIT}};
    after[1] = (struct job_after){specs[1].id, {AFTER_SUCCESS, AFTER_DEAD_CANCEL}};
    after[2] = (struct job_after){specs[2].id, {AFTER_FAILURE, AFTER_DEAD_WAIT}};
    after[3] = (struct job_after){specs[0].id, {AFTER_END, AFTER_DEAD_WAIT}};
    for (size_t i = 2; i < 5; i++) {
        specs[i].after = i == 2 ? after : &after[i - 1];
        specs[i].n_after = i == 2 ? 2 : 1;
    }
    assert_int_equal(submit_op_init(&op, te->engine, specs, 5, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    submit_op_release(&op);
}

/* Claims up to `n` jobs and settles them in one operation: every third fails for now, every fifth
 * for good. */
static void work(struct test_engine *te, size_t n)
{
    static const struct outcome WELL = {.ending = ENDING_RAN};
    static const struct outcome TRANSIENT = {
        .ending = ENDING_RAN,
        .failure = {.status = "TRANSIENT_FAIL", .error_type = "Timeout", .message = "no answer"}};
    static const struct outcome PERMANENT = {
        .ending = ENDING_RAN,
        .failure = {.status = "PERMANENT_FAIL", .error_type = "Refused", .message = "bad input"}};
    struct settlement items[CLAIM_MAX];
    struct settle_op op;
    assert_true(n <= CLAIM_MAX);
    const size_t got = te_claim(te, n);
    for (size_t i = 0; i < got; i++) {
        const struct job *job = &te->claim.jobs[i];
        items[i] = (struct settlement){
            .seq = job->status.seq,
            .token = job->status.token,
            .outcome = i % 3 == 2   ? TRANSIENT
                       : i % 5 == 4 ? PERMANENT
                                    : WELL,
            .result = i % 2 ? STR("{\"sent\":true}") : (struct str){0},
        };
    }
    if (got == 0)
        return;
    settle_op_init(&op, items, got);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    for (size_t i = 0; i < got; i++)
        assert_int_equal(items[i].ret.code, 0);
}

static void extend(struct test_engine *te, const struct job *job)
{
    struct extension item = {
        .seq = job->status.seq, .token = job->status.token, .lease_ms = 120000};
    struct extend_op op;
    extend_op_init(&op, &item, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
}

static void pause_queue(struct test_engine *te, bool pause)
{
    struct pause_op op;
    pause_op_init(&op, (struct str){0}, STR("default"), pause);
    do
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    while (pause_op_goes_on(&op));
}

/* By its id; a job that the move does not fit is refused, which is an answer. */
static void change(struct test_engine *te, enum move_kind kind, const char *id)
{
    struct change_item item = {
        .tenant = STR(ENGINE_TENANT_DEFAULT), .id = str_of(id), .payload = STR("{\"edited\":1}")};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
}

/* ---- A busy queue ---------------------------------------------------------------------------- */

static void put_all_kinds(struct test_engine *te)
{
    put_many(te, "mail", 0, 12);
    put_big(te, "big-1");
    PUT(te, .id = STR("key-1"), .task = STR("mail"), .unique_key = STR("invoice-7"));
    PUT(te, .id = STR("key-2"), .task = STR("mail"), .unique_key = STR("invoice-7"));
    PUT(te, .id = STR("once-1"), .task = STR("mail"), .unique_key = STR("welcome"),
        .unique_forever = true);
    PUT(te, .id = STR("later-1"), .task = STR("mail"), .process_after_ms = te->now_ms + 60000);
    PUT(te, .id = STR("due-1"), .task = STR("brief"), .deadline_ms = te->now_ms + 90000,
        .process_after_ms = te->now_ms + DAY_MS);
    put_many(te, "single", 0, 3);
    put_flow(te, "first", 50);
}

static void busy_first_life(struct test_engine *te)
{
    put_all_kinds(te);
    work(te, 6);
    extend(te, te_claim_one(te));
    assert_int_equal(te_succeed(te, &te->claim.jobs[0]), 0);
    for (int i = 0; i < 4; i++) { /* the breaker opens, what is left parks */
        put_many(te, "call", (unsigned)i * 4, 4);
        work(te, 5);
        te_pass(te, 5000);
    }
    change(te, MOVE_CANCEL, "later-1");
    work(te, 16);
    te_pass(te, 40000); /* leases end, probes go */
    work(te, 3);
    (void)te_claim(te, 2); /* their worker dies with the process */
}

/* Parents that are redriven, cancelled and removed while others wait for them. */
static void flow_second_life(struct test_engine *te)
{
    put_flow(te, "second", 50);
    change(te, MOVE_END, "second-a");
    change(te, MOVE_REDRIVE, "second-a");
    work(te, 2);
    work(te, 2);
    put_flow(te, "third", 50);
    change(te, MOVE_CANCEL, "third-b");
    put_flow(te, "fourth", 50);
    change(te, MOVE_END, "fourth-a");
    change(te, MOVE_REMOVE, "fourth-a");
    put_flow(te, "fifth", -50);
    change(te, MOVE_END, "fifth-a");
}

static void busy_second_life(struct test_engine *te)
{
    pause_queue(te, true);
    PUT(te, .id = STR("once-2"), .task = STR("mail"), .unique_key = STR("welcome"),
        .unique_forever = true);
    put_big(te, "big-2");
    te_pass(te, 31000);
    pause_queue(te, false);
    for (int i = 0; i < 6; i++) {
        work(te, 8);
        te_pass(te, 6000);
    }
    PUT(te, .id = STR("hand-1"), .task = STR("brief"));
    change(te, MOVE_END, "hand-1");
    change(te, MOVE_EDIT, "hand-1");
    change(te, MOVE_REDRIVE, "hand-1");
    change(te, MOVE_END, "hand-1");
    change(te, MOVE_REMOVE, "mail-0");
    flow_second_life(te);
    te_pass(te, DAY_MS + 100000); /* what has completed goes */
    work(te, 4);
    te_pass(te, 2 * DAY_MS);
    put_many(te, "mail", 100, 10);
    work(te, 10);
}

/* Many small transactions: the log starts again and again. */
static void busy_third_life(struct test_engine *te)
{
    for (unsigned i = 0; i < 16; i++) {
        put_many(te, "mail", 200 + i * 3, 3);
        work(te, 4);
        te_pass(te, 5000);
    }
    change(te, MOVE_REDRIVE, "mail-4");
    for (unsigned i = 0; i < 8; i++) {
        put_many(te, i % 2 ? "single" : "call", 300 + i * 2, 2);
        work(te, 3);
        te_pass(te, DAY_MS / 2);
    }
}

static const struct life BUSY_LIVES[] = {
    {.live = busy_first_life},
    {.live = busy_second_life},
    {.live = busy_third_life},
};

static const char BUSY_YAML[] =
    "tasks:\n"
    "  mail: {retry: {strategy: fixed, initial_delay: 5s, max_attempts: 3, jitter: false},\n"
    "         breaker: {failure_threshold: 0, failure_rate: 0}}\n"
    "  call: {retry: {strategy: fixed, initial_delay: 5s, max_attempts: 9, jitter: false},\n"
    "         breaker: {failure_threshold: 2, recovery_timeout: 30s, recovery_jitter: 0}}\n"
    "  single: {limits: {concurrency: 1}}\n"
    "  brief: {retry: {dlq_retention_days: 2}}\n"
    "cron: {nightly: {task: mail, schedule: \"0 3 * * *\"}}\n";

const struct workload WORKLOAD_BUSY = {
    .name = "busy",
    .yaml = BUSY_YAML,
    .lives = BUSY_LIVES,
    .n_lives = sizeof BUSY_LIVES / sizeof BUSY_LIVES[0],
};

const struct workload WORKLOAD_SHORT = {
    .name = "short",
    .yaml = BUSY_YAML,
    .lives = BUSY_LIVES,
    .n_lives = 1,
};

/* ---- An older schema ------------------------------------------------------------------------- */

/* Nothing is settled: a migration from before version 5 lets breakers begin anew, which count
 * that. */
static void fill(struct test_engine *te)
{
    put_many(te, "mail", 0, 12);
    change(te, MOVE_END, "mail-1");
    change(te, MOVE_CANCEL, "mail-3");
    PUT(te, .id = STR("later-1"), .task = STR("mail"), .process_after_ms = te->now_ms + 60000);
    PUT(te, .id = STR("due-1"), .task = STR("mail"), .deadline_ms = te->now_ms + 90000);
    PUT(te, .id = STR("key-1"), .task = STR("mail"), .unique_key = STR("invoice-7"));
    (void)te_claim(te, 1);
}

static void go_on(struct test_engine *te)
{
    te_pass(te, 6000);
    work(te, 8);
    te_pass(te, 100000);
    work(te, 8);
}

/* What the scripts from the third on have added is taken away. */
static const char BACK_TO_VERSION_2[] =
    "DROP VIEW job_edges; DROP TABLE edges; DELETE FROM states WHERE state = 9;"
    "DELETE FROM reasons WHERE reason = 8; DROP VIEW job_counts;"
    "ALTER TABLE partitions DROP COLUMN waiting; CREATE VIEW job_counts AS SELECT 1 AS tenant;"
    "DROP TABLE job_blocks; DROP INDEX history_by_class; DROP INDEX history_by_type;"
    "DROP INDEX specs_by_user;"
    "DROP VIEW limits; ALTER TABLE shared DROP COLUMN used; ALTER TABLE shared DROP COLUMN sent;"
    "DROP VIEW breakers; DROP VIEW paused_queues; DROP VIEW workers; DROP VIEW tasks;"
    "DROP TABLE deadlines; DROP TABLE time_locked; PRAGMA user_version = 2";

static const struct life MIGRATION_LIVES[] = {
    {.live = fill},
    {.sql_before = BACK_TO_VERSION_2, .live = go_on},
};

const struct workload WORKLOAD_MIGRATION = {
    .name = "migration",
    .yaml =
        "tasks:\n"
        "  mail: {retry: {strategy: fixed, initial_delay: 5s, max_attempts: 3, jitter: false},\n"
        "         breaker: {failure_threshold: 0, failure_rate: 0}}\n",
    .lives = MIGRATION_LIVES,
    .n_lives = sizeof MIGRATION_LIVES / sizeof MIGRATION_LIVES[0],
    .first = 1,
};
