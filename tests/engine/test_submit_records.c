/* Records of a batch: what is missing its payload is dead at once, and an id is nobody's property.
 */
#include "engine/engine_for_test.h"

static const char CONFIG[] = "tasks:\n"
                             "  strict: {payload: required, retry: {retry_on: [validation]}}\n"
                             "  quiet: {payload: required, retry: {enable_dlq: false}}\n"
                             "  other: {}\n";

static struct job_spec record(const char *task, const char *id, const char *key,
                              const char *payload)
{
    return (struct job_spec){
        .task = str_of(task),
        .id = str_of(id),
        .unique_key = str_of(key),
        .unique_forever = true,
        .payload = str_of(payload),
    };
}

/* Submits a few; the answers live until release. */
static void submit(struct test_engine *te, struct submit_op *op, const struct job_spec *specs,
                   size_t n)
{
    assert_int_equal(submit_op_init(op, te->engine, specs, n, NULL), 0);
    op->records = true;
    assert_int_equal(engine_apply_one(te->engine, &op->op, NULL), 0);
}

static void check_dead(struct test_engine *te, int64_t seq)
{
    struct store *store = engine_store(te->engine);
    struct attempt_page history = {0};
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(job.status.attempts, 0);
    assert_int_equal(job.status.error.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_not_equal(job.status.fingerprint, 0);
    assert_int_equal(store_ops(store)->history(store, &seq, 1, &history, NULL), 0);
    assert_int_equal(history.n, 1);
    assert_int_equal(history.attempts[0].number, 0);
    assert_int_equal(history.attempts[0].started_ms, 0);
    assert_int_equal(history.attempts[0].outcome, REDRIVE_STATE_DEAD_LETTER);
    check_str(history.attempts[0].error.type, "MissingPayload");
    attempt_page_release(&history);
}

TEST(record_without_its_payload_is_dead_at_once)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_spec specs[] = {
        record("strict", "a", "strict/a", " null "),
        record("strict", "b", "strict/b", NULL),
        record("strict", "c", "strict/c", "{\"n\": 1}"),
    };
    te_init(&te, CONFIG);
    submit(&te, &op, specs, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(op.answers[i].code, 0);
        assert_false(op.answers[i].existed);
        assert_int_equal(op.answers[i].state, REDRIVE_STATE_DEAD_LETTER);
        check_dead(&te, op.answers[i].seq);
    }
    assert_int_equal(op.answers[2].state, REDRIVE_STATE_QUEUED);
    submit_op_release(&op);
    assert_int_equal(te.told[ENGINE_EVENT_SUBMITTED], 3);
    assert_int_equal(te.told[ENGINE_EVENT_DEAD], 2);
    assert_int_equal(te_counter(&te, "jobs_received", ""), 3);
    assert_int_equal(te_counter(&te, "jobs_dlq", ""), 2);
    assert_int_equal(te_claim(&te, 10), 1);
    te_release(&te);
}

TEST(dead_record_is_known_and_stays_dead)
{
    struct test_engine te;
    struct submit_op op;
    struct job_spec spec = record("strict", "a", "strict/a", "null");
    te_init(&te, CONFIG);
    submit(&te, &op, &spec, 1);
    submit_op_release(&op);
    /* Not even with a payload: an id is one record. A redrive brings it back. */
    spec.payload = STR("{}");
    submit(&te, &op, &spec, 1);
    assert_true(op.answers[0].existed);
    assert_int_equal(op.answers[0].state, REDRIVE_STATE_DEAD_LETTER);
    int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    assert_int_equal(te.told[ENGINE_EVENT_DEAD], 1);
    assert_int_equal(te_change(&te, MOVE_REDRIVE, seq), 0);
    assert_int_equal(te_state(&te, seq), REDRIVE_STATE_QUEUED);
    te_release(&te);
}

TEST(without_dead_letters_it_has_failed)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_spec spec = record("quiet", "a", "quiet/a", "null");
    te_init(&te, CONFIG);
    submit(&te, &op, &spec, 1);
    assert_int_equal(op.answers[0].state, REDRIVE_STATE_FAILED);
    assert_int_equal(te_job(&te, op.answers[0].seq).status.reason, REDRIVE_REASON_NOT_RETRIABLE);
    submit_op_release(&op);
    assert_int_equal(te.told[ENGINE_EVENT_FAILED], 1);
    te_release(&te);
}

TEST(other_refusals_still_stand)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_spec specs[] = {
        record("strict", "a", "strict/a", "{"),
        record("strict", "a\nb", "strict/b", "null"),
    };
    te_init(&te, CONFIG);
    submit(&te, &op, specs, 2);
    assert_int_equal(op.answers[0].code, REDRIVE_E_PARSE);
    assert_int_equal(op.answers[1].code, REDRIVE_E_INVALID);
    submit_op_release(&op);
    assert_int_equal(te.told[ENGINE_EVENT_SUBMITTED], 0);
    te_release(&te);
}

TEST(same_id_in_another_task_is_another_record)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_spec specs[] = {
        record("strict", "17", "strict/17", "{}"),
        record("other", "17", "other/17", "{}"),
        record("other", "17", "other/17", "{}"),
    };
    te_init(&te, CONFIG);
    submit(&te, &op, specs, 3);
    assert_false(op.answers[0].existed);
    check_str(op.answers[0].id, "17");
    assert_false(op.answers[1].existed);
    check_str(op.answers[1].id, "other/17");
    assert_true(op.answers[2].existed);
    assert_int_equal(op.answers[2].seq, op.answers[1].seq);
    submit_op_release(&op);
    assert_int_equal(te_claim(&te, 10), 2);
    te_release(&te);
}

TEST(client_is_refused_as_before)
{
    struct test_engine te;
    struct job_spec spec = record("strict", "a", "strict/a", "null");
    te_init(&te, CONFIG);
    assert_int_equal(te_try_submit(&te, &spec), REDRIVE_E_INVALID);
    assert_int_equal(te_count(&te, REDRIVE_STATE_DEAD_LETTER), 0);
    spec.payload = STR("{}");
    int64_t seq = te_submit_spec(&te, &spec);
    /* For a client the same id is the same job, whatever its key. */
    struct submit_op op;
    spec = record("other", "a", "other/a", "{}");
    assert_int_equal(submit_op_init(&op, te.engine, &spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    assert_true(op.answers[0].existed);
    assert_int_equal(op.answers[0].seq, seq);
    submit_op_release(&op);
    te_release(&te);
}

/* What a program says of a job that it has tried by itself. */
static struct job_failed network_failure(void)
{
    return (struct job_failed){
        .reason = REDRIVE_REASON_EXHAUSTED,
        .error = {.class_ = REDRIVE_CLASS_NETWORK,
                  .type = STR("builtins.ConnectionError"),
                  .message = STR("no route"),
                  .stacktrace = STR("Traceback")},
    };
}

TEST(job_that_has_failed_elsewhere_is_a_dead_letter_at_once)
{
    struct test_engine te;
    struct submit_op op;
    struct job_spec specs[] = {{.task = STR("quiet"), .id = STR("a"), .payload = STR("{}")},
                               {.task = STR("other"), .id = STR("b")}};
    const struct job_failed failed = network_failure();
    specs[0].failed = &failed;
    te_init(&te, CONFIG);
    assert_int_equal(submit_op_init(&op, te.engine, specs, 2, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(op.answers[1].state, REDRIVE_STATE_QUEUED);
    const int64_t seq = op.answers[0].seq;
    submit_op_release(&op);

    struct job job = te_job(&te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job.status.attempts, 0);
    assert_int_equal(job.status.error.class_, REDRIVE_CLASS_NETWORK);
    assert_int_not_equal(job.status.fingerprint, 0);
    struct store *store = engine_store(te.engine);
    struct attempt_page history = {0};
    assert_int_equal(store_ops(store)->history(store, &seq, 1, &history, NULL), 0);
    assert_int_equal(history.n, 1);
    assert_int_equal(history.attempts[0].number, 0);
    check_str(history.attempts[0].error.type, "builtins.ConnectionError");
    check_str(history.attempts[0].error.message, "no route");
    check_str(history.attempts[0].error.stacktrace, "Traceback");
    attempt_page_release(&history);
    assert_int_equal(te.told[ENGINE_EVENT_SUBMITTED], 2);
    assert_int_equal(te.told[ENGINE_EVENT_DEAD], 1);
    assert_int_equal(te_counter(&te, "jobs_dlq", ""), 1);
    assert_int_equal(te_claim(&te, 10), 1);

    assert_int_equal(te_change(&te, MOVE_REDRIVE, seq), 0);
    assert_int_equal(te_job(&te, seq).status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(te_claim(&te, 10), 1);
    te_release(&te);
}

ENGINE_TEST(failed_job_comes_in_though_its_breaker_rejects,
            "tasks:\n  t: {breaker: {failure_threshold: 1, on_open: reject}}\n")
{
    struct job_spec spec = {.task = STR("t"), .id = STR("a")};
    const struct job tried = te_claim_this(te, te_submit(te, "t", "{}"));
    assert_int_equal(te_fail(te, &tried, "network"), 0);
    assert_int_equal(te_try_submit(te, &spec), REDRIVE_E_BREAKER_OPEN);
    const struct job_failed failed = network_failure();
    spec.failed = &failed;
    assert_int_equal(te_try_submit(te, &spec), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1);
}
