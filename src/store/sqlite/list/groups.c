/* groups.c - dead letters that look alike, and causes, counted by filter. */
#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"
#include "store/sqlite/list/list.h"

/* ---- Groups ---------------------------------------------------------------------------------- */

/* A group that is being counted. */
struct tally {
    uint64_t fingerprint;
    uint64_t count;
    int64_t first_ms, last_ms;
    int64_t example; /* the seq of the latest */
};

/* Keeps the largest groups, in order; the array has room for `limit` of them. */
static size_t keep_group(struct group_count *groups, size_t n, size_t limit,
                         const struct tally *tally)
{
    const struct group_count group = {.fingerprint = tally->fingerprint,
                                      .count = tally->count,
                                      .first_ms = tally->first_ms,
                                      .last_ms = tally->last_ms,
                                      .example.status.seq = tally->example};
    size_t at = n;
    while (at > 0 && group_count_order(&group, &groups[at - 1]) < 0)
        at--;
    if (at == limit)
        return n;
    n = n < limit ? n + 1 : n;
    memmove(&groups[at + 1], &groups[at], (n - 1 - at) * sizeof *groups);
    groups[at] = group;
    return n;
}

/* The tally of a fingerprint, a new one if there is none; NULL: no memory. */
static struct tally *tally_of(struct map *tallies, struct arena *arena, uint64_t fingerprint)
{
    const struct str key = {(const char *)&fingerprint, sizeof fingerprint};
    struct tally *tally = map_get(tallies, key);
    if (tally)
        return tally;
    tally = arena_array(arena, 1, sizeof *tally);
    if (!tally || map_put(tallies, key, tally) != 0)
        return NULL;
    *tally = (struct tally){.fingerprint = fingerprint, .first_ms = INT64_MAX};
    return tally;
}

static void tally_add(struct tally *tally, int64_t ms, int64_t seq)
{
    const bool is_later =
        tally->count == 0 || ms > tally->last_ms || (ms == tally->last_ms && seq > tally->example);
    tally->count++;
    if (ms < tally->first_ms)
        tally->first_ms = ms;
    if (is_later) {
        tally->last_ms = ms;
        tally->example = seq;
    }
}

/* Rows of a fingerprint, an end and a seq, in any order. */
static int count_groups(struct store *store, sqlite3_stmt *st, size_t limit,
                        struct group_count *groups, size_t *ret_n, struct redrive_err *err)
{
    RELEASED_BY(map_release) struct map tallies;
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc;
    *ret_n = 0;
    map_init(&tallies, (uint64_t)clock_monotonic_ns());
    while ((rc = sql_step(store, st, err)) > 0) {
        struct tally *tally = tally_of(&tallies, &arena, (uint64_t)sqlite3_column_int64(st, 0));
        if (!tally) {
            rc = err_nomem(err);
            break;
        }
        tally_add(tally, sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2));
    }
    MAP_FOREACH (&tallies, slot)
        *ret_n = keep_group(groups, *ret_n, limit, slot->value);
    return rc;
}

/* Replaces the seq of a group's example by the job. */
static int read_example(struct store *store, struct group_count *group, struct arena *arena,
                        struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena whole = {0};
    struct job job;
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, group->example.status.seq);
    int rc = sql_step(store, st, err);
    const bool is_there = rc > 0;
    if (is_there)
        rc = job_read(store, st, &whole, &job, err);
    sqlite3_reset(st);
    if (is_there && rc == 0)
        group->example = job_bare(&job, arena);
    return rc == 0 && arena->failed ? err_nomem(err) : rc;
}

static int list_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                       struct redrive_err *err)
{
    struct buf sql;
    sqlite3_stmt *st = NULL;
    ret->groups = arena_array(&ret->arena, filter->limit, sizeof *ret->groups);
    if (!ret->groups)
        return err_nomem(err);
    bool is_small = false;
    enum list_source narrow;
    int rc = list_find_narrow(store, filter, &narrow, err);
    if (rc == 0 && narrow == LIST_ALL)
        rc = list_is_small_tenant(store, filter, 0, &is_small, err);
    buf_init(&sql, SQL_LIST_MAX);
    buf_puts(&sql, "SELECT j.fingerprint, " FINISHED_MS ", j.seq");
    if (is_small) {
        buf_puts(&sql, OF_TENANT);
    } else if (narrow != LIST_ALL) {
        list_add_narrow(&sql, filter, narrow);
        list_add_needed_sides(&sql, filter);
        buf_puts(&sql, " WHERE 1");
    } else {
        buf_puts(&sql, " FROM job_states j");
        list_add_needed_sides(&sql, filter);
        buf_puts(&sql, " WHERE");
        list_add_states(&sql, filter->states ? filter->states : (1u << REDRIVE_STATE_COUNT) - 1);
    }
    buf_puts(&sql, " AND j.fingerprint <> 0");
    list_add_conditions(&sql, filter, is_small);
    if (rc == 0)
        rc = list_prepare(store, &sql, filter, &st, err);
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
    RELEASED_BY(buf_release) struct buf sql = BUF_MAX(SQL_LIST_MAX);
    sqlite3_stmt *st = NULL;
    bool is_small;
    int rc = list_is_small_tenant(store, filter, 0, &is_small, err);
    buf_puts(&sql, "SELECT l.task, c.reason, c.class, c.type, c.n FROM (SELECT j.partition_id AS "
                   "partition_id, "
                   "j.reason AS reason, j.error_class AS class, h.error_type AS type, "
                   "count(*) AS n");
    buf_puts(&sql, is_small ? OF_TENANT : " FROM job_states j" JOB_SIDES " WHERE 1");
    list_add_conditions(&sql, filter, is_small);
    buf_puts(&sql, " GROUP BY 1, 2, 3, 4) c JOIN partitions l ON l.partition_id = c.partition_id");
    if (rc == 0)
        rc = list_prepare(store, &sql, filter, &st, err);
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
        rc = column_is_below(st, 1, REDRIVE_REASON_COUNT) &&
                     column_is_below(st, 2, REDRIVE_CLASS_COUNT)
                 ? 0
                 : sql_damaged(store, 0, "the cause of its end is none of those there are", err);
        if (rc == 0)
            add(ctx, &cause);
    }
    sqlite3_finalize(st);
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
