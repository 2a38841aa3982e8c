/* groups.c - dead letters that look alike, and causes, counted by filter. */
#include "base/err.h"
#include "store/postgres/list/list.h"

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Jobs of the filter that are in a group. */
static void add_grouped(struct buf *sql, struct store *store, const struct job_filter *f,
                        enum source source)
{
    pg_list_add_from(sql, store, f, source);
    pg_list_add_needed_sides(sql, f);
    pg_list_add_conditions(sql, store, f, source);
    (void)buf_puts(sql, " AND j.fingerprint IS NOT NULL");
}

/* A job without its payload and its result: what it has beside its row j, and its columns. */
#define BARE_JOB     " CROSS JOIN " SPEC_ROW " LEFT JOIN " ERROR_ROW " ON true"
#define BARE_ERROR   "NULL, h.error_code, h.error_type, h.error_message, h.stacktrace, NULL"
#define BARE_COLUMNS ROW_COLUMNS ", " SPEC_NAMES("s") ", " BARE_ERROR

/* First the groups are counted, by an index that has all it takes of dead letters; then the latest
 * job of each is looked for, and read without what may be large. The example is part of the order:
 * groups that tie with the last one stay until it is known. */
static void add_groups(struct buf *sql, struct store *store, const struct job_filter *f,
                       enum source source)
{
    const bool is_ended = f->states != 0 && (f->states & ~ENDED_MASK) == 0;
    const char *end = is_ended ? "j.finished_ms" : "coalesce(j.finished_ms, 0)";
    (void)buf_printf(sql,
                     "WITH g AS MATERIALIZED (SELECT j.fingerprint, count(*) AS n, min(%s) AS "
                     "first_ms, max(%s) AS last_ms",
                     end, end);
    add_grouped(sql, store, f, source);
    (void)buf_printf(sql,
                     " GROUP BY j.fingerprint ORDER BY n DESC, last_ms DESC FETCH FIRST %zu ROWS "
                     "WITH TIES) SELECT " BARE_COLUMNS
                     ", g.n, g.first_ms, g.last_ms FROM g CROSS JOIN LATERAL (SELECT j.seq",
                     f->limit);
    add_grouped(sql, store, f, source);
    (void)buf_printf(sql,
                     " AND j.fingerprint = g.fingerprint AND %s = g.last_ms ORDER BY j.seq DESC "
                     "LIMIT 1) e CROSS JOIN " STATE_ROW("e") BARE_JOB
                     " ORDER BY g.n DESC, g.last_ms DESC, e.seq DESC LIMIT %zu",
                     end, f->limit);
}

static int fill_groups(struct store *store, const PGresult *result, struct group_page *ret,
                       struct redrive_err *err)
{
    const size_t n = (size_t)PQntuples(result);
    int rc = pg_partitions_know(store, result, COLUMN_PARTITION_ID, err);
    ret->groups = arena_array(&ret->arena, n, sizeof *ret->groups);
    for (; rc == 0 && ret->groups && ret->n < n; ret->n++) {
        struct group_count *group = &ret->groups[ret->n];
        const int i = (int)ret->n;
        rc = pg_job_read(store, result, i, &ret->arena, &group->example, err);
        group->fingerprint = group->example.status.fingerprint;
        group->count = (uint64_t)pg_get_int(result, i, JOB_COLUMN_COUNT);
        group->first_ms = pg_get_int(result, i, JOB_COLUMN_COUNT + 1);
        group->last_ms = pg_get_int(result, i, JOB_COLUMN_COUNT + 2);
    }
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        group_page_release(ret);
    return rc;
}

int postgres_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                    struct redrive_err *err)
{
    struct buf sql;
    const PGresult *result = NULL;
    enum source source;
    group_page_release(ret);
    int rc = store_check_limit(filter->limit, "groups", err);
    if (rc == 0)
        rc = pg_list_find_narrow(store, filter, &source, err);
    if (rc != 0)
        return rc;
    buf_init(&sql, SQL_MAX);
    add_groups(&sql, store, filter, source);
    rc = pg_list_read(store, &sql, &result, err);
    return rc == 0 ? fill_groups(store, result, ret, err) : rc;
}

/* ---- Causes ---------------------------------------------------------------------------------- */

int postgres_causes(struct store *store, const struct job_filter *filter,
                    void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                    struct redrive_err *err)
{
    struct buf sql;
    struct arena arena;
    const PGresult *result = NULL;
    enum source source;
    int rc = pg_list_choose_source(store, filter, 0, &source, err);
    if (rc != 0)
        return rc;
    buf_init(&sql, SQL_MAX);
    (void)buf_puts(&sql,
                   "SELECT l.task, c.reason, c.class, c.type, c.n FROM (SELECT j.partition_id, "
                   "coalesce(j.reason, 0) AS reason, coalesce(j.error_class, 0) AS class, "
                   "h.error_type AS type, count(*) AS n");
    pg_list_add_from(&sql, store, filter, source);
    if (filter->user.len > 0)
        (void)buf_puts(&sql, " CROSS JOIN " SPEC_ROW);
    (void)buf_puts(&sql, " LEFT JOIN " ERROR_ROW " ON true");
    pg_list_add_conditions(&sql, store, filter, source);
    (void)buf_puts(
        &sql,
        " GROUP BY 1, 2, 3, 4) c JOIN redrive.partitions l ON l.partition_id = c.partition_id");
    rc = pg_list_read(store, &sql, &result, err);
    arena_init(&arena);
    for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
        const struct cause_count cause = {
            .task = pg_get_text(result, i, 0, &arena),
            .reason = (enum redrive_reason)pg_get_int(result, i, 1),
            .class_ = (enum redrive_class)pg_get_int(result, i, 2),
            .type = pg_get_text(result, i, 3, &arena),
            .count = (uint64_t)pg_get_int(result, i, 4),
        };
        if (arena.failed)
            rc = err_nomem(err);
        else if (!pg_is_below(result, i, 1, REDRIVE_REASON_COUNT) ||
                 !pg_is_below(result, i, 2, REDRIVE_CLASS_COUNT))
            rc = pg_damaged(store, 0, "the cause of its end is none of those there are", err);
        else
            add(ctx, &cause);
    }
    arena_release(&arena);
    return rc;
}
