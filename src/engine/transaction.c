/* transaction.c - runs operations as one transaction of the store; again, or one by one, after a
 * failure. */
#include "engine/engine.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/clock/retention.h"
#include "engine/clock/alert.h"
#include "engine/clock/cron_entries.h"
#include "engine/gates/gates.h"
#include "engine/state.h"
#include "engine/tasks.h"

/* A transaction that conflicts with other processes is given up after some seconds
 * (store_status.h), and all callers wait for it: after a few of these, operations are no longer
 * tried one by one. */
#define ALONE_MS 20000

/* How long a transaction of a brief engine waits for a lock: as long as other processes take for a
 * commit; an operation that is suspected and alone less, and next to nothing when there are many,
 * because all callers wait meanwhile. */
#define LOCK_WAIT_MS       100
#define LOCK_WAIT_ALONE_MS 10
#define LOCK_WAIT_MANY_MS  1
#define MANY_BLOCKED       5

/* When to try again after no transaction could be begun. */
#define AWAY_MS 1000

/* How far a transaction came before it failed. */
enum stage {
    STAGE_BEGIN,
    STAGE_MOVES,
    STAGE_CONFLICT,
    STAGE_BLOCKED, /* by a lock that was not given in time */
    STAGE_COMMIT,
};

static void start_clean(struct engine *e)
{
    arena_release(&e->arena);
    arena_init(&e->arena);
    e->n_events = 0;
    e->n_fired = 0;
    e->touched = false;
    e->notification = 0;
    e->puts = 0;
    e->ahead = NULL;
    e->n_ahead = 0;
    e->n_decided = e->n_rounds = 0;
}

/* Lets the store look for the jobs that callers served by this transaction will ask for next. */
static void look_ahead(struct engine *e)
{
    if (!e->ahead || !e->ops->look_ahead)
        return;
    struct claim_filter filter = *e->ahead;
    filter.limit = e->n_ahead;
    filter.max_bytes *= e->n_ahead_claims;
    e->ops->look_ahead(e->store, &filter);
}

static void suspect(struct op *const *ops, size_t n, bool are_suspects)
{
    for (size_t i = 0; i < n; i++)
        ops[i]->is_suspect = are_suspects;
}

/* Operations that all have a kind: those of one kind are made together. */
static int make_together(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    struct op **alike = arena_array(&e->arena, n, sizeof(struct op *));
    int rc = 0;
    if (!alike)
        return err_nomem(err);
    for (int rank = 0; rank < OP_RANKS && rc == 0; rank++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (ops[i]->kind->rank == rank)
                alike[count++] = ops[i];
        if (count > 0)
            rc = alike[0]->kind->apply(e, alike, count, err);
        if (rc < 0)
            suspect(alike, count, true);
    }
    return rc;
}

/* Leaves out operations of tenants that are not here, which have their answer. */
static int leave_out_moved(struct engine *e, struct op *const **ops, size_t *n,
                           struct redrive_err *err)
{
    struct op **left;
    size_t n_left = 0;
    if (e->fence.places.count == 0)
        return 0;
    left = arena_array(&e->arena, *n, sizeof(struct op *));
    if (!left)
        return err_nomem(err);
    for (size_t i = 0; i < *n; i++)
        if (!fence_refuses(e, (*ops)[i]))
            left[n_left++] = (*ops)[i];
    *ops = left;
    *n = n_left;
    return 0;
}

static int apply_all(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    suspect(ops, n, false);
    int rc = leave_out_moved(e, &ops, &n, err);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        for (end = i; end < n && ops[end]->kind; end++)
            ops[end]->code = 0;
        if (end > i) {
            rc = make_together(e, &ops[i], end - i, err);
            continue;
        }
        ops[end++]->code = 0;
        rc = ops[i]->apply(e, ops[i], err);
        ops[i]->is_suspect = rc < 0;
    }
    return rc;
}

static int make_moves(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    int rc = apply_all(e, ops, n, err);
    if (rc == 0)
        rc = events_count(e, err);
    if (rc == 0 && e->arena.failed)
        rc = err_nomem(err);
    return rc < 0 ? rc : gates_save(e, err);
}

/* That jobs have started, or that a lease is longer now, concerns no other process. */
static uint32_t notification_of(const struct engine *e)
{
    uint32_t notification = e->notification | (e->puts > 0 ? STORE_NOTIFY_TIME : 0);
    for (size_t i = 0; i < e->n_events && !(notification & STORE_NOTIFY_END); i++)
        if (e->events[i].kind != ENGINE_EVENT_STARTED)
            notification |= STORE_NOTIFY_END;
    return notification;
}

static bool asks(const struct op_batch *batch)
{
    bool asks = false;
    for (size_t i = 0; i < batch->n; i++)
        asks |= batch->ops[i]->asks;
    return asks;
}

static bool looks(const struct op_batch *batch)
{
    bool looks = false;
    for (size_t i = 0; i < batch->n; i++)
        looks |= batch->ops[i]->looks;
    return looks;
}

/* No request that this transaction serves has come after latest_ms. */
static void take_time(struct engine *e)
{
    const int64_t asked_ms = engine_clock_ms(e);
    e->now_ms = e->ops->set_time(e->store, asked_ms);
    engine_note_latest(e);
    engine_note_time(e, asked_ms, e->now_ms);
}

static int begin(struct engine *e, bool asks_server, int64_t *ret_version, struct redrive_err *err)
{
    if (asks_server) {
        store_ask(e->store);
        e->shared_seen = -1; /* there may have been quiet puts */
    }
    int rc = e->ops->begin(e->store, engine_clock_ms(e), &e->now_ms, ret_version, err);
    /* Callers that are told that the store is away ask no more: the engine looks for it. */
    if (rc < 0)
        engine_want(e, engine_now_ms(e) + AWAY_MS);
    return rc;
}

/* Begins, and lets in what has come meanwhile. */
static int begin_batch(struct engine *e, struct op_batch *batch, int64_t *ret_version,
                       struct redrive_err *err)
{
    const bool has_asked = asks(batch);
    store_look(e->store, looks(batch));
    store_wait_for_locks(e->store, e->lock_wait_ms);
    int rc = begin(e, has_asked, ret_version, err);
    if (rc < 0 || !batch->gather)
        return rc;
    batch->gather(batch);
    if (has_asked || !asks(batch))
        return 0;
    e->ops->rollback(e->store);
    return begin(e, true, ret_version, err);
}

static void tell_committed(const struct engine *e, const struct op_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        struct op *op = batch->ops[i];
        if (op->kind && op->kind->committed && !fence_refuses(e, op))
            op->kind->committed(e, op);
    }
}

/* Reads what processes share again if it has changed. */
static int refresh(struct engine *e, int64_t shared_version, struct redrive_err *err)
{
    if (shared_version == STORE_VERSION_UNKNOWN) {
        gates_distrust(&e->gates);
        tasks_distrust(e);
    } else if (e->shared_seen == shared_version) {
        return gates_count_slots(e, err);
    }
    e->shared_seen = -1;
    int rc = gates_load(e, err);
    if (rc == 0)
        rc = fence_load(e, err);
    if (rc == 0)
        rc = cron_entries_load(e, err);
    if (rc == 0)
        rc = tasks_load(e, err);
    if (rc == 0)
        e->shared_seen = shared_version;
    return rc < 0 ? rc : gates_count_slots(e, err);
}

/* The transaction is lost: forgets everything that can be read again. */
static void forget(struct engine *e)
{
    gates_rollback(&e->gates);
    cron_entries_forget(&e->cron_entries);
    retention_undo(e);
    e->shared_seen = -1;
    e->n_events = 0;
    e->cancels_ms = 0;
    /* The times that were found may be wrong. A process that is not the leader need not find them
     * again. */
    if (e->is_leader)
        e->wake_ms = 0;
}

static int run_transaction(struct engine *e, struct op_batch *batch, enum stage *ret_stage,
                           struct redrive_err *err)
{
    int64_t version;
    *ret_stage = STAGE_BEGIN;
    start_clean(e);
    int rc = begin_batch(e, batch, &version, err);
    if (rc < 0)
        return rc;
    *ret_stage = STAGE_MOVES;
    take_time(e);
    rc = refresh(e, version, err);
    if (rc == 0)
        rc = make_moves(e, batch->ops, batch->n, err);
    if (rc == 0 && e->touched) {
        *ret_stage = STAGE_COMMIT;
        store_notify(e->store, notification_of(e));
        look_ahead(e);
        rc = e->ops->commit(e->store, err);
    }
    if (rc < 0 || !e->touched)
        e->ops->rollback(e->store);
    if (rc == REDRIVE_E_CANCELLED)
        *ret_stage =
            e->is_brief && store_base(e->store)->is_blocked ? STAGE_BLOCKED : STAGE_CONFLICT;
    if (rc < 0) {
        running_rollback(&e->running);
        forget(e);
        return rc;
    }
    running_commit(&e->running);
    gates_commit(e);
    retention_keep(e);
    const bool is_unknown = version == STORE_VERSION_UNKNOWN || e->gates.are_unknown;
    e->shared_seen = is_unknown ? -1 : version + e->puts;
    events_publish(e);
    alerts_publish(e);
    tell_committed(e, batch);
    return 0;
}

/* The error of the last try says the most. */
static int given_up(const struct conflict *conflict, struct redrive_err *err)
{
    const struct redrive_err last = *err;
    err->code = REDRIVE_E_IO;
    err_detail(err, "%s%stried %d times", last.detail, last.detail[0] ? "; " : "", conflict->tries);
    return REDRIVE_E_IO;
}

static int run_despite_conflicts(struct engine *e, struct op_batch *batch, enum stage *ret_stage,
                                 struct redrive_err *err)
{
    struct conflict conflict;
    int rc = 0;
    *ret_stage = STAGE_BEGIN;
    conflict_init(&conflict, &e->rng);
    while (conflict_try(&conflict)) {
        rc = run_transaction(e, batch, ret_stage, err);
        if (rc == 0 || *ret_stage != STAGE_CONFLICT)
            return rc;
        e->conflicts++;
    }
    return given_up(&conflict, err);
}

static void fail_all(struct op *const *ops, size_t n, const struct redrive_err *err)
{
    for (size_t i = 0; i < n; i++) {
        ops[i]->code = err->code;
        ops[i]->err = *err;
    }
}

/* Every other operation would fail in the same way. */
static bool fails_for_all(enum stage stage, int code)
{
    return stage == STAGE_BEGIN || (stage == STAGE_COMMIT && code == REDRIVE_E_IO);
}

static void set_aside(struct op *op, const struct redrive_err *err)
{
    op->is_blocked = true;
    op->err = *err;
}

static int run_or_tell(struct engine *e, struct op_batch *batch, enum stage *ret_stage,
                       struct redrive_err *err)
{
    store_status_begins(e->store_status);
    int rc = run_despite_conflicts(e, batch, ret_stage, err);
    if (rc == 0) {
        store_status_worked(e->store_status, e->touched);
        return 0;
    }
    if (*ret_stage == STAGE_BLOCKED && batch->n == 1 && batch->sets_aside) {
        set_aside(batch->ops[0], err);
        store_status_worked(e->store_status, false);
        return rc;
    }
    if (*ret_stage == STAGE_BLOCKED && batch->n <= 1)
        rc = REDRIVE_E_IO;
    err->code = rc;
    if (*ret_stage == STAGE_COMMIT && rc == REDRIVE_E_IO && !store_base(e->store)->is_rolled_back)
        err_hint(err, "it may or may not have happened: look before you repeat it");
    if (batch->n <= 1 || fails_for_all(*ret_stage, rc)) {
        store_status_failed(e->store_status, *ret_stage != STAGE_BEGIN, err);
        fail_all(batch->ops, batch->n, err);
    }
    return rc;
}

static void apply_one_by_one(struct engine *e, struct op **ops, size_t n, bool sets_aside)
{
    const int64_t start_ms = clock_monotonic_ms();
    size_t n_blocked = 0;
    for (size_t i = 0; i < n; i++) {
        struct redrive_err err = {0};
        enum stage stage;
        struct op_batch one = {.ops = &ops[i], .n = 1, .sets_aside = sets_aside};
        if (sets_aside)
            e->lock_wait_ms = n_blocked < MANY_BLOCKED ? LOCK_WAIT_ALONE_MS : LOCK_WAIT_MANY_MS;
        int rc = run_or_tell(e, &one, &stage, &err);
        if (rc == 0)
            continue;
        n_blocked += stage == STAGE_BLOCKED;
        if (stage == STAGE_BEGIN || clock_monotonic_ms() - start_ms >= ALONE_MS) {
            fail_all(&ops[i + 1], n - i - 1, &err);
            return;
        }
    }
}

/* Sorts operations into those that were not suspected of anything, and suspects. */
static size_t sort_suspects(struct op *const *ops, size_t n, struct op **ret)
{
    size_t n_others = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        if (!ops[i]->is_suspect)
            ret[at++] = ops[i];
    n_others = at;
    for (size_t i = 0; i < n; i++)
        if (ops[i]->is_suspect)
            ret[at++] = ops[i];
    return n_others;
}

/* One of them waits for a lock, and the first to be answered are those that most likely do not:
 * they share a transaction. */
static void apply_apart(struct engine *e, const struct op_batch *batch)
{
    const bool sets_aside = batch->sets_aside;
    struct op **sorted = malloc(batch->n * sizeof(struct op *));
    if (!sorted) {
        apply_one_by_one(e, batch->ops, batch->n, sets_aside);
        return;
    }
    const size_t n_others = sort_suspects(batch->ops, batch->n, sorted);
    size_t n_done = 0;
    if (n_others > 0 && n_others < batch->n) {
        struct redrive_err err = {0};
        enum stage stage;
        struct op_batch others = {.ops = sorted, .n = n_others, .sets_aside = sets_aside};
        int rc = run_or_tell(e, &others, &stage, &err);
        if (rc < 0 && n_others > 1 && !fails_for_all(stage, rc))
            apply_one_by_one(e, sorted, n_others, sets_aside);
        n_done = n_others;
    }
    apply_one_by_one(e, sorted + n_done, batch->n - n_done, sets_aside);
    free(sorted);
}

void engine_wait_briefly(struct engine *e)
{
    e->is_brief = true;
}

void engine_apply_batch(struct engine *e, struct op_batch *batch)
{
    struct redrive_err err = {0};
    enum stage stage;
    const bool is_tried_again = batch->sets_aside && batch->n == 1 && batch->ops[0]->aside_ms != 0;
    e->lock_wait_ms = !e->is_brief ? 0 : is_tried_again ? LOCK_WAIT_ALONE_MS : LOCK_WAIT_MS;
    int rc = run_or_tell(e, batch, &stage, &err);
    if (rc < 0 && batch->n > 1 && !fails_for_all(stage, rc)) {
        if (stage == STAGE_BLOCKED)
            apply_apart(e, batch);
        else
            apply_one_by_one(e, batch->ops, batch->n, batch->sets_aside);
    }
}

void engine_apply(struct engine *e, struct op **ops, size_t n)
{
    engine_apply_batch(e, &(struct op_batch){.ops = ops, .n = n});
}

int engine_apply_one(struct engine *e, struct op *op, struct redrive_err *err)
{
    engine_apply(e, &op, 1);
    if (op->code < 0 && err)
        *err = op->err;
    return op->code;
}
