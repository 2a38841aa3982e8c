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

/* Counts that this transaction has moved and not yet written. */
static int flush_counts(struct store *store, struct redrive_err *err)
{
    return store->in_transaction ? partitions_flush(store, err) : 0;
}

/* The columns of a statement of counts. */
enum count_column {
    COUNT_COLUMN_TENANT,
    COUNT_COLUMN_QUEUE,
    COUNT_COLUMN_TASK,
    COUNT_COLUMN_GATE,
    COUNT_COLUMN_JOBS,
    COUNT_COLUMN_USED,
    COUNT_COLUMN_STATES, /* of queues and partitions only */
    COUNT_COLUMN_PAUSED = COUNT_COLUMN_STATES + REDRIVE_STATE_COUNT,
};

/* False: a partition whose jobs are gone. */
static bool read_count(sqlite3_stmt *st, struct arena *arena, struct job_count *ret)
{
    *ret = (struct job_count){.jobs = (uint64_t)sqlite3_column_int64(st, COUNT_COLUMN_JOBS),
                              .used = (uint64_t)sqlite3_column_int64(st, COUNT_COLUMN_USED)};
    bool is_any = ret->jobs + ret->used > 0;
    if (sqlite3_column_count(st) > COUNT_COLUMN_STATES) {
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++) {
            ret->by_state[i] = (uint64_t)sqlite3_column_int64(st, COUNT_COLUMN_STATES + i);
            is_any |= ret->by_state[i] > 0;
        }
        ret->paused = sqlite3_column_int(st, COUNT_COLUMN_PAUSED) != 0;
    }
    if (!is_any && !ret->paused)
        return false;
    ret->tenant = column_dup(st, COUNT_COLUMN_TENANT, arena);
    ret->queue = column_dup(st, COUNT_COLUMN_QUEUE, arena);
    ret->task = column_dup(st, COUNT_COLUMN_TASK, arena);
    ret->gate = column_dup(st, COUNT_COLUMN_GATE, arena);
    return true;
}

static int add_counts(struct store *store, enum statement which, struct str tenant,
                      struct count_page *page, struct redrive_err *err)
{
    struct arena *arena = &page->arena;
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct job_count count;
        if (!read_count(st, arena, &count))
            continue;
        page->counts = grow(arena, page->counts, page->n, sizeof *page->counts);
        if (!page->counts)
            break;
        page->counts[page->n++] = count;
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    return arena->failed ? err_nomem(err) : 0;
}

static int time_of_queue(struct store *store, enum statement which, const struct job_count *queue,
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

static int add_times(struct store *store, struct count_page *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++) {
        struct job_count *queue = &page->counts[i];
        if (queue->by_state[REDRIVE_STATE_QUEUED])
            rc = time_of_queue(store, STATEMENT_OLDEST_READY, queue, &queue->oldest_ready_ms, err);
        if (rc == 0 &&
            (queue->by_state[REDRIVE_STATE_SCHEDULED] || queue->by_state[REDRIVE_STATE_RETRYING]))
            rc = time_of_queue(store, STATEMENT_NEXT_DUE, queue, &queue->next_due_ms, err);
    }
    return rc;
}

int sqlite_counts(struct store *store, enum count_kind kind, struct str tenant,
                  struct count_page *ret, struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [COUNT_QUEUES] = STATEMENT_QUEUES,
        [COUNT_PARTITIONS] = STATEMENT_PARTITIONS,
        [COUNT_PARKED] = STATEMENT_PARKED_COUNTS,
        [COUNT_RUNNING] = STATEMENT_RUNNING_COUNTS,
    };
    count_page_release(ret);
    int rc = view_begin(store, err);
    if (rc == 0)
        rc = flush_counts(store, err);
    if (rc == 0)
        rc = add_counts(store, STATEMENTS[kind], tenant, ret, err);
    if (rc == 0 && kind == COUNT_QUEUES)
        rc = add_times(store, ret, err);
    view_end(store);
    if (rc != 0)
        count_page_release(ret);
    return rc;
}
