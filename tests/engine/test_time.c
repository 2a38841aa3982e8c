/* The time of a transaction is no earlier than any request that it serves; and what must not happen
 * before a span is over counts from the latest time that the store's clock may show. */
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

TEST(a_delay_counts_from_the_end_of_the_wait_for_the_store)
{
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

TEST(a_lease_is_as_long_as_it_should_be_after_a_wait)
{
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

TEST(what_came_after_the_begin_is_not_served_with_a_time_from_before_it)
{
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

/* ---- Stores that know their time only within bounds ------------------------------------------ */

#define UNSURE_MS 300

static int64_t unsure_ms;

static int64_t set_time_within_bounds(struct store *store, int64_t now_ms)
{
    now_ms = real->set_time(store, now_ms);
    ((struct store_base *)(void *)store)->unsure_ms = unsure_ms;
    return now_ms;
}

/* An engine whose store says that its clock may be up to UNSURE_MS ahead of the transaction's time.
 */
static void start_unsure(struct bed *bed)
{
    static struct store_ops vague;
    bed_init(bed, CONFIG);
    unsure_ms = UNSURE_MS;
    real = bed->engine->ops;
    vague = *real;
    vague.set_time = set_time_within_bounds;
    bed->engine->ops = &vague;
}

static void check_waits(struct bed *bed, int64_t seq, enum redrive_state state, int64_t until_ms)
{
    const struct job_status s = bed_job(bed, seq).status;
    assert_int_equal(s.state, state);
    assert_int_equal(s.process_after_ms, until_ms);
}

#define UNSURE_TEST(test) TEST_OF(test, struct bed, bed, start_unsure(bed), bed_release(bed))

UNSURE_TEST(a_delay_counts_from_the_latest_time)
{
    const struct job_spec spec = {.task = STR("t"), .delay_ms = DELAY_MS};
    const int64_t seq = bed_submit_spec(bed, &spec), due_ms = bed->now_ms + UNSURE_MS + DELAY_MS;
    check_waits(bed, seq, REDRIVE_STATE_SCHEDULED, due_ms);
    /* It is due when the earliest time is that one. */
    bed_pass(bed, UNSURE_MS + DELAY_MS - 1);
    check_waits(bed, seq, REDRIVE_STATE_SCHEDULED, due_ms);
    bed_pass(bed, 1);
    check_waits(bed, seq, REDRIVE_STATE_QUEUED, due_ms);
}

UNSURE_TEST(a_delay_without_an_end_is_no_time_in_the_past)
{
    const struct job_spec spec = {.task = STR("t"), .delay_ms = INT64_MAX};
    const int64_t seq = bed_submit_spec(bed, &spec);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_SCHEDULED);
    assert_int_equal(bed_try_submit(bed, &(struct job_spec){.task = STR("t"), .delay_ms = -1}),
                     REDRIVE_E_RANGE);
}

UNSURE_TEST(a_retry_and_a_snooze_count_from_the_latest_time)
{
    const int64_t seq = bed_submit(bed, "t", "{}");
    const struct job *job = bed_claim_one(bed);
    struct settlement s = {
        .seq = seq,
        .token = job->status.token,
        .outcome = {.ending = ENDING_RAN, .failure = {.status = "TRANSIENT_FAIL"}},
    };
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    check_waits(bed, seq, REDRIVE_STATE_RETRYING, bed->now_ms + UNSURE_MS + DELAY_MS);
    assert_int_equal(s.again_ms, bed->now_ms + UNSURE_MS + DELAY_MS);
    bed_pass(bed, UNSURE_MS + DELAY_MS - 1);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RETRYING);
    bed_pass(bed, 1);
    job = bed_claim_one(bed);
    const struct outcome snooze = {.ending = ENDING_SNOOZED, .snooze_ms = 40};
    assert_int_equal(bed_settle(bed, job, &snooze), 0);
    check_waits(bed, seq, REDRIVE_STATE_SCHEDULED, bed->now_ms + UNSURE_MS + 40);
}

UNSURE_TEST(a_lease_lasts_from_the_latest_time_on)
{
    const int64_t seq = bed_submit(bed, "t", "{}");
    const struct claim_filter filter = {.limit = 1};
    claim_op_init(&bed->claim, &filter, STR("w"), LEASE_MS);
    assert_int_equal(engine_apply_one(bed->engine, &bed->claim.op, NULL), 0);
    assert_int_equal(bed->claim.n, 1);
    assert_int_equal(bed->claim.jobs[0].status.lease_until_ms, bed->now_ms + UNSURE_MS + LEASE_MS);
    bed->now_ms += 1000;
    struct extension x = {
        .seq = seq, .token = bed->claim.jobs[0].status.token, .lease_ms = LEASE_MS};
    struct extend_op op;
    extend_op_init(&op, &x, 1);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    const int64_t until_ms = bed->now_ms + UNSURE_MS + LEASE_MS;
    assert_int_equal(bed_job(bed, seq).status.lease_until_ms, until_ms);
    bed_pass(bed, until_ms - 1 - bed->now_ms);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RUNNING);
    bed_pass(bed, 1);
    assert_int_not_equal(bed_state(bed, seq), REDRIVE_STATE_RUNNING);
}

/* What does not wait is ready at once, for processes that know the time better as well. */
UNSURE_TEST(what_has_no_delay_is_ready_at_once)
{
    const int64_t seq = bed_submit(bed, "t", "{}");
    check_waits(bed, seq, REDRIVE_STATE_QUEUED, bed->now_ms);
    const struct job *job = bed_claim_one(bed);
    assert_int_equal(job->status.started_ms, bed->now_ms);
    const struct outcome release = {.ending = ENDING_RELEASED};
    assert_int_equal(bed_settle(bed, job, &release), 0);
    check_waits(bed, seq, REDRIVE_STATE_QUEUED, bed->now_ms);
    assert_int_equal(bed_fail(bed, bed_claim_one(bed), "PERMANENT_FAIL"), 0);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, seq), 0);
    check_waits(bed, seq, REDRIVE_STATE_QUEUED, bed->now_ms);
    assert_int_equal(bed_fail(bed, bed_claim_one(bed), "TRANSIENT_FAIL"), 0);
    assert_int_equal(bed_change(bed, MOVE_RUN_NOW, seq), 0);
    check_waits(bed, seq, REDRIVE_STATE_QUEUED, bed->now_ms);
    assert_int_equal(bed_claim_one(bed)->status.seq, seq);
}
