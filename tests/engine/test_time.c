/* The time of a transaction is no earlier than any request that it serves; and what must not happen
 * before a span is over counts from the latest time that the store's clock may show. */
#include "engine/engine_for_test.h"

#include "engine/state.h"

#define WAIT_MS  1000 /* that a transaction waits for its turn */
#define DELAY_MS 500
#define LEASE_MS 30000

static const char CONFIG[] =
    "tasks: {t: {retry: {strategy: fixed, initial_delay: 500ms, jitter: false}}}";

static const struct store_ops *real;
static struct test_engine *waiting; /* NULL: no transaction waits */

/* Another process has the store: meanwhile time passes. */
static int begin_after_a_while(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                               int64_t *ret_version, struct redrive_err *err)
{
    if (waiting)
        waiting->now_ms += WAIT_MS;
    return real->begin(store, now_ms, ret_now_ms, ret_version, err);
}

static void start(struct test_engine *te)
{
    static struct store_ops slow;
    waiting = NULL;
    te_init(te, CONFIG);
    real = te->engine->ops;
    slow = *real;
    slow.begin = begin_after_a_while;
    te->engine->ops = &slow;
}

TEST(a_delay_counts_from_the_end_of_the_wait_for_the_store)
{
    struct test_engine te;
    start(&te);
    const int64_t seq = te_submit(&te, "t", "{}");
    const struct job *job = te_claim_one(&te);
    waiting = &te;
    assert_int_equal(te_fail(&te, job, "TRANSIENT_FAIL"), 0);
    assert_int_equal(te_job(&te, seq).status.process_after_ms, te.now_ms + DELAY_MS);
    assert_int_equal(engine_now_ms(te.engine), te.now_ms);
    te_release(&te);
}

TEST(a_lease_is_as_long_as_it_should_be_after_a_wait)
{
    struct test_engine te;
    start(&te);
    te_submit(&te, "t", "{}");
    waiting = &te;
    const struct claim_filter filter = {.limit = 1};
    claim_op_init(&te.claim, &filter, STR("w"), LEASE_MS);
    assert_int_equal(engine_apply_one(te.engine, &te.claim.op, NULL), 0);
    assert_int_equal(te.claim.n, 1);
    assert_int_equal(te.claim.jobs[0].status.lease_until_ms, te.now_ms + LEASE_MS);
    te_release(&te);
}

/* A job fails after the transaction has begun that takes the failure along. */
struct late {
    struct test_engine *te;
    struct settle_op op;
};

static void fail_late(struct op_batch *batch)
{
    struct late *late = batch->ctx;
    late->te->now_ms += WAIT_MS;
    batch->ops[batch->n++] = &late->op.op;
}

TEST(what_came_after_the_begin_is_not_served_with_a_time_from_before_it)
{
    struct test_engine te;
    start(&te);
    const int64_t seq = te_submit(&te, "t", "{}");
    const struct job *job = te_claim_one(&te);
    struct settlement s = {
        .seq = seq,
        .token = job->status.token,
        .outcome = {.ending = ENDING_RAN, .failure = {.status = "TRANSIENT_FAIL"}},
    };
    struct late late = {.te = &te};
    settle_op_init(&late.op, &s, 1);
    const struct job_spec spec = {.task = STR("other")};
    struct submit_op first;
    assert_int_equal(submit_op_init(&first, te.engine, &spec, 1, NULL), 0);
    struct op *list[2] = {&first.op};
    engine_apply_batch(te.engine,
                       &(struct op_batch){.ops = list, .n = 1, .gather = fail_late, .ctx = &late});
    assert_int_equal(list[1]->code, 0);
    assert_int_equal(s.ret.code, 0);
    assert_int_equal(te_job(&te, seq).status.process_after_ms, te.now_ms + DELAY_MS);
    submit_op_release(&first);
    te_release(&te);
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
static void start_unsure(struct test_engine *te)
{
    static struct store_ops vague;
    te_init(te, CONFIG);
    unsure_ms = UNSURE_MS;
    real = te->engine->ops;
    vague = *real;
    vague.set_time = set_time_within_bounds;
    te->engine->ops = &vague;
}

static void check_waits(struct test_engine *te, int64_t seq, enum redrive_state state,
                        int64_t until_ms)
{
    const struct job_status s = te_job(te, seq).status;
    assert_int_equal(s.state, state);
    assert_int_equal(s.process_after_ms, until_ms);
}

#define UNSURE_TEST(test) TEST_OF(test, struct test_engine, te, start_unsure(te), te_release(te))

UNSURE_TEST(a_delay_counts_from_the_latest_time)
{
    const struct job_spec spec = {.task = STR("t"), .delay_ms = DELAY_MS};
    const int64_t seq = te_submit_spec(te, &spec), due_ms = te->now_ms + UNSURE_MS + DELAY_MS;
    check_waits(te, seq, REDRIVE_STATE_SCHEDULED, due_ms);
    /* It is due when the earliest time is that one. */
    te_pass(te, UNSURE_MS + DELAY_MS - 1);
    check_waits(te, seq, REDRIVE_STATE_SCHEDULED, due_ms);
    te_pass(te, 1);
    check_waits(te, seq, REDRIVE_STATE_QUEUED, due_ms);
}

UNSURE_TEST(a_delay_without_an_end_is_no_time_in_the_past)
{
    const struct job_spec spec = {.task = STR("t"), .delay_ms = INT64_MAX};
    const int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_SCHEDULED);
    assert_int_equal(te_try_submit(te, &(struct job_spec){.task = STR("t"), .delay_ms = -1}),
                     REDRIVE_E_RANGE);
}

UNSURE_TEST(a_retry_and_a_snooze_count_from_the_latest_time)
{
    const int64_t seq = te_submit(te, "t", "{}");
    const struct job *job = te_claim_one(te);
    struct settlement s = {
        .seq = seq,
        .token = job->status.token,
        .outcome = {.ending = ENDING_RAN, .failure = {.status = "TRANSIENT_FAIL"}},
    };
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    check_waits(te, seq, REDRIVE_STATE_RETRYING, te->now_ms + UNSURE_MS + DELAY_MS);
    assert_int_equal(s.again_ms, te->now_ms + UNSURE_MS + DELAY_MS);
    te_pass(te, UNSURE_MS + DELAY_MS - 1);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RETRYING);
    te_pass(te, 1);
    job = te_claim_one(te);
    const struct outcome snooze = {.ending = ENDING_SNOOZED, .snooze_ms = 40};
    assert_int_equal(te_settle(te, job, &snooze), 0);
    check_waits(te, seq, REDRIVE_STATE_SCHEDULED, te->now_ms + UNSURE_MS + 40);
}

UNSURE_TEST(a_lease_lasts_from_the_latest_time_on)
{
    const int64_t seq = te_submit(te, "t", "{}");
    const struct claim_filter filter = {.limit = 1};
    claim_op_init(&te->claim, &filter, STR("w"), LEASE_MS);
    assert_int_equal(engine_apply_one(te->engine, &te->claim.op, NULL), 0);
    assert_int_equal(te->claim.n, 1);
    assert_int_equal(te->claim.jobs[0].status.lease_until_ms, te->now_ms + UNSURE_MS + LEASE_MS);
    te->now_ms += 1000;
    struct extension x = {
        .seq = seq, .token = te->claim.jobs[0].status.token, .lease_ms = LEASE_MS};
    struct extend_op op;
    extend_op_init(&op, &x, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    const int64_t until_ms = te->now_ms + UNSURE_MS + LEASE_MS;
    assert_int_equal(te_job(te, seq).status.lease_until_ms, until_ms);
    te_pass(te, until_ms - 1 - te->now_ms);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    te_pass(te, 1);
    assert_int_not_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
}

/* What does not wait is ready at once, for processes that know the time better as well. */
UNSURE_TEST(what_has_no_delay_is_ready_at_once)
{
    const int64_t seq = te_submit(te, "t", "{}");
    check_waits(te, seq, REDRIVE_STATE_QUEUED, te->now_ms);
    const struct job *job = te_claim_one(te);
    assert_int_equal(job->status.started_ms, te->now_ms);
    const struct outcome release = {.ending = ENDING_RELEASED};
    assert_int_equal(te_settle(te, job, &release), 0);
    check_waits(te, seq, REDRIVE_STATE_QUEUED, te->now_ms);
    assert_int_equal(te_fail(te, te_claim_one(te), "PERMANENT_FAIL"), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), 0);
    check_waits(te, seq, REDRIVE_STATE_QUEUED, te->now_ms);
    assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
    assert_int_equal(te_change(te, MOVE_RUN_NOW, seq), 0);
    check_waits(te, seq, REDRIVE_STATE_QUEUED, te->now_ms);
    assert_int_equal(te_claim_one(te)->status.seq, seq);
}
