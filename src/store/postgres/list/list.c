/* list.c - jobs by filter. */
#include "store/postgres/list/list.h"

#include "base/err.h"

/* Their index has the order by seq. */
#define TIME_LOCKED (1u << REDRIVE_STATE_SCHEDULED | 1u << REDRIVE_STATE_RETRYING)

int pg_list_read(struct store *store, struct buf *sql, const PGresult **ret,
                 struct redrive_err *err)
{
    int rc =
        buf_failed(sql) ? err_nomem(err) : pg_read(store, STATEMENT_COUNT, buf_cstr(sql), ret, err);
    buf_release(sql);
    return rc;
}

/* Adds a string; returns the number of its parameter. */
static int add_param(struct args *args, struct str s)
{
    pg_args_name(args, s);
    return args->n;
}

/* ---- The partitions of a task or a queue ------------------------------------------------------
 */

#define PARTITIONS_MAX 500

/* Finds those of the filter's task, queue and tenant, unless these are many: store->list_partitions
 * has their numbers for the text of the list. With the numbers the server knows how many jobs they
 * have, and chooses an index by that. */
static int find_partitions(struct store *store, const struct job_filter *f, struct redrive_err *err)
{
    const PGresult *result = NULL;
    struct buf sql;
    buf_reset(&store->list_partitions);
    if (f->task.len == 0 && f->queue.len == 0)
        return 0;
    buf_init(&sql, SQL_MAX);
    (void)buf_puts(&sql, "SELECT l.partition_id FROM redrive.partitions l WHERE true");
    if (f->tenant.len > 0)
        (void)buf_printf(&sql,
                         " AND l.tenant_id = (SELECT t.tenant_id FROM redrive.tenants t WHERE "
                         "t.name = $%d::text)",
                         add_param(&store->args, f->tenant));
    if (f->task.len > 0)
        (void)buf_printf(&sql, " AND l.task = $%d::text", add_param(&store->args, f->task));
    if (f->queue.len > 0)
        (void)buf_printf(&sql, " AND l.queue = $%d::text", add_param(&store->args, f->queue));
    (void)buf_printf(&sql, " LIMIT %d", PARTITIONS_MAX + 1);
    const int rc = pg_list_read(store, &sql, &result, err);
    if (rc != 0 || PQntuples(result) > PARTITIONS_MAX)
        return rc;
    if (PQntuples(result) == 0)
        (void)buf_puts(&store->list_partitions, "0"); /* no partition has it */
    for (int i = 0; i < PQntuples(result); i++)
        (void)buf_printf(&store->list_partitions, "%s%lld", i ? ", " : "",
                         (long long)pg_get_int(result, i, 0));
    return buf_failed(&store->list_partitions) ? err_nomem(err) : 0;
}

static void add_partitions(struct buf *sql, struct store *store, const char *table)
{
    (void)buf_printf(sql, " AND %s.partition_id IN (%s)", table, buf_cstr(&store->list_partitions));
}

/* ---- Conditions ------------------------------------------------------------------------------ */

/* The conditions of a filter on strings. */
static void add_texts(struct buf *sql, struct store *store, const struct job_filter *f,
                      enum source source)
{
    const bool is_found = store->list_partitions.len > 0;
    const struct str none = {0};
    const struct {
        struct str s;
        const char *piece; /* with the number of the parameter */
    } pieces[] = {
        {(source == SOURCE_ALL || source == SOURCE_TYPE) && !is_found ? f->tenant : none,
         " AND j.partition_id = ANY (ARRAY(SELECT l.partition_id FROM redrive.partitions l JOIN "
         "redrive.tenants t ON t.tenant_id = l.tenant_id WHERE t.name = $%d::text))"},
        {f->id,
         " AND j.seq = ANY (ARRAY(SELECT i.seq FROM redrive.specs i WHERE i.id = $%d::text))"},
        {is_found ? none : f->task,
         " AND j.partition_id = ANY (ARRAY(SELECT l.partition_id FROM redrive.partitions "
         "l WHERE l.task = $%d::text))"},
        {is_found ? none : f->queue, " AND j.partition_id = ANY (ARRAY(SELECT l.partition_id FROM "
                                     "redrive.partitions l WHERE l.queue = $%d::text))"},
        {f->user, " AND s.user_name = $%d::text"},
        {f->unique_key, " AND j.seq = ANY (ARRAY(SELECT k.seq FROM redrive.tenants t JOIN "
                        "redrive.keys k ON k.tenant_id = t.tenant_id WHERE k.unique_key = "
                        "$%d::text))"},
        {f->error_type, " AND h.error_type = $%d::text"},
        {f->text, " AND strpos(h.error_message, $%d::text) > 0"},
    };
    if (is_found)
        add_partitions(sql, store, "j");
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (pieces[i].s.len == 0)
            continue;
        const char *number = strstr(pieces[i].piece, "%d");
        (void)buf_add(sql, pieces[i].piece, (size_t)(number - pieces[i].piece));
        (void)buf_printf(sql, "%d", add_param(&store->args, pieces[i].s));
        (void)buf_puts(sql, number + 2);
    }
}

/* `column`: an expression. */
static void add_mask(struct buf *sql, const char *column, uint32_t mask, int n)
{
    const char *comma = "";
    (void)buf_printf(sql, " AND %s IN (", column);
    for (int i = 0; i < n; i++)
        if (mask >> i & 1) {
            (void)buf_printf(sql, "%s%d", comma, i);
            comma = ", ";
        }
    (void)buf_puts(sql, *comma ? ")" : "NULL)");
}

static void add_numbers(struct buf *sql, const struct job_filter *f)
{
    /* Of most jobs there is no row of history to look at. */
    if (f->error_type.len > 0 || f->text.len > 0)
        (void)buf_puts(sql, " AND j.error_class IS NOT NULL");
    if (f->classes)
        add_mask(sql, "coalesce(j.error_class, 0)", f->classes, REDRIVE_CLASS_COUNT);
    if (f->reasons)
        add_mask(sql, "coalesce(j.reason, 0)", f->reasons, REDRIVE_REASON_COUNT);
    if (f->fingerprint)
        (void)buf_printf(sql, " AND j.fingerprint = %lld", (long long)f->fingerprint);
    if (f->finished_after_ms || f->finished_before_ms)
        (void)buf_puts(sql, " AND j.state >= 5");
    if (f->finished_after_ms)
        (void)buf_printf(sql, " AND j.finished_ms >= %lld", (long long)f->finished_after_ms);
    if (f->finished_before_ms)
        (void)buf_printf(sql, " AND j.finished_ms < %lld", (long long)f->finished_before_ms);
}

static void add_states(struct buf *sql, uint32_t states)
{
    if (states != 0 && (states & ALL_STATES) != ALL_STATES)
        add_mask(sql, "j.state", states, REDRIVE_STATE_COUNT);
}

#define PARKED_ROW ROW_OF("job_states", "q.seq = p.seq") "q"

/* First which jobs, then all of these: SEQS column … WHOLE_JOBS. */
#define SEQS       "SELECT " JOB_COLUMNS " FROM (SELECT "
#define WHOLE_JOBS ") m CROSS JOIN " STATE_ROW("m") WHOLE_JOB

void pg_list_add_needed_sides(struct buf *sql, const struct job_filter *f)
{
    if (f->user.len > 0)
        (void)buf_puts(sql, " CROSS JOIN " SPEC_ROW);
    if (f->error_type.len > 0 || f->text.len > 0)
        (void)buf_puts(sql, " CROSS JOIN " ERROR_ROW);
}

void pg_list_add_conditions(struct buf *sql, struct store *store, const struct job_filter *f,
                            enum source source)
{
    (void)buf_puts(sql, " WHERE true");
    add_texts(sql, store, f, source);
    add_numbers(sql, f);
    add_states(sql, f->states);
}

static bool is_by_name(const struct job_filter *f)
{
    return f->id.len > 0 || f->unique_key.len > 0;
}

static void add_bounds(struct buf *sql, const struct job_filter *f, const char *seq)
{
    const bool is_oldest = f->order == ORDER_OLDEST;
    if (f->after_seq)
        (void)buf_printf(sql, " AND %s %s %lld", seq, is_oldest ? ">" : "<",
                         (long long)f->after_seq);
    if (f->until_seq)
        (void)buf_printf(sql, " AND %s %s %lld", seq,
                         is_oldest ? "<=" : ">=", (long long)f->until_seq);
}

/* The tenant's jobs, or those of its user, by its index. */
static void add_from_tenant(struct buf *sql, struct store *store, const struct job_filter *f,
                            bool by_user, bool by_seq)
{
    const char *direction = f->order == ORDER_OLDEST ? "" : " DESC";
    (void)buf_printf(sql,
                     " FROM (SELECT x.seq FROM redrive.specs x WHERE x.tenant_id = (SELECT "
                     "t.tenant_id FROM redrive.tenants t WHERE t.name = $%d::text)",
                     add_param(&store->args, f->tenant));
    if (by_user)
        (void)buf_printf(sql, " AND x.user_name = $%d::text", add_param(&store->args, f->user));
    if (by_seq)
        add_bounds(sql, f, "x.seq");
    (void)buf_printf(sql,
                     " ORDER BY x.tenant_id%s,%s%s x.seq%s OFFSET 0) k CROSS JOIN " STATE_ROW("k"),
                     direction, by_user ? " x.user_name" : "",
                     by_user ? (*direction ? " DESC," : ",") : "", direction);
}

/* The jobs of some states, or of few partitions: each state has an index of its own, and parked
 * ones a table. */
static void add_from_states(struct buf *sql, struct store *store, uint32_t states)
{
    const bool of_partitions = store->list_partitions.len > 0;
    const char *between = of_partitions ? " FROM (SELECT * FROM (" : " FROM (";
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        if (!(states >> state & 1))
            continue;
        (void)buf_puts(sql, between);
        if (state == REDRIVE_STATE_PARKED)
            (void)buf_puts(sql, "SELECT q.* FROM (SELECT seq FROM redrive.parked OFFSET 0) p CROSS "
                                "JOIN " PARKED_ROW " WHERE true");
        else
            (void)buf_printf(sql, "SELECT * FROM redrive.job_states q WHERE q.state = %d%s", state,
                             state >= REDRIVE_STATE_COMPLETED ? " AND q.state >= 5" : "");
        if (of_partitions)
            add_partitions(sql, store, "q");
        between = " UNION ALL ";
    }
    /* OFFSET 0: bounds of the list must not reach the branches, where the server would choose an
     * index by them that has all jobs of the state. */
    (void)buf_puts(sql, of_partitions ? ") u OFFSET 0) j" : ") j");
}

/* The jobs that ended for the filter's reasons: each has a part of the index in the order of seq.
 */
static void add_from_reasons(struct buf *sql, uint32_t reasons)
{
    const char *between = " FROM (";
    for (int i = 0; i < REDRIVE_REASON_COUNT; i++)
        if (reasons >> i & 1) {
            (void)buf_printf(sql, "%sSELECT * FROM redrive.job_states q WHERE q.reason = %d",
                             between, i);
            between = " UNION ALL ";
        }
    (void)buf_puts(sql, ") j");
}

/* The jobs that had such an error once: whether it is their last one is a condition as well. */
static void add_from_errors(struct buf *sql, struct store *store, const struct job_filter *f)
{
    (void)buf_puts(sql, " FROM (SELECT DISTINCT e.seq FROM redrive.history e WHERE true");
    if (f->classes)
        add_mask(sql, "e.error_class", f->classes, REDRIVE_CLASS_COUNT);
    if (f->error_type.len > 0)
        (void)buf_printf(sql, " AND e.error_type = $%d::text",
                         add_param(&store->args, f->error_type));
    if (f->text.len > 0)
        (void)buf_printf(sql, " AND strpos(e.error_message, $%d::text) > 0",
                         add_param(&store->args, f->text));
    add_bounds(sql, f, "e.seq");
}

/* Adds where the seqs come from; returns the column that has them in order. */
static const char *add_from_source(struct buf *sql, struct store *store, const struct job_filter *f,
                                   enum list_source source)
{
    switch (source) {
    case LIST_PARTITIONS:
    case LIST_STATES:
        add_from_states(sql, store, f->states ? f->states : ALL_STATES);
        if (store->list_partitions.len == 0 && (f->states & ~TIME_LOCKED) == 0)
            return "j.seq";
        /* They are sorted: + 0 keeps the server from looking for them among all jobs, by seq. */
        return "j.seq + 0";
    case LIST_REASONS: add_from_reasons(sql, f->reasons); return "j.seq";
    case LIST_GROUP: (void)buf_puts(sql, " FROM redrive.job_states j"); return "j.seq";
    case LIST_ERRORS:
        add_from_errors(sql, store, f);
        (void)buf_printf(sql, " ORDER BY e.seq%s OFFSET 0) k CROSS JOIN " STATE_ROW("k"),
                         f->order == ORDER_OLDEST ? "" : " DESC");
        return "k.seq";
    case LIST_USER: add_from_tenant(sql, store, f, true, true); return "k.seq";
    case LIST_ALL:
    default: break;
    }
    if (f->tenant.len > 0 && !f->is_most && !is_by_name(f)) {
        add_from_tenant(sql, store, f, false, true);
        return "k.seq";
    }
    (void)buf_puts(sql, " FROM redrive.job_states j");
    return "j.seq";
}

/* The index that fits the filter best; it may have the jobs of all tenants. */
static enum list_source best_by_seq(const struct store *store, const struct job_filter *f)
{
    const enum list_source source = is_by_name(f) ? LIST_ALL : job_filter_source(f);
    if (is_by_name(f) || (source != LIST_ALL && source != LIST_STATES && source != LIST_PARTITIONS))
        return source;
    if (source == LIST_PARTITIONS && store->list_partitions.len > 0)
        return source;
    if (f->reasons != 0 && !(f->reasons & 1u << REDRIVE_REASON_NONE))
        return LIST_REASONS;
    if (f->states != 0 && (f->states & ~TIME_LOCKED) == 0)
        return LIST_STATES;
    return source == LIST_STATES ? source : LIST_ALL;
}

static void add_by_seq(struct buf *sql, struct store *store, const struct job_filter *f,
                       enum list_source source)
{
    const char *direction = f->order == ORDER_OLDEST ? "" : " DESC";
    const bool of_tenant = source == LIST_USER || (source == LIST_ALL && !f->is_most);
    struct job_filter rest = *f;
    RELEASED_BY(buf_release) struct buf from = BUF_MAX(SQL_MAX);
    const char *seq = add_from_source(&from, store, f, source);
    if (source == LIST_USER)
        rest.user = (struct str){0};
    pg_list_add_needed_sides(&from, &rest);
    pg_list_add_conditions(&from, store, &rest,
                           of_tenant && !is_by_name(f) ? SOURCE_TENANT : SOURCE_ALL);
    if (*seq == 'j')
        add_bounds(&from, f, "j.seq");
    (void)buf_printf(sql, SEQS "%s AS seq", seq);
    (void)buf_add_str(sql, buf_str(&from));
    (void)buf_printf(sql, " ORDER BY %s%s LIMIT %zu" WHOLE_JOBS " ORDER BY m.seq%s", seq, direction,
                     f->limit + 1, direction);
}

/* ---- By the time of the end ------------------------------------------------------------------ */

static const char *const COUNTS[REDRIVE_STATE_COUNT] = {
    [REDRIVE_STATE_SCHEDULED] = "y.scheduled", [REDRIVE_STATE_RETRYING] = "y.retrying",
    [REDRIVE_STATE_QUEUED] = "y.queued",       [REDRIVE_STATE_RUNNING] = "y.running",
    [REDRIVE_STATE_PARKED] = "y.parked",       [REDRIVE_STATE_COMPLETED] = "y.completed",
    [REDRIVE_STATE_FAILED] = "y.failed",       [REDRIVE_STATE_DEAD_LETTER] = "y.dead_letter",
    [REDRIVE_STATE_CANCELLED] = "y.cancelled", [REDRIVE_STATE_WAITING] = "y.waiting"};

static void add_count(struct buf *sql, uint32_t states)
{
    (void)buf_puts(sql, "coalesce(sum(0");
    for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
        if (states >> i & 1)
            (void)buf_printf(sql, " + %s", COUNTS[i]);
    (void)buf_puts(sql, ")");
}

static int is_narrow(struct store *store, struct buf *sql, bool *ret, struct redrive_err *err)
{
    const PGresult *result = NULL;
    (void)buf_printf(sql, " LIMIT %lld) n", (long long)store->narrow + 1);
    const int rc = pg_list_read(store, sql, &result, err);
    *ret = rc == 0 && pg_get_int(result, 0, 0) <= store->narrow;
    return rc;
}

int pg_list_find_narrow(struct store *store, const struct job_filter *f, enum source *ret,
                        struct redrive_err *err)
{
    bool found = false;
    struct buf sql;
    int rc = 0;
    *ret = SOURCE_ALL;
    if (is_by_name(f))
        return 0;
    if (f->user.len > 0 && f->tenant.len > 0) {
        buf_init(&sql, SQL_MAX);
        (void)buf_printf(&sql,
                         "SELECT count(*) FROM (SELECT FROM redrive.specs x WHERE x.tenant_id = "
                         "(SELECT t.tenant_id FROM redrive.tenants t WHERE t.name = $%d::text)",
                         add_param(&store->args, f->tenant));
        (void)buf_printf(&sql, " AND x.user_name = $%d::text", add_param(&store->args, f->user));
        rc = is_narrow(store, &sql, &found, err);
        *ret = found ? SOURCE_USER : SOURCE_ALL;
    }
    if (rc == 0 && !found && f->error_type.len > 0) {
        buf_init(&sql, SQL_MAX);
        (void)buf_printf(&sql,
                         "SELECT count(*) FROM (SELECT FROM redrive.history e WHERE e.error_type "
                         "= $%d::text",
                         add_param(&store->args, f->error_type));
        rc = is_narrow(store, &sql, &found, err);
        *ret = found ? SOURCE_TYPE : SOURCE_ALL;
    }
    return rc;
}

/* Whether all jobs of the tenant are fewer than would be met. */
static int find_small_tenant(struct store *store, const struct job_filter *f, size_t limit,
                             enum source *ret, struct redrive_err *err)
{
    const uint32_t states = f->states ? f->states : ALL_STATES;
    const PGresult *result = NULL;
    struct buf sql;
    *ret = SOURCE_ALL;
    if (f->tenant.len == 0 || f->id.len > 0 || f->unique_key.len > 0)
        return 0;
    buf_init(&sql, SQL_MAX);
    (void)buf_puts(&sql, "SELECT ");
    add_count(&sql, ALL_STATES);
    (void)buf_puts(&sql, " FILTER (WHERE t.name = $1::text), 0)::bigint, ");
    add_count(&sql, states);
    (void)buf_puts(&sql, " FILTER (WHERE t.name = $1::text), 0)::bigint, ");
    add_count(&sql, states);
    (void)buf_puts(
        &sql,
        ", 0)::bigint FROM redrive.count_deltas y JOIN redrive.partitions l ON l.partition_id = "
        "y.partition_id JOIN redrive.tenants t ON t.tenant_id = l.tenant_id");
    (void)add_param(&store->args, f->tenant);
    int rc = pg_list_read(store, &sql, &result, err);
    if (rc != 0)
        return rc;
    const int64_t own = pg_get_int(result, 0, 0), in_states = pg_get_int(result, 0, 1);
    const int64_t all = pg_get_int(result, 0, 2);
    const int64_t others = all / (in_states > 0 ? in_states : 1);
    const bool is_small = own < all && (limit == 0 || own / (int64_t)limit < others);
    *ret = is_small ? SOURCE_TENANT : SOURCE_ALL;
    return 0;
}

int pg_list_choose_source(struct store *store, const struct job_filter *f, size_t limit,
                          enum source *ret, struct redrive_err *err)
{
    const int rc = pg_list_find_narrow(store, f, ret, err);
    return rc != 0 || *ret != SOURCE_ALL ? rc : find_small_tenant(store, f, limit, ret, err);
}

void pg_list_add_from(struct buf *sql, struct store *store, const struct job_filter *f,
                      enum source source)
{
    if (source == SOURCE_TENANT || source == SOURCE_USER)
        add_from_tenant(sql, store, f, source == SOURCE_USER, false);
    else if (source == SOURCE_TYPE)
        (void)buf_printf(sql,
                         " FROM (SELECT DISTINCT e.seq FROM redrive.history e WHERE e.error_type "
                         "= $%d::text OFFSET 0) k CROSS JOIN " STATE_ROW("k"),
                         add_param(&store->args, f->error_type));
    else
        (void)buf_puts(sql, " FROM redrive.job_states j");
}

/* Where an order by seq comes from. An index that has the jobs of all tenants is not for a tenant
 * that has fewer jobs than there are in the index: of these a page may meet every one. */
static int choose_by_seq(struct store *store, const struct job_filter *f, enum list_source *ret,
                         struct redrive_err *err)
{
    struct job_filter met = {.tenant = f->tenant, .states = f->states ? f->states : ALL_STATES};
    enum source small;
    *ret = best_by_seq(store, f);
    const bool of_all =
        *ret == LIST_REASONS || (*ret == LIST_STATES && store->list_partitions.len == 0);
    if (f->is_most || !of_all)
        return 0;
    if (*ret == LIST_REASONS)
        met.states &= ENDED_MASK & ~(1u << REDRIVE_STATE_COMPLETED); /* the others have none */
    const int rc = find_small_tenant(store, &met, 0, &small, err);
    if (rc == 0 && small == SOURCE_TENANT)
        *ret = LIST_ALL;
    return rc;
}

/* The latest end first, then the highest seq. */
#define BY_END "ORDER BY coalesce(j.finished_ms, 0) DESC, j.seq DESC"

/* All jobs of a source are looked at. */
static void add_sorted_by_end(struct buf *sql, struct store *store, const struct job_filter *f,
                              enum source source)
{
    (void)buf_puts(sql, SEQS "j.seq");
    pg_list_add_from(sql, store, f, source);
    pg_list_add_needed_sides(sql, f);
    pg_list_add_conditions(sql, store, f, source);
    if (f->after_seq)
        (void)buf_printf(sql, " AND (coalesce(j.finished_ms, 0), j.seq) < (%lld, %lld)",
                         (long long)f->after_ms, (long long)f->after_seq);
    (void)buf_printf(sql, " " BY_END " LIMIT %zu" WHOLE_JOBS " " BY_END, f->limit + 1);
}

/* The seqs and ends of one state's jobs, or of all that have not ended. */
static void add_state_by_end(struct buf *sql, struct store *store, const struct job_filter *f,
                             uint32_t states, bool is_ended)
{
    const bool by_partition = is_ended && store->list_partitions.len > 0;
    if (by_partition)
        (void)buf_printf(sql, "(SELECT p.* FROM unnest('{%s}'::int[]) AS v(id) CROSS JOIN LATERAL ",
                         buf_cstr(&store->list_partitions));
    (void)buf_puts(sql, "(SELECT j.seq, j.finished_ms FROM redrive.job_states j");
    pg_list_add_needed_sides(sql, f);
    (void)buf_puts(sql, by_partition ? " WHERE j.partition_id = v.id" : " WHERE true");
    add_texts(sql, store, f, SOURCE_ALL);
    add_numbers(sql, f);
    add_states(sql, states);
    if (is_ended)
        (void)buf_puts(sql, " AND j.state >= 5");
    if (f->after_seq)
        (void)buf_printf(sql, " AND (%s, j.seq) < (%lld, %lld)", is_ended ? "j.finished_ms" : "0",
                         (long long)f->after_ms, (long long)f->after_seq);
    (void)buf_printf(sql, " ORDER BY %sj.seq DESC LIMIT %zu)",
                     is_ended ? "j.finished_ms DESC, " : "", f->limit + 1);
    if (by_partition)
        (void)buf_puts(sql, " p)");
}

/* One state at a time, in the order of its index; those that have not ended come last. */
static void add_by_end(struct buf *sql, struct store *store, const struct job_filter *f)
{
    const uint32_t states = f->states ? f->states : ALL_STATES;
    const char *between = "";
    (void)buf_puts(sql, SEQS "j.seq FROM (");
    for (int state = REDRIVE_STATE_COMPLETED - 1; state <= REDRIVE_STATE_CANCELLED; state++) {
        const bool is_ended = state >= REDRIVE_STATE_COMPLETED;
        const uint32_t some = is_ended ? 1u << state : ~ENDED_MASK & ALL_STATES;
        if (!(states & some))
            continue;
        (void)buf_puts(sql, between);
        add_state_by_end(sql, store, f, states & some, is_ended);
        between = " UNION ALL ";
    }
    if (!*between)
        (void)buf_puts(sql, "SELECT j.seq, j.finished_ms FROM redrive.job_states j WHERE false");
    (void)buf_printf(sql, ") AS j " BY_END " LIMIT %zu" WHOLE_JOBS " " BY_END, f->limit + 1);
}

static int list_found(struct store *store, const struct job_filter *filter, struct job_page *ret,
                      struct redrive_err *err)
{
    struct buf sql;
    const PGresult *result = NULL;
    enum source source = SOURCE_ALL;
    enum list_source by_seq = LIST_ALL;
    int rc = 0;
    if (filter->order != ORDER_FINISHED)
        rc = choose_by_seq(store, filter, &by_seq, err);
    else if (store->list_partitions.len > 0)
        rc = pg_list_find_narrow(store, filter, &source, err);
    else
        rc = pg_list_choose_source(store, filter, filter->limit + 1, &source, err);
    if (rc != 0)
        return rc;
    buf_init(&sql, SQL_MAX);
    if (filter->order != ORDER_FINISHED)
        add_by_seq(&sql, store, filter, by_seq);
    else if (source != SOURCE_ALL)
        add_sorted_by_end(&sql, store, filter, source);
    else
        add_by_end(&sql, store, filter);
    rc = pg_list_read(store, &sql, &result, err);
    if (rc != 0)
        return rc;
    return (filter->skips_unreadable ? pg_page_fill_readable
                                     : pg_page_fill)(store, result, filter->limit, ret, err);
}

int postgres_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                  struct redrive_err *err)
{
    job_page_release(ret);
    int rc = store_check_limit(filter->limit, "jobs", err);
    if (rc == 0)
        rc = find_partitions(store, filter, err);
    if (rc == 0)
        rc = job_page_list(store, filter, list_found, ret, err);
    buf_reset(&store->list_partitions);
    return rc;
}
