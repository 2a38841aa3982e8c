/* Limits that several processes work under: at most N run, whoever starts them, and none waits for
 * ever. */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "engine/state.h"

#define ENGINES 2
#define MOST    16 /* jobs that an engine holds */

struct held {
    int64_t seq;
    uint64_t token;
};

/* Processes that share a store. The first is the leader. */
struct crew {
    struct test_engine te;
    struct engine *engines[ENGINES];
    struct held held[ENGINES][MOST];
    size_t n_held[ENGINES];
    size_t limit;
    struct rng rng;
    unsigned advances; /* of the clock, because there was nothing else to do */
};

static void open_engine_of(struct crew *c, int who)
{
    c->engines[who] = te_second_engine(&c->te);
    engine_set_leader(c->engines[who], who == 0);
}

static void crew_init(struct crew *c, size_t limit, uint64_t seed)
{
    char yaml[256];
    *c = (struct crew){.limit = limit};
    (void)snprintf(yaml, sizeof yaml,
                   "tasks: {slow: {limits: {concurrency: %zu}, retry: {strategy: fixed, "
                   "initial_delay: 1s, jitter: false}, breaker: {failure_threshold: 100000, "
                   "failure_rate: 0}}}\n",
                   limit);
    te_init(&c->te, yaml);
    rng_seed(&c->rng, seed);
    for (int i = 0; i < ENGINES; i++)
        open_engine_of(c, i);
}

static void crew_release(struct crew *c)
{
    for (int i = 0; i < ENGINES; i++)
        engine_close(c->engines[i]);
    te_release(&c->te);
}

static void tick_while_due(struct crew *c, int who)
{
    int64_t next_ms;
    for (int i = 0; engine_next_ms(c->engines[who]) <= c->te.now_ms; i++) {
        assert_int_equal(engine_tick(c->engines[who], &next_ms, NULL), 0);
        assert_true(i < 100);
    }
}

/* What a committer does after a transaction: others are notified, and whoever has asked
 * for a tick gets it. */
static void after_transaction(struct crew *c, int who)
{
    const struct engine *e = c->engines[who];
    const bool is_notification = (e->notification & STORE_NOTIFY_TIME) != 0 || e->puts > 0;
    int64_t next_ms;
    tick_while_due(c, who);
    if (is_notification)
        assert_int_equal(engine_tick(c->engines[0], &next_ms, NULL), 0);
    tick_while_due(c, 0);
    assert_true(te_count(&c->te, REDRIVE_STATE_RUNNING) <= c->limit);
}

static size_t claim(struct crew *c, int who, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    struct claim_op op;
    struct redrive_err err = {0};
    claim_op_init(&op, &filter, STR("w"), 30000);
    if (engine_apply_one(c->engines[who], &op.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    for (size_t i = 0; i < op.n; i++)
        c->held[who][c->n_held[who]++] =
            (struct held){op.jobs[i].status.seq, op.jobs[i].status.token};
    const size_t got = op.n;
    claim_op_release(&op);
    return got;
}

static int settle(struct crew *c, int who, const char *status)
{
    const size_t at = rng_below(&c->rng, c->n_held[who]);
    struct settlement s = {.seq = c->held[who][at].seq,
                           .token = c->held[who][at].token,
                           .outcome = {.ending = ENDING_RAN, .failure = {.status = status}}};
    struct settle_op op;
    struct redrive_err err = {0};
    c->held[who][at] = c->held[who][--c->n_held[who]];
    settle_op_init(&op, &s, 1);
    if (engine_apply_one(c->engines[who], &op.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return s.ret.code;
}

/* It goes without a word; its jobs run on until their leases end. */
static void crash(struct crew *c, int who)
{
    engine_close(c->engines[who]);
    c->n_held[who] = 0;
    open_engine_of(c, who);
}

static size_t left(struct crew *c)
{
    return te_count(&c->te, REDRIVE_STATE_QUEUED) + te_count(&c->te, REDRIVE_STATE_PARKED) +
           te_count(&c->te, REDRIVE_STATE_RUNNING) + te_count(&c->te, REDRIVE_STATE_RETRYING) +
           te_count(&c->te, REDRIVE_STATE_SCHEDULED);
}

/* Nobody holds a job, and nobody gets one: only time can help, and somebody must ask for it. */
static void advance(struct crew *c)
{
    const int64_t at_ms = engine_next_ms(c->engines[0]);
    if (at_ms == INT64_MAX)
        fail_msg("%zu jobs are left, and nobody will look after them", left(c));
    c->te.now_ms = at_ms > c->te.now_ms ? at_ms : c->te.now_ms + 1;
    c->advances++;
    tick_while_due(c, 0);
    assert_true(te_count(&c->te, REDRIVE_STATE_RUNNING) <= c->limit);
}

static void step(struct crew *c)
{
    const int who = (int)rng_below(&c->rng, ENGINES);
    const uint64_t dice = rng_below(&c->rng, 20);
    if (dice == 0) {
        crash(c, who);
    } else if (c->n_held[who] > 0 && dice < 12) {
        (void)settle(c, who, dice < 3 ? "TRANSIENT_FAIL" : NULL);
        if (dice == 4) /* before it could let a parked job go */
            crash(c, who);
        else
            after_transaction(c, who);
    } else if (c->n_held[who] + 3 < MOST) {
        const size_t got = claim(c, who, 1 + rng_below(&c->rng, 3));
        after_transaction(c, who);
        if (got == 0 && c->n_held[0] == 0 && c->n_held[1] == 0)
            advance(c);
    }
    c->te.now_ms += (int64_t)rng_below(&c->rng, 20);
}

static void run_to_the_end(size_t limit, bool has_backlog, uint64_t seed)
{
    struct crew c;
    int n = 0;
    crew_init(&c, limit, seed);
    for (int i = 0; i < 40 && has_backlog; i++, n++)
        te_submit(&c.te, "slow", NULL);
    for (int i = 0; i < 4000 && (n < 40 || left(&c) > 0); i++) {
        for (; n < 40 && left(&c) < limit; n++)
            te_submit(&c.te, "slow", NULL);
        step(&c);
    }
    assert_int_equal(left(&c), 0);
    /* Nothing is left in use, and whoever comes next has all the room. */
    struct shared_page page = {0};
    struct store *store = engine_store(c.te.engine);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_LIMIT, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.rows[0].sums.used, 0);
    shared_page_release(&page);
    crew_release(&c);
}

TEST(one_slot_is_never_two)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_to_the_end(1, true, seed);
}

TEST(three_slots_are_never_four)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_to_the_end(3, true, seed);
}

TEST(a_limit_that_is_seldom_full_holds_as_well)
{
    run_to_the_end(1, false, 4);
    run_to_the_end(3, false, 5);
}

/* ---- Processes that do not meet -------------------------------------------------------------- */

#define CREW_TEST(test, ...) \
    TEST_OF(test, struct crew, c, crew_init(c, __VA_ARGS__), crew_release(c))

/* Two that start and settle jobs under one limit in turn. */
CREW_TEST(starts_and_settles_under_one_limit_do_not_conflict, 50, 9)
{
    for (int i = 0; i < 240; i++)
        te_submit(&c->te, "slow", NULL);
    for (int who = 0; who < ENGINES; who++) /* the rows are made */
        assert_int_equal(claim(c, who, 2), 2);
    const uint64_t before = c->engines[0]->conflicts + c->engines[1]->conflicts;
    const uint32_t loads = c->engines[0]->gates.loads + c->engines[1]->gates.loads;
    for (int i = 0; i < 100; i++) {
        const int who = i % ENGINES;
        assert_int_equal(claim(c, who, 1), 1);
        assert_int_equal(settle(c, who, NULL), 0);
    }
    const uint64_t conflicts = c->engines[0]->conflicts + c->engines[1]->conflicts - before;
    print_message("# 200 transactions of two processes: %u were made again\n", (unsigned)conflicts);
    assert_true(conflicts <= 2); /* the first look after what the other has made */
    assert_true(c->engines[0]->gates.loads + c->engines[1]->gates.loads <= loads + 4);
}

/* Each sees what the other has done, though nobody tells it. */
CREW_TEST(a_full_limit_is_seen_by_one_whose_picture_is_old, 2, 3)
{
    for (int i = 0; i < 6; i++)
        te_submit(&c->te, "slow", NULL);
    assert_int_equal(claim(c, 0, 1), 1);
    assert_int_equal(claim(c, 1, 1), 1);
    const uint64_t before = c->engines[0]->conflicts;
    assert_int_equal(claim(c, 0, 1), 0);
    assert_true(c->engines[0]->conflicts <= before + 1);
    assert_int_equal(settle(c, 1, NULL), 0);
    after_transaction(c, 1); /* sends a candidate ahead */
    assert_int_equal(te_count(&c->te, REDRIVE_STATE_RUNNING), 1);
    assert_int_equal(claim(c, 0, 1), 1); /* which the other may start */
}

/* As a worker does that hands its jobs to a server, and another server their results. */
CREW_TEST(a_job_that_another_process_has_started_gives_its_slot_back, 1, 3)
{
    te_submit(&c->te, "slow", NULL);
    te_submit(&c->te, "slow", NULL);
    for (int i = 0; i < ENGINES; i++) /* both have seen the store without a limit */
        tick_while_due(c, i);
    assert_int_equal(claim(c, 0, 1), 1);
    c->held[1][c->n_held[1]++] = c->held[0][--c->n_held[0]];
    assert_int_equal(settle(c, 1, NULL), 0);
    assert_int_equal(claim(c, 0, 1), 1);
}

/* Nobody has told the one that frees the slot that a job waits for it. */
CREW_TEST(a_job_that_was_parked_a_moment_ago_is_let_go_by_who_frees_the_slot, 1, 3)
{
    te_submit(&c->te, "slow", NULL);
    const int64_t waits = te_submit(&c->te, "slow", NULL);
    assert_int_equal(claim(c, 1, 1), 1);
    assert_int_equal(claim(c, 0, 1), 0);
    assert_int_equal(te_state(&c->te, waits), REDRIVE_STATE_PARKED);
    assert_int_equal(settle(c, 1, NULL), 0);
    tick_while_due(c, 1);
    assert_int_equal(te_state(&c->te, waits), REDRIVE_STATE_QUEUED);
    assert_int_equal(claim(c, 1, 1), 1);
}

static const struct store_ops *real_ops;

/* As of a store that does not tell how the limits stand. */
static int ready_untold(struct store *store, const struct claim_filter *filter,
                        struct job_page *ret, struct redrive_err *err)
{
    int rc = real_ops->ready(store, filter, ret, err);
    ret->n_limits = 0;
    return rc;
}

/* The refusal of the store is what says at most N, not what a process believes. */
CREW_TEST(a_start_that_the_limit_has_no_room_for_is_refused_by_the_store, 1, 3)
{
    static struct store_ops untold;
    for (int i = 0; i < 3; i++)
        te_submit(&c->te, "slow", NULL);
    assert_int_equal(claim(c, 0, 1), 1);
    assert_int_equal(settle(c, 0, NULL), 0); /* from now on it believes that nothing runs */
    assert_int_equal(claim(c, 1, 1), 1);
    real_ops = c->engines[0]->ops;
    untold = *real_ops;
    untold.ready = ready_untold;
    c->engines[0]->ops = &untold;
    const uint64_t before = c->engines[0]->conflicts;
    assert_int_equal(claim(c, 0, 1), 0);
    assert_true(c->engines[0]->conflicts > before);
    assert_int_equal(te_count(&c->te, REDRIVE_STATE_RUNNING), 1);
}
