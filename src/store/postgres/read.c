#include "base/err.h"
#include "store/postgres/private.h"

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

static struct str own(struct arena *arena, struct str s)
{
    return arena_str(arena, s);
}

int pg_job_read(struct store *store, const PGresult *r, int i, struct arena *arena, struct job *ret,
                struct redrive_err *err)
{
    const struct partition *partition =
        partitions_at(&store->partitions, pg_get_int(r, i, COLUMN_PARTITION_ID));
    if (!partition)
        return pg_damaged(store, pg_get_int(r, i, COLUMN_SEQ), "it is in no partition", err);
    if (PQgetisnull(r, i, COLUMN_ID))
        return pg_damaged(store, pg_get_int(r, i, COLUMN_SEQ), "what was submitted is gone", err);
    read_spec(r, i, arena, &ret->spec);
    read_status(r, i, arena, &ret->status);
    ret->spec.tenant = own(arena, partition->tenant);
    ret->spec.queue = own(arena, partition->queue);
    ret->spec.task = own(arena, partition->task);
    return arena->failed ? err_nomem(err) : 0;
}

/* The part of a job that moves, and its policy if there is a column more. */
static int read_row(struct store *store, const PGresult *r, int i, struct arena *arena,
                    struct job *ret, struct redrive_err *err)
{
    const struct partition *partition =
        partitions_at(&store->partitions, pg_get_int(r, i, COLUMN_PARTITION_ID));
    if (!partition)
        return pg_damaged(store, pg_get_int(r, i, COLUMN_SEQ), "it is in no partition", err);
    *ret = (struct job){.spec = {.tenant = own(arena, partition->tenant),
                                 .queue = own(arena, partition->queue),
                                 .task = own(arena, partition->task),
                                 .priority = (int32_t)pg_get_int(r, i, COLUMN_PRIORITY)},
                        .status = pg_row_status(r, i)};
    if (PQnfields(r) > ROW_COLUMN_COUNT)
        ret->spec.policy = pg_get_text(r, i, ROW_COLUMN_COUNT, arena);
    return arena->failed ? err_nomem(err) : 0;
}

typedef int job_read_fn(struct store *store, const PGresult *r, int i, struct arena *arena,
                        struct job *ret, struct redrive_err *err);

static int fill(struct store *store, const PGresult *result, size_t limit, job_read_fn *read,
                struct job_page *page, struct redrive_err *err)
{
    size_t n = (size_t)PQntuples(result);
    page->more = n > limit;
    n = n < limit ? n : limit;
    int rc = pg_partitions_know(store, result, COLUMN_PARTITION_ID, err);
    page->jobs = arena_array(&page->arena, n, sizeof *page->jobs);
    for (; rc == 0 && page->jobs && page->n < n; page->n++)
        rc = read(store, result, (int)page->n, &page->arena, &page->jobs[page->n], err);
    if (rc == 0 && page->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        job_page_release(page);
    return rc;
}

int pg_page_fill(struct store *store, const PGresult *result, size_t limit, struct job_page *page,
                 struct redrive_err *err)
{
    return fill(store, result, limit, pg_job_read, page, err);
}

int pg_page_fill_rows(struct store *store, const PGresult *result, size_t limit,
                      struct job_page *page, struct redrive_err *err)
{
    return fill(store, result, limit, read_row, page, err);
}

void pg_page_leave_out_moved(const struct store *store, struct job_page *page)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        if (!pg_row_is_moved(store, page->jobs[i].status.seq))
            page->jobs[n++] = page->jobs[i];
    page->n = n;
}
