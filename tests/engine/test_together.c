/* Operations of one transaction: what the store is asked at once, and in which order. */
#include "engine/engine_for_test.h"

#include "engine/state.h"

static const struct store_ops *real;
static struct {
    unsigned submits, readies, moves[MOVE_KIND_COUNT];
} calls;
static int64_t refused_seq; /* the store will not start this one */

static int count_submit(struct store *store, const struct job_spec *specs, size_t n,
                        struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    calls.submits++;
    return real->submit(store, specs, n, ret, arena, err);
}

static int count_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                       struct redrive_err *err)
{
    calls.readies++;
    return real->ready(store, filter, ret, err);
}

/* Each in a call of its own; the store will not start one of them. */
static int start_some(struct store *store, const struct move_list *list, struct move_result *ret,
                      struct redrive_err *err)
{
    for (size_t i = 0; i < list->n; i++) {
        ret[i] = (struct move_result){REDRIVE_E_STATE, REDRIVE_STATE_CANCELLED};
        if (list->starts[i].seq == refused_seq)
            continue;
        int rc = real->move(store, STARTS(&list->starts[i], 1), &ret[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int count_moves(struct store *store, const struct move_list *list, struct move_result *ret,
                       struct redrive_err *err)
{
    calls.moves[list->kind]++;
    return list->kind == MOVE_START ? start_some(store, list, ret, err)
                                    : real->move(store, list, ret, err);
}

static void count_calls(struct test_engine *te)
{
    static struct store_ops counting;
    real = te->engine->ops;
    counting = *real;
    counting.submit = count_submit;
    counting.ready = count_ready;
    counting.move = count_moves;
    te->engine->ops = &counting;
    refused_seq = 0;
    memset(&calls, 0, sizeof calls);
}

#define N 5

static void claim_init(struct claim_op *op, size_t limit, const char *worker)
{
    const struct claim_filter filter = {.limit = limit};
    claim_op_init(op, &filter, str_of(worker), 0);
}

ENGINE_TEST(claims_that_look_for_the_same_are_one, NULL)
{
    struct claim_op claims[N];
    struct op *ops[N];
    for (int i = 0; i < N + 1; i++)
        te_submit(te, "mail", "{}");
    count_calls(te);
    for (int i = 0; i < N; i++) {
        claim_init(&claims[i], i == 0 ? 2 : 1, i == 0 ? "first" : "other");
        ops[i] = &claims[i].op;
    }
    engine_apply(te->engine, ops, N);
    assert_int_equal(calls.readies, 1);
    assert_int_equal(calls.moves[MOVE_START], 1);
    assert_int_equal(claims[0].n, 2);
    assert_true(str_is(claims[0].jobs[1].status.worker, "first"));
    for (int i = 1; i < N; i++) {
        assert_int_equal(claims[i].n, 1);
        assert_true(str_is(claims[i].jobs[0].status.worker, "other"));
        assert_int_not_equal(claims[i].jobs[0].status.seq, claims[i - 1].jobs[0].status.seq);
    }
    /* The page that they share lives until the last has gone. */
    for (int i = 0; i < N; i++) {
        assert_true(str_is(claims[N - 1].jobs[0].spec.task, "mail"));
        if (i < N - 1)
            claim_op_release(&claims[i]);
    }
    claim_op_release(&claims[N - 1]);
}

ENGINE_TEST(claims_that_look_for_something_else_are_not, NULL)
{
    struct claim_op a, b;
    const struct str slow = STR("slow"), fast = STR("fast");
    const struct claim_filter slow_only = {.queues = &slow, .n_queues = 1, .limit = 1};
    const struct claim_filter fast_only = {.queues = &fast, .n_queues = 1, .limit = 1};
    te_submit_spec(te, &(struct job_spec){.task = STR("mail"), .queue = fast});
    count_calls(te);
    claim_op_init(&a, &slow_only, STR("w"), 0);
    claim_op_init(&b, &fast_only, STR("w"), 0);
    engine_apply(te->engine, (struct op *[]){&a.op, &b.op}, 2);
    assert_int_equal(calls.readies, 2);
    assert_int_equal(a.n, 0);
    assert_int_equal(b.n, 1);
    claim_op_release(&a);
    claim_op_release(&b);
}

/* Some name the job by its number, some by its id. */
ENGINE_TEST(settlements_reach_the_store_together, NULL)
{
    struct settlement s[N + 1];
    struct settle_op settles[N + 1];
    struct op *ops[N + 1];
    for (int i = 0; i < N; i++)
        te_submit(te, "mail", "{}");
    assert_int_equal(te_claim(te, N), N);
    count_calls(te);
    for (int i = 0; i <= N; i++) {
        /* The last one settles the first one's job again. */
        const struct job *job = &te->claim.jobs[i % N];
        s[i] = (struct settlement){
            .seq = job->status.seq,
            .token = job->status.token,
            .outcome = {.ending = ENDING_RAN,
                        .failure = {.status = i == 1 ? "TRANSIENT_FAIL" : NULL}}};
        if (i == 2) {
            s[i].seq = 0;
            s[i].tenant = job->spec.tenant;
            s[i].id = job->spec.id;
        }
        settle_op_init(&settles[i], &s[i], 1);
        ops[i] = &settles[i].op;
    }
    engine_apply(te->engine, ops, N + 1);
    assert_int_equal(calls.moves[MOVE_SETTLE], 1);
    for (int i = 0; i < N; i++) {
        assert_int_equal(s[i].ret.code, 0);
        assert_int_equal(te_state(te, te->claim.jobs[i].status.seq),
                         i == 1 ? REDRIVE_STATE_RETRYING : REDRIVE_STATE_COMPLETED);
    }
    assert_int_equal(s[N].ret.code, REDRIVE_E_STATE);
    assert_int_equal(s[N].ret.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(te_counter(te, "jobs_completed", ""), N - 1);
}

ENGINE_TEST(a_token_settles_its_own_job_alone, NULL)
{
    te_submit(te, "mail", "{}");
    te_submit(te, "mail", "{}");
    assert_int_equal(te_claim(te, 2), 2);
    const struct job *a = &te->claim.jobs[0], *b = &te->claim.jobs[1];
    struct settlement s[] = {
        {.tenant = b->spec.tenant, .id = b->spec.id, .token = a->status.token},
        {.tenant = STR("other"), .id = a->spec.id, .token = a->status.token},
        {.seq = b->status.seq, .token = a->status.token},
        {.tenant = STR("other"), .seq = a->status.seq, .token = a->status.token},
    };
    struct settle_op settle;
    settle_op_init(&settle, s, sizeof s / sizeof s[0]);
    engine_apply(te->engine, (struct op *[]){&settle.op}, 1);
    for (size_t i = 0; i < sizeof s / sizeof s[0]; i++)
        assert_int_not_equal(s[i].ret.code, 0);
    assert_int_equal(te_state(te, a->status.seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(te_state(te, b->status.seq), REDRIVE_STATE_RUNNING);
}

/* Some name the job by its number, some by its id; one comes after the settlement of its job. */
ENGINE_TEST(heartbeats_reach_the_store_together, NULL)
{
    struct extension x[N + 1];
    struct extend_op beats[N + 1];
    struct settle_op settle;
    struct op *ops[N + 2];
    for (int i = 0; i < N; i++)
        te_submit(te, "mail", "{}");
    assert_int_equal(te_claim(te, N), N);
    count_calls(te);
    for (int i = 0; i <= N; i++) {
        const struct job *job = &te->claim.jobs[i % N];
        x[i] = (struct extension){
            .seq = job->status.seq, .token = job->status.token + (i == N), .lease_ms = 60000 + i};
        if (i == 2) {
            x[i].seq = 0;
            x[i].tenant = job->spec.tenant;
            x[i].id = job->spec.id;
        }
        extend_op_init(&beats[i], &x[i], 1);
        ops[i + 1] = &beats[i].op;
    }
    struct settlement done = {
        .seq = x[0].seq, .token = x[0].token, .outcome = {.ending = ENDING_RAN}};
    settle_op_init(&settle, &done, 1);
    ops[0] = &settle.op;
    engine_apply(te->engine, ops, N + 2);
    assert_int_equal(calls.moves[MOVE_EXTEND], 1);
    assert_int_equal(done.ret.code, 0);
    assert_int_equal(te_state(te, x[0].seq), REDRIVE_STATE_COMPLETED);
    for (int i = 0; i < N; i++) {
        assert_int_equal(beats[i].op.code, 0);
        assert_int_equal(x[i].ret.code, 0);
        const int64_t seq = te->claim.jobs[i].status.seq;
        if (i > 0)
            assert_int_equal(te_job(te, seq).status.lease_until_ms, te->now_ms + 60000 + i);
    }
    assert_int_equal(x[N].ret.code, REDRIVE_E_STATE);
}

ENGINE_TEST(submits_reach_the_store_together, NULL)
{
    struct submit_op submits[3];
    struct op *ops[3];
    const struct job_spec specs[3] = {{.id = STR("a"), .task = STR("mail")},
                                      {.id = STR("b"), .task = STR("mail")},
                                      {.id = STR("a"), .task = STR("mail")}};
    count_calls(te);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(submit_op_init(&submits[i], te->engine, &specs[i], 1, NULL), 0);
        ops[i] = &submits[i].op;
    }
    engine_apply(te->engine, ops, 3);
    assert_int_equal(calls.submits, 1);
    assert_true(str_is(submits[1].answers[0].id, "b"));
    assert_false(submits[0].answers[0].existed);
    assert_true(submits[2].answers[0].existed);
    assert_int_equal(submits[2].answers[0].seq, submits[0].answers[0].seq);
    /* Answers outlive the transaction. */
    te_submit(te, "mail", "{}");
    assert_true(str_is(submits[0].answers[0].id, "a"));
    for (int i = 0; i < 3; i++)
        submit_op_release(&submits[i]);
}

ENGINE_TEST(what_has_ended_makes_room_for_what_starts,
            "tasks: {mail: {limits: {concurrency: 1}}}\n")
{
    struct claim_op claim;
    struct settle_op settle;
    te_submit(te, "mail", "{}");
    int64_t second = te_submit(te, "mail", "{}");
    const struct job *first = te_claim_one(te);
    struct settlement done = {
        .seq = first->status.seq, .token = first->status.token, .outcome = {.ending = ENDING_RAN}};
    claim_init(&claim, 1, "w");
    settle_op_init(&settle, &done, 1);
    engine_apply(te->engine, (struct op *[]){&claim.op, &settle.op}, 2);
    assert_int_equal(done.ret.code, 0);
    assert_int_equal(claim.n, 1);
    assert_int_equal(claim.jobs[0].status.seq, second);
    claim_op_release(&claim);
}

/* Whoever sends commands ahead of the answers names the job and not a token. */
ENGINE_TEST(a_settlement_without_a_token_comes_after_the_claim_before_it, NULL)
{
    struct claim_op claim;
    struct settle_op settle;
    const struct job_spec spec = {.id = STR("j"), .task = STR("mail")};
    struct settlement done = {
        .id = STR("j"), .worker = STR("w"), .outcome = {.ending = ENDING_RAN}};
    te_submit_spec(te, &spec);
    claim_init(&claim, 1, "w");
    settle_op_init(&settle, &done, 1);
    engine_apply(te->engine, (struct op *[]){&claim.op, &settle.op}, 2);
    assert_int_equal(claim.n, 1);
    assert_int_equal(done.ret.code, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 1);
    claim_op_release(&claim);
}

ENGINE_TEST(an_operation_of_another_kind_keeps_its_place, NULL)
{
    struct claim_op before, after;
    struct change_op cancel;
    int64_t a = te_submit(te, "mail", "{}"), b = te_submit(te, "mail", "{}");
    struct change_item item = {.seq = b};
    claim_init(&before, 1, "w");
    change_op_init(&cancel, MOVE_CANCEL, &item, 1);
    claim_init(&after, 1, "w");
    engine_apply(te->engine, (struct op *[]){&before.op, &cancel.op, &after.op}, 3);
    assert_int_equal(before.n, 1);
    assert_int_equal(before.jobs[0].status.seq, a);
    assert_int_equal(item.ret.code, 0);
    assert_int_equal(after.n, 0);
    claim_op_release(&before);
    claim_op_release(&after);
}

ENGINE_TEST(jobs_over_a_limit_are_parked_together, "tasks: {mail: {limits: {concurrency: 2}}}\n")
{
    for (int i = 0; i < N; i++)
        te_submit(te, "mail", "{}");
    count_calls(te);
    assert_int_equal(te_claim(te, N), 2);
    assert_int_equal(calls.moves[MOVE_PARK], 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), N - 2);
}

/* Another process was faster: what the job had taken is free again. */
ENGINE_TEST(a_start_that_is_refused_takes_nothing, "tasks: {mail: {limits: {concurrency: 1}}}\n")
{
    int64_t seq = te_submit(te, "mail", "{}");
    count_calls(te);
    refused_seq = seq;
    assert_int_equal(te_claim(te, 1), 0);
    refused_seq = 0;
    assert_int_equal(te_claim(te, 1), 1);
    assert_int_equal(te->claim.jobs[0].status.seq, seq);
}
