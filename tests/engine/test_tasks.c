/* Definitions of tasks that one process publishes and another goes by. */
#include "engine/engine_for_test.h"

#include "base/err.h"

#include "engine/state.h"
#include "engine/tasks.h"

#define CALL                                                                                 \
    "tasks: {call: {queue: media, retry: {max_attempts: 2, strategy: fixed, initial_delay: " \
    "1s, jitter: false}, breaker: {key: \"line:{payload.host}\"}, limits: {concurrency: 1}}}\n"

static size_t publish(struct engine *engine)
{
    struct publish_op op;
    publish_op_init(&op);
    assert_int_equal(engine_apply_one(engine, &op.op, NULL), 0);
    return op.n_changed;
}

/* Runs the verbs of the test's engine with another one. */
static struct engine *swap(struct test_engine *te, struct engine *engine)
{
    struct engine *before = te->engine;
    te->engine = engine;
    return before;
}

ENGINE_TEST(tasks_are_published_once, CALL)
{
    assert_int_equal(publish(te->engine), 1);
    assert_int_equal(publish(te->engine), 0);
    struct engine *second = te_second_engine(te);
    assert_int_equal(publish(second), 0);
    engine_close(second);

    struct shared_page page = {0};
    struct store *store = engine_store(te->engine);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    check_str(page.rows[0].key, "call");
    assert_true(str_contains(page.rows[0].value, STR("\"queue\":\"media\"")));
    assert_int_equal(page.rows[0].version, 1);
    shared_page_release(&page);
}

ENGINE_TEST(nothing_is_published_without_tasks, "strict_tasks: false\n")
{
    assert_int_equal(publish(te->engine), 0);
    struct engine *bare = te_engine_without_config(te);
    assert_int_equal(publish(bare), 0);
    engine_close(bare);
}

ENGINE_TEST(a_process_without_the_task_goes_by_what_was_published, CALL)
{
    struct engine *bare = te_engine_without_config(te);
    struct engine *own = swap(te, bare);
    int64_t before = te_submit(te, "call", "{\"host\": \"a\"}");
    assert_int_equal(te_job(te, before).spec.max_attempts, 6);
    (void)swap(te, own);
    assert_int_equal(publish(te->engine), 1);

    (void)swap(te, bare);
    te_submit(te, "call", "{\"host\": \"a\"}");
    assert_int_equal(te_claim(te, 5), 2);
    const struct job *job = &te->claim.jobs[1];
    check_str(job->spec.queue, "media");
    check_str(job->spec.breaker_key, "line:a");
    assert_true(job->spec.limit_key.len > 0);
    assert_int_equal(job->spec.max_attempts, 2);

    /* One at a time, two attempts. */
    struct job first = *job;
    te_submit(te, "call", "{\"host\": \"a\"}");
    assert_int_equal(te_claim(te, 5), 0);
    assert_int_equal(te_fail(te, &first, "TRANSIENT_FAIL"), 0);
    assert_int_equal(te_job(te, first.status.seq).status.process_after_ms, te->now_ms + 1000);
    (void)swap(te, own);
    engine_close(bare);
}

static const struct store_ops *real_ops;

static int begin_renewed(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                         int64_t *ret_shared_version, struct redrive_err *err)
{
    int rc = real_ops->begin(store, now_ms, ret_now_ms, ret_shared_version, err);
    *ret_shared_version = STORE_VERSION_UNKNOWN;
    return rc;
}

/* The row is what it was never seen as, at the version that was seen: as on a server that took over
 * and had not got the latest commits. */
static void replace_row(struct test_engine *te, const char *value)
{
    struct store *store = engine_store(te->engine);
    struct shared_row row = {.kind = SHARED_TASK,
                             .tenant = STR("default"),
                             .key = STR("call"),
                             .version = 1,
                             .removed = true};
    struct move_result r = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(r.code, 0);
    row.removed = false;
    row.version = 0;
    row.value = str_of(value);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(r.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

ENGINE_TEST(tasks_are_read_again_after_a_reconnect, CALL)
{
    struct store_ops renewed_ops;
    assert_int_equal(publish(te->engine), 1);
    struct engine *bare = te_engine_without_config(te);
    struct engine *own = swap(te, bare);
    const int64_t before = te_submit(te, "call", "{\"host\": \"a\"}");
    assert_int_equal(te_job(te, before).spec.max_attempts, 2);
    (void)swap(te, own);
    replace_row(te, "{\"queue\": \"elsewhere\"}");
    (void)swap(te, bare);
    real_ops = bare->ops;
    renewed_ops = *real_ops;
    renewed_ops.begin = begin_renewed;
    bare->ops = &renewed_ops;
    const int64_t after = te_submit(te, "call", "{\"host\": \"a\"}");
    assert_int_equal(te_job(te, after).spec.max_attempts, 6);
    bare->ops = real_ops;
    (void)swap(te, own);
    engine_close(bare);
}

ENGINE_TEST(ones_own_configuration_comes_first, CALL)
{
    struct engine *other = te_second_engine(te);
    struct store *store = engine_store(te->engine);
    struct shared_row row = {.kind = SHARED_TASK,
                             .tenant = STR("default"),
                             .key = STR("call"),
                             .value = STR("{\"queue\": \"elsewhere\"}")};
    struct move_result r = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    te_submit(te, "call", "{}");
    check_str(te_claim_one(te)->spec.queue, "media");
    assert_int_equal(publish(other), 1);
    engine_close(other);
}

ENGINE_TEST(a_row_that_is_not_understood_means_the_defaults, NULL)
{
    struct store *store = engine_store(te->engine);
    const struct shared_row row = {.kind = SHARED_TASK,
                                   .tenant = STR("default"),
                                   .key = STR("call"),
                                   .value = STR("{\"warp\": 9}")};
    struct move_result r = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    te_submit(te, "call", "{}");
    check_str(te_claim_one(te)->spec.queue, "default");
}

/* Ends a job of the task as dead. */
static void put_dead(struct test_engine *te, const char *task)
{
    assert_int_equal(te_change(te, MOVE_END, te_submit(te, task, NULL)), 0);
}

ENGINE_TEST(dead_letters_are_kept_as_long_as_was_published,
            "tasks: {brief: {retry: {dlq_retention_days: 1}}, "
            "long: {retry: {dlq_retention_days: 30}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    assert_int_equal(publish(te->engine), 2);
    put_dead(te, "long");
    put_dead(te, "brief");
    put_dead(te, "unknown");
    struct engine *bare = te_engine_without_config(te);
    struct engine *own = swap(te, bare);
    te_pass(te, day_ms - 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 3);
    te_pass(te, 100000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
    te_pass(te, 28 * day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
    te_pass(te, 2 * day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 0);
    (void)swap(te, own);
    engine_close(bare);
}

/* More than a sweep looks at in one transaction. */
ENGINE_TEST(dead_letters_go_though_many_stand_before_them,
            "tasks: {brief: {retry: {dlq_retention_days: 1}}, "
            "two: {retry: {dlq_retention_days: 2}}, "
            "long: {retry: {dlq_retention_days: 30}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    for (int i = 0; i < 1200; i++)
        put_dead(te, i % 600 ? "long" : "two");
    put_dead(te, "brief");
    te_pass(te, day_ms + 100000);
    te_pass_sweeps(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1200);
    put_dead(te, "brief");
    te_pass(te, day_ms + 100000);
    te_pass_sweeps(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1198);
}

static int64_t put_dead_with(struct test_engine *te, const char *task, const char *policy)
{
    const struct job_spec spec = {.task = str_of(task), .policy = str_of(policy)};
    const int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(te_change(te, MOVE_END, seq), 0);
    return seq;
}

ENGINE_TEST(dead_letters_are_kept_as_long_as_their_own_policy_says,
            "tasks: {brief: {retry: {dlq_retention_days: 2}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    put_dead_with(te, "nobody", "{\"profile\":\"faktory\",\"dlq_retention_days\":180}");
    put_dead_with(te, "brief", "{\"dlq_retention_days\":180}");
    put_dead_with(te, "nobody", "{\"dlq_retention_days\":3}");
    put_dead_with(te, "nobody", "{\"max_retries\":1}");
    put_dead_with(te, "brief", "{\"max_retries\":1}");
    te_pass(te, 2 * day_ms - 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 5);
    te_pass(te, day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 4);
    te_pass(te, day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 3);
    te_pass(te, 27 * day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
    te_pass(te, 148 * day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
    te_pass(te, 2 * day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 0);
}

struct lossy_op {
    struct op op;
    int losses;
};

static int lose(struct engine *e, struct op *op, struct redrive_err *err)
{
    struct lossy_op *lossy = (struct lossy_op *)op;
    (void)e;
    return lossy->losses-- > 0 ? err_set(err, REDRIVE_E_CANCELLED, "others were in the way") : 0;
}

/* More than a sweep looks at in one transaction, and between two sweeps a transaction that is tried
 * twice. */
ENGINE_TEST(transactions_that_are_lost_do_not_take_a_sweep_back_that_was_none_of_theirs, NULL)
{
    const int64_t day_ms = INT64_C(86400000);
    for (int i = 0; i < 510; i++)
        put_dead_with(te, "nobody", "{\"dlq_retention_days\":30}");
    put_dead_with(te, "nobody", "{\"dlq_retention_days\":1}");
    te_pass(te, 2 * day_ms);
    for (int i = 0; i < 5; i++) {
        struct lossy_op lossy = {.op = {.apply = lose}, .losses = 1};
        assert_int_equal(engine_apply_one(te->engine, &lossy.op, NULL), 0);
        te_pass(te, 61000);
    }
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 510);
}

ENGINE_TEST(dead_letters_of_0_days_are_kept_for_ever,
            "tasks: {kept: {retry: {dlq_retention_days: 0}}, "
            "brief: {retry: {dlq_retention_days: 1}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    put_dead(te, "kept");
    put_dead(te, "brief");
    put_dead(te, "unknown"); /* somebody may know it as one that is kept for ever */
    put_dead_with(te, "brief", "{\"dlq_retention_days\":0}");
    put_dead_with(te, "kept", "{\"dlq_retention_days\":1}");
    for (int i = 0; i < 5; i++)
        te_pass(te, 400 * day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 3);
}

static int apply_failure(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)e;
    (void)op;
    return err_set(err, REDRIVE_E_NOMEM, "the transaction fails");
}

/* More than a sweep looks at in one transaction, and a transaction that fails in between. */
ENGINE_TEST(own_policies_are_heard_though_many_stand_before_them, NULL)
{
    const int64_t day_ms = INT64_C(86400000);
    for (int i = 0; i < 1100; i++)
        put_dead_with(te, "t", "{\"dlq_retention_days\":30}");
    put_dead_with(te, "t", "{\"dlq_retention_days\":1}");
    te_pass(te, day_ms + 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1101);
    for (int i = 0; i < 3; i++) {
        struct op failing = {.apply = apply_failure};
        assert_int_equal(engine_apply_one(te->engine, &failing, NULL), REDRIVE_E_NOMEM);
        te_pass(te, 61000);
        te_pass(te, 61000);
    }
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1100);
}
