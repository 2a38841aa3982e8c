/* The life of a job: submit, claim, settle, retry, death, redrive. */
#include "engine/engine_for_test.h"

#include "base/time/duration.h"
#include "engine/state.h"

#define FIXED                                                                                     \
    "tasks:\n  flaky:\n    retry: {strategy: fixed, initial_delay: 5s, max_attempts: 3, jitter: " \
    "false}\n    breaker: {failure_threshold: 0, failure_rate: 0}\n"

ENGINE_TEST(submitted_job_is_claimed_and_completed, NULL)
{
    int64_t seq = te_submit(te, "greet", "{\"name\": \"a\"}");
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_QUEUED);
    const struct job *job = te_claim_one(te);
    check_str(job->spec.payload, "{\"name\": \"a\"}");
    assert_int_equal(job->status.attempts, 1);
    assert_int_equal(job->status.lease_until_ms, te->now_ms + 30000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(te_succeed(te, job), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_COMPLETED);
    assert_int_equal(te_claim(te, 1), 0);
    assert_int_equal(te->told[ENGINE_EVENT_SUBMITTED], 1);
    assert_int_equal(te->told[ENGINE_EVENT_STARTED], 1);
    assert_int_equal(te->told[ENGINE_EVENT_COMPLETED], 1);
    assert_int_equal(te_counter(te, "jobs_completed", ""), 1);
    assert_int_equal(te_counter(te, "jobs_completed", "partition:default/greet"), 1);
}

ENGINE_TEST(scheduled_job_starts_at_its_time_and_not_before, NULL)
{
    const struct job_spec spec = {.task = STR("later"), .process_after_ms = te->now_ms + 60000};
    int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_SCHEDULED);
    assert_int_equal(engine_next_ms(te->engine), te->now_ms + 60000);
    te_pass(te, 59999);
    assert_int_equal(te_claim(te, 1), 0);
    te_pass(te, 1);
    assert_int_equal(te_claim(te, 1), 1);
}

ENGINE_TEST(failed_job_is_retried_after_exactly_its_delay, FIXED)
{
    int64_t seq = te_submit(te, "flaky", NULL);
    assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RETRYING);
    assert_int_equal(engine_next_ms(te->engine), te->now_ms + 5000);
    te_pass(te, 4999);
    assert_int_equal(te_claim(te, 1), 0);
    te_pass(te, 1);
    const struct job *job = te_claim_one(te);
    assert_int_equal(job->status.attempts, 2);
    assert_int_equal(te_succeed(te, job), 0);
    assert_int_equal(te_counter(te, "jobs_retried", "class:transient"), 1);
}

ENGINE_TEST(exhausted_job_is_a_dead_letter_with_its_history, FIXED)
{
    int64_t seq = te_submit(te, "flaky", "1");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(te_fail(te, te_claim_one(te), "network"), 0);
        te_pass(te, 5000);
    }
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job.status.attempts, 3);
    assert_int_equal(job.status.error.class_, REDRIVE_CLASS_NETWORK);
    assert_int_not_equal(job.status.fingerprint, 0);
    assert_int_equal(te_claim(te, 1), 0);

    struct store *store = engine_store(te->engine);
    struct attempt_page history = {0};
    assert_int_equal(store_ops(store)->history(store, &seq, 1, &history, NULL), 0);
    assert_int_equal(history.n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(history.attempts[i].number, i + 1);
    assert_int_equal(history.attempts[0].delay_ms, 5000);
    check_str(history.attempts[2].error.message, "it broke");
    check_str(history.attempts[2].error.stacktrace, "at test:1");
    attempt_page_release(&history);
}

ENGINE_TEST(permanent_failure_ends_the_job_at_once, FIXED)
{
    int64_t seq = te_submit(te, "flaky", NULL);
    assert_int_equal(te_fail(te, te_claim_one(te), "PERMANENT_FAIL"), 0);
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(te_counter(te, "jobs_dlq", "partition:default/flaky"), 1);
}

ENGINE_TEST(stale_token_changes_nothing, FIXED)
{
    int64_t seq = te_submit(te, "flaky", NULL);
    struct job late = *te_claim_one(te);
    te_pass(te, 30000); /* the lease ends */
    te_pass(te, 5000);
    const struct job *again = te_claim_one(te);
    assert_int_not_equal(again->status.token, late.status.token);
    assert_int_equal(te_succeed(te, &late), REDRIVE_E_STATE);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    late.status.token = 0;
    assert_int_equal(te_succeed(te, &late), REDRIVE_E_STATE);
    assert_int_equal(te_succeed(te, again), 0);
    assert_int_equal(te_succeed(te, again), REDRIVE_E_STATE);
    assert_int_equal(te_counter(te, "jobs_completed", ""), 1);
}

ENGINE_TEST(third_lost_lease_in_a_row_is_poison,
            "tasks: {crash: {lease: 10s, retry: {strategy: fixed, initial_delay: 1s, "
            "max_attempts: 10, jitter: false}}}\n")
{
    int64_t seq = te_submit(te, "crash", NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(te_claim_one(te)->status.attempts, i);
        assert_int_equal(engine_next_ms(te->engine), te->now_ms + 10000);
        te_pass(te, 9999);
        assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
        te_pass(te, 1);
        assert_int_not_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
        te_pass(te, 1000);
    }
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_POISON);
    assert_int_equal(job.status.error.class_, REDRIVE_CLASS_SYSTEM);
}

/* It may have been ended by another process; a long one is read when it ends. */
ENGINE_TEST(what_runs_for_long_is_not_kept_in_memory, "tasks: {film: {lease: 1h}}\n")
{
    const int64_t seq = te_submit(te, "film", NULL);
    const struct job *job = te_claim_one(te);
    assert_non_null(running_get(&te->engine->running, job->status.token));
    te_pass(te, RUNNING_KEPT_MS);
    te_pass(te, RUNNING_KEPT_MS);
    assert_null(running_get(&te->engine->running, job->status.token));
    assert_int_equal(te_succeed(te, job), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_COMPLETED);
}

ENGINE_TEST(heartbeat_keeps_the_lease, NULL)
{
    int64_t seq = te_submit(te, "long", NULL);
    const struct job *job = te_claim_one(te);
    struct extension x = {.seq = seq, .token = job->status.token, .lease_ms = 30000};
    struct extend_op op;
    te_pass(te, 20000);
    extend_op_init(&op, &x, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(x.ret.code, 0);
    te_pass(te, 20000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    te_pass(te, 10000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RETRYING);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(x.ret.code, REDRIVE_E_STATE);
}

ENGINE_TEST(lease_without_end_is_one_of_a_hundred_years, NULL)
{
    const int64_t year_ms = INT64_C(365) * 24 * 3600 * 1000;
    int64_t seq = te_submit(te, "long", NULL);
    const struct job *job = te_claim_one(te);
    struct extension x = {.seq = seq, .token = job->status.token, .lease_ms = INT64_MAX};
    struct extend_op op;
    extend_op_init(&op, &x, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(x.ret.code, 0);
    te_pass(te, 99 * year_ms);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
}

ENGINE_TEST(claim_without_end_is_one_of_a_hundred_years, NULL)
{
    struct claim_op op;
    const struct claim_filter filter = {.limit = 1};
    te_submit(te, "long", NULL);
    claim_op_init(&op, &filter, STR("w"), INT64_MAX);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(op.n, 1);
    assert_true(op.jobs[0].status.lease_until_ms == te->now_ms + DURATION_MAX_MS);
    claim_op_release(&op);
}

static int extend_by_id(struct test_engine *te, const char *tenant, uint64_t token,
                        int64_t lease_ms)
{
    struct extension x = {
        .tenant = str_of(tenant), .id = STR("j"), .token = token, .lease_ms = lease_ms};
    struct extend_op op;
    extend_op_init(&op, &x, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    if (x.ret.code == 0) /* what was used */
        assert_int_equal(x.lease_ms, lease_ms > 0 ? lease_ms : 30000);
    return x.ret.code;
}

ENGINE_TEST(heartbeat_by_id_needs_tenant_and_token, NULL)
{
    const struct job_spec spec = {.task = STR("t"), .id = STR("j"), .tenant = STR("acme")};
    int64_t seq = te_submit_spec(te, &spec);
    const uint64_t token = te_claim_one(te)->status.token;
    assert_int_equal(extend_by_id(te, "other", token, 60000), REDRIVE_E_NOT_FOUND);
    assert_int_equal(extend_by_id(te, "acme", token + 1, 60000), REDRIVE_E_STATE);
    assert_int_equal(extend_by_id(te, "acme", 0, 60000), REDRIVE_E_STATE);
    assert_int_equal(te_job(te, seq).status.lease_until_ms, te->now_ms + 30000);
    te->now_ms += 5000;
    assert_int_equal(extend_by_id(te, "acme", token, 0), 0); /* as the task says */
    assert_int_equal(te_job(te, seq).status.lease_until_ms, te->now_ms + 30000);
    assert_int_equal(extend_by_id(te, "acme", token, 60000), 0);
    assert_int_equal(te_job(te, seq).status.lease_until_ms, te->now_ms + 60000);
    assert_int_equal(te_change(te, MOVE_CANCEL, seq), 0);
    assert_int_equal(extend_by_id(te, "acme", token, 60000), REDRIVE_E_STATE);
}

ENGINE_TEST(released_job_keeps_its_attempt, NULL)
{
    int64_t seq = te_submit(te, "stop", NULL);
    const struct outcome released = {.ending = ENDING_RELEASED};
    assert_int_equal(te_settle(te, te_claim_one(te), &released), 0);
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.status.attempts, 0);
    assert_int_equal(job.status.deferrals, 1);
    assert_int_equal(te_claim_one(te)->status.attempts, 1);
}

ENGINE_TEST(redriven_job_starts_afresh, FIXED)
{
    int64_t seq = te_submit(te, "flaky", NULL);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), REDRIVE_E_STATE);
    assert_int_equal(te_fail(te, te_claim_one(te), "PERMANENT_FAIL"), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), 0);
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.status.attempts, 0);
    assert_int_equal(job.status.epoch, 1);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
}

ENGINE_TEST(job_past_its_deadline_ends_unrun, NULL)
{
    const struct job_spec spec = {.task = STR("soon"), .deadline_ms = te->now_ms + 1000};
    int64_t seq = te_submit_spec(te, &spec);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 1), 0);
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(job.status.attempts, 0);
}

ENGINE_TEST(own_policy_of_a_job_beats_its_task, FIXED)
{
    const struct job_spec spec = {.task = STR("flaky"), .policy = STR("{\"max_attempts\": 1}")};
    int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
    assert_int_equal(te_job(te, seq).status.reason, REDRIVE_REASON_EXHAUSTED);
}

static int settle_as(struct test_engine *te, const char *id, const char *worker)
{
    struct settlement s = {.id = str_of(id), .worker = str_of(worker)};
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    return s.ret.code;
}

ENGINE_TEST(a_worker_settles_what_it_holds_and_nothing_else, NULL)
{
    const struct job_spec spec = {.task = STR("greet"), .id = STR("job-1")};
    int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(settle_as(te, "job-1", "worker-1"), REDRIVE_E_STATE);
    (void)te_claim_one(te);
    assert_int_equal(settle_as(te, "job-1", "worker-2"), REDRIVE_E_STATE);
    assert_int_equal(settle_as(te, "job-1", ""), REDRIVE_E_STATE);
    assert_int_equal(settle_as(te, "job-2", "worker-1"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(settle_as(te, "job-1", "worker-1"), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_COMPLETED);
    assert_int_equal(settle_as(te, "job-1", "worker-1"), REDRIVE_E_STATE);
}

static int64_t an_hour_or_the_default(const struct job *job)
{
    return str_is(job->spec.task, "long") ? 3600000 : 0;
}

ENGINE_TEST(a_job_may_say_how_long_its_lease_lasts, NULL)
{
    (void)te_submit(te, "long", NULL);
    (void)te_submit(te, "other", NULL);
    const struct claim_filter filter = {.limit = 2};
    struct claim_op op;
    claim_op_init(&op, &filter, STR("worker-1"), 60000);
    op.lease_of = an_hour_or_the_default;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(op.n, 2);
    assert_int_equal(op.jobs[0].status.lease_until_ms, te->now_ms + 3600000);
    assert_int_equal(op.jobs[1].status.lease_until_ms, te->now_ms + 60000);
    claim_op_release(&op);
}
