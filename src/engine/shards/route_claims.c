/* route_claims.c - claims over shards: one shard after the other, and none is waited for long. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/shards/router.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "store/shards/shards.h"

/* A claim on its way. */
struct claim_trip {
    struct router *router;
    struct claim_op *claim; /* the caller's */
    struct question *question;
    struct lane *lane;      /* that is asked */
    uint32_t asked;         /* lanes, by bit */
    uint32_t answered;      /* likewise, those that have looked */
    bool more;              /* so far */
    struct redrive_err err; /* the first failure; code 0: there was none */
    struct list link;       /* among those that have waited too long */
    struct list open;       /* in struct open_claims, likewise the number */
    uint64_t number;
};

/* A copy of the claim, with strings of its own, at one shard. The trip may go on without it: then
 * the jobs that it brings in the end are given back. */
struct question {
    struct claim_op op;
    struct arena texts;
    struct lane *lane;
    struct claim_trip *trip; /* NULL: it is not waited for any more */
    int64_t since_ms;        /* monotonic */
    struct list link;        /* in struct open_claims, whose mutex guards it and `trip` */
};

static size_t n_lanes(const struct claim_trip *trip)
{
    return router_count(trip->router);
}

static uint32_t bit_of(const struct lane *lane)
{
    return UINT32_C(1) << lane->index;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void free_question(struct question *q)
{
    if (!q)
        return;
    claim_op_release(&q->op);
    arena_release(&q->texts);
    free(q);
}

/* An absent string stays absent. */
static struct str copy_str(struct question *q, struct str s)
{
    return s.ptr ? arena_str(&q->texts, s) : s;
}

static const struct str *copy_words(struct question *q, const struct str *words, size_t n)
{
    struct str *copies = n > 0 ? arena_array(&q->texts, n, sizeof *copies) : NULL;
    for (size_t i = 0; i < n && copies; i++)
        copies[i] = copy_str(q, words[i]);
    return copies;
}

static const size_t *copy_limits(struct question *q, const size_t *limits, size_t n)
{
    size_t *copies = limits ? arena_array(&q->texts, n, sizeof *copies) : NULL;
    if (copies)
        memcpy(copies, limits, n * sizeof *copies);
    return copies;
}

/* NULL: no memory. */
static struct question *new_question(const struct claim_op *claim)
{
    const struct claim_filter *filter = &claim->filter;
    struct question *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    arena_init(&q->texts);
    list_init(&q->link);
    claim_op_init(&q->op, filter, copy_str(q, claim->worker), claim->lease_ms);
    q->op.op.asks = claim->op.asks;
    q->op.lease_of = claim->lease_of;
    q->op.with_parents = claim->with_parents;
    q->op.filter.tenant = copy_str(q, filter->tenant);
    q->op.filter.queues = copy_words(q, filter->queues, filter->n_queues);
    q->op.filter.tasks = copy_words(q, filter->tasks, filter->n_tasks);
    q->op.filter.task_limits = copy_limits(q, filter->task_limits, filter->n_tasks);
    if (!q->texts.failed)
        return q;
    free_question(q);
    return NULL;
}

struct give_back {
    struct settle_op op;
    struct settlement items[];
};

static void on_given_back(struct op *op, void *ctx)
{
    (void)op;
    free(ctx);
}

/* Jobs that come too late for their claim are ready again. Where that fails they are when their
 * leases end. */
static void give_back(const struct question *q)
{
    const size_t n = q->op.n;
    struct give_back *g = n > 0 ? calloc(1, sizeof *g + n * sizeof g->items[0]) : NULL;
    if (!g)
        return;
    for (size_t i = 0; i < n; i++)
        g->items[i] = (struct settlement){.seq = q->op.jobs[i].status.seq,
                                          .token = q->op.jobs[i].status.token,
                                          .outcome.ending = ENDING_RELEASED};
    settle_op_init(&g->op, g->items, n);
    g->op.op.done = on_given_back;
    g->op.op.done_ctx = g;
    committer_submit(q->lane->committer, &g->op.op);
}

/* ---- Which shards ---------------------------------------------------------------------------- */

/* The lane that is asked next: of those that have not been asked the first after `from` that has
 * ready jobs, as far as is known, else the first that is not away. None: NULL. Where all are away
 * one is asked, for its error. */
static struct lane *next_lane(const struct claim_trip *trip, size_t from)
{
    const size_t n = n_lanes(trip);
    struct lane *idle = NULL;
    for (size_t i = 0; i < n; i++) {
        struct lane *lane = router_lane(trip->router, (from + i) % n);
        if (trip->asked & bit_of(lane) || lane_is_slow(lane))
            continue;
        if (lane->is_ready)
            return lane;
        idle = idle ? idle : lane;
    }
    return !idle && trip->asked == 0 ? router_lane(trip->router, from) : idle;
}

/* A claim that was given nothing says whose jobs it knows nothing of. Its caller is told when these
 * shards answer. */
static void note_missed(const struct claim_trip *trip)
{
    struct claim_op *claim = trip->claim;
    for (size_t i = 0; i < n_lanes(trip); i++) {
        struct lane *lane = router_lane(trip->router, i);
        struct redrive_err err = {0};
        if (trip->answered & bit_of(lane))
            continue;
        lane->is_missed = true;
        const enum claim_missed missed =
            lane_is_away(lane, &err) ? CLAIM_MISSED_AWAY : CLAIM_MISSED_SLOW;
        if (missed <= claim->missed)
            continue;
        claim->missed = missed;
        if (missed == CLAIM_MISSED_SLOW)
            err_set(&err, REDRIVE_E_IO, "the shard takes long to answer");
        claim->op.err = err;
        lane_name(lane, &claim->op.err);
    }
}

/* ---- The way --------------------------------------------------------------------------------- */

static void on_answered(struct op *op, void *ctx);

static void keep_failure(struct claim_trip *trip, int code, const struct redrive_err *err)
{
    if (trip->err.code < 0)
        return;
    trip->err = *err;
    trip->err.code = code;
    if (code == REDRIVE_E_IO)
        lane_name(trip->lane, &trip->err);
}

static void open_trip(struct claim_trip *trip)
{
    struct open_claims *open = router_open_claims(trip->router);
    pthread_mutex_lock(&open->mutex);
    trip->number = ++open->n_begun;
    list_insert(&open->trips, &trip->open);
    pthread_mutex_unlock(&open->mutex);
}

static void close_trip(struct claim_trip *trip)
{
    struct open_claims *open = router_open_claims(trip->router);
    pthread_mutex_lock(&open->mutex);
    list_remove(&trip->open);
    pthread_mutex_unlock(&open->mutex);
    free(trip);
}

uint64_t route_claims_begun(struct router *router)
{
    struct open_claims *open = router_open_claims(router);
    pthread_mutex_lock(&open->mutex);
    const uint64_t n = open->n_begun;
    pthread_mutex_unlock(&open->mutex);
    return n;
}

bool route_claims_are_over(struct router *router, uint64_t n)
{
    struct open_claims *open = router_open_claims(router);
    pthread_mutex_lock(&open->mutex);
    const bool are_over = list_empty(&open->trips) ||
                          LIST_ENTRY(open->trips.next, struct claim_trip, open)->number > n;
    pthread_mutex_unlock(&open->mutex);
    return are_over;
}

static void end_claim(struct claim_trip *trip)
{
    struct router *router = trip->router;
    struct claim_op *claim = trip->claim;
    const bool is_of_tenant = claim->filter.tenant.len > 0;
    claim->op.code = trip->answered == 0 ? trip->err.code : 0;
    if (claim->op.code < 0)
        claim->op.err = trip->err;
    else if (claim->n == 0 && !is_of_tenant)
        note_missed(trip);
    /* A claim that was given something has left the other shards for the next one. */
    const bool asked_all = is_of_tenant || trip->asked == (UINT32_C(1) << n_lanes(trip)) - 1;
    claim->more = trip->more || (claim->n > 0 && !asked_all);
    free_question(trip->question);
    router_answer(router, &claim->op);
    close_trip(trip);
}

static void ask_lane(struct sending *sending, struct claim_trip *trip, struct lane *lane)
{
    struct open_claims *open = router_open_claims(trip->router);
    if (!trip->question && !(trip->question = new_question(trip->claim))) {
        trip->err.code = err_nomem(&trip->err);
        end_claim(trip);
        return;
    }
    struct question *q = trip->question;
    trip->asked |= bit_of(lane);
    trip->lane = q->lane = lane;
    q->op.op.done = on_answered;
    q->op.op.done_ctx = q;
    pthread_mutex_lock(&open->mutex);
    q->trip = trip;
    q->since_ms = clock_monotonic_ms();
    list_insert(&open->questions, &q->link);
    pthread_mutex_unlock(&open->mutex);
    if (sending)
        list_insert(&sending->ops[lane->index], &q->op.op.link);
    else
        committer_submit(lane->committer, &q->op.op);
}

/* Asks the next shard, or ends. */
static void go_on(struct claim_trip *trip, bool is_enough)
{
    struct lane *next = is_enough || trip->claim->filter.tenant.len > 0
                            ? NULL
                            : next_lane(trip, (trip->lane->index + 1) % n_lanes(trip));
    if (next)
        ask_lane(NULL, trip, next);
    else
        end_claim(trip);
}

/* The jobs are the caller's, by the numbers that they have outside. */
static void hand_over(struct claim_trip *trip)
{
    struct claim_op *from = &trip->question->op, *to = trip->claim;
    claim_op_release(to);
    to->jobs = from->jobs;
    to->capacity = from->capacity;
    to->n = from->n;
    to->n_pages = from->n_pages;
    memcpy(to->pages, from->pages, sizeof to->pages);
    from->jobs = NULL;
    from->n = from->capacity = from->n_pages = 0;
    for (size_t i = 0; i < to->n; i++)
        to->jobs[i].status.seq = shard_seq(to->jobs[i].status.seq, trip->lane->index);
}

static void on_answered(struct op *op, void *ctx)
{
    struct question *q = ctx;
    struct open_claims *open = router_open_claims(q->lane->router);
    size_t moved;
    pthread_mutex_lock(&open->mutex);
    list_remove(&q->link);
    struct claim_trip *trip = q->trip;
    pthread_mutex_unlock(&open->mutex);
    if (!trip) {
        if (op->code == 0)
            give_back(q);
        free_question(q);
        return;
    }
    if (op->code == 0) {
        trip->answered |= bit_of(q->lane);
        trip->more |= q->op.more;
        q->lane->is_ready = q->op.more || q->op.n >= q->op.filter.limit;
        hand_over(trip);
    } else if (router_learn(trip->router, op, &moved) &&
               !(trip->asked & bit_of(router_lane(trip->router, moved)))) {
        ask_lane(NULL, trip, router_lane(trip->router, moved));
        return;
    } else {
        keep_failure(trip, op->code, &op->err);
    }
    go_on(trip, op->code == 0 ? trip->claim->n > 0 : op->code == REDRIVE_E_STOPPING);
}

void route_claim(struct sending *sending, struct claim_op *claim)
{
    struct router *router = sending->router;
    const struct str tenant = claim->filter.tenant;
    struct claim_trip *trip = calloc(1, sizeof *trip);
    if (!trip) {
        claim->op.code = err_nomem(&claim->op.err);
        router_answer(router, &claim->op);
        return;
    }
    trip->router = router;
    trip->claim = claim;
    open_trip(trip);
    claim->n = 0;
    claim->missed = CLAIM_MISSED_NONE;
    ask_lane(sending, trip,
             tenant.len > 0 ? router_lane(router, router_lane_of(router, tenant))
                            : next_lane(trip, router_turn(router)));
}

void route_claims_expire(struct router *router, int64_t now_ms)
{
    struct open_claims *open = router_open_claims(router);
    struct list late;
    list_init(&late);
    pthread_mutex_lock(&open->mutex);
    LIST_FOREACH (&open->questions, link) {
        struct question *q = LIST_ENTRY(link, struct question, link);
        if (now_ms - q->since_ms < ROUTE_CLAIM_WAIT_MS)
            continue;
        list_remove(link);
        q->trip->question = NULL;
        list_insert(&late, &q->trip->link);
        q->trip = NULL;
    }
    pthread_mutex_unlock(&open->mutex);
    LIST_FOREACH (&late, link) {
        struct claim_trip *trip = LIST_ENTRY(link, struct claim_trip, link);
        struct redrive_err err = {0};
        list_remove(link);
        keep_failure(trip, err_set(&err, REDRIVE_E_IO, "the shard has not answered in time"), &err);
        go_on(trip, false);
    }
}
