/* read.c - whole jobs, pages of them, histories and counts. */
#include "base/err.h"
#include "store/postgres/private.h"

/* ---- Jobs by name or seq --------------------------------------------------------------------- */

static void send_seqs(struct store *store, const int64_t *seqs, size_t n)
{
    struct args *args = &store->args;
    pg_args_array(args, ARG_INT8);
    for (size_t i = 0; i < n; i++)
        pg_item_int8(args, seqs[i]);
    pg_args_array_end(args);
}

int postgres_lookup(struct store *store, const struct job_name *names, size_t n,
                    struct job_page *ret, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result = NULL;
    job_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_item_name(args, names[i].tenant);
    pg_args_array_end(args);
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_item_name(args, names[i].id);
    pg_args_array_end(args);
    rc = pg_read(store, STATEMENT_JOBS_NAMED, NULL, &result, err);
    return rc == 0 ? pg_page_fill(store, result, n, ret, err) : rc;
}

int postgres_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                  struct redrive_err *err)
{
    const PGresult *result = NULL;
    job_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    send_seqs(store, seqs, n);
    rc = pg_read(store, STATEMENT_JOBS_READ, NULL, &result, err);
    return rc == 0 ? pg_page_fill_readable(store, result, n, ret, err) : rc;
}

static void read_spec(const PGresult *r, int i, struct arena *arena, struct job_spec *ret)
{
    *ret = (struct job_spec){
        .id = pg_get_text(r, i, COLUMN_ID, arena),
        .payload = pg_get_text(r, i, COLUMN_PAYLOAD, arena),
        .user = pg_get_text(r, i, COLUMN_USER, arena),
        .project = pg_get_text(r, i, COLUMN_PROJECT, arena),
        .service = pg_get_text(r, i, COLUMN_SERVICE, arena),
        .unique_key = pg_get_text(r, i, COLUMN_UNIQUE_KEY, arena),
        .unique_forever = pg_get_bool(r, i, COLUMN_UNIQUE_FOREVER),
        .policy = pg_get_text(r, i, COLUMN_POLICY, arena),
        .breaker_key = pg_get_text(r, i, COLUMN_BREAKER_KEY, arena),
        .limit_key = pg_get_text(r, i, COLUMN_LIMIT_KEY, arena),
        .priority = (int32_t)pg_get_int(r, i, COLUMN_PRIORITY),
        .max_attempts = (int32_t)pg_get_int(r, i, COLUMN_MAX_ATTEMPTS),
        .deadline_ms = pg_get_int(r, i, COLUMN_DEADLINE),
    };
}

static void read_status(const PGresult *r, int i, struct arena *arena, struct job_status *ret)
{
    *ret = pg_row_status(r, i);
    ret->created_ms = pg_get_int(r, i, COLUMN_CREATED);
    ret->worker = pg_get_text(r, i, COLUMN_WORKER, arena);
    ret->error = (struct job_error){
        .class_ = (enum redrive_class)pg_get_int(r, i, COLUMN_ERROR_CLASS),
        .type = pg_get_text(r, i, COLUMN_ERROR_TYPE, arena),
        .message = pg_get_text(r, i, COLUMN_ERROR_MESSAGE, arena),
        .stacktrace = pg_get_text(r, i, COLUMN_STACKTRACE, arena),
        .code = (int32_t)pg_get_int(r, i, COLUMN_ERROR_CODE),
    };
    ret->result = pg_get_text(r, i, COLUMN_RESULT, arena);
}

/* The partition of a row that can be read. */
static int find_partition(struct store *store, const PGresult *r, int i,
                          const struct partition **ret, struct redrive_err *err)
{
    const char *fault = pg_row_fault(store, r, i);
    *ret = partitions_at(&store->partitions, pg_get_int(r, i, COLUMN_PARTITION_ID));
    return fault ? pg_damaged(store, pg_get_int(r, i, COLUMN_SEQ), fault, err) : 0;
}

int pg_job_read(struct store *store, const PGresult *r, int i, struct arena *arena, struct job *ret,
                struct redrive_err *err)
{
    const struct partition *partition;
    int rc = find_partition(store, r, i, &partition, err);
    if (rc != 0)
        return rc;
    if (PQgetisnull(r, i, COLUMN_ID))
        return pg_damaged(store, pg_get_int(r, i, COLUMN_SEQ), "what was submitted is gone", err);
    read_spec(r, i, arena, &ret->spec);
    read_status(r, i, arena, &ret->status);
    ret->spec.tenant = arena_str(arena, partition->tenant);
    ret->spec.queue = arena_str(arena, partition->queue);
    ret->spec.task = arena_str(arena, partition->task);
    return arena->failed ? err_nomem(err) : 0;
}

/* The part of a job that moves, and its policy if the result has that column. */
static int read_row(struct store *store, const PGresult *r, int i, struct arena *arena,
                    struct job *ret, struct redrive_err *err)
{
    const struct partition *partition;
    int rc = find_partition(store, r, i, &partition, err);
    if (rc != 0)
        return rc;
    *ret = (struct job){.spec = {.tenant = arena_str(arena, partition->tenant),
                                 .queue = arena_str(arena, partition->queue),
                                 .task = arena_str(arena, partition->task),
                                 .priority = (int32_t)pg_get_int(r, i, COLUMN_PRIORITY)},
                        .status = pg_row_status(r, i)};
    if (PQnfields(r) > ROW_COLUMN_COUNT)
        ret->spec.policy = pg_get_text(r, i, ROW_COLUMN_COUNT, arena);
    return arena->failed ? err_nomem(err) : 0;
}

typedef int job_read_fn(struct store *store, const PGresult *r, int i, struct arena *arena,
                        struct job *ret, struct redrive_err *err);

/* `passes`: jobs that cannot be read are left out. */
static int fill(struct store *store, const PGresult *result, size_t limit, job_read_fn *read,
                bool passes, struct job_page *page, struct redrive_err *err)
{
    size_t n = (size_t)PQntuples(result);
    page->more = n > limit;
    n = n < limit ? n : limit;
    int rc = pg_partitions_know(store, result, COLUMN_PARTITION_ID, err);
    page->jobs = arena_array(&page->arena, n, sizeof *page->jobs);
    for (size_t i = 0; rc == 0 && page->jobs && i < n; i++) {
        rc = read(store, result, (int)i, &page->arena, &page->jobs[page->n], err);
        if (rc == 0)
            page->n++;
        else if (passes)
            rc = job_page_leave_out(page, rc, err);
    }
    if (rc == 0 && page->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        job_page_release(page);
    return rc;
}

int pg_page_fill(struct store *store, const PGresult *result, size_t limit, struct job_page *page,
                 struct redrive_err *err)
{
    return fill(store, result, limit, pg_job_read, false, page, err);
}

int pg_page_fill_readable(struct store *store, const PGresult *result, size_t limit,
                          struct job_page *page, struct redrive_err *err)
{
    return fill(store, result, limit, pg_job_read, true, page, err);
}

int pg_page_fill_rows(struct store *store, const PGresult *result, size_t limit,
                      struct job_page *page, struct redrive_err *err)
{
    return fill(store, result, limit, read_row, true, page, err);
}

void pg_page_leave_out_moved(const struct store *store, struct job_page *page)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        if (!pg_row_is_moved(store, page->jobs[i].status.seq))
            page->jobs[n++] = page->jobs[i];
    page->n = n;
}

/* ---- Histories and counts -------------------------------------------------------------------- */

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

/* Takes the rows from *i on that are of one job, the one with number `at` in the request, up to one
 * that cannot be read. */
static bool fill_history(const PGresult *r, int *i, int64_t at, struct attempt_page *ret)
{
    int end = *i;
    while (end < PQntuples(r) && pg_get_int(r, end, 0) == at &&
           pg_is_below(r, end, 6, REDRIVE_STATE_COUNT) &&
           pg_is_below(r, end, 7, REDRIVE_CLASS_COUNT))
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
    send_seqs(store, seqs, n);
    rc = pg_read(store, STATEMENT_HISTORY_READ, NULL, &r, err);
    for (int i = 0, from = 0; rc == 0 && i < PQntuples(r); from = i) {
        const int64_t at = pg_get_int(r, i, 0);
        if (at < 1 || (size_t)at > n || ret[at - 1].attempts)
            rc = pg_damaged(store, 0, "a history is none of those that were asked for", err);
        else if (!fill_history(r, &i, at, &ret[at - 1]))
            rc = err_nomem(err);
        else if (i == from)
            rc = pg_damaged(store, seqs[at - 1], "its history cannot be read", err);
    }
    if (rc != 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* Counts that this transaction has changed are sent first. */
static int read_sums(struct store *store, enum statement which, struct str tenant,
                     const PGresult **ret, struct redrive_err *err)
{
    int rc = store->in_transaction ? pg_partitions_flush(store, err) : 0;
    if (rc != 0)
        return rc;
    pg_args_name(&store->args, tenant);
    return pg_read(store, which, NULL, ret, err);
}

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
