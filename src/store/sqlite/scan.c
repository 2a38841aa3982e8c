/* scan.c - jobs by an index. Each index gives seqs, with the time that it is ordered by; the jobs
 * are then read by their seqs. */
#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

#define PAGE_MAX  ((size_t)65536)
#define STALE_MAX 256
#define FIRST_MAX ((size_t)16) /* room at first: most scans find few */

/* ---- What is given of a job -------------------------------------------------------------------
 */

/* The part that moves; the row is kept for the move that follows. */
static int add_row(struct page_maker *maker, int64_t seq, struct redrive_err *err)
{
    struct store *store = maker->store;
    struct job_page *page = maker->page;
    struct row row;
    int rc = row_read(store, seq, &row, err);
    if (rc <= 0)
        return rc < 0 ? rc : sql_damaged(store, seq, "an index leads to no job", err);
    row_keep(store, &row);
    struct job *job = &page->jobs[page->n];
    *job = (struct job){.spec = {.tenant = arena_str(&page->arena, row.partition->tenant),
                                 .queue = arena_str(&page->arena, row.partition->queue),
                                 .task = arena_str(&page->arena, row.partition->task),
                                 .priority = row.priority},
                        .status = row.s};
    if (page->arena.failed)
        return err_nomem(err);
    page->n++;
    return 0;
}

static int add_policy(struct page_maker *maker, int64_t seq, struct redrive_err *err)
{
    struct job_page *page = maker->page;
    sqlite3_stmt *st = sql_use(maker->store, STATEMENT_OWN_POLICY, err);
    if (!st)
        return maker->store->last_error;
    bind_int(st, 1, seq);
    int rc = sql_step(maker->store, st, err);
    if (rc > 0)
        page->jobs[page->n - 1].spec.policy = column_dup(st, 0, &page->arena);
    sqlite3_reset(st);
    return rc < 0 ? rc : page->arena.failed ? err_nomem(err) : 0;
}

/* Adds the job to the page; one whose row is damaged is left out. */
static int add_job(struct page_maker *maker, const struct scan *scan, int64_t seq,
                   struct redrive_err *err)
{
    const bool is_whole = scan->index == SCAN_LEASES || scan->index == SCAN_DEADLINES;
    if (!page_make_room(maker))
        return err_nomem(err);
    int rc = is_whole ? page_add_numbered(maker, seq, err) : add_row(maker, seq, err);
    if (rc == 0 && scan->index == SCAN_FINISHED)
        rc = add_policy(maker, seq, err);
    return rc == 0 ? 0 : sql_leave_out(maker->store, maker->page, rc, err);
}

/* Whether the page has as many as were asked for; the next job is then not read. */
static bool is_full(struct page_maker *maker, const struct scan *scan)
{
    maker->page->more = maker->page->n == scan->limit;
    return maker->page->more;
}

/* ---- By times -------------------------------------------------------------------------------- */

static int scan_times(struct page_maker *maker, struct scan *scan, struct redrive_err *err)
{
    struct store *store = maker->store;
    struct job_page *page = maker->page;
    sqlite3_stmt *st =
        sql_use(store, scan->index == SCAN_DUE ? STATEMENT_DUE : STATEMENT_LEASED, err);
    if (!st)
        return store->last_error;
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        const int64_t seq = sqlite3_column_int64(st, 0), at_ms = sqlite3_column_int64(st, 1);
        if (at_ms > store->now_ms || page->n == scan->limit) {
            scan->next_ms = at_ms;
            page->more = at_ms <= store->now_ms;
            rc = 0;
            break;
        }
        rc = add_job(maker, scan, seq, err);
        if (rc != 0)
            break;
    }
    sqlite3_reset(st);
    return rc;
}

/* Deadlines of jobs that have ended or are gone, to be removed. */
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

/* Reads the deadlines that have passed. A running job is skipped: it is found again once it waits.
 */
static int walk_deadlines(struct page_maker *maker, struct scan *scan, sqlite3_stmt *st,
                          struct stale *stale, struct redrive_err *err)
{
    struct store *store = maker->store;
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        const int64_t seq = sqlite3_column_int64(st, 0), at_ms = sqlite3_column_int64(st, 1);
        const int state = sqlite3_column_int(st, 2);
        const bool has_ended = column_is_below(st, 2, REDRIVE_STATE_COUNT) &&
                               state_has_ended((enum redrive_state)state);
        if (at_ms > store->now_ms || (has_ended && stale->n == STALE_MAX)) {
            scan->next_ms = at_ms;
            return 0;
        }
        if (has_ended) {
            stale->rows[stale->n].deadline_ms = at_ms;
            stale->rows[stale->n++].seq = seq;
        } else if (state != REDRIVE_STATE_RUNNING && maker->page->n == scan->limit) {
            scan->next_ms = at_ms;
            maker->page->more = true;
            return 0;
        } else if (state != REDRIVE_STATE_RUNNING) {
            rc = add_job(maker, scan, seq, err);
            if (rc != 0)
                return rc;
        }
    }
    return rc;
}

static int scan_deadlines(struct page_maker *maker, struct scan *scan, struct redrive_err *err)
{
    struct stale stale = {.n = 0};
    sqlite3_stmt *st = sql_use(maker->store, STATEMENT_DEADLINES, err);
    if (!st)
        return maker->store->last_error;
    int rc = walk_deadlines(maker, scan, st, &stale, err);
    sqlite3_reset(st);
    return rc == 0 ? remove_stale(maker->store, &stale, err) : rc;
}

/* ---- From a place on ------------------------------------------------------------------------- */

/* A brief scan of one state reads only the index: that is how completed jobs are removed. */
static bool is_brief(const struct scan *scan)
{
    return scan->brief && __builtin_popcount(scan->states) == 1 &&
           state_has_ended((enum redrive_state)__builtin_ctz(scan->states));
}

static int add_brief(struct page_maker *maker, const struct scan *scan, struct redrive_err *err)
{
    if (!page_make_room(maker))
        return err_nomem(err);
    maker->page->jobs[maker->page->n++] =
        (struct job){.status = {.seq = scan->after.seq,
                                .state = (enum redrive_state)__builtin_ctz(scan->states),
                                .finished_ms = scan->after.ms}};
    return 0;
}

/* Whether a job stands after the place from which a scan goes on. */
static bool is_after(const struct scan_place *place, int64_t ms, int64_t seq)
{
    return ms > place->ms || (ms == place->ms && seq > place->seq);
}

static int scan_finished(struct page_maker *maker, struct scan *scan, struct redrive_err *err)
{
    struct store *store = maker->store;
    const bool brief = is_brief(scan);
    sqlite3_stmt *st = sql_use(store, brief ? STATEMENT_ENDED_BRIEF : STATEMENT_ENDED, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, brief ? __builtin_ctz(scan->states) : (int64_t)scan->states);
    bind_int(st, 2, scan->before_ms);
    bind_int(st, 3, scan->after.ms);
    if (!brief)
        bind_int(st, 4, scan->after.seq);
    int rc = 0;
    while (rc == 0 && (rc = sql_step(store, st, err)) > 0) {
        const int64_t seq = sqlite3_column_int64(st, 0), ms = sqlite3_column_int64(st, 1);
        rc = 0;
        if (!is_after(&scan->after, ms, seq))
            continue;
        if (is_full(maker, scan))
            break;
        scan->after.seq = seq;
        scan->after.ms = ms;
        rc = brief ? add_brief(maker, scan, err) : add_job(maker, scan, seq, err);
    }
    sqlite3_reset(st);
    return rc;
}

/* Goes on to the next partition of the queue: 1, 0 when there is none, or a negative code. */
static int next_partition(struct store *store, const struct scan *scan, struct scan_place *at,
                          struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_QUEUE_PARTITIONS, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, scan->tenant);
    bind_key(st, 2, scan->name);
    bind_int(st, 3, at->partition);
    int rc = sql_step(store, st, err);
    if (rc > 0) {
        at->partition = sqlite3_column_int64(st, 0);
        at->priority = READY_START;
    }
    sqlite3_reset(st);
    return rc;
}

static int next_ready(struct store *store, const struct scan *scan, struct scan_place *at,
                      struct redrive_err *err)
{
    int rc = 0;
    if (at->partition != 0)
        rc = ready_after(store, at->partition, &at->priority, &at->seq, err);
    while (rc == 0 && (rc = next_partition(store, scan, at, err)) > 0)
        rc = ready_after(store, at->partition, &at->priority, &at->seq, err);
    return rc;
}

static int scan_ready(struct page_maker *maker, struct scan *scan, struct redrive_err *err)
{
    struct scan_place at = scan->after;
    int rc;
    while ((rc = next_ready(maker->store, scan, &at, err)) > 0) {
        if (is_full(maker, scan))
            return 0;
        scan->after = at;
        rc = add_job(maker, scan, at.seq, err);
        if (rc != 0)
            return rc;
    }
    return rc;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

static sqlite3_stmt *use_for_gate(struct store *store, enum statement which,
                                  const struct scan *scan, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (st) {
        bind_key(st, 1, scan->tenant);
        bind_key(st, 2, scan->name);
    }
    return st;
}

/* Of the newest only those with the most attempts left are given: the gate may have others. */
static int look_for_more(struct store *store, const struct scan *scan, struct job_page *page,
                         struct redrive_err *err)
{
    sqlite3_stmt *st = use_for_gate(store, STATEMENT_PARKED_COUNT, scan, err);
    if (!st)
        return store->last_error;
    bind_int(st, 3, (int64_t)page->n + 1);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        page->more = sqlite3_column_int64(st, 0) > (int64_t)page->n;
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int scan_parked(struct page_maker *maker, struct scan *scan, struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [SCAN_PARKED_OLDEST] = STATEMENT_PARKED_OLDEST,
        [SCAN_PARKED_PROBES] = STATEMENT_PARKED_PROBES,
        [SCAN_PARKED_NEWEST] = STATEMENT_PARKED_NEWEST,
    };
    struct store *store = maker->store;
    sqlite3_stmt *st = use_for_gate(store, STATEMENTS[scan->index], scan, err);
    if (!st)
        return store->last_error;
    int rc = 0;
    while (rc == 0 && (rc = sql_step(store, st, err)) > 0) {
        rc = 0;
        if (is_full(maker, scan))
            break;
        rc = add_job(maker, scan, sqlite3_column_int64(st, 0), err);
    }
    sqlite3_reset(st);
    if (rc == 0 && scan->index == SCAN_PARKED_NEWEST)
        rc = look_for_more(store, scan, maker->page, err);
    return rc;
}

int sqlite_scan(struct store *store, struct scan *scan, struct job_page *ret,
                struct redrive_err *err)
{
    static int (*const SCANS[])(struct page_maker * maker, struct scan * scan,
                                struct redrive_err * err) = {
        [SCAN_DUE] = scan_times,
        [SCAN_LEASES] = scan_times,
        [SCAN_DEADLINES] = scan_deadlines,
        [SCAN_PARKED_OLDEST] = scan_parked,
        [SCAN_PARKED_PROBES] = scan_parked,
        [SCAN_PARKED_NEWEST] = scan_parked,
        [SCAN_READY] = scan_ready,
        [SCAN_FINISHED] = scan_finished,
    };
    struct page_maker maker;
    job_page_release(ret);
    scan->next_ms = 0;
    if (scan->limit > PAGE_MAX)
        scan->limit = PAGE_MAX;
    int rc = transaction_needed(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, scan->limit < FIRST_MAX ? scan->limit : FIRST_MAX, err);
    if (rc == 0)
        rc = SCANS[scan->index](&maker, scan, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
