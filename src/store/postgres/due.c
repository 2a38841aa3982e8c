#include "base/err.h"
#include "store/postgres/private.h"

#define PAGE_MAX ((size_t)65536)

/* When to look again for jobs that another unit has locked. */
#define LOCKED_AGAIN_MS 100

static size_t bounded(size_t limit)
{
    return limit < PAGE_MAX ? limit : PAGE_MAX;
}

/* Of what comes after the jobs that are given. */
enum {
    COLUMN_NEXT,     /* the time of the first one, if as many as asked for are given */
    COLUMN_LATER,    /* the first one whose time has not come */
    COLUMN_HAS_COME, /* how many there are whose time has */
    COLUMN_ANSWER,   /* shared version and time */
    COLUMN_LONGER = COLUMN_ANSWER + 2, /* leases: some were to be looked at, and are longer now */
};

/* Two statements at once: the jobs whose time has come, and what comes after them. Whoever keeps
 * time goes by what processes share, and may have been woken because it has changed. */
static int look(struct store *store, enum statement jobs, enum statement next, size_t limit,
                struct redrive_err *err)
{
    const enum statement both[] = {jobs, next};
    int rc = pg_unit_needed(store, err);
    if (rc == 0)
        rc = pg_rows_flush_seen(store, err);
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        pg_args_int8(&store->args, store->now_ms);
        pg_args_int8(&store->args, (int64_t)limit);
        rc = pg_send(store, both[i], true, err);
    }
    if (rc == 0)
        rc = pg_sync(store, err);
    return rc == 0 ? pg_answer_check(store, store->results[1], COLUMN_ANSWER, err) : rc;
}

/* When the next one's time comes. If the limit was not reached, those whose time has come and that
 * were not given are locked by others, who see to them unless they fail: a moment later that is
 * known. */
static int64_t next_of(const struct store *store, size_t given, size_t limit)
{
    const PGresult *times = store->results[1];
    if (given == limit)
        return pg_get_int(times, 0, COLUMN_NEXT);
    const int64_t next_ms = pg_get_int(times, 0, COLUMN_LATER);
    const int64_t again_ms = store->now_ms + LOCKED_AGAIN_MS;
    const bool some_are_locked = pg_get_int(times, 0, COLUMN_HAS_COME) > (int64_t)given;
    return some_are_locked && (next_ms == 0 || again_ms < next_ms) ? again_ms : next_ms;
}

int postgres_promote_due(struct store *store, size_t limit, size_t *ret_moved, int64_t *ret_next_ms,
                         struct redrive_err *err)
{
    limit = bounded(limit);
    *ret_moved = 0;
    *ret_next_ms = 0;
    int rc = look(store, STATEMENT_DUE, STATEMENT_DUE_NEXT, limit, err);
    if (rc == 0)
        rc = pg_lines_know(store, store->results[0], COLUMN_LINE_ID, err);
    const int n = rc == 0 ? PQntuples(store->results[0]) : 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        const struct row *row = pg_row_keep(store, store->results[0], i);
        struct move_result result;
        if (!row)
            return err_nomem(err);
        rc = pg_row_move(store, &(struct move){row->seq, MOVE_PROMOTE}, &result, err);
        *ret_moved += result.code == 0;
    }
    if (rc == 0)
        *ret_next_ms = next_of(store, (size_t)n, limit);
    return rc;
}

static int page_of(struct store *store, enum statement jobs, enum statement next, size_t limit,
                   struct job_page *ret, int64_t *ret_next_ms, struct redrive_err *err)
{
    limit = bounded(limit);
    *ret_next_ms = 0;
    job_page_release(ret);
    int rc = look(store, jobs, next, limit, err);
    if (rc == 0)
        rc = pg_page_fill_locked(store, store->results[0], ret, err);
    if (rc == 0) {
        *ret_next_ms = next_of(store, ret->n, limit);
        ret->more = *ret_next_ms != 0 && *ret_next_ms <= store->now_ms;
        pg_page_leave_out_moved(store, ret);
    }
    return rc;
}

/* Jobs are looked for by the time at which their leases were to be looked at. Those whose lease is
 * longer by now get that time afterwards, outside of the unit: so each is met once a lease. */
int postgres_expired(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                     struct redrive_err *err)
{
    int rc =
        page_of(store, STATEMENT_EXPIRED, STATEMENT_EXPIRED_NEXT, limit, ret, ret_next_ms, err);
    if (rc == 0 && pg_get_bool(store->results[1], 0, COLUMN_LONGER))
        store->lease_checks_ms = store->now_ms;
    return rc;
}

int postgres_overdue(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                     struct redrive_err *err)
{
    return page_of(store, STATEMENT_OVERDUE, STATEMENT_OVERDUE_NEXT, limit, ret, ret_next_ms, err);
}

static void ask_parked(struct store *store, struct str tenant, struct str lane, size_t limit)
{
    pg_args_name(&store->args, tenant);
    pg_args_name(&store->args, lane);
    pg_args_int8(&store->args, (int64_t)limit + 1);
}

/* Whoever is told that a lane has no more jobs does not look there again. Those that another unit
 * has locked were passed over, and that unit may yet fail: they count. */
int postgres_parked(struct store *store, struct str tenant, struct str lane,
                    enum parked_order order, size_t limit, struct job_page *ret,
                    struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [PARKED_OLDEST] = STATEMENT_PARKED_OLDEST,
        [PARKED_PROBES] = STATEMENT_PARKED_PROBES,
        [PARKED_NEWEST] = STATEMENT_PARKED_NEWEST,
    };
    const PGresult *result;
    limit = bounded(limit);
    job_page_release(ret);
    int rc = pg_unit_needed(store, err);
    if (rc != 0)
        return rc;
    rc = pg_rows_flush_seen(store, err);
    if (rc != 0)
        return rc;
    ask_parked(store, tenant, lane, limit);
    rc = pg_run(store, STATEMENTS[order], &result, err);
    if (rc == 0)
        rc = pg_page_fill_locked(store, result, ret, err);
    pg_page_leave_out_moved(store, ret);
    ret->more = rc == 0 && ret->n > limit;
    if (ret->more)
        ret->n = limit;
    if (rc != 0 || ret->more)
        return rc;
    ask_parked(store, tenant, lane, limit);
    rc = pg_run(store, STATEMENT_PARKED_ANY, &result, err);
    ret->more = rc == 0 && pg_get_int(result, 0, 0) > (int64_t)ret->n;
    return rc;
}

/* The jobs are found without a lock; those that have started are then locked, all at once. */
int postgres_credit_pause(struct store *store, struct pause_credit *credit, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result;
    const size_t limit = bounded(credit->limit);
    credit->more = false;
    int rc = pg_unit_needed(store, err);
    if (rc != 0 || credit->since_ms >= credit->until_ms)
        return rc;
    pg_args_name(args, credit->tenant);
    pg_args_name(args, credit->queue);
    pg_args_int4(args, (int32_t)credit->at_line);
    pg_args_int4(args, (int32_t)credit->at_priority);
    pg_args_int8(args, credit->at_seq);
    pg_args_int8(args, (int64_t)limit + 1);
    rc = pg_read(store, STATEMENT_PAUSED_JOBS, NULL, &result, err);
    if (rc != 0)
        return rc;
    const size_t n = (size_t)PQntuples(result);
    credit->more = n > limit;
    int64_t *seqs = arena_array(&store->arena, limit, sizeof *seqs);
    size_t started = 0;
    for (size_t i = 0; seqs && i < n && i < limit; i++) {
        credit->at_line = pg_get_int(result, (int)i, COLUMN_LINE_ID);
        credit->at_priority = pg_get_int(result, (int)i, COLUMN_PRIORITY);
        credit->at_seq = pg_get_int(result, (int)i, COLUMN_SEQ);
        if (pg_get_int(result, (int)i, COLUMN_FIRST_STARTED) != 0)
            seqs[started++] = credit->at_seq;
    }
    rc = seqs ? pg_rows_lock(store, seqs, started, err) : err_nomem(err);
    for (size_t i = 0; rc == 0 && i < started; i++) {
        const struct move move = {seqs[i], MOVE_CREDIT, .credit = credit};
        struct move_result ignored;
        rc = pg_row_move(store, &move, &ignored, err);
    }
    return rc;
}
