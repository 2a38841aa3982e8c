#include "base/err.h"
#include "store/postgres/private.h"

static struct job_attempt attempt_of(const PGresult *r, int i, struct arena *arena)
{
    return (struct job_attempt){
        .epoch = (uint32_t)pg_get_int(r, i, 1),
        .number = (uint32_t)pg_get_int(r, i, 2),
        .started_ms = pg_get_int(r, i, 3),
        .ended_ms = pg_get_int(r, i, 4),
        .worker = pg_get_text(r, i, 5, arena),
        .outcome = (enum redrive_state)pg_get_int(r, i, 6),
        .error = {.class_ = (enum redrive_class)pg_get_int(r, i, 7),
                  .code = (int32_t)pg_get_int(r, i, 8),
                  .type = pg_get_text(r, i, 9, arena),
                  .message = pg_get_text(r, i, 10, arena),
                  .stacktrace = pg_get_text(r, i, 11, arena)},
        .delay_ms = pg_get_int(r, i, 12),
        .why = pg_get_text(r, i, 13, arena),
        .next_ms = pg_get_int(r, i, 14),
    };
}

/* The rows from *i on that are of one job, which stands at `at` of those that were asked for. */
static bool fill_history(const PGresult *r, int *i, int64_t at, struct attempt_page *ret)
{
    int end = *i;
    while (end < PQntuples(r) && pg_get_int(r, end, 0) == at)
        end++;
    ret->attempts = arena_array(&ret->arena, (size_t)(end - *i), sizeof *ret->attempts);
    for (; ret->attempts && *i < end; ++*i)
        ret->attempts[ret->n++] = attempt_of(r, *i, &ret->arena);
    return !ret->arena.failed;
}

int postgres_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                     struct redrive_err *err)
{
    const PGresult *r;
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    pg_args_array(&store->args, ARG_INT8);
    for (size_t i = 0; i < n; i++)
        pg_item_int8(&store->args, seqs[i]);
    pg_args_array_end(&store->args);
    rc = pg_read(store, STATEMENT_HISTORY_READ, NULL, &r, err);
    for (int i = 0; rc == 0 && i < PQntuples(r);) {
        const int64_t at = pg_get_int(r, i, 0);
        rc = fill_history(r, &i, at, &ret[at - 1]) ? 0 : err_nomem(err);
    }
    if (rc != 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* What this unit has counted and not yet written goes first. */
static int read_sums(struct store *store, enum statement which, struct str tenant,
                     const PGresult **ret, struct redrive_err *err)
{
    int rc = store->in_unit ? pg_lines_flush(store, err) : 0;
    if (rc != 0)
        return rc;
    pg_args_name(&store->args, tenant);
    return pg_read(store, which, NULL, ret, err);
}

static void read_states(const PGresult *r, int i, int from, uint64_t ret[REDRIVE_STATE_COUNT])
{
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        ret[state] = (uint64_t)pg_get_int(r, i, from + state);
}

int postgres_queues(struct store *store, struct str tenant, struct queue_page *ret,
                    struct redrive_err *err)
{
    const PGresult *r;
    queue_page_release(ret);
    int rc = read_sums(store, STATEMENT_QUEUES, tenant, &r, err);
    const size_t n = rc == 0 ? (size_t)PQntuples(r) : 0;
    ret->queues = arena_array(&ret->arena, n, sizeof *ret->queues);
    for (int i = 0; ret->queues && (size_t)i < n; i++) {
        struct queue_count *queue = &ret->queues[ret->n++];
        queue->tenant = pg_get_text(r, i, 0, &ret->arena);
        queue->queue = pg_get_text(r, i, 1, &ret->arena);
        read_states(r, i, 2, queue->by_state);
        queue->paused = pg_get_bool(r, i, 2 + REDRIVE_STATE_COUNT);
        queue->oldest_ready_ms = pg_get_int(r, i, 3 + REDRIVE_STATE_COUNT);
        queue->next_due_ms = pg_get_int(r, i, 4 + REDRIVE_STATE_COUNT);
    }
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        queue_page_release(ret);
    return rc;
}

int postgres_lines(struct store *store, struct str tenant, struct line_page *ret,
                   struct redrive_err *err)
{
    const PGresult *r;
    line_page_release(ret);
    int rc = read_sums(store, STATEMENT_LINES, tenant, &r, err);
    const size_t n = rc == 0 ? (size_t)PQntuples(r) : 0;
    ret->lines = arena_array(&ret->arena, n, sizeof *ret->lines);
    for (int i = 0; ret->lines && (size_t)i < n; i++) {
        struct line_count *line = &ret->lines[ret->n++];
        line->tenant = pg_get_text(r, i, 0, &ret->arena);
        line->queue = pg_get_text(r, i, 1, &ret->arena);
        line->task = pg_get_text(r, i, 2, &ret->arena);
        read_states(r, i, 3, line->by_state);
    }
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        line_page_release(ret);
    return rc;
}

static int count_lanes(struct store *store, enum statement which, struct str tenant,
                       struct lane_page *ret, struct redrive_err *err)
{
    const PGresult *r;
    lane_page_release(ret);
    int rc = read_sums(store, which, tenant, &r, err);
    const size_t n = rc == 0 ? (size_t)PQntuples(r) : 0;
    ret->lanes = arena_array(&ret->arena, n, sizeof *ret->lanes);
    for (int i = 0; ret->lanes && (size_t)i < n; i++)
        ret->lanes[ret->n++] = (struct lane_count){
            .tenant = pg_get_text(r, i, 0, &ret->arena),
            .lane = pg_get_text(r, i, 1, &ret->arena),
            .jobs = (uint64_t)pg_get_int(r, i, 2),
            .used = (uint64_t)pg_get_int(r, i, 3),
        };
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        lane_page_release(ret);
    return rc;
}

int postgres_parked_counts(struct store *store, struct str tenant, struct lane_page *ret,
                           struct redrive_err *err)
{
    return count_lanes(store, STATEMENT_PARKED_COUNTS, tenant, ret, err);
}

int postgres_running_counts(struct store *store, struct str tenant, struct lane_page *ret,
                            struct redrive_err *err)
{
    return count_lanes(store, STATEMENT_RUNNING_COUNTS, tenant, ret, err);
}
