/* by_blocks.c - the jobs of a task or a queue, by the blocks of numbers that have some. */
#include "base/err.h"
#include "store/sqlite/list/list.h"

/* The newest blocks have the page, as a rule: so many are looked at first, then ever more. */
#define FIRST_BLOCKS  2
#define BLOCKS_GROWTH 4
#define BLOCKS_MAX    4096

/* ` AND partition_id IN (…)`: those of the filter's task, queue and tenant. */
static void add_partitions(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "partition_id IN (SELECT partition_id FROM partitions WHERE 1");
    if (f->task.len > 0)
        buf_puts(sql, " AND task = ?3");
    if (f->queue.len > 0)
        buf_puts(sql, " AND queue = ?4");
    if (f->tenant.len > 0)
        buf_puts(sql, " AND tenant_id = (SELECT tenant_id FROM tenants WHERE name = ?1)");
    buf_puts(sql, ")");
}

static void add_blocks(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT DISTINCT block AS block FROM job_blocks WHERE ");
    add_partitions(sql, f);
    buf_puts(sql, " AND block BETWEEN ?20 AND ?21");
}

/* How many of the next blocks there are, and the last of them in the order. */
static void add_next_blocks(struct buf *sql, const struct job_filter *f)
{
    const bool is_oldest = f->order == ORDER_OLDEST;
    buf_printf(sql, "SELECT count(*), %s(block) FROM (", is_oldest ? "max" : "min");
    add_blocks(sql, f);
    buf_printf(sql, " ORDER BY block%s LIMIT ?22)", is_oldest ? "" : " DESC");
}

/* The jobs of the filter in some blocks. */
static void add_jobs(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq FROM (");
    add_blocks(sql, f);
    buf_puts(sql, ") b CROSS JOIN job_states j ON j." SEQ_IN_BLOCK("b.block"));
    list_add_needed_sides(sql, f);
    buf_puts(sql, " WHERE 1");
    list_add_conditions(sql, f, false);
    list_add_order(sql, f, false);
    list_add_whole(sql, f);
}

/* The blocks that are still to be looked at, and the two statements. */
struct walk {
    struct store *store;
    const struct job_filter *filter;
    sqlite3_stmt *next_blocks;
    sqlite3_stmt *jobs;
    int64_t first;
    int64_t last;
    int64_t n_blocks; /* at the next look */
};

static int prepare_walk(struct walk *w, struct redrive_err *err)
{
    const struct job_filter *f = w->filter;
    const bool is_oldest = f->order == ORDER_OLDEST, by_seq = f->order != ORDER_FINISHED;
    const int64_t from = by_seq && f->after_seq ? f->after_seq : is_oldest ? 0 : INT64_MAX;
    const int64_t until = by_seq && f->until_seq ? f->until_seq : is_oldest ? INT64_MAX : 0;
    RELEASED_BY(buf_release) struct buf sql = BUF_MAX(SQL_LIST_MAX);
    w->first = block_of(is_oldest ? from : until);
    w->last = block_of(is_oldest ? until : from);
    w->n_blocks = by_seq ? FIRST_BLOCKS : INT64_MAX;
    add_next_blocks(&sql, f);
    int rc = list_prepare(w->store, &sql, f, &w->next_blocks, err);
    buf_reset(&sql);
    add_jobs(&sql, f);
    return rc < 0 ? rc : list_prepare(w->store, &sql, f, &w->jobs, err);
}

/* Binds the next blocks to the statement of the jobs, and leaves them behind: 1, or 0 when there
 * are none. */
static int step(struct walk *w, struct redrive_err *err)
{
    const bool is_oldest = w->filter->order == ORDER_OLDEST;
    bind_int(w->next_blocks, P_FIRST_BLOCK, w->first);
    bind_int(w->next_blocks, P_LAST_BLOCK, w->last);
    bind_int(w->next_blocks, P_BLOCKS, w->n_blocks);
    const int rc = sql_step(w->store, w->next_blocks, err);
    const int64_t n = rc > 0 ? sqlite3_column_int64(w->next_blocks, 0) : 0;
    const int64_t end = rc > 0 ? sqlite3_column_int64(w->next_blocks, 1) : 0;
    sqlite3_reset(w->next_blocks);
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : 0;
    bind_int(w->jobs, P_FIRST_BLOCK, is_oldest ? w->first : end);
    bind_int(w->jobs, P_LAST_BLOCK, is_oldest ? end : w->last);
    if (n < w->n_blocks) {
        w->first = 1;
        w->last = 0;
    } else if (is_oldest) {
        w->first = end + 1;
    } else {
        w->last = end - 1;
    }
    if (w->n_blocks < BLOCKS_MAX)
        w->n_blocks *= BLOCKS_GROWTH;
    return 1;
}

/* Adds the jobs of the blocks that are bound: 1 when the page is full. */
static int add_found(struct walk *w, struct page_maker *maker, struct job_page *page,
                     struct redrive_err *err)
{
    const size_t limit = w->filter->limit;
    int rc;
    bind_int(w->jobs, P_LIMIT, (int64_t)(limit - page->n) + 1);
    while ((rc = sql_step(w->store, w->jobs, err)) > 0) {
        page->more = page->n == limit;
        if (page->more)
            break;
        rc = page_add(maker, w->jobs, err);
        if (rc != 0)
            break;
    }
    sqlite3_reset(w->jobs);
    return rc;
}

int blocks_list(struct store *store, const struct job_filter *f, struct job_page *ret,
                struct redrive_err *err)
{
    struct walk w = {.store = store, .filter = f};
    struct page_maker maker;
    int rc = prepare_walk(&w, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, f->limit, err);
    maker.skips_unreadable = f->skips_unreadable;
    while (rc == 0 && w.first <= w.last) {
        rc = step(&w, err);
        if (rc <= 0)
            break;
        rc = add_found(&w, &maker, ret, err);
    }
    sqlite3_finalize(w.next_blocks);
    sqlite3_finalize(w.jobs);
    if (rc < 0)
        job_page_release(ret);
    return rc < 0 ? rc : 0;
}

/* ---- By the end ------------------------------------------------------------------------------ */

static const char *const COUNTS[REDRIVE_STATE_COUNT] = {
    [REDRIVE_STATE_SCHEDULED] = "scheduled", [REDRIVE_STATE_RETRYING] = "retrying",
    [REDRIVE_STATE_QUEUED] = "queued",       [REDRIVE_STATE_RUNNING] = "running",
    [REDRIVE_STATE_PARKED] = "parked",       [REDRIVE_STATE_COMPLETED] = "completed",
    [REDRIVE_STATE_FAILED] = "failed",       [REDRIVE_STATE_DEAD_LETTER] = "dead_letter",
    [REDRIVE_STATE_CANCELLED] = "cancelled", [REDRIVE_STATE_WAITING] = "waiting"};

/* Jobs of all partitions in the filter's states, those of the filter's partitions, and the blocks
 * of these. */
static void add_sizes(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT sum(n), sum(iif(own, n, 0)), (SELECT count(*) FROM job_blocks WHERE ");
    add_partitions(sql, f);
    buf_puts(sql, ") FROM (SELECT ");
    add_partitions(sql, f);
    buf_puts(sql, " AS own, 0");
    for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
        if (f->states >> i & 1)
            buf_printf(sql, " + %s", COUNTS[i]);
    buf_puts(sql, " AS n FROM partitions)");
}

int blocks_are_fewer(struct store *store, const struct job_filter *f, bool *ret,
                     struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf sql = BUF_MAX(SQL_LIST_MAX);
    sqlite3_stmt *st = NULL;
    *ret = false;
    add_sizes(&sql, f);
    int rc = list_prepare(store, &sql, f, &st, err);
    if (rc == 0)
        rc = sql_step(store, st, err);
    if (rc > 0) {
        const int64_t all = sqlite3_column_int64(st, 0), own = sqlite3_column_int64(st, 1);
        const int64_t others = all / (own > 0 ? own : 1);
        const int64_t looked = block_begin(sqlite3_column_int64(st, 2));
        *ret = looked < all && looked / (int64_t)(f->limit + 1) < others;
    }
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}
