/* list.c - jobs by filter. */
#include "base/err.h"
#include "store/sqlite/list/list.h"

#define ENDED_MASK   ((2u << REDRIVE_STATE_CANCELLED) - (1u << REDRIVE_STATE_COMPLETED))
#define ENDED_STATES (REDRIVE_STATE_CANCELLED - REDRIVE_STATE_COMPLETED + 1)

void list_add_conditions(struct buf *sql, const struct job_filter *f, bool of_tenant)
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

void list_add_needed_sides(struct buf *sql, const struct job_filter *f)
{
    if (f->user.len > 0)
        buf_puts(sql, JOB_SPEC);
    if (f->error_type.len > 0 || f->text.len > 0)
        buf_puts(sql, " LEFT JOIN history h ON h.history_id = j.error_at");
}

void list_add_states(struct buf *sql, uint32_t states)
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

static const char *order_of(const struct job_filter *f)
{
    static const char *const ORDERS[] = {
        [ORDER_OLDEST] = " ORDER BY j.seq",
        [ORDER_NEWEST] = " ORDER BY j.seq DESC",
        [ORDER_FINISHED] = " ORDER BY " FINISHED_MS " DESC, j.seq DESC",
    };
    return ORDERS[f->order];
}

/* The bounds of an order by seq; `seq` is the column. */
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

void list_add_order(struct buf *sql, const struct job_filter *f, bool by_end)
{
    add_keyset(sql, f, by_end);
    buf_puts(sql, by_end ? " ORDER BY j.sort_key DESC, j.seq DESC" : order_of(f));
}

static void add_whole(struct buf *sql, const char *order)
{
    buf_puts(sql, " LIMIT ?18) k CROSS JOIN job_states j ON j.seq = k.seq" JOB_SIDES);
    buf_puts(sql, order);
}

void list_add_whole(struct buf *sql, const struct job_filter *f)
{
    add_whole(sql, order_of(f));
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

int list_prepare(struct store *store, const struct buf *sql, const struct job_filter *f,
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
    maker.skips_unreadable = f->skips_unreadable;
    for (size_t i = 0; rc == 0 && i < ENDED_STATES; i++) {
        int state = REDRIVE_STATE_COMPLETED + (int)i;
        if (!(f->states >> state & 1))
            continue;
        rc = list_prepare(store, sql, f, &cursors[i], err);
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

struct tenant_size {
    int64_t own;       /* jobs of the tenant */
    int64_t all;       /* jobs of all tenants */
    int64_t in_states; /* those of them in the filter's states */
};

static int read_tenant_size(struct store *store, const struct job_filter *f,
                            struct tenant_size *ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_SIZE, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, f->tenant);
    bind_int(st, 2, f->states);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        *ret = (struct tenant_size){sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
                                    sqlite3_column_int64(st, 2)};
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

int list_is_small_tenant(struct store *store, const struct job_filter *f, size_t limit, bool *ret,
                         struct redrive_err *err)
{
    struct tenant_size size = {0};
    *ret = false;
    if (f->tenant.len == 0 || f->id.len > 0 || f->unique_key.len > 0 || f->until_seq > 0)
        return 0;
    const int rc = read_tenant_size(store, f, &size, err);
    const int64_t others = size.all / (size.own > 0 ? size.own : 1);
    *ret = rc == 0 && (limit == 0 ? size.own < size.all : size.own / (int64_t)limit < others);
    return rc;
}

/* Whether the tenant has fewer jobs than all tenants have in the filter's states: by the index of
 * these a page may meet every one. */
static int is_below_states(struct store *store, const struct job_filter *f, bool *ret,
                           struct redrive_err *err)
{
    struct tenant_size size = {0};
    const bool is_asked = f->tenant.len > 0 && !f->is_most;
    const int rc = is_asked ? read_tenant_size(store, f, &size, err) : 0;
    *ret = rc == 0 && size.own < size.in_states;
    return rc;
}

static void add_list_of_tenant(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq" OF_TENANT);
    list_add_conditions(sql, f, true);
    list_add_order(sql, f, false);
    list_add_whole(sql, f);
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

/* The failures of a filter, by the index that has the fewest. That it is the last one of its job is
 * a condition, too. */
static void add_errors(struct buf *sql, const struct job_filter *f)
{
    const char *comma = "";
    const bool has_lower = f->order == ORDER_OLDEST ? f->after_seq > 0 : f->until_seq > 0;
    /* SQLite goes by the first lower bound that it meets: there must be one, and no other. */
    buf_printf(sql, " FROM (SELECT e.seq AS seq FROM history e INDEXED BY %s WHERE %s",
               f->error_type.len > 0 ? "history_by_type"
               : f->classes != 0     ? "history_by_class"
                                     : "history_of_job",
               has_lower ? "1" : "e.seq > 0");
    if (f->error_type.len > 0)
        buf_puts(sql, " AND e.error_type = ?10");
    if (f->text.len > 0)
        buf_puts(sql, " AND instr(e.error_message, ?11) > 0");
    if (f->classes == 0)
        return;
    buf_puts(sql, " AND e.error_class <> 0 AND e.error_class IN (");
    for (int class = 0; class < REDRIVE_CLASS_COUNT; class ++)
        if (f->classes >> class & 1) {
            buf_printf(sql, "%s%d", comma, class);
            comma = ", ";
        }
    buf_puts(sql, ")");
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
    case LIST_STATES: buf_puts(sql, " FROM job_states j INDEXED BY jobs_by_sort_key"); break;
    case LIST_GROUP:
    case LIST_ERRORS:
        add_errors(sql, f);
        add_from_seqs(sql, f, "e.seq", " GROUP BY e.seq");
        break;
    case LIST_PARTITIONS: /* see blocks_list */
    case LIST_REASONS:
    case LIST_ALL:
    default: buf_puts(sql, " FROM job_states j"); break;
    }
}

/* First which jobs, then all of these: what is read of the others is as little as can be. */
static void add_search(struct buf *sql, const struct job_filter *f)
{
    const enum list_source source = job_filter_source(f);
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq");
    add_source(sql, f, source);
    list_add_needed_sides(sql, f);
    buf_puts(sql, " WHERE");
    if (source == LIST_STATES)
        list_add_states(sql, f->states);
    else
        buf_puts(sql, " 1");
    list_add_conditions(sql, f, false);
    /* The jobs of some states are sorted when conditions have left out what they can: of those only
     * a page is kept. */
    if (source == LIST_ALL || source == LIST_STATES)
        list_add_order(sql, f, false);
    list_add_whole(sql, f);
}

/* The first jobs of some states, as long as the index alone says which, and then those of them that
 * match. */
static void add_first_of_states(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq FROM (SELECT j.seq AS seq FROM "
                  "job_states j INDEXED BY jobs_by_sort_key WHERE");
    list_add_states(sql, f->states);
    add_bounds(sql, f, "j.seq");
    buf_printf(sql, " ORDER BY j.seq%s LIMIT 4 * ?18) o CROSS JOIN job_states j ON j.seq = o.seq",
               f->order == ORDER_OLDEST ? "" : " DESC");
    list_add_needed_sides(sql, f);
    buf_puts(sql, " WHERE 1");
    list_add_conditions(sql, f, false);
    list_add_whole(sql, f);
}

/* ---- By the end, of few jobs ----------------------------------------------------------------- */

static int is_narrow(struct store *store, const char *from, const struct job_filter *f, bool *ret,
                     struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf sql = BUF_MAX(SQL_LIST_MAX);
    sqlite3_stmt *st = NULL;
    buf_printf(&sql, "SELECT count(*) FROM (SELECT 1 FROM %s LIMIT %lld)", from,
               (long long)store->narrow + 1);
    int rc = list_prepare(store, &sql, f, &st, err);
    if (rc == 0)
        rc = sql_step(store, st, err);
    *ret = rc > 0 && sqlite3_column_int64(st, 0) <= store->narrow;
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

int list_find_narrow(struct store *store, const struct job_filter *f, enum list_source *ret,
                     struct redrive_err *err)
{
    bool found = false;
    int rc = 0;
    *ret = LIST_ALL;
    if (f->id.len > 0 || f->unique_key.len > 0)
        return 0;
    if (f->user.len > 0 && f->tenant.len > 0) {
        rc = is_narrow(store,
                       "specs INDEXED BY specs_by_user WHERE tenant_id = (SELECT tenant_id FROM "
                       "tenants WHERE name = ?1) AND user = ?5",
                       f, &found, err);
        *ret = found ? LIST_USER : LIST_ALL;
    }
    if (rc == 0 && !found && f->error_type.len > 0) {
        rc = is_narrow(store, "history INDEXED BY history_by_type WHERE error_type = ?10", f,
                       &found, err);
        *ret = found ? LIST_ERRORS : LIST_ALL;
    }
    return rc;
}

void list_add_narrow(struct buf *sql, const struct job_filter *f, enum list_source source)
{
    struct job_filter all = *f;
    all.after_seq = all.until_seq = 0;
    all.order = ORDER_NEWEST;
    add_source(sql, &all, source);
}

static void add_narrow_by_end(struct buf *sql, const struct job_filter *f, enum list_source source)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq");
    list_add_narrow(sql, f, source);
    list_add_needed_sides(sql, f);
    buf_puts(sql, " WHERE 1");
    list_add_conditions(sql, f, false);
    list_add_order(sql, f, false);
    list_add_whole(sql, f);
}

/* The same of one state, the latest end first. */
static void add_search_by_end(struct buf *sql, const struct job_filter *f)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM (SELECT j.seq AS seq FROM job_states j");
    list_add_needed_sides(sql, f);
    buf_puts(sql, " WHERE j.state = ?17");
    list_add_conditions(sql, f, false);
    list_add_order(sql, f, true);
    add_whole(sql, " ORDER BY j.sort_key DESC, j.seq DESC");
}

static void add_list(struct buf *sql, const struct job_filter *f, bool by_end)
{
    buf_puts(sql, "SELECT " JOB_COLUMNS " FROM job_states j" JOB_SIDES " WHERE ");
    buf_puts(sql, by_end ? "j.state = ?17" : "1");
    list_add_conditions(sql, f, false);
    list_add_order(sql, f, by_end);
    buf_puts(sql, " LIMIT ?18");
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* What leads to the jobs of a filter. */
enum way {
    BY_INDEX, /* an index of the filter's source, or every job by its number */
    BY_FIRST, /* the first ones of its states; if they do not fill the page, then BY_INDEX */
    BY_NAME,
    BY_TENANT,
    BY_BLOCKS,
    BY_END,
    BY_USER,  /* an order by the end; few jobs have the filter's user, */
    BY_ERROR, /* or its type of error */
};

static int choose_way(struct store *store, const struct job_filter *f, enum way *ret,
                      struct redrive_err *err)
{
    const bool by_seq = f->order != ORDER_FINISHED;
    const bool is_ended = !by_seq && f->states != 0 && (f->states & ~ENDED_MASK) == 0;
    const bool of_partitions = f->task.len > 0 || f->queue.len > 0;
    bool is_small = false, is_fewer = false;
    enum list_source narrow = LIST_ALL;
    int rc = 0;
    *ret = is_ended                                            ? BY_END
           : f->id.len > 0 || f->unique_key.len > 0 || !by_seq ? BY_NAME
                                                               : BY_INDEX;
    const enum list_source source = job_filter_source(f);
    if (*ret == BY_INDEX && source == LIST_STATES) {
        rc = is_below_states(store, f, &is_small, err);
        *ret = is_small ? BY_TENANT : BY_FIRST;
        return rc;
    }
    if (*ret == BY_INDEX && source != LIST_ALL && source != LIST_PARTITIONS)
        return 0;
    if (is_ended)
        rc = list_find_narrow(store, f, &narrow, err);
    if (rc != 0 || narrow != LIST_ALL) {
        *ret = narrow == LIST_USER ? BY_USER : BY_ERROR;
        return rc;
    }
    if (*ret == BY_INDEX && of_partitions)
        is_fewer = true;
    else if (*ret == BY_END && of_partitions)
        rc = blocks_are_fewer(store, f, &is_fewer, err);
    if (rc == 0 && !is_fewer)
        rc = list_is_small_tenant(store, f, f->limit + 1, &is_small, err);
    if (is_fewer)
        *ret = BY_BLOCKS;
    else if (is_small)
        *ret = BY_TENANT;
    return rc;
}

static void add_list_by(struct buf *sql, const struct job_filter *f, enum way way)
{
    if (way == BY_TENANT)
        add_list_of_tenant(sql, f);
    else if (way == BY_INDEX)
        add_search(sql, f);
    else if (way == BY_FIRST)
        add_first_of_states(sql, f);
    else if (way == BY_USER || way == BY_ERROR)
        add_narrow_by_end(sql, f, way == BY_USER ? LIST_USER : LIST_ERRORS);
    else if (way == BY_END && (f->user.len > 0 || f->error_type.len > 0 || f->text.len > 0))
        add_search_by_end(sql, f);
    else
        add_list(sql, f, way == BY_END);
}

static int list_by(struct store *store, const struct job_filter *f, enum way way,
                   struct job_page *ret, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf sql = BUF_MAX(SQL_LIST_MAX);
    sqlite3_stmt *st = NULL;
    int rc;
    add_list_by(&sql, f, way);
    if (way == BY_END) {
        rc = merge_ended(store, f, &sql, ret, err);
    } else {
        rc = list_prepare(store, &sql, f, &st, err);
        if (rc == 0)
            rc = page_fill(store, st, f, ret, err);
        sqlite3_finalize(st);
    }
    return rc;
}

static int list_some(struct store *store, const struct job_filter *filter, struct job_page *ret,
                     struct redrive_err *err)
{
    enum way way;
    int rc = choose_way(store, filter, &way, err);
    if (rc == 0)
        rc = way == BY_BLOCKS ? blocks_list(store, filter, ret, err)
                              : list_by(store, filter, way, ret, err);
    if (rc == 0 && way == BY_FIRST && !ret->more) {
        job_page_release(ret);
        rc = list_by(store, filter, BY_INDEX, ret, err);
    }
    return rc;
}

int sqlite_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    job_page_release(ret);
    int rc = store_check_limit(filter->limit, "jobs", err);
    if (rc == 0)
        rc = view_begin(store, err);
    if (rc != 0)
        return rc;
    rc = job_page_list(store, filter, list_some, ret, err);
    view_end(store);
    return rc;
}
