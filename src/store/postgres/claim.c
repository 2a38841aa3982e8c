#include "base/err.h"
#include "store/postgres/private.h"

/* A claim looks at the best jobs of each line that it wants, merges these, and locks as many as
 * were asked for. Jobs that another unit has locked are passed over, and count as looked at: when
 * too few are left, more are looked at, up to this many. Where that has happened it will happen
 * again, so that the next claims look at more from the start. */
#define LOOK_MAX      ((int64_t)65536)
#define CROWDED_FOR   32
#define CROWDED_LOOKS 4

/* Beside the columns of a job, in a result. */
enum {
    COLUMN_TENANT_ID = JOB_COLUMN_COUNT,
    COLUMN_LOOKED,
    COLUMN_TURNS,
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

int postgres_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                   struct redrive_err *err)
{
    const PGresult *result = NULL;
    const int64_t limit = filter->limit < (size_t)LOOK_MAX ? (int64_t)filter->limit : LOOK_MAX;
    /* One more than may be looked at tells whether there are more. */
    int64_t look = first_look(store, filter, limit) + 1;
    int64_t turns = limit, given = 0, looked = 0, tenants = 0;
    job_page_release(ret);
    int rc = pg_unit_needed(store, err);
    if (rc != 0 || limit == 0)
        return rc;
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
    ret->more = false;
    if (given > 0)
        rc = pg_page_fill_locked(store, result, ret, err);
    if (rc == 0 && filter->tenant.len == 0)
        pass_turn(store, result, given);
    ret->more =
        rc == 0 && (looked == look || tenants > turns || (given == limit && looked > given));
    return rc;
}
