/* actions.c - what clients, workers, operators and time do in a step. */
#include <stdio.h>

#include "engine/engine.h"
#include "requests.h"
#include "world.h"

#define GATHERED_MAX 7 /* requests of one transaction */

/* How far the clock of a machine is wrong, at the most, and by how much it is set when it is set a
 * little. */
#define CLOCK_OFF_MS  INT64_C(3600000)
#define CLOCK_STEP_MS INT64_C(2000)

static uint64_t below(struct world *w, uint64_t limit)
{
    return rng_below(&w->rng, limit);
}

static bool chance(struct world *w, unsigned percent)
{
    return below(w, 100) < percent;
}

static void ask_for(struct world *w, struct process *p, struct request *r)
{
    (void)engine_apply_one(p->engine, request_op(r), NULL);
    request_end(r, w, p, true);
}

static void ask(struct world *w, struct process *p, enum request_kind kind)
{
    struct request r;
    if (request_init(&r, kind, w, p, NULL))
        ask_for(w, p, &r);
}

/* ---- Many requests, one transaction ---------------------------------------------------------- */

/* Requests that reach a process at about the same time, in the order in which they come. As a
 * committer does, it makes a transaction of those that have come, lets in others that come before
 * the transaction is open, and makes the next one of what is left. */
struct gathered {
    struct world *world;
    struct process *process;
    enum request_kind kinds[GATHERED_MAX];
    size_t n_kinds, n_come;                /* how many come, and have come */
    size_t n_in;                           /* that are in the transaction: each must be answered */
    struct request requests[GATHERED_MAX]; /* of the transaction; in its operations' order */
    struct op *ops[GATHERED_MAX];
};

static void let_in(struct gathered *g, struct op_batch *batch, size_t n)
{
    for (; n > 0 && g->n_come < g->n_kinds; n--) {
        struct request *r = &g->requests[g->n_in];
        const struct request *earlier = g->n_in > 0 ? &g->requests[below(g->world, g->n_in)] : NULL;
        if (request_init(r, g->kinds[g->n_come++], g->world, g->process, earlier))
            g->ops[g->n_in++] = batch->ops[batch->n++] = request_op(r);
    }
}

/* Called each time that a transaction begins: also when it is made again. */
static void gather(struct op_batch *batch)
{
    struct gathered *g = batch->ctx;
    const size_t before = batch->n;
    let_in(g, batch, below(g->world, GATHERED_MAX + 1));
    world_say(g->world, "  %zu requests in the transaction, %zu came while it began", batch->n,
              batch->n - before);
}

/* In the order in which the engine has made them: those with a kind by their rank, as far as none
 * without one stands between them. One by one after a call has failed, as they came. */
static void end_gathered(struct gathered *g, bool one_by_one)
{
    int ranks[GATHERED_MAX];
    for (size_t i = 0; i < g->n_in; i++) /* an end releases its operation */
        ranks[i] = g->ops[i]->kind && !one_by_one ? g->ops[i]->kind->rank : -1;
    for (size_t from = 0, end; from < g->n_in; from = end) {
        for (end = from + 1; end < g->n_in && ranks[from] >= 0 && ranks[end] >= 0; end++)
            ;
        for (int rank = -1; rank < OP_RANKS; rank++)
            for (size_t i = from; i < end; i++)
                if (ranks[i] == rank)
                    request_end(&g->requests[i], g->world, g->process, g->n_in == 1);
    }
    g->world->gathered += g->n_in > 1 ? g->n_in : 0;
}

static void draw_kinds(struct world *w, struct gathered *g)
{
    static const enum request_kind USUAL[] = {REQUEST_SUBMIT, REQUEST_CLAIM, REQUEST_SETTLE};
    g->n_kinds = 2 + below(w, GATHERED_MAX - 1);
    for (size_t i = 0; i < g->n_kinds; i++)
        g->kinds[i] =
            chance(w, 75) ? USUAL[below(w, 3)] : (enum request_kind)below(w, REQUEST_KINDS);
}

static void ask_together(struct world *w, struct process *p)
{
    struct gathered g = {.world = w, .process = p};
    const bool before = w->may_remove;
    draw_kinds(w, &g);
    for (size_t i = 0; i < g.n_kinds; i++)
        w->may_remove |= g.kinds[i] == REQUEST_CHANGE;
    while (g.n_come < g.n_kinds && !p->is_dead) {
        struct op *ops[GATHERED_MAX];
        struct op_batch batch = {.ops = ops, .gather = gather, .ctx = &g};
        const unsigned long failed = w->met[FAULT_CALL_FAILS];
        g.n_in = 0;
        let_in(&g, &batch, 1 + below(w, GATHERED_MAX));
        if (g.n_in == 0)
            continue;
        engine_apply_batch(p->engine, &batch);
        end_gathered(&g, w->met[FAULT_CALL_FAILS] != failed);
    }
    w->may_remove = before;
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void tick(struct world *w, struct process *p)
{
    int64_t next_ms = 0;
    const int rc = engine_tick(p->engine, &next_ms, NULL);
    world_say(w, "  tick: %s", redrive_err_name(rc));
    judge_ticked(&w->judge, rc, p->transaction_ms);
}

/* By a person, or by a service that keeps the time: by some milliseconds, or far. */
static void set_clock(struct world *w)
{
    const int64_t most_ms = chance(w, 50) ? CLOCK_STEP_MS : CLOCK_OFF_MS;
    const int64_t from_ms = most_ms == CLOCK_STEP_MS ? w->ahead_ms : 0;
    const int64_t ahead_ms = from_ms - most_ms + (int64_t)below(w, 2 * (uint64_t)most_ms + 1);
    if (-CLOCK_OFF_MS <= ahead_ms && ahead_ms <= CLOCK_OFF_MS)
        world_set_clock(w, ahead_ms);
}

static void pass(struct world *w)
{
    static const int64_t MS[] = {1, 10, 100, 1000, 1000, 5000, 5000, 10000, 31000, 60000};
    const int64_t ms =
        chance(w, 1) ? INT64_C(26) * 3600 * 1000 : MS[below(w, sizeof MS / sizeof MS[0])];
    /* While a breaker is open more often: that is seldom, and short. */
    const bool is_open = w->judge.breaker.open_until_ms > w->now_ms;
    if (chance(w, is_open ? 40 : 6)) {
        set_clock(w);
        return;
    }
    world_pass(w, ms);
    world_say(w, "  %lld ms pass", (long long)ms);
}

/* What a step asks for when it asks for one thing, in a hundred. */
static const struct {
    enum request_kind kind;
    unsigned percent;
} SINGLE[] = {
    {REQUEST_SUBMIT, 12},      {REQUEST_CLAIM, 16}, {REQUEST_SETTLE, 14}, {REQUEST_EXTEND, 4},
    {REQUEST_SETTLE_AGAIN, 4}, {REQUEST_CHANGE, 8}, {REQUEST_BREAKER, 2}, {REQUEST_PAUSE, 2},
};

void world_act(struct world *w, struct process *p)
{
    uint64_t luck = below(w, 100);
    for (size_t i = 0; i < sizeof SINGLE / sizeof SINGLE[0]; i++) {
        if (luck < SINGLE[i].percent) {
            ask(w, p, SINGLE[i].kind);
            return;
        }
        luck -= SINGLE[i].percent;
    }
    if (luck < 16)
        ask_together(w, p);
    else if (luck < 18)
        w->n_runs -= w->n_runs > 0; /* a worker dies: the lease of its run ends */
    else if (luck < 28)
        tick(w, p);
    else
        pass(w);
}

void world_clear_up(struct world *w, struct process *p)
{
    for (size_t i = 0; i < w->judge.n; i++) {
        const struct known *known = &w->judge.jobs[i];
        struct change_item item = {.seq = known->seq};
        struct change_op op;
        bool is_waited_for = false;
        for (size_t k = 0; k < w->judge.n; k++)
            for (size_t m = 0; m < w->judge.jobs[k].n_after; m++)
                is_waited_for |= w->judge.jobs[k].state == REDRIVE_STATE_WAITING &&
                                 w->judge.jobs[k].after[m].parent_seq == known->seq;
        if (!is_waited_for ||
            (known->state != REDRIVE_STATE_DEAD_LETTER && known->state != REDRIVE_STATE_FAILED))
            continue;
        enum move_kind kind = MOVE_REDRIVE;
        change_op_init(&op, kind, &item, 1);
        int rc = engine_apply_one(p->engine, &op.op, NULL);
        if (rc == 0 && item.ret.code != 0) {
            kind = MOVE_REMOVE;
            change_op_init(&op, kind, &item, 1);
            rc = engine_apply_one(p->engine, &op.op, NULL);
        }
        world_say(w, "  %s %s: %s", kind == MOVE_REDRIVE ? "redrive" : "remove", known->id,
                  redrive_err_name(rc ? rc : item.ret.code));
        judge_changed(judge_find_seq(&w->judge, item.seq), kind, rc, item.ret.code);
    }
}

void world_work_off(struct world *w, struct process *p)
{
    struct request r;
    if (w->judge.tripped != IS_NOT) {
        request_breaker(&r, false);
        ask_for(w, p, &r);
    }
    for (int queue = 0; queue < 2; queue++)
        if (w->judge.paused[queue] != IS_NOT) {
            request_pause(&r, queue, false);
            ask_for(w, p, &r);
        }
    for (int i = 0; i < 10 && engine_next_ms(p->engine) <= w->now_ms; i++)
        tick(w, p);
    tick(w, p);
    request_claim(&r, 8);
    ask_for(w, p, &r);
    while (w->n_runs > 0) {
        request_success(&r, w);
        ask_for(w, p, &r);
    }
}
