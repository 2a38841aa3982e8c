/* The rate of failures over two engines on one store: nothing that was counted is lost, whatever
 * other rows change meanwhile, and a breaker opens when, and only when, its service fails. */
#include "engine/engine_for_test.h"

#include "base/err.h"
#include "base/rng.h"
#include "engine/op.h"

/* All calls fall into one window. */
#define CALLS   1200
#define STEP_MS 5
#define TOGETHER \
    40 /* jobs that are submitted and claimed in one transaction; each is settled in its own */

static const char YAML[] =
    "tasks:\n"
    "  flaky: {retry: {max_retries: 0},\n"
    "          breaker: {failure_threshold: 0, failure_rate: 0.5, min_calls: 20,\n"
    "                    window: 10s, recovery_timeout: 1h}}\n"
    "  counted: {retry: {max_retries: 0},\n"
    "            breaker: {failure_threshold: 0, failure_rate: 0.5, min_calls: 20,\n"
    "                      window_calls: 1000, recovery_timeout: 1h}}\n"
    "  sluggish: {breaker: {slow_call: 2s, slow_rate: 0.5, window_calls: 4}}\n"
    "  limited: {limits: {rate: 1000/s}, breaker: {failure_threshold: 0, failure_rate: 0}}\n";

struct case_ {
    const char *task;
    unsigned percent;      /* of the calls fail */
    bool changes;          /* the other engine changes shared rows all the time */
    bool both;             /* and takes half of the calls */
    struct engine *others; /* the second engine */
    struct rng rng;
    unsigned calls;
    unsigned failures;
};

static size_t claim_task(struct test_engine *te, const char *task, size_t n)
{
    const struct str tasks[] = {str_of(task)};
    const struct claim_filter filter = {.tasks = tasks, .n_tasks = 1, .limit = n};
    struct redrive_err err = {0};
    claim_op_release(&te->claim);
    claim_op_init(&te->claim, &filter, STR("worker-1"), 0);
    if (engine_apply_one(te->engine, &te->claim.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return te->claim.n;
}

static void submit_many(struct test_engine *te, const char *task, size_t n)
{
    struct job_spec specs[TOGETHER];
    struct submit_op op;
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct job_spec){.task = str_of(task)};
    assert_int_equal(submit_op_init(&op, te->engine, specs, n, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    submit_op_release(&op);
}

/* A limit that fills and empties is a row that changes. */
static void change_shared_rows(struct test_engine *te, struct engine *engine)
{
    struct test_engine other = *te;
    other.engine = engine;
    other.claim = (struct claim_op){0};
    submit_many(&other, "limited", 1);
    assert_int_equal(claim_task(&other, "limited", 1), 1);
    assert_int_equal(te_succeed(&other, &other.claim.jobs[0]), 0);
    claim_op_release(&other.claim);
}

static struct redrive_breaker_status look_at(struct engine *engine, const char *key)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, str_of(key), BREAKER_LOOK);
    assert_int_equal(engine_apply_one(engine, &op.op, NULL), 0);
    return op.status;
}

/* False: the breaker has opened. */
static bool run_claimed(struct test_engine *te, struct case_ *c)
{
    for (size_t i = 0; i < te->claim.n; i++) {
        const struct job *job = &te->claim.jobs[i];
        bool fails = rng_below(&c->rng, 100) < c->percent;
        te->now_ms += STEP_MS;
        assert_int_equal(fails ? te_fail(te, job, "network") : te_succeed(te, job), 0);
        c->calls++;
        c->failures += fails;
        if (c->changes && i % 20 == 0)
            change_shared_rows(te, c->others);
        if (look_at(te->engine, c->task).state != REDRIVE_BREAKER_CLOSED)
            return false;
    }
    return true;
}

static enum redrive_breaker_state run_case(struct case_ *c, unsigned n_calls)
{
    struct test_engine te;
    te_init(&te, YAML);
    struct engine *first = te.engine;
    bool goes_on = true;
    c->others = te_second_engine(&te);
    rng_seed(&c->rng, 11);
    for (int round = 0; goes_on && c->calls < n_calls; round++) {
        te.engine = c->both && round % 2 ? c->others : first;
        submit_many(&te, c->task, TOGETHER);
        assert_int_equal(claim_task(&te, c->task, TOGETHER), TOGETHER);
        goes_on = run_claimed(&te, c);
    }
    engine_flush(first);
    engine_flush(c->others);
    struct redrive_breaker_status status = look_at(first, c->task);
    const double rate = (double)c->failures / c->calls;
    if (goes_on && status.rate != rate)
        fail_msg("the rate is %g, and should be %g", status.rate, rate);
    te.engine = first;
    engine_close(c->others);
    te_release(&te);
    return status.state;
}

static void check_task(const char *task, unsigned n_calls, unsigned percent,
                       enum redrive_breaker_state expected)
{
    for (int i = 0; i < 4; i++) {
        struct case_ c = {.task = task, .percent = percent, .changes = i & 1, .both = i & 2};
        enum redrive_breaker_state found = run_case(&c, n_calls);
        if (found != expected)
            fail_msg("%u of %u calls failed, %s foreign changes, %s: it is %s", c.failures, c.calls,
                     c.changes ? "with" : "without", c.both ? "both engines" : "one engine",
                     redrive_breaker_state_name(found));
    }
}

static void check_percent(unsigned percent, enum redrive_breaker_state expected)
{
    check_task("flaky", CALLS, percent, expected);
}

TEST(one_percent_of_failures_does_not_open_it)
{
    check_percent(1, REDRIVE_BREAKER_CLOSED);
}

TEST(five_percent_of_failures_do_not_open_it)
{
    check_percent(5, REDRIVE_BREAKER_CLOSED);
}

TEST(sixty_percent_of_failures_open_it)
{
    check_percent(60, REDRIVE_BREAKER_OPEN);
}

TEST(the_last_calls_of_both_engines_are_counted)
{
    check_task("counted", 400, 5, REDRIVE_BREAKER_CLOSED);
    check_task("counted", 400, 60, REDRIVE_BREAKER_OPEN);
}

/* As long as a job runs from its start to its settlement, by the clock of the store. */
ENGINE_TEST(slow_jobs_open_it, YAML)
{
    static const int64_t TOOK_MS[] = {2500, 2500, 2000, 2001};
    struct engine *other = te_second_engine(te);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(i == 0 ? 0 : look_at(other, "sluggish").state, REDRIVE_BREAKER_CLOSED);
        te_submit(te, "sluggish", NULL);
        const struct job *job = te_claim_one(te);
        te->now_ms += TOOK_MS[i];
        assert_int_equal(te_succeed(te, job), 0);
    }
    struct redrive_breaker_status status = look_at(other, "sluggish");
    assert_int_equal(status.state, REDRIVE_BREAKER_OPEN);
    assert_true(status.slow_rate == 0.75 && status.rate == 0);
    engine_close(other);
}

static int fail_transaction(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)e;
    (void)op;
    return err_set(err, REDRIVE_E_INVALID, "no");
}

ENGINE_TEST(a_transaction_that_fails_takes_no_counts_with_it, YAML)
{
    submit_many(te, "flaky", 30);
    assert_int_equal(claim_task(te, "flaky", 30), 30);
    for (size_t i = 0; i < 30; i++) {
        struct op bad = {.apply = fail_transaction, .weight = 1};
        const bool fails = i >= 10 && i < 20;
        const struct job *job = &te->claim.jobs[i];
        assert_int_equal(engine_apply_one(te->engine, &bad, NULL), REDRIVE_E_INVALID);
        assert_int_equal(fails ? te_fail(te, job, "network") : te_succeed(te, job), 0);
        te->now_ms++;
    }
    struct redrive_breaker_status status = look_at(te->engine, "flaky");
    assert_int_equal(status.state, REDRIVE_BREAKER_OPEN); /* 10 of 20, at the twentieth call */
    assert_true(status.rate == 0.5);
}

ENGINE_TEST(successes_are_written_within_a_second, YAML)
{
    struct engine *other = te_second_engine(te);
    submit_many(te, "flaky", 40);
    assert_int_equal(claim_task(te, "flaky", 40), 40);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(te_succeed(te, &te->claim.jobs[i]), 0);
    assert_true(look_at(other, "flaky").rate < 0); /* one of them has made the row */
    assert_in_range(engine_flush_ms(te->engine), te->now_ms, te->now_ms + 1000);
    te->now_ms = engine_flush_ms(te->engine);
    engine_flush(te->engine);
    assert_int_equal(engine_flush_ms(te->engine), INT64_MAX);
    assert_true(look_at(other, "flaky").rate == 0);
    engine_close(other);
}
/* All claimed jobs in one transaction; every tenth fails, the last one does not. */
static void settle_together(struct test_engine *te)
{
    struct settlement items[TOGETHER];
    struct settle_op op;
    for (size_t i = 0; i < te->claim.n; i++) {
        const struct job_status *job = &te->claim.jobs[i].status;
        items[i] = (struct settlement){
            .seq = job->seq, .token = job->token, .outcome = {.ending = ENDING_RAN}};
        if (i % 10 == 5)
            items[i].outcome.failure = (struct redrive_failure){.status = "network"};
    }
    settle_op_init(&op, items, te->claim.n);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    for (size_t i = 0; i < te->claim.n; i++)
        assert_int_equal(items[i].ret.code, 0);
}

static int64_t version_of_row(struct test_engine *te)
{
    struct store *store = engine_store(te->engine);
    struct shared_page page = {0};
    const struct str all = {0};
    assert_int_equal(store_ops(store)->shared_list(store, SHARED_BREAKER, all, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    const int64_t version = page.rows[0].version;
    shared_page_release(&page);
    return version;
}

/* The shared version as a transaction is told it. */
static int64_t shared_version(struct test_engine *te)
{
    struct store *store = engine_store(te->engine);
    int64_t now_ms, version;
    store_ask(store);
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    store_ops(store)->rollback(store);
    return version;
}

/* Nobody else has to read anything again because of them. */
ENGINE_TEST(counts_do_not_raise_the_shared_version, YAML)
{
    submit_many(te, "flaky", TOGETHER);
    assert_int_equal(claim_task(te, "flaky", TOGETHER), TOGETHER);
    settle_together(te);
    const int64_t version = shared_version(te), row = version_of_row(te);
    submit_many(te, "flaky", TOGETHER);
    assert_int_equal(claim_task(te, "flaky", TOGETHER), TOGETHER);
    settle_together(te);
    te->now_ms = engine_flush_ms(te->engine);
    engine_flush(te->engine);
    assert_true(version_of_row(te) > row);
    assert_int_equal(shared_version(te), version);
}

ENGINE_TEST(failures_far_from_opening_it_are_written_within_a_tenth_of_a_second, YAML)
{
    struct engine *other = te_second_engine(te);
    int64_t version = 0;
    for (int round = 0; round < 4; round++) {
        submit_many(te, "flaky", TOGETHER);
        assert_int_equal(claim_task(te, "flaky", TOGETHER), TOGETHER);
        settle_together(te);
        if (round == 0)
            version = version_of_row(te);
        assert_int_equal(version_of_row(te), version);
    }
    assert_in_range(engine_flush_ms(te->engine), te->now_ms, te->now_ms + 100);
    te->now_ms = engine_flush_ms(te->engine);
    engine_flush(te->engine);
    assert_true(version_of_row(te) > version);
    assert_true(look_at(other, "flaky").rate == 0.1);
    engine_close(other);
}
