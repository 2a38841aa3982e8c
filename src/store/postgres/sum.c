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

/* What this transaction has counted and not yet written goes first. */
static int read_sums(struct store *store, enum statement which, struct str tenant,
                     const PGresult **ret, struct redrive_err *err)
{
    int rc = store->in_transaction ? pg_partitions_flush(store, err) : 0;
    if (rc != 0)
        return rc;
    pg_args_name(&store->args, tenant);
    return pg_read(store, which, NULL, ret, err);
}

/* The columns of a statement of counts. */
enum count_column {
    COUNT_COLUMN_TENANT,
    COUNT_COLUMN_QUEUE,
    COUNT_COLUMN_TASK,
    COUNT_COLUMN_GATE,
    COUNT_COLUMN_JOBS,
    COUNT_COLUMN_USED,
    COUNT_COLUMN_STATES, /* of queues and partitions only */
    COUNT_COLUMN_PAUSED = COUNT_COLUMN_STATES + REDRIVE_STATE_COUNT,
    COUNT_COLUMN_OLDEST_READY,
    COUNT_COLUMN_NEXT_DUE,
};

static void read_count(const PGresult *r, int i, struct arena *arena, struct job_count *ret)
{
    ret->tenant = pg_get_text(r, i, COUNT_COLUMN_TENANT, arena);
    ret->queue = pg_get_text(r, i, COUNT_COLUMN_QUEUE, arena);
    ret->task = pg_get_text(r, i, COUNT_COLUMN_TASK, arena);
    ret->gate = pg_get_text(r, i, COUNT_COLUMN_GATE, arena);
    ret->jobs = (uint64_t)pg_get_int(r, i, COUNT_COLUMN_JOBS);
    ret->used = (uint64_t)pg_get_int(r, i, COUNT_COLUMN_USED);
    if (PQnfields(r) == COUNT_COLUMN_STATES)
        return;
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        ret->by_state[state] = (uint64_t)pg_get_int(r, i, COUNT_COLUMN_STATES + state);
    ret->paused = pg_get_bool(r, i, COUNT_COLUMN_PAUSED);
    ret->oldest_ready_ms = pg_get_int(r, i, COUNT_COLUMN_OLDEST_READY);
    ret->next_due_ms = pg_get_int(r, i, COUNT_COLUMN_NEXT_DUE);
}

int postgres_counts(struct store *store, enum count_kind kind, struct str tenant,
                    struct count_page *ret, struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [COUNT_QUEUES] = STATEMENT_QUEUES,
        [COUNT_PARTITIONS] = STATEMENT_PARTITIONS,
        [COUNT_PARKED] = STATEMENT_PARKED_COUNTS,
        [COUNT_RUNNING] = STATEMENT_RUNNING_COUNTS,
    };
    const PGresult *r;
    count_page_release(ret);
    int rc = read_sums(store, STATEMENTS[kind], tenant, &r, err);
    const size_t n = rc == 0 ? (size_t)PQntuples(r) : 0;
    ret->counts = arena_array(&ret->arena, n, sizeof *ret->counts);
    for (int i = 0; ret->counts && (size_t)i < n; i++)
        read_count(r, i, &ret->arena, &ret->counts[ret->n++]);
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        count_page_release(ret);
    return rc;
}
