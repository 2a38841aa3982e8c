/* Definitions of tasks that one process publishes and another goes by. */
#include "engine/bed.h"

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

/* Runs the verbs of the bed with another engine. */
static struct engine *swap(struct bed *bed, struct engine *engine)
{
    struct engine *before = bed->engine;
    bed->engine = engine;
    return before;
}

BED_TEST(tasks_are_published_once, CALL)
{
    assert_int_equal(publish(bed->engine), 1);
    assert_int_equal(publish(bed->engine), 0);
    struct engine *second = bed_second_engine(bed);
    assert_int_equal(publish(second), 0);
    engine_close(second);

    struct shared_page page = {0};
    struct store *store = engine_store(bed->engine);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    check_str(page.rows[0].key, "call");
    assert_true(str_contains(page.rows[0].value, STR("\"queue\":\"media\"")));
    assert_int_equal(page.rows[0].version, 1);
    shared_page_release(&page);
}

BED_TEST(nothing_is_published_without_tasks, "strict_tasks: false\n")
{
    assert_int_equal(publish(bed->engine), 0);
    struct engine *bare = bed_engine_without_config(bed);
    assert_int_equal(publish(bare), 0);
    engine_close(bare);
}

BED_TEST(a_process_without_the_task_goes_by_what_was_published, CALL)
{
    struct engine *bare = bed_engine_without_config(bed);
    struct engine *own = swap(bed, bare);
    int64_t before = bed_submit(bed, "call", "{\"host\": \"a\"}");
    assert_int_equal(bed_job(bed, before).spec.max_attempts, 6);
    (void)swap(bed, own);
    assert_int_equal(publish(bed->engine), 1);

    (void)swap(bed, bare);
    bed_submit(bed, "call", "{\"host\": \"a\"}");
    assert_int_equal(bed_claim(bed, 5), 2);
    const struct job *job = &bed->claim.jobs[1];
    check_str(job->spec.queue, "media");
    check_str(job->spec.breaker_key, "line:a");
    assert_true(job->spec.limit_key.len > 0);
    assert_int_equal(job->spec.max_attempts, 2);

    /* One at a time, two attempts. */
    struct job first = *job;
    bed_submit(bed, "call", "{\"host\": \"a\"}");
    assert_int_equal(bed_claim(bed, 5), 0);
    assert_int_equal(bed_fail(bed, &first, "TRANSIENT_FAIL"), 0);
    assert_int_equal(bed_job(bed, first.status.seq).status.process_after_ms, bed->now_ms + 1000);
    (void)swap(bed, own);
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
static void replace_row(struct bed *bed, const char *value)
{
    struct store *store = engine_store(bed->engine);
    struct shared_row row = {.kind = SHARED_TASK,
                             .tenant = STR("default"),
                             .key = STR("call"),
                             .version = 1,
                             .removed = true};
    struct move_result r = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, bed->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(r.code, 0);
    row.removed = false;
    row.version = 0;
    row.value = str_of(value);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(r.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

BED_TEST(tasks_are_read_again_after_a_reconnect, CALL)
{
    struct store_ops renewed_ops;
    assert_int_equal(publish(bed->engine), 1);
    struct engine *bare = bed_engine_without_config(bed);
    struct engine *own = swap(bed, bare);
    const int64_t before = bed_submit(bed, "call", "{\"host\": \"a\"}");
    assert_int_equal(bed_job(bed, before).spec.max_attempts, 2);
    (void)swap(bed, own);
    replace_row(bed, "{\"queue\": \"elsewhere\"}");
    (void)swap(bed, bare);
    real_ops = bare->ops;
    renewed_ops = *real_ops;
    renewed_ops.begin = begin_renewed;
    bare->ops = &renewed_ops;
    const int64_t after = bed_submit(bed, "call", "{\"host\": \"a\"}");
    assert_int_equal(bed_job(bed, after).spec.max_attempts, 6);
    bare->ops = real_ops;
    (void)swap(bed, own);
    engine_close(bare);
}

BED_TEST(ones_own_configuration_comes_first, CALL)
{
    struct engine *other = bed_second_engine(bed);
    struct store *store = engine_store(bed->engine);
    struct shared_row row = {.kind = SHARED_TASK,
                             .tenant = STR("default"),
                             .key = STR("call"),
                             .value = STR("{\"queue\": \"elsewhere\"}")};
    struct move_result r = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, bed->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    bed_submit(bed, "call", "{}");
    check_str(bed_claim_one(bed)->spec.queue, "media");
    assert_int_equal(publish(other), 1);
    engine_close(other);
}

BED_TEST(a_row_that_is_not_understood_means_the_defaults, NULL)
{
    struct store *store = engine_store(bed->engine);
    const struct shared_row row = {.kind = SHARED_TASK,
                                   .tenant = STR("default"),
                                   .key = STR("call"),
                                   .value = STR("{\"warp\": 9}")};
    struct move_result r = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, bed->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &r, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    bed_submit(bed, "call", "{}");
    check_str(bed_claim_one(bed)->spec.queue, "default");
}

/* Ends a job of the task as dead. */
static void put_dead(struct bed *bed, const char *task)
{
    assert_int_equal(bed_change(bed, MOVE_END, bed_submit(bed, task, NULL)), 0);
}

BED_TEST(dead_letters_are_kept_as_long_as_was_published,
         "tasks: {brief: {retry: {dlq_retention_days: 1}}, "
         "long: {retry: {dlq_retention_days: 30}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    assert_int_equal(publish(bed->engine), 2);
    put_dead(bed, "long");
    put_dead(bed, "brief");
    put_dead(bed, "unknown");
    struct engine *bare = bed_engine_without_config(bed);
    struct engine *own = swap(bed, bare);
    bed_pass(bed, day_ms - 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 3);
    bed_pass(bed, 100000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 2);
    bed_pass(bed, 28 * day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 2);
    bed_pass(bed, 2 * day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 0);
    (void)swap(bed, own);
    engine_close(bare);
}

/* More than a sweep looks at in one transaction. */
BED_TEST(dead_letters_go_though_many_stand_before_them,
         "tasks: {brief: {retry: {dlq_retention_days: 1}}, "
         "two: {retry: {dlq_retention_days: 2}}, "
         "long: {retry: {dlq_retention_days: 30}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    for (int i = 0; i < 1200; i++)
        put_dead(bed, i % 600 ? "long" : "two");
    put_dead(bed, "brief");
    bed_pass(bed, day_ms + 100000);
    bed_pass_sweeps(bed);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1200);
    put_dead(bed, "brief");
    bed_pass(bed, day_ms + 100000);
    bed_pass_sweeps(bed);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1198);
}

static int64_t put_dead_with(struct bed *bed, const char *task, const char *policy)
{
    const struct job_spec spec = {.task = str_of(task), .policy = str_of(policy)};
    const int64_t seq = bed_submit_spec(bed, &spec);
    assert_int_equal(bed_change(bed, MOVE_END, seq), 0);
    return seq;
}

BED_TEST(dead_letters_are_kept_as_long_as_their_own_policy_says,
         "tasks: {brief: {retry: {dlq_retention_days: 2}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    put_dead_with(bed, "nobody", "{\"profile\":\"faktory\",\"dlq_retention_days\":180}");
    put_dead_with(bed, "brief", "{\"dlq_retention_days\":180}");
    put_dead_with(bed, "nobody", "{\"dlq_retention_days\":3}");
    put_dead_with(bed, "nobody", "{\"max_retries\":1}");
    put_dead_with(bed, "brief", "{\"max_retries\":1}");
    bed_pass(bed, 2 * day_ms - 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 5);
    bed_pass(bed, day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 4);
    bed_pass(bed, day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 3);
    bed_pass(bed, 27 * day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 2);
    bed_pass(bed, 148 * day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 2);
    bed_pass(bed, 2 * day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 0);
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
BED_TEST(transactions_that_are_lost_do_not_take_a_sweep_back_that_was_none_of_theirs, NULL)
{
    const int64_t day_ms = INT64_C(86400000);
    for (int i = 0; i < 510; i++)
        put_dead_with(bed, "nobody", "{\"dlq_retention_days\":30}");
    put_dead_with(bed, "nobody", "{\"dlq_retention_days\":1}");
    bed_pass(bed, 2 * day_ms);
    for (int i = 0; i < 5; i++) {
        struct lossy_op lossy = {.op = {.apply = lose}, .losses = 1};
        assert_int_equal(engine_apply_one(bed->engine, &lossy.op, NULL), 0);
        bed_pass(bed, 61000);
    }
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 510);
}

BED_TEST(dead_letters_of_0_days_are_kept_for_ever,
         "tasks: {kept: {retry: {dlq_retention_days: 0}}, "
         "brief: {retry: {dlq_retention_days: 1}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    put_dead(bed, "kept");
    put_dead(bed, "brief");
    put_dead(bed, "unknown"); /* somebody may know it as one that is kept for ever */
    put_dead_with(bed, "brief", "{\"dlq_retention_days\":0}");
    put_dead_with(bed, "kept", "{\"dlq_retention_days\":1}");
    for (int i = 0; i < 5; i++)
        bed_pass(bed, 400 * day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 3);
}

static int apply_failure(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)e;
    (void)op;
    return err_set(err, REDRIVE_E_NOMEM, "the transaction fails");
}

/* More than a sweep looks at in one transaction, and a transaction that fails in between. */
BED_TEST(own_policies_are_heard_though_many_stand_before_them, NULL)
{
    const int64_t day_ms = INT64_C(86400000);
    for (int i = 0; i < 1100; i++)
        put_dead_with(bed, "t", "{\"dlq_retention_days\":30}");
    put_dead_with(bed, "t", "{\"dlq_retention_days\":1}");
    bed_pass(bed, day_ms + 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1101);
    for (int i = 0; i < 3; i++) {
        struct op failing = {.apply = apply_failure};
        assert_int_equal(engine_apply_one(bed->engine, &failing, NULL), REDRIVE_E_NOMEM);
        bed_pass(bed, 61000);
        bed_pass(bed, 61000);
    }
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1100);
}
