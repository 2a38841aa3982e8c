#include "base/err.h"
#include "store/postgres/private.h"

/* As many jobs as one statement removes. */
#define TOGETHER_MAX ((size_t)4096)

static void add_ended_states(struct args *args, uint32_t states)
{
    pg_args_array(args, ARG_INT4);
    for (int state = REDRIVE_STATE_COMPLETED; state < REDRIVE_STATE_COUNT; state++)
        if (states >> state & 1)
            pg_item_int4(args, state);
    pg_args_array_end(args);
}

/* Takes the jobs out of what is kept and counted. */
static int forget(struct store *store, const PGresult *result, size_t *removed,
                  struct redrive_err *err)
{
    int rc = pg_lines_know(store, result, 1, err);
    for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
        if (PQgetisnull(result, i, 2))
            continue;
        lines_count(&store->lines, lines_at(&store->lines, pg_get_int(result, i, 1)),
                    (int)pg_get_int(result, i, 2), -1);
        pg_row_drop(store, pg_get_int(result, i, 0));
        ++*removed;
    }
    return rc;
}

int postgres_sweep(struct store *store, uint32_t states, int64_t finished_before_ms, size_t limit,
                   size_t *ret_removed, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result;
    *ret_removed = 0;
    int rc = pg_unit_needed(store, err);
    while (rc == 0 && *ret_removed < limit) {
        const size_t left = limit - *ret_removed, before = *ret_removed;
        const size_t some = left < TOGETHER_MAX ? left : TOGETHER_MAX;
        add_ended_states(args, states);
        pg_args_int8(args, finished_before_ms);
        pg_args_int8(args, (int64_t)some);
        rc = pg_read(store, STATEMENT_SWEEP, NULL, &result, err);
        if (rc == 0)
            rc = forget(store, result, ret_removed, err);
        if (*ret_removed - before < some)
            break;
    }
    return rc;
}

/* Those that have a policy of their own are in the answer, and still there. */
static int tell_of_own(struct store *store, const PGresult *result, struct sweep_walk *walk,
                       struct redrive_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && walk->arena && i < PQntuples(result); i++) {
        const struct str policy = pg_get_text(result, i, 4, walk->arena);
        if (policy.len == 0)
            continue;
        const struct sweep_own own = {
            .seq = pg_get_int(result, i, 0),
            .finished_ms = pg_get_int(result, i, 3),
            .task = lines_at(&store->lines, pg_get_int(result, i, 1))->task,
            .policy = policy,
        };
        rc = sweep_walk_tell(walk, &own, err);
    }
    return rc;
}

int postgres_sweep_tasks(struct store *store, struct sweep_walk *walk, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result;
    sweep_walk_begin(walk);
    int rc = pg_unit_needed(store, err);
    size_t looked = 0;
    while (rc == 0 && looked < walk->limit) {
        const size_t left = walk->limit - looked;
        const size_t some = left < TOGETHER_MAX ? left : TOGETHER_MAX;
        add_ended_states(args, walk->states);
        pg_args_int8(args, walk->finished_before_ms);
        pg_args_int8(args, (int64_t)some);
        pg_args_int8(args, walk->at_ms);
        pg_args_int8(args, walk->at_seq);
        pg_args_array(args, ARG_TEXT);
        for (size_t i = 0; i < walk->n_tasks; i++)
            pg_item_name(args, walk->tasks[i]);
        pg_args_array_end(args);
        pg_args_bool(args, walk->all_tasks);
        rc = pg_read(store, STATEMENT_SWEEP_TASKS, NULL, &result, err);
        if (rc == 0)
            rc = forget(store, result, &walk->removed, err);
        if (rc == 0)
            rc = tell_of_own(store, result, walk, err);
        const int n = rc == 0 ? PQntuples(result) : 0;
        if (n > 0) {
            walk->at_ms = pg_get_int(result, n - 1, 3);
            walk->at_seq = pg_get_int(result, n - 1, 0);
        }
        looked += (size_t)n;
        if ((size_t)n < some)
            break;
    }
    walk->more = rc == 0 && looked == walk->limit;
    return rc;
}
