/* The time of a transaction is no earlier than any request that it serves. */
#include "engine/bed.h"

#include "engine/state.h"

#define WAIT_MS  1000 /* that a transaction waits for its turn */
#define DELAY_MS 500
#define LEASE_MS 30000

static const char CONFIG[] =
    "tasks: {t: {retry: {strategy: fixed, initial_delay: 500ms, jitter: false}}}";

static const struct store_ops *real;
static struct bed *waiting; /* NULL: no transaction waits */

/* Another process has the store: meanwhile time passes. */
static int begin_after_a_while(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                               int64_t *ret_version, struct redrive_err *err)
{
    if (waiting)
        waiting->now_ms += WAIT_MS;
    return real->begin(store, now_ms, ret_now_ms, ret_version, err);
}

static void start(struct bed *bed)
{
    static struct store_ops slow;
    waiting = NULL;
    bed_init(bed, CONFIG);
    real = bed->engine->ops;
    slow = *real;
    slow.begin = begin_after_a_while;
    bed->engine->ops = &slow;
}

static void a_delay_counts_from_the_end_of_the_wait_for_the_store(void **state)
{
    (void)state;
    struct bed bed;
    start(&bed);
    const int64_t seq = bed_submit(&bed, "t", "{}");
    const struct job *job = bed_claim_one(&bed);
    waiting = &bed;
    assert_int_equal(bed_fail(&bed, job, "TRANSIENT_FAIL"), 0);
    assert_int_equal(bed_job(&bed, seq).status.process_after_ms, bed.now_ms + DELAY_MS);
    assert_int_equal(engine_now_ms(bed.engine), bed.now_ms);
    bed_release(&bed);
}

static void a_lease_is_as_long_as_it_should_be_after_a_wait(void **state)
{
    (void)state;
    struct bed bed;
    start(&bed);
    bed_submit(&bed, "t", "{}");
    waiting = &bed;
    const struct claim_filter filter = {.limit = 1};
    claim_op_init(&bed.claim, &filter, STR("w"), LEASE_MS);
    assert_int_equal(engine_apply_one(bed.engine, &bed.claim.op, NULL), 0);
    assert_int_equal(bed.claim.n, 1);
    assert_int_equal(bed.claim.jobs[0].status.lease_until_ms, bed.now_ms + LEASE_MS);
    bed_release(&bed);
}

/* A job fails after the transaction has begun that takes the failure along. */
struct late {
    struct bed *bed;
    struct settle_op op;
};

static void fail_late(struct op_batch *batch)
{
    struct late *late = batch->ctx;
    late->bed->now_ms += WAIT_MS;
    batch->ops[batch->n++] = &late->op.op;
}

static void what_came_after_the_begin_is_not_served_with_a_time_from_before_it(void **state)
{
    (void)state;
    struct bed bed;
    start(&bed);
    const int64_t seq = bed_submit(&bed, "t", "{}");
    const struct job *job = bed_claim_one(&bed);
    struct settlement s = {
        .seq = seq,
        .token = job->status.token,
        .outcome = {.ending = ENDING_RAN, .failure = {.status = "TRANSIENT_FAIL"}},
    };
    struct late late = {.bed = &bed};
    settle_op_init(&late.op, &s, 1);
    const struct job_spec spec = {.task = STR("other")};
    struct submit_op first;
    assert_int_equal(submit_op_init(&first, bed.engine, &spec, 1, NULL), 0);
    struct op *list[2] = {&first.op};
    engine_apply_batch(bed.engine,
                       &(struct op_batch){.ops = list, .n = 1, .gather = fail_late, .ctx = &late});
    assert_int_equal(list[1]->code, 0);
    assert_int_equal(s.ret.code, 0);
    assert_int_equal(bed_job(&bed, seq).status.process_after_ms, bed.now_ms + DELAY_MS);
    submit_op_release(&first);
    bed_release(&bed);
}

CHECK_FILE(time)
{
    const struct CMUnitTest tests[] = {
        T(a_delay_counts_from_the_end_of_the_wait_for_the_store),
        T(a_lease_is_as_long_as_it_should_be_after_a_wait),
        T(what_came_after_the_begin_is_not_served_with_a_time_from_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
