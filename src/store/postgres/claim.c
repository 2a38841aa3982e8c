#include <stdlib.h>

#include "base/err.h"
#include "store/postgres/private.h"

/* A claim looks at the best jobs of each line that it wants, merges these, and locks as many as
 * were asked for. Jobs that another unit has locked are passed over, and count as looked at: when
 * too few are left, more are looked at, up to this many. Where that has happened it will happen
 * again, so that the next claims look at more from the start. */
#define LOOK_MAX      ((int64_t)65536)
#define CROWDED_FOR   32
#define CROWDED_LOOKS 4

/* While one line has all the jobs that wait, a claim is a single scan. Where that has turned out to
 * be wrong the next claims do not count on it. */
#define SEVERAL_FOR 64

/* Beside the columns of a job, in a result. */
enum {
    COLUMN_TENANT_ID = JOB_COLUMN_COUNT,
    COLUMN_LOOKED,
    COLUMN_TURNS,

    /* Of a line that is alone. */
    COLUMN_ALONE = JOB_COLUMN_COUNT,
    COLUMN_MORE,
};

static void add_names(struct args *args, const struct str *names, size_t n)
{
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_item_name(args, names[i]);
    pg_args_array_end(args);
}

/* `look` jobs of up to `turns` tenants. */
static int claim(struct store *store, const struct claim_filter *filter, int64_t limit,
                 int64_t look, int64_t turns, const PGresult **ret, struct redrive_err *err)
{
    struct args *args = &store->args;
    const bool of_tenant = filter->tenant.len > 0;
    if (of_tenant)
        pg_args_name(args, filter->tenant);
    else
        pg_args_int4(args, (int32_t)store->last_tenant);
    add_names(args, filter->queues, filter->n_queues);
    add_names(args, filter->tasks, filter->n_tasks);
    add_names(args, filter->skip_lanes, filter->n_skip_lanes);
    pg_args_int8(args, look);
    pg_args_int8(args, limit);
    pg_args_int8(args, turns);
    return pg_read(store, of_tenant ? STATEMENT_READY_OF_TENANT : STATEMENT_READY_IN_TURN, NULL,
                   ret, err);
}

/* No job at all is one row of NULLs, which tells what was looked at. */
static int64_t given_in(const PGresult *result)
{
    return PQgetisnull(result, 0, COLUMN_SEQ) ? 0 : PQntuples(result);
}

/* The last one whose first job is among those that are given has had its turn. */
static void pass_turn(struct store *store, const PGresult *result, int64_t given)
{
    if (given == 0)
        return;
    int64_t first = pg_get_int(result, 0, COLUMN_TENANT_ID), last = first;
    for (int64_t i = 1; i < given; i++) {
        int64_t tenant_id = pg_get_int(result, (int)i, COLUMN_TENANT_ID);
        if (tenant_id == first)
            break;
        last = tenant_id;
    }
    store->last_tenant = last;
}

/* How many to look at: blocked lanes may hide four times as many as are given. */
static int64_t first_look(struct store *store, const struct claim_filter *filter, int64_t limit)
{
    if (filter->n_skip_lanes > 0)
        return 5 * limit;
    if (store->crowded == 0)
        return limit;
    store->crowded--;
    return CROWDED_LOOKS * limit;
}

/* ---- A line that is alone -------------------------------------------------------------------- */

static bool is_among(const struct str *names, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(names[i], name))
            return true;
    return n == 0;
}

/* The line that had all the jobs last time, if that is what the claim is for. */
static const struct line *line_to_try(struct store *store, const struct claim_filter *filter)
{
    if (store->several > 0) {
        store->several--;
        return NULL;
    }
    const struct line *line = lines_at(&store->lines, store->one_line);
    const bool is_wanted = line && filter->n_skip_lanes == 0 &&
                           (filter->tenant.len == 0 || str_eq(filter->tenant, line->tenant)) &&
                           is_among(filter->queues, filter->n_queues, line->queue) &&
                           is_among(filter->tasks, filter->n_tasks, line->task);
    return is_wanted ? line : NULL;
}

static void note_line(struct store *store, const PGresult *result, int64_t given)
{
    store->one_line = given > 0 ? pg_get_int(result, 0, COLUMN_LINE_ID) : 0;
    for (int64_t i = 1; i < given && store->one_line != 0; i++)
        if (pg_get_int(result, (int)i, COLUMN_LINE_ID) != store->one_line)
            store->one_line = 0;
}

static int best_first(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->spec.priority != y->spec.priority)
        return x->spec.priority > y->spec.priority ? -1 : 1;
    return x->status.seq < y->status.seq ? -1 : x->status.seq > y->status.seq;
}

/* They come as the scan gives them, and the joins leave them so. Nobody promises that, and to ask
 * for it would cost more than to look. */
static void put_in_order(struct job_page *page)
{
    for (size_t i = 1; i < page->n; i++) {
        if (best_first(&page->jobs[i - 1], &page->jobs[i]) > 0) {
            qsort(page->jobs, page->n, sizeof *page->jobs, best_first);
            return;
        }
    }
}

/* 1: it was alone, and the page has what there is. */
static int claim_alone(struct store *store, const struct line *line, int64_t limit,
                       struct job_page *ret, struct redrive_err *err)
{
    const PGresult *result = NULL;
    pg_args_int4(&store->args, (int32_t)line->id);
    pg_args_name(&store->args, line->tenant);
    pg_args_name(&store->args, line->queue);
    pg_args_int8(&store->args, limit);
    int rc = pg_read(store, STATEMENT_READY_ALONE, NULL, &result, err);
    if (rc != 0)
        return rc;
    if (!pg_get_bool(result, 0, COLUMN_ALONE)) {
        store->one_line = 0;
        store->several = SEVERAL_FOR;
        return 0;
    }
    const int64_t given = given_in(result);
    const bool more = given == limit && pg_get_bool(result, 0, COLUMN_MORE);
    store->last_tenant = line->tenant_id;
    if (given > 0)
        rc = pg_page_fill_locked(store, result, ret, err);
    put_in_order(ret);
    ret->more = rc == 0 && more;
    return rc == 0 ? 1 : rc;
}

/* ---- Any lines ------------------------------------------------------------------------------- */

static int claim_any(struct store *store, const struct claim_filter *filter, int64_t limit,
                     struct job_page *ret, struct redrive_err *err)
{
    const PGresult *result = NULL;
    /* One more than may be looked at tells whether there are more. */
    int64_t look = first_look(store, filter, limit) + 1;
    int64_t turns = limit, given = 0, looked = 0, tenants = 0;
    int rc = 0;
    for (;;) {
        rc = claim(store, filter, limit, look, turns, &result, err);
        if (rc != 0)
            return rc;
        given = given_in(result);
        looked = pg_get_int(result, 0, COLUMN_LOOKED);
        tenants = pg_get_int(result, 0, COLUMN_TURNS);
        if (given == limit || (looked < look && tenants <= turns))
            break;
        /* Passing over jobs of blocked lanes has its bounds, others' jobs are their own affair. */
        if (look >= LOOK_MAX || (filter->n_skip_lanes > 0 && looked == look))
            break;
        if (looked == look)
            store->crowded = CROWDED_FOR;
        look = look * 4 < LOOK_MAX ? look * 4 : LOOK_MAX;
        turns = tenants;
    }
    if (given > 0)
        rc = pg_page_fill_locked(store, result, ret, err);
    if (rc == 0 && filter->tenant.len == 0)
        pass_turn(store, result, given);
    note_line(store, result, given);
    ret->more =
        rc == 0 && (looked == look || tenants > turns || (given == limit && looked > given));
    return rc;
}

int postgres_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                   struct redrive_err *err)
{
    const int64_t limit = filter->limit < (size_t)LOOK_MAX ? (int64_t)filter->limit : LOOK_MAX;
    job_page_release(ret);
    int rc = pg_unit_needed(store, err);
    if (rc != 0 || limit == 0)
        return rc;
    const struct line *line = line_to_try(store, filter);
    if (line)
        rc = claim_alone(store, line, limit, ret, err);
    if (rc == 0)
        rc = claim_any(store, filter, limit, ret, err);
    return rc < 0 ? rc : 0;
}
