/* The parents of a job that a claim gives, and their results. */
#include "engine/engine_for_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/wrap.h"

#define SOME ((size_t)103) /* more parents than a handler is given */

/* Submits a job that waits for others until they have ended in any way. */
static int64_t submit_after(struct test_engine *te, const char *id, const char *const *parents,
                            size_t n)
{
    struct job_after after[SOME];
    assert_true(n <= SOME);
    for (size_t i = 0; i < n; i++)
        after[i] = (struct job_after){str_of(parents[i]), {AFTER_END, AFTER_DEAD_WAIT}};
    const struct job_spec spec = {
        .task = STR("t"), .id = str_of(id), .after = n > 0 ? after : NULL, .n_after = n};
    return te_submit_spec(te, &spec);
}

static int64_t submit_job(struct test_engine *te, const char *id)
{
    return submit_after(te, id, NULL, 0);
}

/* Claims up to n jobs, with their parents; the code of the answer. */
static int try_claim(struct test_engine *te, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    claim_op_release(&te->claim);
    claim_op_init(&te->claim, &filter, STR("worker-1"), 0);
    te->claim.with_parents = true;
    return engine_apply_one(te->engine, &te->claim.op, NULL);
}

static const struct job *claim_one(struct test_engine *te, int64_t seq)
{
    assert_int_equal(try_claim(te, 1), 0);
    assert_int_equal(te->claim.n, 1);
    assert_int_equal(te->claim.jobs[0].status.seq, seq);
    return &te->claim.jobs[0];
}

static struct settlement success(const struct job *job, struct str result)
{
    return (struct settlement){
        .seq = job->status.seq,
        .token = job->status.token,
        .outcome = {.ending = ENDING_RAN},
        .result = result,
    };
}

static void settle(struct test_engine *te, const struct job *job, struct str result)
{
    struct settlement item = success(job, result);
    struct settle_op op;
    settle_op_init(&op, &item, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
}

/* Runs a job that is ready, and has no parents. */
static void run_with(struct test_engine *te, int64_t seq, struct str result)
{
    const struct job job = *claim_one(te, seq);
    assert_null(job.parents);
    assert_int_equal(job.n_parents, 0);
    settle(te, &job, result);
}

static void run_long(struct test_engine *te, int64_t seq, size_t len)
{
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'x', len);
    run_with(te, seq, (struct str){text, len});
    free(text);
}

static void check_parent(const struct job *job, size_t i, const char *id, enum redrive_state state,
                         const char *result)
{
    assert_true(i < job->n_parents);
    const struct job_parent *parent = &job->parents[i];
    assert_true(str_is(parent->id, id));
    assert_int_equal(parent->state, state);
    assert_false(parent->is_omitted);
    assert_true(str_eq(parent->result, str_of(result)));
}

ENGINE_TEST(child_is_given_the_results_in_the_order_of_submission, NULL)
{
    const int64_t a = submit_job(te, "a"), b = submit_job(te, "b"), c = submit_job(te, "c");
    const char *const parents[] = {"c", "a", "b"}, *const grandparents[] = {"d"};
    const int64_t d = submit_after(te, "d", parents, 3);
    const int64_t e = submit_after(te, "e", grandparents, 1);
    run_with(te, a, STR("{\"n\":1}"));
    const struct job job_b = *claim_one(te, b);
    assert_int_equal(te_fail(te, &job_b, "PERMANENT_FAIL"), 0);
    run_with(te, c, STR("any \x01\xff bytes"));
    struct job job = *claim_one(te, d);
    assert_int_equal(job.n_parents, 3);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "{\"n\":1}");
    check_parent(&job, 1, "b", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&job, 2, "c", REDRIVE_STATE_COMPLETED, "any \x01\xff bytes");
    settle(te, &job, STR("4"));
    job = *claim_one(te, e);
    assert_int_equal(job.n_parents, 1);
    check_parent(&job, 0, "d", REDRIVE_STATE_COMPLETED, "4");
}

ENGINE_TEST(every_attempt_is_given_the_results, NULL)
{
    const int64_t a = submit_job(te, "a");
    const char *const parents[] = {"a"};
    const int64_t b = submit_after(te, "b", parents, 1);
    run_with(te, a, STR("1"));
    struct job job = *claim_one(te, b);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
    assert_int_equal(te_fail(te, &job, "TRANSIENT_FAIL"), 0);
    te_pass(te, INT64_C(3600) * 1000);
    job = *claim_one(te, b);
    assert_int_equal(job.status.attempts, 2);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
    assert_int_equal(te_fail(te, &job, "PERMANENT_FAIL"), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, b), 0);
    job = *claim_one(te, b);
    assert_int_equal(job.n_parents, 1);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
}

/* 256 KiB for a job: what does not fit is left out, and what comes after it is given. */
ENGINE_TEST(results_that_do_not_fit_are_left_out, NULL)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    const size_t lens[] = {PARENTS_BYTES + 1, PARENTS_BYTES - 100, 101, 100, 1};
    const bool omitted[] = {true, false, true, false, true};
    int64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = submit_job(te, ids[i]);
    const int64_t child = submit_after(te, "child", ids, 5);
    for (int i = 0; i < 5; i++)
        run_long(te, seqs[i], lens[i]);
    const struct job job = *claim_one(te, child);
    assert_int_equal(job.n_parents, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(job.parents[i].is_omitted, omitted[i]);
        assert_int_equal(job.parents[i].result.len, omitted[i] ? 0 : lens[i]);
    }
}

/* Several children of one claim each have their own parents. */
ENGINE_TEST(children_are_claimed_together, NULL)
{
    const char *const both[] = {"a", "b"};
    const int64_t a = submit_job(te, "a"), b = submit_job(te, "b");
    (void)submit_after(te, "c", both, 2);
    (void)submit_after(te, "d", both + 1, 1);
    run_with(te, a, STR("1"));
    run_long(te, b, PARENTS_BYTES);
    (void)submit_job(te, "plain");
    assert_int_equal(try_claim(te, 10), 0);
    assert_int_equal(te->claim.n, 3);
    const struct job *jobs = te->claim.jobs;
    assert_int_equal(jobs[0].n_parents, 2);
    check_parent(&jobs[0], 0, "a", REDRIVE_STATE_COMPLETED, "1");
    assert_true(jobs[0].parents[1].is_omitted);
    assert_int_equal(jobs[1].n_parents, 1);
    assert_int_equal(jobs[1].parents[0].result.len, PARENTS_BYTES);
    assert_null(jobs[2].parents);
}

#define CHILDREN 1200 /* more than a store is asked about at once */

ENGINE_TEST(many_children_are_claimed_at_once, NULL)
{
    struct submit_op op;
    static struct job_spec specs[CHILDREN];
    const struct job_after after = {STR("a"), {AFTER_END, AFTER_DEAD_WAIT}};
    const int64_t a = submit_job(te, "a");
    for (size_t i = 0; i < CHILDREN; i++)
        specs[i] = (struct job_spec){.task = STR("t"), .after = &after, .n_after = 1};
    assert_int_equal(submit_op_init(&op, te->engine, specs, CHILDREN, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    submit_op_release(&op);
    run_with(te, a, STR("7"));
    assert_int_equal(try_claim(te, CHILDREN + 300), 0);
    assert_int_equal(te->claim.n, CHILDREN);
    for (size_t i = 0; i < CHILDREN; i++)
        check_parent(&te->claim.jobs[i], 0, "a", REDRIVE_STATE_COMPLETED, "7");
}

ENGINE_TEST(removed_parent_is_not_listed, NULL)
{
    static char ids[SOME][16];
    const char *names[SOME];
    int64_t seqs[SOME];
    for (size_t i = 0; i < SOME; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "p%03zu", i);
        seqs[i] = submit_job(te, names[i] = ids[i]);
    }
    const int64_t one = submit_after(te, "one", names, 1);
    const int64_t all = submit_after(te, "all", names, SOME);
    for (size_t i = 0; i < SOME; i++)
        assert_int_equal(te_change(te, MOVE_END, seqs[i]), 0);
    assert_int_equal(te_change(te, MOVE_REMOVE, seqs[0]), 0);
    assert_int_equal(te_change(te, MOVE_REMOVE, seqs[50]), 0);
    const struct job job = *claim_one(te, one);
    assert_non_null(job.parents);
    assert_int_equal(job.n_parents, 0);
    settle(te, &job, (struct str){0});
    const struct job gathered = *claim_one(te, all);
    assert_int_equal(gathered.n_parents, PARENTS_MAX);
    check_parent(&gathered, 0, "p001", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&gathered, 48, "p049", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&gathered, 49, "p051", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&gathered, 99, "p101", REDRIVE_STATE_DEAD_LETTER, "");
}

/* A worker settles the parent and asks for the next job in one transaction. */
ENGINE_TEST(end_of_a_parent_and_claim_share_a_transaction, NULL)
{
    struct settle_op settle_op;
    const struct claim_filter filter = {.limit = 1};
    const char *const parents[] = {"a"};
    const int64_t a = submit_job(te, "a"), b = submit_after(te, "b", parents, 1);
    struct settlement item = success(claim_one(te, a), STR("[1, 2]"));
    settle_op_init(&settle_op, &item, 1);
    claim_op_release(&te->claim);
    claim_op_init(&te->claim, &filter, STR("worker-1"), 0);
    te->claim.with_parents = true;
    struct op *ops[] = {&settle_op.op, &te->claim.op};
    engine_apply(te->engine, ops, 2);
    assert_int_equal(settle_op.op.code, 0);
    assert_int_equal(te->claim.op.code, 0);
    const struct job job = te->claim.n > 0 ? te->claim.jobs[0] : *claim_one(te, b);
    assert_int_equal(job.n_parents, 1);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "[1, 2]");
}

/* ---- What is asked of the store -------------------------------------------------------------- */

struct watched {
    struct wrap wrap; /* first */
    struct store *store;
    char url[STORES_URL_MAX];
    unsigned calls;    /* of all slots that can fail */
    unsigned asked;    /* for parents */
    unsigned failures; /* of these, from the next on */
};

static int count_call(struct wrap *wrap, struct redrive_err *err)
{
    (void)err;
    ((struct watched *)(void *)wrap)->calls++;
    return 0;
}

static int watched_parents(struct store *store, const int64_t *seqs, size_t n,
                           struct parent_page *ret, struct redrive_err *err)
{
    struct watched *w = (struct watched *)(void *)store;
    w->calls++;
    w->asked++;
    if (w->failures > 0) {
        w->failures--;
        return err_set(err, REDRIVE_E_IO, "the disk has gone");
    }
    return store_ops(w->store)->parents(w->store, seqs, n, ret, err);
}

static void watched_open(struct watched *w, struct test_engine *te)
{
    const struct store_options options = {.create = true, .caller_time = true};
    *w = (struct watched){0};
    stores_empty_url(stores_name(), w->url);
    assert_int_equal(store_open(w->url, &options, &w->store, NULL), 0);
    wrap_init(&w->wrap, w->store);
    w->wrap.before = count_call;
    w->wrap.ops.parents = watched_parents;
    te_init_on(te, NULL, wrap_store(&w->wrap), TE_START_MS);
}

static void watched_close(struct watched *w, struct test_engine *te)
{
    te_release(te);
    store_close(w->store);
    stores_remove(w->url);
}

/* How many calls a claim of one job takes. */
static unsigned calls_of_claim(struct watched *w, struct test_engine *te, bool with_parents)
{
    const unsigned before = w->calls;
    if (with_parents)
        assert_int_equal(try_claim(te, 1), 0);
    else
        (void)te_claim(te, 1);
    assert_int_equal(te->claim.n, 1);
    return w->calls - before;
}

TEST(job_without_parents_costs_no_call)
{
    struct watched w;
    struct test_engine te;
    const char *const parents[] = {"a"};
    watched_open(&w, &te);
    (void)submit_job(&te, "x");
    (void)submit_job(&te, "y");
    const unsigned plain = calls_of_claim(&w, &te, false);
    assert_int_equal(calls_of_claim(&w, &te, true), plain);
    assert_int_equal(w.asked, 0);
    const int64_t a = submit_job(&te, "a");
    (void)submit_after(&te, "b", parents, 1);
    (void)submit_after(&te, "c", parents, 1);
    (void)submit_after(&te, "d", parents, 1);
    run_with(&te, a, STR("1"));
    assert_int_equal(calls_of_claim(&w, &te, false), plain);
    assert_null(te.claim.jobs[0].parents);
    assert_int_equal(w.asked, 0);
    assert_int_equal(try_claim(&te, 2), 0);
    assert_int_equal(te.claim.n, 2);
    assert_int_equal(w.asked, 1); /* once for both */
    watched_close(&w, &te);
}

/* The claim fails as a whole: the job stays in the queue, and has used no attempt. */
TEST(parents_that_cannot_be_read_leave_the_job_in_the_queue)
{
    struct watched w;
    struct test_engine te;
    const char *const parents[] = {"a"};
    watched_open(&w, &te);
    const int64_t a = submit_job(&te, "a"), b = submit_after(&te, "b", parents, 1);
    run_with(&te, a, STR("1"));
    w.failures = 100;
    assert_int_equal(try_claim(&te, 1), REDRIVE_E_IO);
    assert_int_equal(te.claim.n, 0);
    assert_true(w.failures < 100);
    assert_int_equal(te_state(&te, b), REDRIVE_STATE_QUEUED);
    assert_int_equal(te_job(&te, b).status.attempts, 0);
    w.failures = 0;
    const struct job job = *claim_one(&te, b);
    assert_int_equal(job.status.attempts, 1);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
    watched_close(&w, &te);
}
