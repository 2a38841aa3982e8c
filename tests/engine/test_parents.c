/* The parents of a job that a claim gives, and their results. */
#include "engine/bed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/wrap.h"

#define SOME ((size_t)103) /* more parents than a handler is given */

/* Submits a job that waits for others until they have ended in any way. */
static int64_t submit_after(struct bed *bed, const char *id, const char *const *parents, size_t n)
{
    struct job_after after[SOME];
    assert_true(n <= SOME);
    for (size_t i = 0; i < n; i++)
        after[i] = (struct job_after){str_of(parents[i]), {AFTER_END, AFTER_DEAD_WAIT}};
    const struct job_spec spec = {
        .task = STR("t"), .id = str_of(id), .after = n > 0 ? after : NULL, .n_after = n};
    return bed_submit_spec(bed, &spec);
}

static int64_t submit_job(struct bed *bed, const char *id)
{
    return submit_after(bed, id, NULL, 0);
}

/* Claims up to n jobs, with their parents; the code of the answer. */
static int try_claim(struct bed *bed, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    claim_op_release(&bed->claim);
    claim_op_init(&bed->claim, &filter, STR("worker-1"), 0);
    bed->claim.with_parents = true;
    return engine_apply_one(bed->engine, &bed->claim.op, NULL);
}

static const struct job *claim_one(struct bed *bed, int64_t seq)
{
    assert_int_equal(try_claim(bed, 1), 0);
    assert_int_equal(bed->claim.n, 1);
    assert_int_equal(bed->claim.jobs[0].status.seq, seq);
    return &bed->claim.jobs[0];
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

static void settle(struct bed *bed, const struct job *job, struct str result)
{
    struct settlement item = success(job, result);
    struct settle_op op;
    settle_op_init(&op, &item, 1);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
}

/* Runs a job that is ready, and has no parents. */
static void run_with(struct bed *bed, int64_t seq, struct str result)
{
    const struct job job = *claim_one(bed, seq);
    assert_null(job.parents);
    assert_int_equal(job.n_parents, 0);
    settle(bed, &job, result);
}

static void run_long(struct bed *bed, int64_t seq, size_t len)
{
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'x', len);
    run_with(bed, seq, (struct str){text, len});
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

BED_TEST(child_is_given_the_results_in_the_order_of_submission, NULL)
{
    const int64_t a = submit_job(bed, "a"), b = submit_job(bed, "b"), c = submit_job(bed, "c");
    const char *const parents[] = {"c", "a", "b"}, *const grandparents[] = {"d"};
    const int64_t d = submit_after(bed, "d", parents, 3);
    const int64_t e = submit_after(bed, "e", grandparents, 1);
    run_with(bed, a, STR("{\"n\":1}"));
    const struct job job_b = *claim_one(bed, b);
    assert_int_equal(bed_fail(bed, &job_b, "PERMANENT_FAIL"), 0);
    run_with(bed, c, STR("any \x01\xff bytes"));
    struct job job = *claim_one(bed, d);
    assert_int_equal(job.n_parents, 3);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "{\"n\":1}");
    check_parent(&job, 1, "b", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&job, 2, "c", REDRIVE_STATE_COMPLETED, "any \x01\xff bytes");
    settle(bed, &job, STR("4"));
    job = *claim_one(bed, e);
    assert_int_equal(job.n_parents, 1);
    check_parent(&job, 0, "d", REDRIVE_STATE_COMPLETED, "4");
}

BED_TEST(every_attempt_is_given_the_results, NULL)
{
    const int64_t a = submit_job(bed, "a");
    const char *const parents[] = {"a"};
    const int64_t b = submit_after(bed, "b", parents, 1);
    run_with(bed, a, STR("1"));
    struct job job = *claim_one(bed, b);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
    assert_int_equal(bed_fail(bed, &job, "TRANSIENT_FAIL"), 0);
    bed_pass(bed, INT64_C(3600) * 1000);
    job = *claim_one(bed, b);
    assert_int_equal(job.status.attempts, 2);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
    assert_int_equal(bed_fail(bed, &job, "PERMANENT_FAIL"), 0);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, b), 0);
    job = *claim_one(bed, b);
    assert_int_equal(job.n_parents, 1);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
}

/* 256 KiB for a job: what does not fit is left out, and what comes after it is given. */
BED_TEST(results_that_do_not_fit_are_left_out, NULL)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    const size_t lens[] = {PARENTS_BYTES + 1, PARENTS_BYTES - 100, 101, 100, 1};
    const bool omitted[] = {true, false, true, false, true};
    int64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = submit_job(bed, ids[i]);
    const int64_t child = submit_after(bed, "child", ids, 5);
    for (int i = 0; i < 5; i++)
        run_long(bed, seqs[i], lens[i]);
    const struct job job = *claim_one(bed, child);
    assert_int_equal(job.n_parents, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(job.parents[i].is_omitted, omitted[i]);
        assert_int_equal(job.parents[i].result.len, omitted[i] ? 0 : lens[i]);
    }
}

/* Several children of one claim each have their own parents. */
BED_TEST(children_are_claimed_together, NULL)
{
    const char *const both[] = {"a", "b"};
    const int64_t a = submit_job(bed, "a"), b = submit_job(bed, "b");
    (void)submit_after(bed, "c", both, 2);
    (void)submit_after(bed, "d", both + 1, 1);
    run_with(bed, a, STR("1"));
    run_long(bed, b, PARENTS_BYTES);
    (void)submit_job(bed, "plain");
    assert_int_equal(try_claim(bed, 10), 0);
    assert_int_equal(bed->claim.n, 3);
    const struct job *jobs = bed->claim.jobs;
    assert_int_equal(jobs[0].n_parents, 2);
    check_parent(&jobs[0], 0, "a", REDRIVE_STATE_COMPLETED, "1");
    assert_true(jobs[0].parents[1].is_omitted);
    assert_int_equal(jobs[1].n_parents, 1);
    assert_int_equal(jobs[1].parents[0].result.len, PARENTS_BYTES);
    assert_null(jobs[2].parents);
}

#define CHILDREN 1200 /* more than a store is asked about at once */

BED_TEST(many_children_are_claimed_at_once, NULL)
{
    struct submit_op op;
    static struct job_spec specs[CHILDREN];
    const struct job_after after = {STR("a"), {AFTER_END, AFTER_DEAD_WAIT}};
    const int64_t a = submit_job(bed, "a");
    for (size_t i = 0; i < CHILDREN; i++)
        specs[i] = (struct job_spec){.task = STR("t"), .after = &after, .n_after = 1};
    assert_int_equal(submit_op_init(&op, bed->engine, specs, CHILDREN, NULL), 0);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    submit_op_release(&op);
    run_with(bed, a, STR("7"));
    assert_int_equal(try_claim(bed, CHILDREN + 300), 0);
    assert_int_equal(bed->claim.n, CHILDREN);
    for (size_t i = 0; i < CHILDREN; i++)
        check_parent(&bed->claim.jobs[i], 0, "a", REDRIVE_STATE_COMPLETED, "7");
}

BED_TEST(removed_parent_is_not_listed, NULL)
{
    static char ids[SOME][16];
    const char *names[SOME];
    int64_t seqs[SOME];
    for (size_t i = 0; i < SOME; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "p%03zu", i);
        seqs[i] = submit_job(bed, names[i] = ids[i]);
    }
    const int64_t one = submit_after(bed, "one", names, 1);
    const int64_t all = submit_after(bed, "all", names, SOME);
    for (size_t i = 0; i < SOME; i++)
        assert_int_equal(bed_change(bed, MOVE_END, seqs[i]), 0);
    assert_int_equal(bed_change(bed, MOVE_REMOVE, seqs[0]), 0);
    assert_int_equal(bed_change(bed, MOVE_REMOVE, seqs[50]), 0);
    const struct job job = *claim_one(bed, one);
    assert_non_null(job.parents);
    assert_int_equal(job.n_parents, 0);
    settle(bed, &job, (struct str){0});
    const struct job gathered = *claim_one(bed, all);
    assert_int_equal(gathered.n_parents, PARENTS_MAX);
    check_parent(&gathered, 0, "p001", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&gathered, 48, "p049", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&gathered, 49, "p051", REDRIVE_STATE_DEAD_LETTER, "");
    check_parent(&gathered, 99, "p101", REDRIVE_STATE_DEAD_LETTER, "");
}

/* A worker settles the parent and asks for the next job in one transaction. */
BED_TEST(end_of_a_parent_and_claim_share_a_transaction, NULL)
{
    struct settle_op settle_op;
    const struct claim_filter filter = {.limit = 1};
    const char *const parents[] = {"a"};
    const int64_t a = submit_job(bed, "a"), b = submit_after(bed, "b", parents, 1);
    struct settlement item = success(claim_one(bed, a), STR("[1, 2]"));
    settle_op_init(&settle_op, &item, 1);
    claim_op_release(&bed->claim);
    claim_op_init(&bed->claim, &filter, STR("worker-1"), 0);
    bed->claim.with_parents = true;
    struct op *ops[] = {&settle_op.op, &bed->claim.op};
    engine_apply(bed->engine, ops, 2);
    assert_int_equal(settle_op.op.code, 0);
    assert_int_equal(bed->claim.op.code, 0);
    const struct job job = bed->claim.n > 0 ? bed->claim.jobs[0] : *claim_one(bed, b);
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

static void watched_open(struct watched *w, struct bed *bed)
{
    const struct store_options options = {.create = true, .caller_time = true};
    *w = (struct watched){0};
    stores_empty_url(stores_name(), w->url);
    assert_int_equal(store_open(w->url, &options, &w->store, NULL), 0);
    wrap_init(&w->wrap, w->store);
    w->wrap.before = count_call;
    w->wrap.ops.parents = watched_parents;
    bed_init_on(bed, NULL, wrap_store(&w->wrap), BED_START_MS);
}

static void watched_close(struct watched *w, struct bed *bed)
{
    bed_release(bed);
    store_close(w->store);
    stores_remove(w->url);
}

/* How many calls a claim of one job takes. */
static unsigned calls_of_claim(struct watched *w, struct bed *bed, bool with_parents)
{
    const unsigned before = w->calls;
    if (with_parents)
        assert_int_equal(try_claim(bed, 1), 0);
    else
        (void)bed_claim(bed, 1);
    assert_int_equal(bed->claim.n, 1);
    return w->calls - before;
}

TEST(job_without_parents_costs_no_call)
{
    struct watched w;
    struct bed bed;
    const char *const parents[] = {"a"};
    watched_open(&w, &bed);
    (void)submit_job(&bed, "x");
    (void)submit_job(&bed, "y");
    const unsigned plain = calls_of_claim(&w, &bed, false);
    assert_int_equal(calls_of_claim(&w, &bed, true), plain);
    assert_int_equal(w.asked, 0);
    const int64_t a = submit_job(&bed, "a");
    (void)submit_after(&bed, "b", parents, 1);
    (void)submit_after(&bed, "c", parents, 1);
    (void)submit_after(&bed, "d", parents, 1);
    run_with(&bed, a, STR("1"));
    assert_int_equal(calls_of_claim(&w, &bed, false), plain);
    assert_null(bed.claim.jobs[0].parents);
    assert_int_equal(w.asked, 0);
    assert_int_equal(try_claim(&bed, 2), 0);
    assert_int_equal(bed.claim.n, 2);
    assert_int_equal(w.asked, 1); /* once for both */
    watched_close(&w, &bed);
}

/* The claim fails as a whole: the job stays in the queue, and has used no attempt. */
TEST(parents_that_cannot_be_read_leave_the_job_in_the_queue)
{
    struct watched w;
    struct bed bed;
    const char *const parents[] = {"a"};
    watched_open(&w, &bed);
    const int64_t a = submit_job(&bed, "a"), b = submit_after(&bed, "b", parents, 1);
    run_with(&bed, a, STR("1"));
    w.failures = 100;
    assert_int_equal(try_claim(&bed, 1), REDRIVE_E_IO);
    assert_int_equal(bed.claim.n, 0);
    assert_true(w.failures < 100);
    assert_int_equal(bed_state(&bed, b), REDRIVE_STATE_QUEUED);
    assert_int_equal(bed_job(&bed, b).status.attempts, 0);
    w.failures = 0;
    const struct job job = *claim_one(&bed, b);
    assert_int_equal(job.status.attempts, 1);
    check_parent(&job, 0, "a", REDRIVE_STATE_COMPLETED, "1");
    watched_close(&w, &bed);
}
