/* change.c - what people do to jobs: to single ones, to all dead letters that match, and by rows
 * that programs without an engine leave in the store. */
#include "engine/verbs/change.h"

#include "base/err.h"
#include "base/json/json.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/verbs/after.h"
#include "engine/verbs/settle.h"
#include "store/plan.h"
#include "store/transition.h"

/* Cancels in the store: ticks may follow each other closely, and there is hardly ever one. */
#define LOOK_MS      100
#define CANCEL_BATCH 200

/* Jobs that a bulk reads at a time: with payloads of the greatest size they still fit into memory.
 */
#define PAGE_JOBS 50

#define DEAD (1u << REDRIVE_STATE_DEAD_LETTER)

static void tell(struct engine *e, const struct job *job, enum move_kind kind)
{
    struct engine_event event;
    e->touched = true;
    if (kind == MOVE_REDRIVE || kind == MOVE_RUN_NOW)
        engine_made_some_ready(e);
    switch (kind) {
    case MOVE_CANCEL: event = event_of(e, ENGINE_EVENT_CANCELLED, job); break;
    case MOVE_REDRIVE: event = event_of(e, ENGINE_EVENT_REDRIVEN, job); break;
    case MOVE_END:
        event = event_of(e, ENGINE_EVENT_DEAD, job);
        event.reason = REDRIVE_REASON_MANUAL;
        break;
    case MOVE_RUN_NOW:
    case MOVE_REMOVE:
    case MOVE_EDIT:
    default: return;
    }
    event_add(e, &event);
}

/* Changes a job whose row has been read in this transaction, and tells of it. A refusal goes into
 * item->ret. */
static int change_job(struct engine *e, enum move_kind kind, const struct job *job,
                      struct change_item *item, struct redrive_err *err)
{
    const struct change_move move = {
        .seq = job->status.seq,
        .kind = kind,
        .to = REDRIVE_STATE_DEAD_LETTER,
        .reason = REDRIVE_REASON_MANUAL,
        .payload = item->payload,
        /* A run that is cancelled gives back what it holds. */
        .seen = kind == MOVE_CANCEL ? &job->status : NULL,
    };
    /* It would die again at the next tick. */
    if (kind == MOVE_REDRIVE && job->spec.deadline_ms != 0 && job->spec.deadline_ms <= e->now_ms) {
        item->ret = (struct move_result){.code = REDRIVE_E_DEADLINE, .state = job->status.state};
        return 0;
    }
    int rc = kind == MOVE_REMOVE ? after_removed(e, job, err) : 0;
    if (rc == 0)
        rc = e->ops->move(e->store, CHANGES(&move, 1), &item->ret, err);
    if (rc == 0 && kind == MOVE_REMOVE)
        rc = after_was_removed(job, &item->ret, err);
    if (rc == 0 && item->ret.code == REDRIVE_E_EXISTS && item->arena)
        item->unique_key = arena_str(item->arena, job->spec.unique_key);
    if (rc < 0 || item->ret.code < 0)
        return rc;
    tell(e, job, kind);
    if (item->ret.children > 0 && (kind == MOVE_CANCEL || kind == MOVE_END)) {
        struct ended_job parent = {
            .seq = job->status.seq, .state = item->ret.state, .id = job->spec.id};
        rc = after_ended(e, &parent, 1, err);
        if (rc < 0)
            return rc;
    }
    /* The run goes on until its worker hears of it; its result is not used. */
    if (kind == MOVE_CANCEL && job->status.state == REDRIVE_STATE_RUNNING) {
        const struct decision d = {
            .state = REDRIVE_STATE_CANCELLED, .breaker = BREAKER_RETURNED, .uses_attempt = true};
        return settle_gates(e, job, &d, 0, err);
    }
    return 0;
}

static int change_one(struct engine *e, enum move_kind kind, uint32_t from,
                      struct change_item *item, struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = e->options.payload_max_bytes};
    item->ret = (struct move_result){0};
    if (kind == MOVE_EDIT) {
        item->ret.code = json_check(item->payload, &limits, NULL);
        if (item->ret.code < 0)
            return 0;
    }
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = engine_find(e, item->tenant, item->id, item->seq, &page, err);
    if (rc == 0)
        item->ret.code = REDRIVE_E_NOT_FOUND;
    else if (rc > 0 && from != 0 && !(from >> page.jobs[0].status.state & 1))
        item->ret = (struct move_result){REDRIVE_E_STATE, .state = page.jobs[0].status.state};
    else if (rc > 0)
        rc = change_job(e, kind, &page.jobs[0], item, err);
    return rc < 0 ? rc : 0;
}

static int apply_change(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct change_op *op = (struct change_op *)base;
    int rc = 0;
    for (size_t i = 0; i < op->n && rc == 0; i++)
        rc = change_one(e, op->kind, op->from, &op->items[i], err);
    return rc;
}

static const struct op_route CHANGE_ROUTE = {
    .to = ROUTE_ITEMS,
    .size = sizeof(struct change_op),
    .items_at = offsetof(struct change_op, items),
    .n_at = offsetof(struct change_op, n),
    .item_size = sizeof(struct change_item),
    .item_tenant_at = offsetof(struct change_item, tenant),
    .item_seq_at = offsetof(struct change_item, seq),
    .item_ret_at = offsetof(struct change_item, ret),
};

void change_op_init(struct change_op *op, enum move_kind kind, struct change_item *items, size_t n)
{
    *op = (struct change_op){.op = {.apply = apply_change, .route = &CHANGE_ROUTE, .weight = n},
                             .kind = kind,
                             .items = items,
                             .n = n};
}

/* ---- Cancels that were left in the store ----------------------------------------------------- */

bool cancels_are_due(const struct engine *e)
{
    return e->cancels_ms == 0 || e->now_ms < e->cancels_ms || e->now_ms - e->cancels_ms >= LOOK_MS;
}

static bool is_meant(const struct job *job, struct str value)
{
    int64_t created_ms = -1, epoch = -1;
    const struct row_field life[] = {{"created_ms", ROW_INT, &created_ms},
                                     {"epoch", ROW_INT, &epoch}};
    return shared_value_read(value, life, 2) && job->status.created_ms == created_ms &&
           (int64_t)job->status.epoch == epoch;
}

static int cancel(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    struct change_item item = {0};
    int rc = engine_find(e, row->tenant, row->key, 0, &page, err);
    if (rc > 0)
        rc = is_meant(&page.jobs[0], row->value)
                 ? change_job(e, MOVE_CANCEL, &page.jobs[0], &item, err)
                 : 0;
    return rc;
}

/* A row that another process has taken away meanwhile has been carried out by that process. */
static int remove_rows(struct engine *e, struct shared_row *rows, size_t n, struct redrive_err *err)
{
    struct move_result *results = arena_array(&e->arena, n, sizeof *results);
    if (!results)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        rows[i].removed = true;
    e->touched = true;
    return e->ops->shared_put(e->store, rows, n, results, err);
}

int cancels_carry_out(struct engine *e, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    if (!cancels_are_due(e))
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_CANCEL, (struct str){0}, &page, err);
    size_t n = page.n < CANCEL_BATCH ? page.n : CANCEL_BATCH, n_cancels = 0;
    e->cancels_ms = e->now_ms;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct shared_row row = page.rows[i];
        const bool is_walk = after_is_put_off(&row);
        rc = is_walk ? after_go_on(e, &row, err) : cancel(e, &row, err);
        if (!is_walk)
            page.rows[n_cancels++] = row;
        if (after_is_enough(e))
            n = i + 1;
    }
    if (rc == 0 && n_cancels > 0)
        rc = remove_rows(e, page.rows, n_cancels, err);
    /* The next tick goes on with what is left. */
    if (n < page.n) {
        e->cancels_ms = 0;
        engine_want(e, e->now_ms);
    }
    return rc;
}

/* ---- Bulk ------------------------------------------------------------------------------------ */

void bulk_init(struct bulk *bulk, enum move_kind kind, const struct job_filter *filter,
               int64_t now_ms)
{
    const uint32_t possible = transition_from(kind);
    *bulk = (struct bulk){.kind = kind, .filter = *filter};
    bulk->filter.states = (filter->states == 0 ? DEAD : filter->states) & possible;
    bulk->filter.order = ORDER_OLDEST;
    bulk->filter.after_seq = 0;
    bulk->filter.after_ms = 0;
    /* What has died, or come, in this very millisecond still counts. */
    if (possible & transition_from(MOVE_CANCEL))
        bulk->created_until_ms = now_ms;
    else if (filter->finished_before_ms == 0 || filter->finished_before_ms > now_ms + 1)
        bulk->filter.finished_before_ms = now_ms + 1;
    bulk->started_ms = now_ms;
    bulk->finished = bulk->filter.states == 0;
}

/* ---- Bulk: counting -------------------------------------------------------------------------- */

/* 1 when a live job holds the key of this one. */
static int key_is_held(struct store *store, const struct job *job, struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = job->spec.tenant,
        .unique_key = job->spec.unique_key,
        .states = transition_from(MOVE_CANCEL),
        .limit = 1,
    };
    RELEASED_BY(job_page_release) struct job_page page = {0};
    if (job->spec.unique_key.len == 0)
        return 0;
    int rc = store_ops(store)->list(store, &filter, &page, err);
    return rc < 0 ? rc : page.n > 0;
}

static bool is_too_late(const struct bulk *bulk, const struct job *job)
{
    return job->spec.deadline_ms != 0 && job->spec.deadline_ms < bulk->started_ms;
}

static int count_page(struct store *store, const struct bulk *bulk, const struct job_page *page,
                      struct bulk_forecast *forecast, struct redrive_err *err)
{
    for (size_t i = 0; i < page->n; i++) {
        const struct job *job = &page->jobs[i];
        int rc = bulk->kind != MOVE_REDRIVE ? 0
                 : is_too_late(bulk, job)   ? 1
                                            : key_is_held(store, job, err);
        if (rc < 0)
            return rc;
        forecast->changed += rc == 0;
        forecast->refused += rc > 0;
    }
    return 0;
}

int bulk_count(struct store *store, const struct bulk *bulk, uint64_t max,
               struct bulk_forecast *ret, struct redrive_err *err)
{
    struct job_filter filter = bulk->filter;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    *ret = (struct bulk_forecast){0};
    int rc = job_filter_plan(store, &filter, NULL, err);
    bool more = rc > 0 && !bulk->finished;
    rc = rc < 0 ? rc : 0;
    while (more && max > 0 && rc == 0) {
        filter.limit = max < PAGE_JOBS ? max : PAGE_JOBS;
        filter.skips_unreadable = true;
        rc = store_ops(store)->list(store, &filter, &page, err);
        if (rc == 0)
            rc = count_page(store, bulk, &page, ret, err);
        max -= page.n;
        more = page.more;
        if (page.n > 0)
            filter.after_seq = page.jobs[page.n - 1].status.seq;
    }
    ret->is_at_least = more;
    return rc;
}

/* ---- Bulk: a chunk --------------------------------------------------------------------------- */

static int change_page(struct engine *e, struct bulk_op *op, const struct job_page *page,
                       struct redrive_err *err)
{
    for (size_t i = 0; i < page->n; i++) {
        struct change_item item = {0};
        op->last_seq = page->jobs[i].status.seq;
        if (op->created_until_ms != 0 && page->jobs[i].status.created_ms > op->created_until_ms)
            continue;
        if (e->options.n_shards > 0 && !fence_has(e, page->jobs[i].spec.tenant)) {
            op->refused++;
            continue;
        }
        int rc = change_job(e, op->kind, &page->jobs[i], &item, err);
        if (rc < 0)
            return rc;
        op->changed += item.ret.code == 0;
        op->refused += item.ret.code < 0;
    }
    return 0;
}

static int apply_bulk(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct bulk_op *op = (struct bulk_op *)base;
    struct job_filter filter = op->filter;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    size_t left = op->limit;
    op->changed = op->refused = 0;
    op->last_seq = filter.after_seq;
    int rc = job_filter_plan(e->store, &filter, NULL, err);
    op->more = rc > 0;
    rc = rc < 0 ? rc : 0;
    while (rc == 0 && left > 0 && op->more) {
        filter.limit = left < PAGE_JOBS ? left : PAGE_JOBS;
        filter.after_seq = op->last_seq;
        filter.skips_unreadable = true;
        rc = e->ops->list(e->store, &filter, &page, err);
        engine_note_page(e, &page);
        op->more = page.more;
        if (rc == 0)
            rc = change_page(e, op, &page, err);
        left -= page.n;
    }
    return rc;
}

static const struct op_route BULK_ROUTE = {.to = ROUTE_BULK};

void bulk_op_init(struct bulk_op *op, const struct bulk *bulk, size_t limit)
{
    if (limit > BULK_CHUNK_MAX)
        limit = BULK_CHUNK_MAX;
    *op = (struct bulk_op){
        .op = {.apply = apply_bulk, .route = &BULK_ROUTE, .weight = limit},
        .kind = bulk->kind,
        .filter = bulk->filter,
        .created_until_ms = bulk->created_until_ms,
        .limit = limit,
    };
}

void bulk_add(struct bulk *bulk, const struct bulk_op *op)
{
    bulk->changed += op->changed;
    bulk->refused += op->refused;
    bulk->filter.after_seq = op->last_seq;
    bulk->finished = !op->more;
}

/* ---- Bulk: at a rate ------------------------------------------------------------------------- */

void bulk_pace_init(struct bulk_pace *pace, const struct rate *rate, int64_t now_ms)
{
    *pace = (struct bulk_pace){.rate = *rate, .next_ms = now_ms};
}

size_t bulk_pace_due(const struct bulk_pace *pace, int64_t now_ms, int64_t *ret_wait_ms)
{
    *ret_wait_ms = 0;
    if (pace->rate.count == 0)
        return BULK_CHUNK_MAX;
    if (now_ms < pace->next_ms) {
        *ret_wait_ms = pace->next_ms - now_ms;
        return 0;
    }
    size_t tenth = pace->rate.count / (10 * (size_t)pace->rate.period_s);
    return tenth < 1 ? 1 : tenth < BULK_CHUNK_MAX ? tenth : BULK_CHUNK_MAX;
}

void bulk_pace_took(struct bulk_pace *pace, size_t n, int64_t now_ms)
{
    if (pace->rate.count == 0)
        return;
    int64_t span = (int64_t)n * pace->rate.period_s * 1000;
    pace->next_ms = now_ms + (span + pace->rate.count - 1) / pace->rate.count;
}
