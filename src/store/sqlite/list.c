/* list.c - jobs by filter or name, groups and causes. */
#include "base/err.h"
#include "store/sqlite/private.h"

/* The conditions of a filter are constant pieces of SQL; their values are bound to the numbers in
 * them, whichever pieces are used. */
enum {
    P_TENANT = 1,
    P_ID,
    P_TASK,
    P_QUEUE,
    P_USER,
    P_KEY,
    P_STATES,
    P_CLASSES,
    P_REASONS,
    P_TYPE,
    P_TEXT,
    P_FINGERPRINT,
    P_AFTER,
    P_BEFORE,
    P_KEYSET_SEQ,
    P_KEYSET_MS,
    P_STATE,
    P_LIMIT,
    P_UNTIL,
};

#define SQL_LIST_MAX 8192
#define ENDED_MASK   ((2u << REDRIVE_STATE_CANCELLED) - (1u << REDRIVE_STATE_COMPLETED))
#define ENDED_STATES (REDRIVE_STATE_CANCELLED - REDRIVE_STATE_COMPLETED + 1)

/* `of_tenant`: the statement has only jobs of the tenant already. */
static void add_conditions(struct buf *sql, const struct job_filter *f, bool of_tenant)
{
    const struct {
        bool used;
        const char *text;
    } pieces[] = {
        {f->tenant.len > 0 && !of_tenant, " AND j.partition_id IN (SELECT partition_id FROM "
                                          "partitions JOIN tenants t USING (tenant_id) "
                                          "WHERE t.name = ?1)"},
        {f->id.len, " AND j.seq IN (SELECT seq FROM specs WHERE tenant_id IN "
                    "(SELECT tenant_id FROM tenants) AND id = ?2)"},
        {f->task.len,
         " AND j.partition_id IN (SELECT partition_id FROM partitions WHERE task = ?3)"},
        {f->queue.len,
         " AND j.partition_id IN (SELECT partition_id FROM partitions WHERE queue = ?4)"},
        {f->user.len, " AND s.user = ?5"},
        {f->unique_key.len, " AND j.seq IN (SELECT seq FROM keys WHERE tenant_id IN "
                            "(SELECT tenant_id FROM tenants) AND unique_key = ?6)"},
        {f->states, " AND ?7 >> j.state & 1"},
        {f->classes, " AND ?8 >> j.error_class & 1"},
        {f->reasons, " AND ?9 >> j.reason & 1"},
        /* Of most jobs there is no row of history to look at. */
        {f->error_type.len || f->text.len, " AND j.error_at > 0"},
        {f->error_type.len, " AND h.error_type = ?10"},
        {f->text.len, " AND instr(h.error_message, ?11) > 0"},
        {f->fingerprint, " AND j.fingerprint = ?12"},
        {f->finished_after_ms, " AND j.state BETWEEN 5 AND 8 AND j.sort_key >= ?13"},
        {f->finished_before_ms, " AND j.state BETWEEN 5 AND 8 AND j.sort_key < ?14"},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        if (pieces[i].used)
            buf_puts(sql, pieces[i].text);
}

/* What the conditions look at, and nothing else. */
static void add_needed_sides(struct buf *sql, const struct job_filter *f)
{
    if (f->user.len > 0)
        buf_puts(sql, JOB_SPEC);
    if (f->error_type.len > 0 || f->text.len > 0)
        buf_puts(sql, " LEFT JOIN history h ON h.history_id = j.error_at");
}

/* The states as a list that the index jobs_by_sort_key serves. */
static void add_states(struct buf *sql, uint32_t states)
{
    const char *comma = "";
    buf_puts(sql, " j.state IN (");
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        if (states >> state & 1) {
            buf_printf(sql, "%s%d", comma, state);
            comma = ", ";
        }
    buf_puts(sql, ")");
}

/* The time of the end; 0 before that. With by_end all jobs have ended, and the index has the order.
 */
#define FINISHED_MS "iif(j.state BETWEEN 5 AND 8, j.sort_key, 0)"

static const char *order_of(const struct job_filter *f)
{
    static const char *const ORDERS[] = {
        [ORDER_OLDEST] = " ORDER BY j.seq",
        [ORDER_NEWEST] = " ORDER BY j.seq DESC",
        [ORDER_FINISHED] = " ORDER BY " FINISHED_MS " DESC, j.seq DESC",
    };
    return ORDERS[f->order];
}

/* In an order by seq; `seq` is the column. */
static void add_bounds(struct buf *sql, const struct job_filter *f, const char *seq)
{
    const bool is_oldest = f->order == ORDER_OLDEST;
    if (f->until_seq)
        buf_printf(sql, " AND %s %s ?19", seq, is_oldest ? "<=" : ">=");
    if (f->after_seq)
        buf_printf(sql, " AND %s %s ?15", seq, is_oldest ? ">" : "<");
}

static void add_keyset(struct buf *sql, const struct job_filter *f, bool by_end)
{
    if (f->order != ORDER_FINISHED)
        add_bounds(sql, f, "j.seq");
    else if (f->after_seq)
        buf_puts(sql, by_end ? " AND (j.sort_key, j.seq) < (?16, ?15)"
                             : " AND (" FINISHED_MS ", j.seq) < (?16, ?15)");
}

static void add_order(struct buf *sql, const struct job_filter *f, bool by_end)
{
    add_keyset(sql, f, by_end);
    buf_puts(sql, by_end ? " ORDER BY j.sort_key DESC, j.seq DESC" : order_of(f));
}

/* Binding a number that the text does not have fails with SQLITE_RANGE, which is ignored. */
static void bind_filter(sqlite3_stmt *st, const struct job_filter *f)
{
    bind_key(st, P_TENANT, f->tenant);
    bind_key(st, P_ID, f->id);
    bind_key(st, P_TASK, f->task);
    bind_key(st, P_QUEUE, f->queue);
    bind_key(st, P_USER, f->user);
    bind_key(st, P_KEY, f->unique_key);
    bind_int(st, P_STATES, f->states);
    bind_int(st, P_CLASSES, f->classes);
    bind_int(st, P_REASONS, f->reasons);
    bind_key(st, P_TYPE, f->error_type);
    bind_key(st, P_TEXT, f->text);
    bind_int(st, P_FINGERPRINT, (int64_t)f->fingerprint);
    bind_int(st, P_AFTER, f->finished_after_ms);
    bind_int(st, P_BEFORE, f->finished_before_ms);
    bind_int(st, P_KEYSET_SEQ, f->after_seq);
    bind_int(st, P_KEYSET_MS, f->after_ms);
    bind_int(st, P_LIMIT, (int64_t)f->limit + 1);
    bind_int(st, P_UNTIL, f->until_seq);
}

static int prepare(struct store *store, const struct buf *sql, const struct job_filter *f,
                   sqlite3_stmt **ret, struct redrive_err *err)
{
    if (buf_failed(sql))
        return err_nomem(err);
    int rc = sqlite3_prepare_v2(store->db, buf_cstr(sql), (int)sql->len, ret, NULL);
    if (rc != SQLITE_OK)
        return sql_error(store, rc, err);
    bind_filter(*ret, f);
    return 0;
}

/* Moves a cursor to its next job; at its end it is closed, and NULL. */
static int advance(struct store *store, sqlite3_stmt **cursor, struct redrive_err *err)
{
    int rc = sql_step(store, *cursor, err);
    if (rc == 0) {
        sqlite3_finalize(*cursor);
        *cursor = NULL;
    }
    return rc > 0 ? 0 : rc;
}

static bool ended_later(sqlite3_stmt *a, sqlite3_stmt *b)
{
    const int64_t x = sqlite3_column_int64(a, COLUMN_SORT_KEY),
                  y = sqlite3_column_int64(b, COLUMN_SORT_KEY);
    return x != y ? x > y : sqlite3_column_int64(a, 0) > sqlite3_column_int64(b, 0);
}

/* By the end: a cursor on each state's part of the index jobs_by_sort_key, merged. */
static int merge_ended(struct store *store, const struct job_filter *f, const struct buf *sql,
                       struct job_page *ret, struct redrive_err *err)
{
    sqlite3_stmt *cursors[ENDED_STATES] = {NULL};
    struct page_maker maker;
    int rc = page_start(&maker, store, ret, f->limit, err);
    for (size_t i = 0; rc == 0 && i < ENDED_STATES; i++) {
        int state = REDRIVE_STATE_COMPLETED + (int)i;
        if (!(f->states >> state & 1))
            continue;
        rc = prepare(store, sql, f, &cursors[i], err);
        if (rc == 0) {
            bind_int(cursors[i], P_STATE, state);
            rc = advance(store, &cursors[i], err);
        }
    }
    while (rc == 0) {
        sqlite3_stmt **best = NULL;
        for (size_t i = 0; i < ENDED_STATES; i++)
            if (cursors[i] && (!best || ended_later(cursors[i], *best)))
                best = &cursors[i];
        if (!best)
            break;
        if (ret->n == f->limit) {
            ret->more = true;
            break;
        }
        rc = page_add(&maker, *best, err);
        if (rc == 0)
            rc = advance(store, best, err);
    }
    for (size_t i = 0; i < ENDED_STATES; i++)
        sqlite3_finalize(cursors[i]);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* ---- The jobs of a tenant -------------------------------------------------------------------- */

/* Whether it costs less to look at all jobs of the tenant: they are fewer than the jobs of all
 * tenants that would be read, on average, to find `limit` of the tenant's. `limit` 0: all jobs of
 * all tenants would be read. */
static int is_small_tenant(struct store *store, const struct job_filter *f, size_t limit, bool *ret,
                           struct redrive_err *err)
{
    *ret = false;
    if (f->tenant.len == 0 || f->id.len > 0 || f->unique_key.len > 0 || f->until_seq > 0)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_SIZE, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, f->tenant);
    int rc = sql_step(store, st, err);
    if (rc > 0) {
        const int64_t own = sqlite3_column_int64(st, 0), all = sqlite3_column_int64(st, 1);
        const int64_t others = all / (own > 0 ? own : 1);
        *ret = own < (limit == 0 ? all : others * (int64_t)limit);
    }
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

/* All jobs of the tenant. The index has seqs only, so that the rows are joined in this order. */
#define OF_TENANT                                                                              \
    " FROM specs s CROSS JOIN job_states j ON j.seq = s.seq" JOB_ERROR " WHERE s.tenant_id = " \
    "(SELECT tenant_id FROM tenants WHERE name = ?1)"

static void add_list_of_tenant(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq" OF_TENANT);
    add_conditions(sql, f, true);
    add_order(sql, f, false);
    buf_puts(sql, " LIMIT ?18) k CROSS JOIN job_states j ON j.seq = k.seq" JOB_SIDES);
    buf_puts(sql, order_of(f));
}

/* Ends the subquery that has begun to select seqs, in the order of the filter, and joins the jobs.
 * The limit keeps SQLite from leaving the order out. */
static void add_from_seqs(struct buf *sql, const struct job_filter *f, const char *seq,
                          const char *group_by)
{
    add_bounds(sql, f, seq);
    buf_printf(sql,
               "%s ORDER BY %s%s LIMIT 9223372036854775807) o CROSS JOIN job_states j ON "
               "j.seq = o.seq",
               group_by, seq, f->order == ORDER_OLDEST ? "" : " DESC");
}

/* The jobs that an index leads to, by seq; LIST_ALL has the bounds in its conditions. */
static void add_source(struct buf *sql, const struct job_filter *f, enum list_source source)
{
    switch (source) {
    case LIST_USER:
        buf_puts(sql, " FROM (SELECT u.seq AS seq FROM specs u INDEXED BY specs_by_user WHERE "
                      "u.tenant_id = (SELECT tenant_id FROM tenants WHERE name = ?1) AND "
                      "u.user = ?5");
        add_from_seqs(sql, f, "u.seq", "");
        break;
    case LIST_STATES:
        buf_puts(sql, " FROM (SELECT j.seq AS seq FROM job_states j INDEXED BY jobs_by_sort_key "
                      "WHERE");
        add_states(sql, f->states);
        add_from_seqs(sql, f, "j.seq", "");
        break;
    case LIST_ERRORS:
        /* Those that had such an error once: whether it is their last one is a condition, too. */
        buf_puts(sql, " FROM (SELECT e.seq AS seq FROM history e INDEXED BY history_of_job WHERE "
                      "e.seq > 0");
        if (f->classes)
            buf_puts(sql, " AND ?8 >> e.error_class & 1");
        if (f->error_type.len > 0)
            buf_puts(sql, " AND e.error_type = ?10");
        if (f->text.len > 0)
            buf_puts(sql, " AND instr(e.error_message, ?11) > 0");
        add_from_seqs(sql, f, "e.seq", " GROUP BY e.seq");
        break;
    case LIST_ALL:
    default: buf_puts(sql, " FROM job_states j"); break;
    }
}

/* The whole jobs of the seqs that were selected. */
static void add_whole(struct buf *sql, const char *order)
{
    buf_puts(sql, " LIMIT ?18) k CROSS JOIN job_states j ON j.seq = k.seq" JOB_SIDES);
    buf_puts(sql, order);
}

/* First which jobs, then all of these: what is read of the others is as little as can be. */
static void add_search(struct buf *sql, const struct job_filter *f)
{
    const enum list_source source = job_filter_source(f);
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq");
    add_source(sql, f, source);
    add_needed_sides(sql, f);
    buf_puts(sql, " WHERE 1");
    add_conditions(sql, f, false);
    if (source == LIST_ALL)
        add_order(sql, f, false);
    add_whole(sql, order_of(f));
}

/* The same of one state, the latest end first. */
static void add_search_by_end(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq FROM job_states j");
    add_needed_sides(sql, f);
    buf_puts(sql, " WHERE j.state = ?17");
    add_conditions(sql, f, false);
    add_order(sql, f, true);
    add_whole(sql, " ORDER BY j.sort_key DESC, j.seq DESC");
}

static void add_list(struct buf *sql, const struct job_filter *f, bool by_end)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM job_states j" JOB_SIDES " WHERE ");
    buf_puts(sql, by_end ? "j.state = ?17" : "1");
    add_conditions(sql, f, false);
    add_order(sql, f, by_end);
    buf_puts(sql, " LIMIT ?18");
}

int sqlite_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    struct buf sql;
    job_page_release(ret);
    int rc = store_check_limit(filter->limit, "jobs", err);
    if (rc != 0)
        return rc;
    bool is_small = false;
    const bool by_name = filter->id.len > 0 || filter->unique_key.len > 0;
    const bool by_seq = filter->order != ORDER_FINISHED;
    const bool is_ended = !by_seq && filter->states != 0 && (filter->states & ~ENDED_MASK) == 0;
    const bool has_index = by_seq && !by_name && job_filter_source(filter) != LIST_ALL;
    buf_init(&sql, SQL_LIST_MAX);
    rc = view_begin(store, err);
    if (rc == 0 && !has_index)
        rc = is_small_tenant(store, filter, filter->limit + 1, &is_small, err);
    const bool by_end = is_ended && !is_small;
    if (is_small)
        add_list_of_tenant(&sql, filter);
    else if (by_seq && !by_name)
        add_search(&sql, filter);
    else if (by_end && (filter->user.len > 0 || filter->error_type.len > 0 || filter->text.len > 0))
        add_search_by_end(&sql, filter);
    else
        add_list(&sql, filter, by_end);
    if (rc == 0 && by_end) {
        rc = merge_ended(store, filter, &sql, ret, err);
    } else if (rc == 0) {
        sqlite3_stmt *st = NULL;
        rc = prepare(store, &sql, filter, &st, err);
        if (rc == 0)
            rc = page_fill(store, st, filter->limit, ret, err);
        sqlite3_finalize(st);
    }
    view_end(store);
    buf_release(&sql);
    return rc;
}

/* ---- By name --------------------------------------------------------------------------------- */

static int add_named(struct page_maker *maker, const struct job_name *name, struct redrive_err *err)
{
    struct store *store = maker->store;
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_NAMED, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, name->tenant);
    bind_key(st, 2, name->id);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        rc = page_add(maker, st, err);
    sqlite3_reset(st);
    return rc;
}

int sqlite_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                  struct redrive_err *err)
{
    struct page_maker maker;
    job_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    rc = view_begin(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_named(&maker, &names[i], err);
    view_end(store);
    if (rc < 0)
        job_page_release(ret);
    return rc;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Keeps the largest groups, in order; the array has room for `limit` of them. */
static size_t keep_group(struct group_count *groups, size_t n, size_t limit,
                         const struct group_count *group)
{
    size_t at = n;
    if (group->count == 0)
        return n;
    while (at > 0 && group_count_order(group, &groups[at - 1]) < 0)
        at--;
    if (at == limit)
        return n;
    n = n < limit ? n + 1 : n;
    memmove(&groups[at + 1], &groups[at], (n - 1 - at) * sizeof *groups);
    groups[at] = *group;
    return n;
}

/* Rows come by fingerprint, then end, then seq: the last of a group is its example. */
static int count_groups(struct store *store, sqlite3_stmt *st, size_t limit,
                        struct group_count *groups, size_t *ret_n, struct redrive_err *err)
{
    struct group_count now = {0};
    int rc;
    *ret_n = 0;
    while ((rc = sql_step(store, st, err)) > 0) {
        uint64_t fingerprint = (uint64_t)sqlite3_column_int64(st, 0);
        int64_t ms = sqlite3_column_int64(st, 1);
        if (fingerprint != now.fingerprint) {
            *ret_n = keep_group(groups, *ret_n, limit, &now);
            now = (struct group_count){.fingerprint = fingerprint, .first_ms = ms};
        }
        now.count++;
        now.last_ms = ms;
        now.example.status.seq = sqlite3_column_int64(st, 2);
    }
    *ret_n = keep_group(groups, *ret_n, limit, &now);
    return rc;
}

/* Replaces the seq of a group's example by the job. */
static int read_example(struct store *store, struct group_count *group, struct arena *arena,
                        struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, group->example.status.seq);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        rc = job_read(store, st, arena, &group->example, err);
    sqlite3_reset(st);
    return rc;
}

static int list_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                       struct redrive_err *err)
{
    struct buf sql;
    sqlite3_stmt *st = NULL;
    ret->groups = arena_array(&ret->arena, filter->limit, sizeof *ret->groups);
    if (!ret->groups)
        return err_nomem(err);
    bool is_small;
    int rc = is_small_tenant(store, filter, 0, &is_small, err);
    buf_init(&sql, SQL_LIST_MAX);
    buf_puts(&sql, "SELECT j.fingerprint, " FINISHED_MS ", j.seq");
    if (is_small) {
        buf_puts(&sql, OF_TENANT);
    } else {
        buf_puts(&sql, " FROM job_states j");
        add_needed_sides(&sql, filter);
        buf_puts(&sql, " WHERE");
        add_states(&sql, filter->states ? filter->states : (1u << REDRIVE_STATE_COUNT) - 1);
    }
    buf_puts(&sql, " AND j.fingerprint <> 0");
    add_conditions(&sql, filter, is_small);
    buf_puts(&sql, " ORDER BY 1, 2, 3");
    if (rc == 0)
        rc = prepare(store, &sql, filter, &st, err);
    if (rc == 0)
        rc = count_groups(store, st, filter->limit, ret->groups, &ret->n, err);
    for (size_t i = 0; rc == 0 && i < ret->n; i++)
        rc = read_example(store, &ret->groups[i], &ret->arena, err);
    sqlite3_finalize(st);
    buf_release(&sql);
    return rc;
}

int sqlite_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                  struct redrive_err *err)
{
    group_page_release(ret);
    int rc = store_check_limit(filter->limit, "groups", err);
    if (rc != 0)
        return rc;
    rc = view_begin(store, err);
    if (rc == 0)
        rc = list_groups(store, filter, ret, err);
    view_end(store);
    if (rc != 0)
        group_page_release(ret);
    return rc;
}

/* ---- Causes ---------------------------------------------------------------------------------- */

static int count_causes(struct store *store, const struct job_filter *filter,
                        void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                        struct redrive_err *err)
{
    struct buf sql;
    sqlite3_stmt *st = NULL;
    bool is_small;
    int rc = is_small_tenant(store, filter, 0, &is_small, err);
    buf_init(&sql, SQL_LIST_MAX);
    buf_puts(&sql, "SELECT l.task, c.reason, c.class, c.type, c.n FROM (SELECT j.partition_id AS "
                   "partition_id, "
                   "j.reason AS reason, j.error_class AS class, h.error_type AS type, "
                   "count(*) AS n");
    buf_puts(&sql, is_small ? OF_TENANT : " FROM job_states j" JOB_SIDES " WHERE 1");
    add_conditions(&sql, filter, is_small);
    buf_puts(&sql, " GROUP BY 1, 2, 3, 4) c JOIN partitions l ON l.partition_id = c.partition_id");
    if (rc == 0)
        rc = prepare(store, &sql, filter, &st, err);
    while (rc == 0) {
        rc = sql_step(store, st, err);
        if (rc <= 0)
            break;
        const struct cause_count cause = {
            .task = column_str(st, 0),
            .reason = (enum redrive_reason)sqlite3_column_int(st, 1),
            .class_ = (enum redrive_class)sqlite3_column_int(st, 2),
            .type = column_str(st, 3),
            .count = (uint64_t)sqlite3_column_int64(st, 4),
        };
        add(ctx, &cause);
        rc = 0;
    }
    sqlite3_finalize(st);
    buf_release(&sql);
    return rc;
}

int sqlite_causes(struct store *store, const struct job_filter *filter,
                  void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                  struct redrive_err *err)
{
    int rc = view_begin(store, err);
    if (rc == 0)
        rc = count_causes(store, filter, add, ctx, err);
    view_end(store);
    return rc;
}
