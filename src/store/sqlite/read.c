#include "base/err.h"
#include "base/rng.h"
#include "store/sqlite/private.h"

uint64_t spec_sum(int64_t seq, const struct job_spec *spec)
{
    const struct str texts[] = {spec->id,        spec->user,       spec->project,
                                spec->service,   spec->policy,     spec->breaker_key,
                                spec->limit_key, spec->unique_key, spec->payload};
    const int64_t numbers[] = {seq, spec->deadline_ms, spec->priority, spec->max_attempts,
                               spec->unique_forever};
    uint64_t sum = rng_hash(numbers, sizeof numbers, 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].len)
            sum = rng_hash(texts[i].ptr, texts[i].len, sum + i);
    return sum;
}

static void read_spec(sqlite3_stmt *st, struct arena *arena, struct job_spec *ret)
{
    ret->priority = sqlite3_column_int(st, 3);
    ret->max_attempts = sqlite3_column_int(st, 6);
    ret->unique_forever = sqlite3_column_int(st, 9) != 0;
    ret->unique_key = column_dup(st, 10, arena);
    ret->id = column_dup(st, 11, arena);
    ret->deadline_ms = sqlite3_column_int64(st, 27);
    ret->breaker_key = column_dup(st, 29, arena);
    ret->limit_key = column_dup(st, 30, arena);
    ret->user = column_dup(st, 31, arena);
    ret->project = column_dup(st, 32, arena);
    ret->service = column_dup(st, 33, arena);
    ret->policy = column_dup(st, 34, arena);
    ret->payload = column_dup(st, 35, arena);
}

static void read_status(sqlite3_stmt *st, struct arena *arena, struct job_status *ret)
{
    ret->seq = sqlite3_column_int64(st, 0);
    ret->state = (enum redrive_state)sqlite3_column_int(st, 1);
    ret->process_after_ms = sqlite3_column_int64(st, 4);
    status_set_at(ret, sqlite3_column_int64(st, COLUMN_AT_MS));
    ret->attempts = (uint32_t)sqlite3_column_int64(st, 7);
    ret->parked_by_limit = sqlite3_column_int(st, 8) != 0;
    ret->epoch = (uint32_t)sqlite3_column_int64(st, 12);
    ret->reason = (enum redrive_reason)sqlite3_column_int(st, 13);
    ret->deferrals = (uint32_t)sqlite3_column_int64(st, 14);
    ret->crashes = (uint32_t)sqlite3_column_int64(st, 15);
    ret->created_ms = sqlite3_column_int64(st, 16);
    ret->updated_ms = sqlite3_column_int64(st, 17);
    ret->first_started_ms = sqlite3_column_int64(st, 18);
    ret->started_ms = sqlite3_column_int64(st, 19);
    ret->held_ms = sqlite3_column_int64(st, 20);
    ret->held_since_ms = sqlite3_column_int64(st, 21);
    ret->token = (uint64_t)sqlite3_column_int64(st, 22);
    ret->permit.generation = (uint64_t)sqlite3_column_int64(st, 23);
    ret->permit.probe = (uint64_t)sqlite3_column_int64(st, 24);
    ret->fingerprint = (uint64_t)sqlite3_column_int64(st, 25);
    ret->worker = column_dup(st, 26, arena);
    ret->error.class_ = (enum redrive_class)sqlite3_column_int(st, 36);
    if (ret->error.class_ != REDRIVE_CLASS_SUCCESS) {
        ret->error.code = sqlite3_column_int(st, 37);
        ret->error.type = column_dup(st, 38, arena);
        ret->error.message = column_dup(st, 39, arena);
        ret->error.stacktrace = column_dup(st, 40, arena);
    }
    ret->result = column_dup(st, 41, arena);
}

int job_read(struct store *store, sqlite3_stmt *st, struct arena *arena, struct job *ret,
             struct redrive_err *err)
{
    struct line *line;
    int64_t seq = sqlite3_column_int64(st, 0);
    int rc = line_numbered(store, sqlite3_column_int64(st, 2), &line, err);
    if (rc != 0)
        return rc;
    *ret = (struct job){0};
    read_spec(st, arena, &ret->spec);
    read_status(st, arena, &ret->status);
    if (spec_sum(seq, &ret->spec) != (uint64_t)sqlite3_column_int64(st, 28))
        return arena->failed ? err_nomem(err)
                             : sql_damaged(store, seq, "it is not what was submitted", err);
    ret->spec.tenant = (struct str){arena_dup(arena, line->tenant), line->tenant.len};
    ret->spec.queue = (struct str){arena_dup(arena, line->queue), line->queue.len};
    ret->spec.task = (struct str){arena_dup(arena, line->task), line->task.len};
    return arena->failed ? err_nomem(err) : 0;
}

int page_start(struct page_maker *maker, struct store *store, struct job_page *page,
               size_t capacity, struct redrive_err *err)
{
    job_page_release(page);
    *maker = (struct page_maker){.store = store, .page = page, .capacity = capacity};
    page->jobs = arena_array(&page->arena, capacity, sizeof *page->jobs);
    if (page->jobs)
        return 0;
    job_page_release(page);
    return err_nomem(err);
}

int page_add(struct page_maker *maker, sqlite3_stmt *st, struct redrive_err *err)
{
    struct job_page *page = maker->page;
    int rc = job_read(maker->store, st, &page->arena, &page->jobs[page->n], err);
    if (rc == 0)
        page->n++;
    return rc;
}

int page_fill(struct store *store, sqlite3_stmt *st, size_t capacity, struct job_page *page,
              struct redrive_err *err)
{
    struct page_maker maker;
    int rc = page_start(&maker, store, page, capacity, err);
    if (rc != 0) {
        sqlite3_reset(st);
        return rc;
    }
    while ((rc = sql_step(store, st, err)) > 0) {
        if (page->n == capacity) {
            page->more = true;
            rc = 0;
            break;
        }
        rc = page_add(&maker, st, err);
        if (rc != 0)
            break;
    }
    sqlite3_reset(st);
    if (rc != 0)
        job_page_release(page);
    return rc;
}
