/* claim.c - ready jobs of a few partitions: a merge of cursors. */
#include <stdlib.h>

#include "base/err.h"
#include "store/page.h"
#include "store/sqlite/private.h"

/* A claim is a merge. Each partition with ready jobs has a cursor on its part of the index
 * jobs_by_sort_key, which points to the partition's best job; the best of these is taken next. Of
 * one tenant's queues the first in the claim comes before all others, so that a cursor is opened
 * only when the queues before it have no job left. So the cost depends only on the number of
 * partitions that jobs come from and on the number of jobs that are taken. Every change of an index
 * costs SQLite time for each cursor that is open on it, so that this is the best way for a few
 * partitions only; turns.c is for many. */
#define CURSORS_MAX ((size_t)8)

struct cursor {
    struct partition *partition;
    struct partition_place place;
    sqlite3_stmt *cursor;
    bool has_row;
    int32_t priority;
    int64_t seq;
};

/* The partitions that have ready jobs and are wanted. */
struct lined_up {
    struct partition *partitions[READY_PARTITIONS_MAX];
    struct partition_place places[READY_PARTITIONS_MAX];
    size_t n;
    bool are_all;
};

struct merge {
    struct store *store;
    const struct lined_up *lined_up;
    bool has_entered[CURSORS_MAX]; /* those lined up that have a cursor */
    bool by_queue;                 /* one queue after the other */
    struct cursor cursors[CURSORS_MAX];
    size_t n;
    struct page_maker *maker;
    struct claim_totals *totals;
    bool is_cut; /* the next job has more bytes than are left */

    int64_t last_tenant; /* the last tenant that had a turn */
    bool has_left_out;   /* a tenant had only jobs of tasks that have reached their limits */
    int64_t turn_ends;   /* the tenant before it: the next claim begins with the one left out */
};

/* More than this many jobs are not given at once. */
#define CLAIM_MAX ((size_t)65536)

static sqlite3_stmt *cursor_numbered(struct store *store, size_t i, struct redrive_err *err)
{
    if (i < store->n_cursors)
        return store->cursors[i];
    sqlite3_stmt **grown = realloc(store->cursors, (i + 1) * sizeof(sqlite3_stmt *));
    if (!grown) {
        store->last_error = err_nomem(err);
        return NULL;
    }
    store->cursors = grown;
    int rc =
        sqlite3_prepare_v3(store->db, SQL_READY, -1, SQLITE_PREPARE_PERSISTENT, &grown[i], NULL);
    if (rc != SQLITE_OK) {
        store->last_error = sql_error(store, rc, err);
        return NULL;
    }
    store->n_cursors = i + 1;
    return grown[i];
}

/* Whether the row of the job is where the index has it. */
static bool is_in_place(const struct cursor *cursor)
{
    return sqlite3_column_int(cursor->cursor, COLUMN_STATE) == REDRIVE_STATE_QUEUED &&
           sqlite3_column_int64(cursor->cursor, COLUMN_SORT_KEY) ==
               sort_key_ready(cursor->partition, cursor->priority);
}

/* Moves a cursor to its next job. One whose row is damaged is left out, here and in `take`, so that
 * it does not stop the others. */
static int advance(struct merge *merge, struct cursor *cursor, struct redrive_err *err)
{
    int rc;
    do {
        rc = sql_step(merge->store, cursor->cursor, err);
        cursor->has_row = rc > 0;
        if (rc <= 0)
            return rc;
        cursor->seq = sqlite3_column_int64(cursor->cursor, COLUMN_SEQ);
        cursor->priority = sqlite3_column_int(cursor->cursor, COLUMN_PRIORITY);
    } while (!is_in_place(cursor));
    return 0;
}

static int enter(struct merge *merge, size_t i, struct redrive_err *err)
{
    struct partition *partition = merge->lined_up->partitions[i];
    struct cursor *cursor = &merge->cursors[merge->n];
    *cursor = (struct cursor){.partition = partition, .place = merge->lined_up->places[i]};
    cursor->cursor = cursor_numbered(merge->store, merge->n, err);
    if (!cursor->cursor)
        return merge->store->last_error;
    merge->has_entered[i] = true;
    merge->n++;
    bind_int(cursor->cursor, 1, sort_key_ready(partition, INT32_MAX));
    bind_int(cursor->cursor, 2, sort_key_ready(partition, INT32_MIN));
    return advance(merge, cursor, err);
}

/* Opens cursors for the partitions of the next queue, or for all. */
static int enter_next(struct merge *merge, struct redrive_err *err)
{
    const struct lined_up *lined_up = merge->lined_up;
    size_t queue = SIZE_MAX;
    int rc = 0;
    for (size_t i = 0; i < lined_up->n; i++)
        if (!merge->has_entered[i] && lined_up->places[i].queue < queue)
            queue = lined_up->places[i].queue;
    for (size_t i = 0; i < lined_up->n && rc == 0; i++)
        if (!merge->has_entered[i] && (!merge->by_queue || lined_up->places[i].queue == queue))
            rc = enter(merge, i, err);
    return rc;
}

/* Finds the partitions that have ready jobs, by one look into the index for each. */
static int look_for_ready(struct store *store, struct redrive_err *err)
{
    struct ready_partitions *ready = &store->ready;
    int64_t partition_id = 0;
    ready->n = 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_READY_PARTITIONS, err);
    if (!st)
        return store->last_error;
    for (;;) {
        bind_int(st, 1, partition_id << 32);
        int rc = partition_id <= INT32_MAX ? sql_step(store, st, err) : 0;
        ready->are_all = rc == 0;
        if (rc <= 0)
            return rc;
        partition_id = sqlite3_column_int64(st, 0);
        sqlite3_reset(st);
        if (ready->n == READY_PARTITIONS_MAX)
            return 0;
        rc = partition_numbered(store, partition_id++, &ready->partitions[ready->n], err);
        if (rc != 0)
            return rc;
        ready->n++;
    }
}

static int line_up(struct store *store, const struct claim_filter *filter, struct lined_up *ret,
                   struct redrive_err *err)
{
    struct ready_partitions *ready = &store->ready;
    const uint64_t n_ready = store->partitions.n_ready;
    if (!ready->is_known || ready->n_ready != n_ready) {
        int rc = look_for_ready(store, err);
        ready->is_known = rc == 0;
        ready->n_ready = n_ready;
        if (rc != 0)
            return rc;
    }
    ret->are_all = ready->are_all;
    ret->n = 0;
    for (size_t i = 0; i < ready->n; i++)
        if (claim_wants(store, filter, ready->partitions[i], &ret->places[ret->n]))
            ret->partitions[ret->n++] = ready->partitions[i];
    return 0;
}

static bool are_of_one_tenant(const struct lined_up *lined_up)
{
    for (size_t i = 1; i < lined_up->n; i++)
        if (lined_up->partitions[i]->tenant_id != lined_up->partitions[0]->tenant_id)
            return false;
    return true;
}

static bool precedes(const struct cursor *a, const struct cursor *b)
{
    if (a->place.queue != b->place.queue)
        return a->place.queue < b->place.queue;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->seq < b->seq;
}

/* The tenant with ready jobs that follows the last one, in a circle; 0: there is none. */
static int64_t next_tenant(const struct merge *merge)
{
    int64_t next = INT64_MAX, first = INT64_MAX;
    for (size_t i = 0; i < merge->n; i++) {
        int64_t tenant = merge->cursors[i].partition->tenant_id;
        if (!merge->cursors[i].has_row)
            continue;
        if (tenant < first)
            first = tenant;
        if (tenant > merge->last_tenant && tenant < next)
            next = tenant;
    }
    return next != INT64_MAX ? next : first != INT64_MAX ? first : 0;
}

static bool may_run(const struct merge *merge, const struct cursor *cursor)
{
    return cursor->has_row && !claim_totals_is_full(merge->totals, cursor->place.task);
}

static bool any_may_run(const struct merge *merge)
{
    for (size_t i = 0; i < merge->n; i++)
        if (may_run(merge, &merge->cursors[i]))
            return true;
    return false;
}

static struct cursor *best_of_tenant(struct merge *merge, int64_t tenant_id)
{
    struct cursor *best = NULL;
    for (size_t i = 0; i < merge->n; i++) {
        struct cursor *cursor = &merge->cursors[i];
        if (cursor->partition->tenant_id == tenant_id && may_run(merge, cursor) &&
            (!best || precedes(cursor, best)))
            best = cursor;
    }
    return best;
}

/* The next claim begins with the first tenant that was left out because its tasks had reached their
 * limits: otherwise it could be left out every time. */
static struct cursor *best_of_next_tenant(struct merge *merge)
{
    for (size_t i = 0; i < merge->n; i++) {
        const int64_t tenant_id = next_tenant(merge);
        struct cursor *best = best_of_tenant(merge, tenant_id);
        if (best || tenant_id == 0)
            return best;
        if (!merge->has_left_out) {
            merge->has_left_out = true;
            merge->turn_ends = merge->last_tenant;
        }
        merge->last_tenant = tenant_id;
    }
    return NULL;
}

/* Adds a job to the page, if it fits. The cursor has all columns of a fresh job, whose row is kept
 * for the start that follows. */
static int take(struct merge *merge, const struct cursor *cursor, struct redrive_err *err)
{
    struct job_page *page = merge->maker->page;
    const bool is_fresh = sqlite3_column_int64(cursor->cursor, COLUMN_EPOCH) == 0 &&
                          sqlite3_column_type(cursor->cursor, COLUMN_PACKED_STATUS) == SQLITE_NULL;
    int rc = is_fresh ? page_add(merge->maker, cursor->cursor, err)
                      : page_add_numbered(merge->maker, cursor->seq, err);
    if (rc != 0)
        return sql_leave_out(merge->store, page, rc, err);
    const struct job *job = &page->jobs[page->n - 1];
    merge->is_cut = !claim_totals_fits(merge->totals, job->spec.payload.len);
    if (merge->is_cut) {
        page->n--;
        return 0;
    }
    claim_totals_add(merge->totals, cursor->place.task, job->spec.payload.len);
    if (is_fresh)
        row_keep_job(merge->store, cursor->partition, job);
    return 0;
}

/* Opens cursors until one of them has a job that may run. */
static int enter_until_any(struct merge *merge, struct redrive_err *err)
{
    int rc = 0;
    while (rc == 0 && merge->n < merge->lined_up->n && !any_may_run(merge))
        rc = enter_next(merge, err);
    return rc;
}

static int run_merge(struct merge *merge, size_t limit, struct redrive_err *err)
{
    struct job_page *page = merge->maker->page;
    struct cursor *best;
    int rc = enter_until_any(merge, err);
    while (rc == 0 && page->n < limit && (best = best_of_next_tenant(merge)) != NULL) {
        rc = take(merge, best, err);
        if (rc != 0 || merge->is_cut)
            break;
        merge->last_tenant = best->partition->tenant_id;
        rc = advance(merge, best, err);
        if (rc == 0)
            rc = enter_until_any(merge, err);
    }
    page->more = rc == 0 && any_may_run(merge);
    return rc;
}

static int merge(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
                 const struct lined_up *lined_up, struct claim_totals *totals,
                 struct redrive_err *err)
{
    struct store *store = maker->store;
    struct merge merge = {.store = store,
                          .lined_up = lined_up,
                          .by_queue = are_of_one_tenant(lined_up),
                          .maker = maker,
                          .totals = totals,
                          .last_tenant = store->last_tenant};
    int rc = run_merge(&merge, limit, err);
    for (size_t i = 0; i < merge.n; i++)
        sqlite3_reset(merge.cursors[i].cursor);
    if (!filter->tenant.len)
        store->last_tenant = merge.has_left_out ? merge.turn_ends : merge.last_tenant;
    return rc;
}

int sqlite_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    size_t limit = filter->limit < CLAIM_MAX ? filter->limit : CLAIM_MAX;
    struct page_maker maker;
    struct lined_up lined_up;
    struct claim_totals totals;
    job_page_release(ret);
    if (!claim_totals_init(&totals, filter))
        return err_nomem(err);
    int rc = transaction_needed(store, err);
    if (rc == 0)
        rc = claim_read_pauses(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, limit, err);
    if (rc == 0)
        rc = line_up(store, filter, &lined_up, err);
    if (rc == 0 && lined_up.are_all && lined_up.n <= CURSORS_MAX)
        rc = merge(&maker, filter, limit, &lined_up, &totals, err);
    else if (rc == 0)
        rc = turns_take(&maker, filter, limit, lined_up.are_all ? lined_up.partitions : NULL,
                        lined_up.n, &totals, err);
    claim_totals_release(&totals);
    if (rc == 0)
        rc = sqlite_page_add_limits(store, ret, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
