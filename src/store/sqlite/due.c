#include "base/err.h"
#include "store/sqlite/private.h"

#define PAGE_MAX ((size_t)65536)

/* The first job in the order of a statement of (seq, time); 1, 0 for none, or a negative code. */
static int first(struct store *store, enum statement which, int64_t *ret_seq, int64_t *ret_ms,
                 struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, 1);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    *ret_seq = sqlite3_column_int64(st, 0);
    *ret_ms = sqlite3_column_int64(st, 1);
    sqlite3_reset(st);
    return 1;
}

int sqlite_promote_due(struct store *store, size_t limit, size_t *ret_moved, int64_t *ret_next_ms,
                       struct redrive_err *err)
{
    int64_t seq = 0, due_ms = 0;
    *ret_moved = 0;
    *ret_next_ms = 0;
    int rc = unit_needed(store, err);
    if (rc != 0)
        return rc;
    /* A job that has moved has left the index: the next one is the first again. */
    while ((rc = first(store, STATEMENT_DUE, &seq, &due_ms, err)) > 0) {
        if (due_ms > store->now_ms || *ret_moved == limit) {
            *ret_next_ms = due_ms;
            return 0;
        }
        struct row row;
        rc = row_read(store, seq, &row, err);
        if (rc <= 0)
            return rc < 0 ? rc : sql_damaged(store, seq, "the index of due jobs is wrong", err);
        row.s.state = REDRIVE_STATE_QUEUED;
        rc = row_write(store, &row, NULL, err);
        if (rc != 0)
            return rc;
        ++*ret_moved;
    }
    return rc;
}

static int add_job(struct page_maker *maker, int64_t seq, struct redrive_err *err)
{
    struct store *store = maker->store;
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc < 0 ? rc : sql_damaged(store, seq, "an index leads to no job", err);
    rc = page_add(maker, st, err);
    sqlite3_reset(st);
    return rc;
}

int sqlite_expired(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                   struct redrive_err *err)
{
    struct page_maker maker;
    *ret_next_ms = 0;
    limit = limit < PAGE_MAX ? limit : PAGE_MAX;
    job_page_release(ret);
    int rc = unit_needed(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, limit, err);
    if (rc != 0)
        return rc;
    sqlite3_stmt *st = sql_use(store, STATEMENT_LEASED, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, (int64_t)limit + 1);
    while ((rc = sql_step(store, st, err)) > 0) {
        int64_t until_ms = sqlite3_column_int64(st, 1);
        if (until_ms > store->now_ms || ret->n == limit) {
            *ret_next_ms = until_ms;
            ret->more = until_ms <= store->now_ms;
            rc = 0;
            break;
        }
        rc = add_job(&maker, sqlite3_column_int64(st, 0), err);
        if (rc != 0)
            break;
    }
    sqlite3_reset(st);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

int sqlite_parked(struct store *store, struct str tenant, struct str lane, bool probe_order,
                  size_t limit, struct job_page *ret, struct redrive_err *err)
{
    limit = limit < PAGE_MAX ? limit : PAGE_MAX;
    job_page_release(ret);
    int rc = unit_needed(store, err);
    if (rc != 0)
        return rc;
    sqlite3_stmt *st =
        sql_use(store, probe_order ? STATEMENT_PARKED_PROBES : STATEMENT_PARKED_OLDEST, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, lane);
    bind_int(st, 3, (int64_t)limit + 1);
    return page_fill(store, st, limit, ret, err);
}
