/* What is let in, what is refused, and what is the same job again. */
#include "engine/engine_for_test.h"

#include <stdlib.h>

static void refuse(struct test_engine *te, const struct job_spec *spec, int code)
{
    assert_int_equal(te_try_submit(te, spec), code);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 0);
}

ENGINE_TEST(invalid_jobs_are_refused, "tasks: {strict: {payload: required}}\n")
{
    refuse(te, &(struct job_spec){.task = {0}}, REDRIVE_E_INVALID);
    refuse(te, &(struct job_spec){.task = STR("a\nb")}, REDRIVE_E_INVALID);
    refuse(te, &(struct job_spec){.task = STR("\xff")}, REDRIVE_E_INVALID);
    refuse(te, &(struct job_spec){.task = STR("t"), .payload = STR("{\"a\":}")}, REDRIVE_E_PARSE);
    refuse(te, &(struct job_spec){.task = STR("t"), .priority = 101}, REDRIVE_E_RANGE);
    refuse(te, &(struct job_spec){.task = STR("t"), .deadline_ms = -1}, REDRIVE_E_RANGE);
    refuse(te, &(struct job_spec){.task = STR("strict")}, REDRIVE_E_INVALID);
    refuse(te, &(struct job_spec){.task = STR("strict"), .payload = STR(" null ")},
           REDRIVE_E_INVALID);
    assert_true(te_try_submit(te, &(struct job_spec){.task = STR("t"),
                                                     .policy = STR("{\"max_dealy\": 1}")}) < 0);
    assert_int_equal(
        te_try_submit(te, &(struct job_spec){.task = STR("strict"), .payload = STR("0")}), 0);
}

TEST(payload_over_the_limit_is_refused)
{
    struct test_engine te;
    size_t len = ENGINE_PAYLOAD_MAX_BYTES + 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    text[0] = '1';
    te_init(&te, NULL);
    struct job_spec spec = {.task = STR("t"), .payload = {text, len}};
    refuse(&te, &spec, REDRIVE_E_TOO_BIG);
    spec.payload.len--;
    assert_int_equal(te_try_submit(&te, &spec), 0);
    free(text);
    te_release(&te);
}

ENGINE_TEST(strict_tasks_refuses_what_is_not_declared,
            "strict_tasks: true\ntasks: {known: {queue: q}}\n")
{
    refuse(te, &(struct job_spec){.task = STR("unknown")}, REDRIVE_E_UNKNOWN);
    assert_int_equal(te_try_submit(te, &(struct job_spec){.task = STR("known")}), 0);
    check_str(te_claim_one(te)->spec.queue, "q");
}

ENGINE_TEST(operations_say_how_many_bytes_they_write, NULL)
{
    struct submit_op submit;
    struct settle_op settle;
    const struct job_spec specs[] = {{.task = STR("t"), .payload = STR("[1,2]")},
                                     {.task = STR("t"), .payload = STR("{}")}};
    struct settlement items[] = {{.seq = 1, .result = STR("\"done\"")}, {.seq = 2}};
    assert_int_equal(submit_op_init(&submit, te->engine, specs, 2, NULL), 0);
    assert_int_equal(submit.op.bytes, 7);
    submit_op_release(&submit);
    settle_op_init(&settle, items, 2);
    assert_int_equal(settle.op.bytes, 6);
}

/* Submits one and gives the number of the job that stands for it. */
static int64_t submit_again(struct test_engine *te, const struct job_spec *spec, bool *ret_existed)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, te->engine, spec, 1, NULL), 0);
    if (engine_apply_one(te->engine, &op.op, NULL) < 0)
        fail_msg("%s: %s", op.op.err.message, op.op.err.detail);
    assert_int_equal(op.answers[0].code, 0);
    int64_t seq = op.answers[0].seq;
    *ret_existed = op.answers[0].existed;
    submit_op_release(&op);
    return seq;
}

ENGINE_TEST(second_submit_of_an_id_is_the_first_job, NULL)
{
    bool existed;
    const struct job_spec spec = {.task = STR("t"), .id = STR("order-1")};
    int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(submit_again(te, &spec, &existed), seq);
    assert_true(existed);
    assert_int_equal(te_counter(te, "jobs_received", ""), 1);
}

ENGINE_TEST(unique_key_has_one_live_job, NULL)
{
    bool existed;
    const struct job_spec spec = {.task = STR("t"), .unique_key = STR("k")};
    int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(submit_again(te, &spec, &existed), seq);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_int_not_equal(submit_again(te, &spec, &existed), seq);
    assert_false(existed);
}

ENGINE_TEST(key_unique_for_ever_outlives_its_job, NULL)
{
    bool existed;
    const struct job_spec spec = {.task = STR("t"), .unique_key = STR("k"), .unique_forever = true};
    int64_t seq = te_submit_spec(te, &spec);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    te_pass(te, INT64_C(25) * 3600 * 1000); /* swept */
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 0);
    assert_int_equal(submit_again(te, &spec, &existed), seq);
    assert_true(existed);
}

/* Submits a request under a key; gives the first code that is its own, and how many existed. */
static int submit_keyed(struct test_engine *te, const char *key, const struct job_spec *specs,
                        size_t n, size_t *ret_existed)
{
    struct submit_op op;
    int code = 0;
    assert_int_equal(submit_op_init(&op, te->engine, specs, n, NULL), 0);
    op.whole = true;
    op.key = str_of(key);
    if (engine_apply_one(te->engine, &op.op, NULL) < 0)
        fail_msg("%s: %s", op.op.err.message, op.op.err.detail);
    *ret_existed = 0;
    for (size_t i = 0; i < n; i++) {
        if (code == 0 && op.answers[i].code != REDRIVE_E_CANCELLED)
            code = op.answers[i].code;
        *ret_existed += op.answers[i].code == 0 && op.answers[i].existed;
    }
    submit_op_release(&op);
    return code;
}

ENGINE_TEST(key_of_a_request_stands_for_what_it_said, NULL)
{
    size_t existed;
    const struct job_spec first = {
        .task = STR("t"), .id = STR("k"), .payload = STR("1"), .user = STR("ann"), .priority = 3};
    assert_int_equal(submit_keyed(te, "k", &first, 1, &existed), 0);
    assert_int_equal(existed, 0);
    assert_int_equal(submit_keyed(te, "k", &first, 1, &existed), 0);
    assert_int_equal(existed, 1);
    struct job_spec others[] = {first, first, first, first, first, first, first};
    others[0].task = STR("u");
    others[1].payload = STR("2");
    others[2].payload = (struct str){0};
    others[3].user = STR("bob");
    others[4].priority = 4;
    others[5].unique_key = STR("once");
    others[6].policy = STR("{\"max_attempts\":2}");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(submit_keyed(te, "k", &others[i], 1, &existed), REDRIVE_E_EXISTS);
    others[0] = first; /* later, and in another queue: neither can be compared */
    others[0].queue = STR("elsewhere");
    others[0].deadline_ms = te->now_ms + 1000;
    assert_int_equal(submit_keyed(te, "k", &others[0], 1, &existed), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
}

ENGINE_TEST(key_of_an_array_stands_for_all_its_jobs, NULL)
{
    size_t existed;
    struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("k/0"), .payload = STR("0")},
        {.task = STR("t"), .id = STR("own")},
        {.task = STR("t"), .id = STR("k/2"), .payload = STR("2")},
        {.task = STR("t"), .id = STR("k/3"), .payload = STR("3")},
    };
    assert_int_equal(submit_keyed(te, "k", specs, 3, &existed), 0);
    assert_int_equal(existed, 0);
    assert_int_equal(submit_keyed(te, "k", specs, 3, &existed), 0);
    assert_int_equal(existed, 3);
    assert_int_equal(submit_keyed(te, "k", specs, 4, &existed), REDRIVE_E_EXISTS);
    assert_int_equal(submit_keyed(te, "k", specs, 2, &existed), REDRIVE_E_EXISTS);
    specs[1].payload = STR("1"); /* a second submit of an id, which is no matter of the key */
    assert_int_equal(submit_keyed(te, "k", specs, 3, &existed), 0);
    specs[2].payload = STR("22");
    assert_int_equal(submit_keyed(te, "k", specs, 3, &existed), REDRIVE_E_EXISTS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 3);
}

ENGINE_TEST(requests_of_one_transaction_are_compared_too, NULL)
{
    struct submit_op ops[4];
    const struct job_spec one = {.task = STR("t"), .id = STR("k"), .payload = STR("1")};
    const struct job_spec two = {.task = STR("t"), .id = STR("k"), .payload = STR("2")};
    const struct job_spec in_array = {.task = STR("t"), .id = STR("a/0"), .payload = STR("1")};
    const struct job_spec another = {.task = STR("t"), .id = STR("a/0"), .payload = STR("2")};
    const struct job_spec *const specs[] = {&one, &two, &in_array, &another};
    struct op *all[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(submit_op_init(&ops[i], te->engine, specs[i], 1, NULL), 0);
        ops[i].key = i < 2 ? STR("k") : STR("a");
        all[i] = &ops[i].op;
    }
    engine_apply(te->engine, all, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ops[i].op.code, 0);
        assert_int_equal(ops[i].answers[0].code, i % 2 ? REDRIVE_E_EXISTS : 0);
        submit_op_release(&ops[i]);
    }
}

ENGINE_TEST(whole_batch_is_refused_with_one_of_its_jobs, NULL)
{
    struct submit_op op;
    const struct job_spec specs[] = {{.task = STR("t")}, {.task = STR("t"), .priority = 999}};
    assert_int_equal(submit_op_init(&op, te->engine, specs, 2, NULL), 0);
    op.whole = true;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, REDRIVE_E_CANCELLED);
    assert_int_equal(op.answers[1].code, REDRIVE_E_RANGE);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 0);
    op.whole = false;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    assert_int_equal(op.answers[1].code, REDRIVE_E_RANGE);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    submit_op_release(&op);
}

ENGINE_TEST(higher_priority_is_claimed_first, NULL)
{
    const struct job_spec low = {.task = STR("t"), .priority = -5};
    const struct job_spec high = {.task = STR("t"), .priority = 5};
    int64_t first = te_submit_spec(te, &low);
    int64_t second = te_submit_spec(te, &high);
    assert_int_equal(te_claim_one(te)->status.seq, second);
    assert_int_equal(te_claim_one(te)->status.seq, first);
}

ENGINE_TEST(shown_attempts_are_the_most_that_any_class_allows,
            "tasks:\n  call:\n    retry: {strategy: immediate, max_retries: 1}\n"
            "    on: {network: {max_retries: 3}, database: {max_retries: 2}}\n")
{
    int64_t seq = te_submit(te, "call", "{}");
    for (uint32_t n = 1; n <= 4; n++) {
        const struct job *job = te_claim_one(te);
        assert_int_equal(job->status.attempts, n);
        assert_int_equal(job_max_attempts(job), 4);
        assert_int_equal(te_fail(te, job, "network"), 0);
        te_tick(te);
    }
    assert_int_equal(te_job(te, seq).status.reason, REDRIVE_REASON_EXHAUSTED);
}

ENGINE_TEST(a_policy_that_jobs_share_holds_for_each_of_them,
            "tasks:\n  own: {retry: {max_retries: 3}}\n")
{
    const struct str seven = STR("{\"max_retries\":7}");
    const struct str wrong = STR("{\"max_retries\":-7}");
    const struct job_spec specs[] = {
        {.task = STR("a"), .policy = wrong},
        {.task = STR("a"), .policy = wrong},
        {.task = STR("a"), .policy = seven},
        {.task = STR("b"), .policy = seven},
        {.task = STR("own")},
        {.task = STR("own"), .policy = seven},
    };
    const int32_t attempts[] = {0, 0, 8, 8, 4, 8};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, te->engine, specs, 6, NULL), 0);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(op.answers[i].code < 0, attempts[i] == 0);
        assert_int_equal(op.specs[i].max_attempts, attempts[i]);
    }
    submit_op_release(&op);
}
