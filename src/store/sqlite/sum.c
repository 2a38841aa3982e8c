#include "base/err.h"
#include "store/sqlite/private.h"

/* Doubles the array of a page when it is full; the old one stays in the arena until the end. */
static void *grow(struct arena *arena, void *rows, size_t n, size_t size)
{
    if (n & (n - 1))
        return rows;
    void *grown = arena_array(arena, n ? n * 2 : 1, size);
    if (grown && n)
        memcpy(grown, rows, n * size);
    return grown;
}

static int add_attempts(struct store *store, enum statement which, int64_t seq,
                        struct attempt_page *page, struct redrive_err *err)
{
    struct arena *arena = &page->arena;
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        page->attempts = grow(arena, page->attempts, page->n, sizeof *page->attempts);
        if (!page->attempts)
            break;
        page->attempts[page->n++] = (struct job_attempt){
            .epoch = (uint32_t)sqlite3_column_int64(st, 0),
            .number = (uint32_t)sqlite3_column_int64(st, 1),
            .started_ms = sqlite3_column_int64(st, 2),
            .ended_ms = sqlite3_column_int64(st, 3),
            .worker = column_dup(st, 4, arena),
            .outcome = (enum redrive_state)sqlite3_column_int(st, 5),
            .error = {.class_ = (enum redrive_class)sqlite3_column_int(st, 6),
                      .code = sqlite3_column_int(st, 7),
                      .type = column_dup(st, 8, arena),
                      .message = column_dup(st, 9, arena),
                      .stacktrace = column_dup(st, 10, arena)},
            .delay_ms = sqlite3_column_int64(st, 11),
            .why = column_dup(st, 12, arena),
            .next_ms = sqlite3_column_int64(st, 13),
        };
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    return arena->failed ? err_nomem(err) : 0;
}

int sqlite_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                   struct redrive_err *err)
{
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    rc = view_begin(store, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = add_attempts(store, STATEMENT_HISTORY_READ, seqs[i], &ret[i], err);
        if (rc == 0)
            rc = add_attempts(store, STATEMENT_HISTORY_LATEST, seqs[i], &ret[i], err);
    }
    view_end(store);
    if (rc != 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* Counts that this unit has moved and not yet written. */
static int flush_counts(struct store *store, struct redrive_err *err)
{
    return store->in_unit ? lines_flush(store, err) : 0;
}

static int add_queues(struct store *store, struct str tenant, struct queue_page *page,
                      struct redrive_err *err)
{
    struct arena *arena = &page->arena;
    sqlite3_stmt *st = sql_use(store, STATEMENT_QUEUES, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct queue_count queue = {.paused = sqlite3_column_int(st, 11) != 0};
        uint64_t all = 0;
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++) {
            queue.by_state[i] = (uint64_t)sqlite3_column_int64(st, i + 2);
            all += queue.by_state[i];
        }
        if (all == 0 && !queue.paused)
            continue;
        queue.tenant = column_dup(st, 0, arena);
        queue.queue = column_dup(st, 1, arena);
        page->queues = grow(arena, page->queues, page->n, sizeof *page->queues);
        if (!page->queues)
            break;
        page->queues[page->n++] = queue;
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    return arena->failed ? err_nomem(err) : 0;
}

static int time_of_queue(struct store *store, enum statement which, const struct queue_count *queue,
                         int64_t *ret_ms, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, queue->tenant);
    bind_key(st, 2, queue->queue);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        *ret_ms = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int add_times(struct store *store, struct queue_page *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++) {
        struct queue_count *queue = &page->queues[i];
        if (queue->by_state[REDRIVE_STATE_QUEUED])
            rc = time_of_queue(store, STATEMENT_OLDEST_READY, queue, &queue->oldest_ready_ms, err);
        if (rc == 0 &&
            (queue->by_state[REDRIVE_STATE_SCHEDULED] || queue->by_state[REDRIVE_STATE_RETRYING]))
            rc = time_of_queue(store, STATEMENT_NEXT_DUE, queue, &queue->next_due_ms, err);
    }
    return rc;
}

int sqlite_queues(struct store *store, struct str tenant, struct queue_page *ret,
                  struct redrive_err *err)
{
    queue_page_release(ret);
    int rc = view_begin(store, err);
    if (rc == 0)
        rc = flush_counts(store, err);
    if (rc == 0)
        rc = add_queues(store, tenant, ret, err);
    if (rc == 0)
        rc = add_times(store, ret, err);
    view_end(store);
    if (rc != 0)
        queue_page_release(ret);
    return rc;
}

static int add_lines(struct store *store, struct str tenant, struct line_page *page,
                     struct redrive_err *err)
{
    struct arena *arena = &page->arena;
    sqlite3_stmt *st = sql_use(store, STATEMENT_LINES, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct line_count line = {0};
        uint64_t all = 0;
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++) {
            line.by_state[i] = (uint64_t)sqlite3_column_int64(st, i + 3);
            all += line.by_state[i];
        }
        if (all == 0)
            continue;
        line.tenant = column_dup(st, 0, arena);
        line.queue = column_dup(st, 1, arena);
        line.task = column_dup(st, 2, arena);
        page->lines = grow(arena, page->lines, page->n, sizeof *page->lines);
        if (!page->lines)
            break;
        page->lines[page->n++] = line;
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    return arena->failed ? err_nomem(err) : 0;
}

int sqlite_lines(struct store *store, struct str tenant, struct line_page *ret,
                 struct redrive_err *err)
{
    line_page_release(ret);
    int rc = flush_counts(store, err);
    if (rc == 0)
        rc = add_lines(store, tenant, ret, err);
    if (rc != 0)
        line_page_release(ret);
    return rc;
}

static int count_lanes(struct store *store, enum statement which, struct str tenant,
                       struct lane_page *ret, struct redrive_err *err)
{
    struct arena *arena = &ret->arena;
    lane_page_release(ret);
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        ret->lanes = grow(arena, ret->lanes, ret->n, sizeof *ret->lanes);
        if (!ret->lanes)
            break;
        ret->lanes[ret->n++] = (struct lane_count){
            .tenant = column_dup(st, 0, arena),
            .lane = column_dup(st, 1, arena),
            .jobs = (uint64_t)sqlite3_column_int64(st, 2),
            .used = (uint64_t)sqlite3_column_int64(st, 3),
        };
    }
    sqlite3_reset(st);
    if (rc >= 0 && arena->failed)
        rc = err_nomem(err);
    if (rc < 0)
        lane_page_release(ret);
    return rc < 0 ? rc : 0;
}

int sqlite_parked_counts(struct store *store, struct str tenant, struct lane_page *ret,
                         struct redrive_err *err)
{
    return count_lanes(store, STATEMENT_PARKED_COUNTS, tenant, ret, err);
}

int sqlite_running_counts(struct store *store, struct str tenant, struct lane_page *ret,
                          struct redrive_err *err)
{
    return count_lanes(store, STATEMENT_RUNNING_COUNTS, tenant, ret, err);
}
