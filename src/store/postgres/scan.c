/* scan.c - jobs by an index. Jobs whose time has come, and parked jobs, are locked until the
 * transaction ends; the others are locked by their moves. */
#include "base/err.h"
#include "store/postgres/private.h"

#define PAGE_MAX ((size_t)65536)

/* When to look again for jobs that another transaction has locked. */
#define LOCKED_AGAIN_MS 100

/* ---- Made ahead ------------------------------------------------------------------------------ */

static void forget_both(struct scanned *scanned, enum scan_index index)
{
    for (size_t i = 0; i < 2; i++) {
        PQclear(scanned->times[index].both[i]);
        scanned->times[index].both[i] = NULL;
    }
}

void pg_scanned_forget(struct store *store)
{
    for (int index = SCAN_DUE; index <= SCAN_DEADLINES; index++)
        forget_both(&store->scanned, (enum scan_index)index);
    PQclear(pg_scanned_cancels(store));
}

PGresult *pg_scanned_cancels(struct store *store)
{
    PGresult *cancels = store->scanned.cancels;
    store->scanned.cancels = NULL;
    return cancels;
}

/* Makes the answers to a scan that was made ahead those of the last statements. */
static bool take_scanned(struct store *store, enum scan_index index, size_t limit)
{
    struct scanned *scanned = &store->scanned;
    PGresult **both = scanned->times[index].both;
    if (!both[0] || scanned->times[index].limit != limit)
        return false;
    pg_forget_results(store);
    for (size_t i = 0; i < 2 && both[i] && pg_keep_result(store, both[i]); i++)
        both[i] = NULL;
    forget_both(scanned, index);
    return store->n_results == 2;
}

/* ---- By times -------------------------------------------------------------------------------- */

/* The columns of the statement about what follows the jobs that are given. */
enum {
    COLUMN_NEXT,     /* the time of the first one, if as many as asked for are given */
    COLUMN_LATER,    /* the first one whose time has not come */
    COLUMN_HAS_COME, /* how many there are whose time has */
    COLUMN_ANSWER,   /* shared version and time */
    COLUMN_LONGER = COLUMN_ANSWER + 2, /* leases: some were to be looked at, and are longer now */
};

/* Two statements: the jobs whose time has come, and the times after them. */
static int send_look(struct store *store, enum scan_index index, size_t limit,
                     struct redrive_err *err)
{
    static const enum statement STATEMENTS[][2] = {
        [SCAN_DUE] = {STATEMENT_DUE, STATEMENT_DUE_NEXT},
        [SCAN_LEASES] = {STATEMENT_EXPIRED, STATEMENT_EXPIRED_NEXT},
        [SCAN_DEADLINES] = {STATEMENT_OVERDUE, STATEMENT_OVERDUE_NEXT},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        pg_args_int8(&store->args, store->now_ms);
        pg_args_int8(&store->args, (int64_t)limit);
        rc = pg_send(store, STATEMENTS[index][i], true, err);
    }
    return rc;
}

/* Puts both answers into store->results. The shared version is checked: the leader relies on shared
 * rows, and may have been woken because they changed. */
static int look(struct store *store, enum scan_index index, size_t limit, struct redrive_err *err)
{
    if (take_scanned(store, index, limit))
        return 0;
    int rc = pg_rows_flush_seen(store, err);
    if (rc == 0)
        rc = send_look(store, index, limit, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    return rc == 0 ? pg_answer_check(store, store->results[1], COLUMN_ANSWER, err) : rc;
}

/* When the next job's time comes. If the limit was not reached, the jobs that are due and were not
 * given are locked by other transactions, which move them or fail: it is time to look again soon.
 * So it is if no job of those that were found can be read.
 */
static int64_t next_of(const struct store *store, const struct job_page *page, size_t limit)
{
    const PGresult *times = store->results[1];
    const size_t found = (size_t)PQntuples(store->results[0]);
    const bool are_unreadable = found > 0 && page->n == 0;
    if (found == limit && !are_unreadable)
        return pg_get_int(times, 0, COLUMN_NEXT);
    const int64_t next_ms = pg_get_int(times, 0, COLUMN_LATER);
    const int64_t again_ms = store->now_ms + LOCKED_AGAIN_MS;
    const bool is_more = found == limit || pg_get_int(times, 0, COLUMN_HAS_COME) > (int64_t)found;
    return is_more && (next_ms == 0 || again_ms < next_ms) ? again_ms : next_ms;
}

/* Leases are found by the time of their check. For those that were extended since, that time is
 * moved after the transaction: so each is met once per lease. */
static int scan_times(struct store *store, struct scan *scan, size_t limit, struct job_page *ret,
                      struct redrive_err *err)
{
    int rc = look(store, scan->index, limit, err);
    if (rc == 0)
        rc = scan->index == SCAN_DUE
                 ? pg_page_fill_rows(store, store->results[0], SIZE_MAX, ret, err)
                 : pg_page_fill_readable(store, store->results[0], SIZE_MAX, ret, err);
    if (rc == 0)
        rc = pg_rows_keep(store, store->results[0], err);
    if (rc != 0)
        return rc;
    scan->next_ms = next_of(store, ret, limit);
    ret->more = scan->next_ms != 0 && scan->next_ms <= store->now_ms;
    if (scan->index == SCAN_LEASES && pg_get_bool(store->results[1], 0, COLUMN_LONGER))
        store->lease_checks_ms = store->now_ms;
    pg_page_leave_out_moved(store, ret);
    return 0;
}

static size_t limit_of(const struct scan *scan)
{
    return scan->limit < PAGE_MAX ? scan->limit : PAGE_MAX;
}

/* In the order in which they were sent. */
static int keep_scanned(struct store *store, const struct scan *scans, size_t n, bool cancels,
                        struct redrive_err *err)
{
    struct scanned *scanned = &store->scanned;
    PGresult **next = store->results;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = pg_answer_check(store, store->results[2 * i + 1], COLUMN_ANSWER, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        scanned->times[scans[i].index].limit = limit_of(&scans[i]);
        scanned->times[scans[i].index].both[0] = *next++;
        scanned->times[scans[i].index].both[1] = *next++;
    }
    scanned->cancels = cancels ? *next : NULL;
    store->n_results = 0;
    return 0;
}

int postgres_scan_ahead(struct store *store, const struct scan *scans, size_t n, bool cancels,
                        struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    pg_scanned_forget(store);
    if (rc == 0)
        rc = pg_rows_flush_seen(store, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = send_look(store, scans[i].index, limit_of(&scans[i]), err);
    if (rc == 0 && cancels)
        rc = pg_shared_send(store, SHARED_CANCEL, (struct str){NULL, 0}, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    return rc == 0 ? keep_scanned(store, scans, n, cancels, err) : rc;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

static void ask_parked(struct store *store, const struct scan *scan, size_t limit)
{
    pg_args_name(&store->args, scan->tenant);
    pg_args_name(&store->args, scan->name);
    pg_args_int8(&store->args, (int64_t)limit + 1);
}

/* The caller does not look again at a gate that has no more jobs. Jobs that another transaction has
 * locked were skipped, and that transaction may fail: they count as more. */
static int scan_parked(struct store *store, struct scan *scan, size_t limit, struct job_page *ret,
                       struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [SCAN_PARKED_OLDEST] = STATEMENT_PARKED_OLDEST,
        [SCAN_PARKED_PROBES] = STATEMENT_PARKED_PROBES,
        [SCAN_PARKED_NEWEST] = STATEMENT_PARKED_NEWEST,
    };
    const PGresult *result;
    int rc = pg_rows_flush_seen(store, err);
    if (rc != 0)
        return rc;
    ask_parked(store, scan, limit);
    rc = pg_run(store, STATEMENTS[scan->index], &result, err);
    if (rc == 0)
        rc = pg_page_fill_rows(store, result, SIZE_MAX, ret, err);
    if (rc == 0)
        rc = pg_rows_keep(store, result, err);
    pg_page_leave_out_moved(store, ret);
    ret->more = rc == 0 && ret->n > limit;
    if (ret->more)
        ret->n = limit;
    if (rc != 0 || ret->more)
        return rc;
    ask_parked(store, scan, limit);
    rc = pg_run(store, STATEMENT_PARKED_ANY, &result, err);
    ret->more = rc == 0 && pg_get_int(result, 0, 0) > (int64_t)(ret->n + ret->n_unreadable);
    return rc;
}

/* ---- From a place on ------------------------------------------------------------------------- */

static void ask_ready(struct args *args, const struct scan *scan, size_t limit)
{
    pg_args_name(args, scan->tenant);
    pg_args_name(args, scan->name);
    pg_args_int4(args, (int32_t)scan->after.partition);
    pg_args_int4(args, (int32_t)scan->after.priority);
    pg_args_int8(args, scan->after.seq);
    pg_args_int8(args, (int64_t)limit + 1);
}

static void ask_finished(struct args *args, const struct scan *scan, size_t limit)
{
    pg_args_array(args, ARG_INT4);
    for (int state = REDRIVE_STATE_COMPLETED; state <= REDRIVE_STATE_CANCELLED; state++)
        if (scan->states >> state & 1)
            pg_item_int4(args, state);
    pg_args_array_end(args);
    pg_args_int8(args, scan->before_ms);
    pg_args_int8(args, (int64_t)limit + 1);
    pg_args_int8(args, scan->after.ms);
    pg_args_int8(args, scan->after.seq);
}

static int scan_from_place(struct store *store, struct scan *scan, size_t limit,
                           struct job_page *ret, struct redrive_err *err)
{
    const PGresult *result;
    const bool is_ready = scan->index == SCAN_READY;
    (is_ready ? ask_ready : ask_finished)(&store->args, scan, limit);
    int rc = pg_read(store, is_ready ? STATEMENT_READY_IN_QUEUE : STATEMENT_FINISHED, NULL, &result,
                     err);
    if (rc == 0)
        rc = pg_page_fill_rows(store, result, limit, ret, err);
    const size_t n_looked_at = ret->n + ret->n_unreadable;
    if (rc != 0 || n_looked_at == 0)
        return rc;
    const int last = (int)n_looked_at - 1;
    scan->after = (struct scan_place){.ms = pg_get_int(result, last, COLUMN_FINISHED),
                                      .partition = pg_get_int(result, last, COLUMN_PARTITION_ID),
                                      .priority = pg_get_int(result, last, COLUMN_PRIORITY),
                                      .seq = pg_get_int(result, last, COLUMN_SEQ)};
    return 0;
}

int postgres_scan(struct store *store, struct scan *scan, struct job_page *ret,
                  struct redrive_err *err)
{
    const size_t limit = limit_of(scan);
    job_page_release(ret);
    scan->next_ms = 0;
    int rc = pg_transaction_needed(store, err);
    if (rc != 0)
        return rc;
    rc = scan->index <= SCAN_DEADLINES       ? scan_times(store, scan, limit, ret, err)
         : scan->index <= SCAN_PARKED_NEWEST ? scan_parked(store, scan, limit, ret, err)
                                             : scan_from_place(store, scan, limit, ret, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
