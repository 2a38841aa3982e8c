/* repair.c - what a repair means to jobs and limits other than those that are set aside. */
#include "engine/verbs/repair.h"

#include <stdio.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/verbs/after.h"
#include "store/shards/shards.h"

/* How often a transaction is tried that others are in the way of. */
#define TRIES_MAX 50

/* How the messages of children call a parent whose id is not known. */
#define NAME_MAX_BYTES 32

struct repairing {
    struct store *store;
    const struct store_repair *repair;
};

typedef int (*change_fn)(struct store *store, void *ctx, struct redrive_err *err);

/* Makes a transaction, again if others were in its way. */
static int make_transaction(struct store *store, change_fn change, void *ctx,
                            struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(store);
    int rc = REDRIVE_E_CANCELLED;
    for (int i = 0; i < TRIES_MAX && rc == REDRIVE_E_CANCELLED; i++) {
        int64_t now_ms, version;
        store_ask(store);
        rc = ops->begin(store, clock_wall_ms(), &now_ms, &version, err);
        if (rc != 0)
            continue;
        rc = change(store, ctx, err);
        if (rc == 0)
            rc = ops->commit(store, err);
        ops->rollback(store);
    }
    return rc;
}

/* ---- Jobs that wait -------------------------------------------------------------------------- */

struct leaving {
    const int64_t *seqs;
    size_t n;
};

/* As if they had been cancelled: whether they succeeded or failed is not known, and edges to jobs
 * that did are decided already. */
static int leave_children(struct store *store, void *ctx, struct redrive_err *err)
{
    const struct leaving *leaving = ctx;
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct ended_job *jobs = arena_array(&arena, leaving->n, sizeof *jobs);
    char(*names)[NAME_MAX_BYTES] = arena_alloc(&arena, leaving->n * sizeof *names);
    if (!jobs || !names)
        return err_nomem(err);
    for (size_t i = 0; i < leaving->n; i++) {
        (void)snprintf(names[i], sizeof names[i], "number %lld", (long long)leaving->seqs[i]);
        jobs[i] = (struct ended_job){.seq = leaving->seqs[i],
                                     .state = REDRIVE_STATE_CANCELLED,
                                     .is_gone = true,
                                     .id = str_of(names[i])};
    }
    const struct after_walk walk = {.store = store, .arena = &arena};
    return after_walk(&walk, jobs, leaving->n, err);
}

static int keep_lines(void *ctx, struct str lines, struct redrive_err *err)
{
    const struct repairing *r = ctx;
    return r->repair->keep(r->repair->ctx, lines, err);
}

static int leave_jobs(void *ctx, const int64_t *seqs, size_t n, struct redrive_err *err)
{
    const struct repairing *r = ctx;
    struct leaving leaving = {seqs, n};
    RELEASED_BY(edge_page_release) struct edge_page edges = {0};
    int rc = store_ops(r->store)->edges(r->store, EDGES_TO_CHILDREN, seqs, n, &edges, err);
    if (rc != 0 || edges.n == 0)
        return rc;
    return make_transaction(r->store, leave_children, &leaving, err);
}

static void tell_progress(void *ctx)
{
    const struct repairing *r = ctx;
    if (r->repair->progress)
        r->repair->progress(r->repair->ctx);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* Slots in use are those of running jobs: as of one moment, and what is added to a sum is right
 * whatever other processes add meanwhile. A limit that has no row counts nothing. */
static int count_slots(struct store *store, void *ctx, struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page running = {0};
    uint64_t *ret_wrong = ctx;
    const struct store_ops *ops = store_ops(store);
    *ret_wrong = 0;
    int rc = ops->counts(store, COUNT_RUNNING, (struct str){0}, &running, err);
    for (size_t i = 0; rc == 0 && i < running.n; i++) {
        const struct job_count *c = &running.counts[i];
        const struct shared_row row = {.kind = SHARED_LIMIT,
                                       .tenant = c->tenant,
                                       .key = c->gate,
                                       .is_delta = true,
                                       .add = {.used = (int64_t)c->jobs - (int64_t)c->used}};
        struct move_result result = {0};
        if (c->jobs >= c->used) /* the engine counts those that it may use */
            continue;
        rc = ops->shared_put(store, &row, 1, &result, err);
        *ret_wrong += rc == 0 && result.code == 0;
    }
    return rc;
}

/* ---- A store --------------------------------------------------------------------------------- */

static int repair_one(struct store *store, const struct store_repair *repair,
                      struct store_repaired *ret, struct redrive_err *err)
{
    struct repairing r = {store, repair};
    const struct store_repair inner = {
        .keep = keep_lines, .leave = leave_jobs, .progress = tell_progress, .ctx = &r};
    uint64_t slots = 0;
    *ret = (struct store_repaired){0};
    if (!store_ops(store)->repair)
        return 0;
    int rc = store_ops(store)->repair(store, &inner, ret, err);
    if (rc == 0)
        rc = make_transaction(store, count_slots, &slots, err);
    if (rc == 0)
        ret->counts += slots;
    return rc;
}

int repair_store(struct store *store, bool is_sharded, const struct store_repair *repair,
                 struct store_repaired *ret, struct redrive_err *err)
{
    if (!is_sharded)
        return repair_one(store, repair, ret, err);
    const struct sharded *s = sharded_of(store);
    int rc = 0;
    *ret = (struct store_repaired){0};
    for (size_t i = 0; rc == 0 && i < s->urls.n; i++) {
        struct store_repaired one;
        rc = shards_fail_at(s, i, repair_one(s->stores[i], repair, &one, err), err);
        ret->jobs += one.jobs;
        ret->entries += one.entries;
        ret->counts += one.counts;
    }
    return rc;
}
