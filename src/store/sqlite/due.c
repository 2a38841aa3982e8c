#include "base/err.h"
#include "store/sqlite/private.h"

#define PAGE_MAX  ((size_t)65536)
#define STALE_MAX 256

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
        struct move_result result;
        rc = row_move(store, &(struct move){seq, MOVE_PROMOTE}, &result, err);
        if (rc != 0)
            return rc;
        if (result.code != 0)
            return sql_damaged(store, seq, "the index of due jobs is wrong", err);
        ++*ret_moved;
    }
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
        rc = page_add_numbered(&maker, sqlite3_column_int64(st, 0), err);
        if (rc != 0)
            break;
    }
    sqlite3_reset(st);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

/* Rows of jobs that have ended or are gone, found on the way. */
struct stale {
    struct {
        int64_t deadline_ms;
        int64_t seq;
    } rows[STALE_MAX];
    size_t n;
};

static int remove_stale(struct store *store, const struct stale *stale, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < stale->n && rc == 0; i++) {
        sqlite3_stmt *st = sql_use(store, STATEMENT_DEADLINE_REMOVE, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, stale->rows[i].deadline_ms);
        bind_int(st, 2, stale->rows[i].seq);
        rc = sql_run(store, st, err);
    }
    return rc;
}

/* Walks over the deadlines that have come. A job that runs is passed over, and found again when it
 * waits again. */
static int walk_deadlines(struct page_maker *maker, sqlite3_stmt *st, size_t limit,
                          struct stale *stale, int64_t *ret_next_ms, struct redrive_err *err)
{
    struct store *store = maker->store;
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        const int64_t seq = sqlite3_column_int64(st, 0), at_ms = sqlite3_column_int64(st, 1);
        const int state = sqlite3_column_int(st, 2);
        const bool has_ended = state >= REDRIVE_STATE_COMPLETED;
        if (at_ms > store->now_ms || (has_ended && stale->n == STALE_MAX)) {
            *ret_next_ms = at_ms;
            return 0;
        }
        if (has_ended) {
            stale->rows[stale->n].deadline_ms = at_ms;
            stale->rows[stale->n++].seq = seq;
        } else if (state != REDRIVE_STATE_RUNNING && maker->page->n == limit) {
            *ret_next_ms = at_ms;
            maker->page->more = true;
            return 0;
        } else if (state != REDRIVE_STATE_RUNNING) {
            rc = page_add_numbered(maker, seq, err);
            if (rc != 0)
                return rc;
        }
    }
    return rc;
}

int sqlite_overdue(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                   struct redrive_err *err)
{
    struct page_maker maker;
    struct stale stale = {.n = 0};
    *ret_next_ms = 0;
    limit = limit < PAGE_MAX ? limit : PAGE_MAX;
    job_page_release(ret);
    int rc = unit_needed(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, limit, err);
    if (rc != 0)
        return rc;
    sqlite3_stmt *st = sql_use(store, STATEMENT_DEADLINES, err);
    if (!st)
        return store->last_error;
    rc = walk_deadlines(&maker, st, limit, &stale, ret_next_ms, err);
    sqlite3_reset(st);
    if (rc == 0)
        rc = remove_stale(store, &stale, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* ---- Pauses ---------------------------------------------------------------------------------- */

/* Goes on to the next line of the queue: 1, 0 when there is none, or a negative code. */
static int next_line(struct store *store, struct pause_credit *credit, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_QUEUE_LINES, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, credit->tenant);
    bind_key(st, 2, credit->queue);
    bind_int(st, 3, credit->at_line);
    int rc = sql_step(store, st, err);
    if (rc > 0) {
        credit->at_line = sqlite3_column_int64(st, 0);
        credit->at_priority = READY_START;
    }
    sqlite3_reset(st);
    return rc;
}

static int next_job(struct store *store, struct pause_credit *credit, struct redrive_err *err)
{
    int rc = 0;
    if (credit->at_line != 0)
        rc = ready_after(store, credit->at_line, &credit->at_priority, &credit->at_seq, err);
    while (rc == 0 && (rc = next_line(store, credit, err)) > 0)
        rc = ready_after(store, credit->at_line, &credit->at_priority, &credit->at_seq, err);
    return rc;
}

int sqlite_credit_pause(struct store *store, struct pause_credit *credit, struct redrive_err *err)
{
    credit->more = false;
    int rc = unit_needed(store, err);
    if (rc != 0 || credit->since_ms >= credit->until_ms)
        return rc;
    for (size_t looked = 0; rc == 0; looked++) {
        if (looked == credit->limit) {
            credit->more = true;
            return 0;
        }
        rc = next_job(store, credit, err);
        if (rc <= 0)
            return rc;
        const struct move move = {credit->at_seq, MOVE_CREDIT, .credit = credit};
        struct move_result ignored;
        rc = row_move(store, &move, &ignored, err);
    }
    return rc;
}

static sqlite3_stmt *use_for_lane(struct store *store, enum statement which, struct str tenant,
                                  struct str lane, size_t limit, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (st) {
        bind_key(st, 1, tenant);
        bind_key(st, 2, lane);
        bind_int(st, 3, (int64_t)limit);
    }
    return st;
}

/* The newest are given of one rank only: the lane may have jobs of others. */
static int look_for_more(struct store *store, struct str tenant, struct str lane,
                         struct job_page *page, struct redrive_err *err)
{
    sqlite3_stmt *st = use_for_lane(store, STATEMENT_PARKED_COUNT, tenant, lane, page->n + 1, err);
    if (!st)
        return store->last_error;
    int rc = sql_step(store, st, err);
    if (rc > 0)
        page->more = sqlite3_column_int64(st, 0) > (int64_t)page->n;
    sqlite3_reset(st);
    if (rc < 0)
        job_page_release(page);
    return rc < 0 ? rc : 0;
}

int sqlite_parked(struct store *store, struct str tenant, struct str lane, enum parked_order order,
                  size_t limit, struct job_page *ret, struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [PARKED_OLDEST] = STATEMENT_PARKED_OLDEST,
        [PARKED_PROBES] = STATEMENT_PARKED_PROBES,
        [PARKED_NEWEST] = STATEMENT_PARKED_NEWEST,
    };
    limit = limit < PAGE_MAX ? limit : PAGE_MAX;
    job_page_release(ret);
    int rc = unit_needed(store, err);
    if (rc != 0)
        return rc;
    sqlite3_stmt *st = use_for_lane(store, STATEMENTS[order], tenant, lane, limit + 1, err);
    if (!st)
        return store->last_error;
    rc = page_fill(store, st, limit, ret, err);
    return rc == 0 && order == PARKED_NEWEST ? look_for_more(store, tenant, lane, ret, err) : rc;
}
