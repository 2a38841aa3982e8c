/* read.c - whole jobs, pages of them, jobs by name, histories and counts. */
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
    ret->id = column_dup(st, COLUMN_ID, arena);
    ret->priority = sqlite3_column_int(st, COLUMN_PRIORITY);
    ret->max_attempts = sqlite3_column_int(st, COLUMN_MAX_ATTEMPTS);
    ret->deadline_ms = sqlite3_column_int64(st, COLUMN_DEADLINE_MS);
    ret->unique_forever = sqlite3_column_int(st, COLUMN_UNIQUE_FOREVER) != 0;
    ret->unique_key = column_dup(st, COLUMN_UNIQUE_KEY, arena);
    ret->breaker_key = column_dup(st, COLUMN_BREAKER_KEY, arena);
    ret->limit_key = column_dup(st, COLUMN_LIMIT_KEY, arena);
    ret->user = column_dup(st, COLUMN_USER, arena);
    ret->project = column_dup(st, COLUMN_PROJECT, arena);
    ret->service = column_dup(st, COLUMN_SERVICE, arena);
    ret->policy = column_dup(st, COLUMN_POLICY, arena);
    ret->payload = column_dup(st, COLUMN_PAYLOAD, arena);
}

/* What the moves of a job leave in its row. */
static void read_moved(sqlite3_stmt *st, struct arena *arena, struct job_status *ret)
{
    ret->attempts = (uint32_t)sqlite3_column_int64(st, COLUMN_ATTEMPTS);
    ret->reason = (enum redrive_reason)sqlite3_column_int(st, COLUMN_REASON);
    ret->started_ms = sqlite3_column_int64(st, COLUMN_STARTED_MS);
    ret->paused_ms = sqlite3_column_int64(st, COLUMN_PAUSED_MS);
    ret->fingerprint = (uint64_t)sqlite3_column_int64(st, COLUMN_FINGERPRINT);
    ret->worker = column_dup(st, COLUMN_WORKER, arena);
    ret->error.class_ = (enum redrive_class)sqlite3_column_int(st, COLUMN_ERROR_CLASS);
    if (ret->error.class_ != REDRIVE_CLASS_SUCCESS) {
        ret->error.code = sqlite3_column_int(st, COLUMN_ERROR_CODE);
        ret->error.type = column_dup(st, COLUMN_ERROR_TYPE, arena);
        ret->error.message = column_dup(st, COLUMN_ERROR_MESSAGE, arena);
        ret->error.stacktrace = column_dup(st, COLUMN_STACKTRACE, arena);
    }
    ret->result = column_dup(st, COLUMN_RESULT, arena);
}

/* False when its numbers are damaged. */
static bool read_status(sqlite3_stmt *st, struct arena *arena, struct job_status *ret)
{
    ret->seq = sqlite3_column_int64(st, COLUMN_SEQ);
    ret->state = (enum redrive_state)sqlite3_column_int(st, COLUMN_STATE);
    ret->process_after_ms = sqlite3_column_int64(st, COLUMN_PROCESS_AFTER_MS);
    ret->epoch = (uint32_t)sqlite3_column_int64(st, COLUMN_EPOCH);
    ret->created_ms = sqlite3_column_int64(st, COLUMN_CREATED_MS);
    ret->updated_ms = sqlite3_column_int64(st, COLUMN_UPDATED_MS);
    if (sqlite3_column_count(st) > COLUMN_ATTEMPTS)
        read_moved(st, arena, ret);
    return status_set(ret, sqlite3_column_int64(st, COLUMN_SORT_KEY), st, COLUMN_PACKED_STATUS);
}

int job_read(struct store *store, sqlite3_stmt *st, struct arena *arena, struct job *ret,
             struct redrive_err *err)
{
    struct partition *partition;
    int64_t seq = sqlite3_column_int64(st, COLUMN_SEQ);
    int rc =
        partition_numbered(store, sqlite3_column_int64(st, COLUMN_PARTITION_ID), &partition, err);
    if (rc != 0)
        return rc;
    *ret = (struct job){0};
    read_spec(st, arena, &ret->spec);
    if (!read_status(st, arena, &ret->status))
        return sql_damaged(store, seq, "its numbers cannot be read", err);
    if (arena->failed)
        return err_nomem(err);
    ret->is_damaged = spec_sum(seq, &ret->spec) != (uint64_t)sqlite3_column_int64(st, COLUMN_SUM);
    /* A column that SQLite had no memory for reads as NULL. */
    if (ret->is_damaged && (sqlite3_errcode(store->db) & 0xff) == SQLITE_NOMEM)
        return err_nomem(err);
    ret->spec.tenant = arena_str(arena, partition->tenant);
    ret->spec.queue = arena_str(arena, partition->queue);
    ret->spec.task = arena_str(arena, partition->task);
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

bool page_make_room(struct page_maker *maker)
{
    struct job_page *page = maker->page;
    if (page->n < maker->capacity)
        return true;
    const size_t capacity = 2 * maker->capacity + 1;
    struct job *grown = arena_array(&page->arena, capacity, sizeof *grown);
    if (!grown)
        return false;
    if (page->n > 0)
        memcpy(grown, page->jobs, page->n * sizeof *grown);
    page->jobs = grown;
    maker->capacity = capacity;
    return true;
}

int page_add(struct page_maker *maker, sqlite3_stmt *st, struct redrive_err *err)
{
    struct job_page *page = maker->page;
    int rc = job_read(maker->store, st, &page->arena, &page->jobs[page->n], err);
    if (rc == 0)
        page->n++;
    return maker->skips_unreadable ? sql_leave_out(maker->store, page, rc, err) : rc;
}

int page_add_numbered(struct page_maker *maker, int64_t seq, struct redrive_err *err)
{
    struct store *store = maker->store;
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc < 0 ? rc : sql_damaged(store, seq, "an index leads to no job", err);
    rc = page_add(maker, st, err);
    sqlite3_reset(st);
    return rc;
}

int page_fill(struct store *store, sqlite3_stmt *st, const struct job_filter *filter,
              struct job_page *page, struct redrive_err *err)
{
    struct page_maker maker;
    const size_t capacity = filter->limit;
    int rc = page_start(&maker, store, page, capacity, err);
    maker.skips_unreadable = filter->skips_unreadable;
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

/* ---- By name or seq -------------------------------------------------------------------------- */

/* The job of a name, or of a seq. */
static int add_job(struct page_maker *maker, const struct job_name *name, int64_t seq,
                   struct redrive_err *err)
{
    struct store *store = maker->store;
    sqlite3_stmt *st = sql_use(store, name ? STATEMENT_JOB_NAMED : STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    if (name) {
        bind_key(st, 1, name->tenant);
        bind_key(st, 2, name->id);
    } else {
        sqlite3_bind_int64(st, 1, seq);
    }
    int rc = sql_step(store, st, err);
    if (rc > 0)
        rc = page_add(maker, st, err);
    sqlite3_reset(st);
    return rc;
}

static int add_jobs(struct store *store, const struct job_name *names, const int64_t *seqs,
                    size_t n, struct job_page *ret, struct redrive_err *err)
{
    struct page_maker maker;
    job_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    rc = view_begin(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_job(&maker, names ? &names[i] : NULL, names ? 0 : seqs[i], err);
    view_end(store);
    if (rc < 0)
        job_page_release(ret);
    return rc;
}

int sqlite_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                  struct redrive_err *err)
{
    return add_jobs(store, names, NULL, n, ret, err);
}

int sqlite_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                struct redrive_err *err)
{
    return add_jobs(store, NULL, seqs, n, ret, err);
}

/* ---- Histories and counts -------------------------------------------------------------------- */

static int add_attempts(struct store *store, enum statement which, int64_t seq,
                        struct attempt_page *page, struct redrive_err *err)
{
    struct arena *arena = &page->arena;
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        page->attempts = page_grow(arena, page->attempts, page->n, sizeof *page->attempts);
        if (!page->attempts)
            break;
        if (!column_is_below(st, 5, REDRIVE_STATE_COUNT) ||
            !column_is_below(st, 6, REDRIVE_CLASS_COUNT)) {
            rc = sql_damaged(store, seq, "its history cannot be read", err);
            break;
        }
        page->attempts[page->n++] = (struct job_attempt){
            .epoch = (uint32_t)sqlite3_column_int64(st, 0),
            .number = (uint32_t)sqlite3_column_int64(st, 1),
            .started_ms = sqlite3_column_int64(st, 2),
            .ended_ms = sqlite3_column_int64(st, 3),
            .worker = column_dup(st, 4, arena),
            .outcome = (enum redrive_state)sqlite3_column_int(st, 5),
            .error = {.class_ = (enum redrive_class)sqlite3_column_int(st, 6),
                      .code = sqlite3_column_int(st, 7),
                      .type = column_dup(st, 8, arena),
                      .message = column_dup(st, 9, arena),
                      .stacktrace = column_dup(st, 10, arena)},
            .delay_ms = sqlite3_column_int64(st, 11),
            .why = column_dup(st, 12, arena),
            .next_ms = sqlite3_column_int64(st, 13),
        };
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    return arena->failed ? err_nomem(err) : 0;
}

int sqlite_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                   struct redrive_err *err)
{
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    rc = view_begin(store, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = add_attempts(store, STATEMENT_HISTORY_READ, seqs[i], &ret[i], err);
        if (rc == 0)
            rc = add_attempts(store, STATEMENT_HISTORY_LATEST, seqs[i], &ret[i], err);
    }
    view_end(store);
    if (rc != 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* Writes the counts that this transaction has changed. */
static int flush_counts(struct store *store, struct redrive_err *err)
{
    return store->in_transaction ? partitions_flush(store, err) : 0;
}

/* False: it counts nothing, such as a partition whose jobs are gone. */
static bool read_count(sqlite3_stmt *st, struct arena *arena, struct job_count *ret)
{
    *ret = (struct job_count){.jobs = (uint64_t)sqlite3_column_int64(st, COUNT_COLUMN_JOBS),
                              .used = (uint64_t)sqlite3_column_int64(st, COUNT_COLUMN_USED)};
    bool is_any = ret->jobs + ret->used > 0;
    if (sqlite3_column_count(st) > COUNT_COLUMN_STATES) {
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++) {
            ret->by_state[i] = (uint64_t)sqlite3_column_int64(st, COUNT_COLUMN_STATES + i);
            is_any |= ret->by_state[i] > 0;
        }
        ret->paused = sqlite3_column_int(st, COUNT_COLUMN_PAUSED) != 0;
    }
    if (!is_any && !ret->paused)
        return false;
    ret->tenant = column_dup(st, COUNT_COLUMN_TENANT, arena);
    ret->queue = column_dup(st, COUNT_COLUMN_QUEUE, arena);
    ret->task = column_dup(st, COUNT_COLUMN_TASK, arena);
    ret->gate = column_dup(st, COUNT_COLUMN_GATE, arena);
    return true;
}

static int add_counts(struct store *store, enum statement which, struct str tenant,
                      struct count_page *page, struct redrive_err *err)
{
    struct arena *arena = &page->arena;
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct job_count count;
        if (!read_count(st, arena, &count))
            continue;
        page->counts = page_grow(arena, page->counts, page->n, sizeof *page->counts);
        if (!page->counts)
            break;
        page->counts[page->n++] = count;
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    return arena->failed ? err_nomem(err) : 0;
}

static int time_of_queue(struct store *store, enum statement which, const struct job_count *queue,
                         int64_t *ret_ms, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, queue->tenant);
    bind_key(st, 2, queue->queue);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        *ret_ms = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int add_times(struct store *store, struct count_page *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++) {
        struct job_count *queue = &page->counts[i];
        if (queue->by_state[REDRIVE_STATE_QUEUED])
            rc = time_of_queue(store, STATEMENT_OLDEST_READY, queue, &queue->oldest_ready_ms, err);
        if (rc == 0 &&
            (queue->by_state[REDRIVE_STATE_SCHEDULED] || queue->by_state[REDRIVE_STATE_RETRYING]))
            rc = time_of_queue(store, STATEMENT_NEXT_DUE, queue, &queue->next_due_ms, err);
    }
    return rc;
}

int sqlite_counts(struct store *store, enum count_kind kind, struct str tenant,
                  struct count_page *ret, struct redrive_err *err)
{
    static const enum statement STATEMENTS[] = {
        [COUNT_QUEUES] = STATEMENT_QUEUES,
        [COUNT_PARTITIONS] = STATEMENT_PARTITIONS,
        [COUNT_PARKED] = STATEMENT_PARKED_COUNTS,
        [COUNT_RUNNING] = STATEMENT_RUNNING_COUNTS,
    };
    count_page_release(ret);
    int rc = view_begin(store, err);
    if (rc == 0)
        rc = flush_counts(store, err);
    if (rc == 0)
        rc = add_counts(store, STATEMENTS[kind], tenant, ret, err);
    if (rc == 0 && kind == COUNT_QUEUES)
        rc = add_times(store, ret, err);
    view_end(store);
    if (rc != 0)
        count_page_release(ret);
    return rc;
}
