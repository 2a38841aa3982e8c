#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

/* Finds a job by id, or the live one by key: its state. 1, 0 when there is none, or a negative
 * code. */
static int find(struct store *store, enum statement which, int64_t tenant_id, struct str name,
                enum redrive_state *ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, tenant_id);
    bind_key(st, 2, name);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        *ret = (enum redrive_state)sqlite3_column_int(st, 1);
    sqlite3_reset(st);
    return rc;
}

/* 1: a job stands in the way, and *ret is the refusal. */
static int refuse(struct store *store, const struct partition *partition, const struct job *job,
                  struct move_result *ret, struct redrive_err *err)
{
    const struct job_spec *spec = &job->spec;
    *ret = (struct move_result){.code = REDRIVE_E_EXISTS};
    int rc = find(store, STATEMENT_FIND_ID, partition->tenant_id, spec->id, &ret->state, err);
    if (rc == 0 && spec->unique_key.len && !state_has_ended(job->status.state))
        rc = find(store, STATEMENT_FIND_LIVE_KEY, partition->tenant_id, spec->unique_key,
                  &ret->state, err);
    return rc;
}

static bool is_same_error(const struct job_error *a, const struct job_error *b)
{
    return a->class_ == b->class_ && a->code == b->code && str_eq(a->type, b->type) &&
           str_eq(a->message, b->message) && str_eq(a->stacktrace, b->stacktrace);
}

/* The latest attempt that tells of the job's error: an error stands in the history only. False when
 * there is none. */
static bool find_error(const struct imported_job *imported, size_t *ret_i)
{
    const struct job_error *error = &imported->job->status.error;
    for (size_t i = imported_rows(imported); i-- > 0;) {
        if (is_same_error(&imported->attempts[i].error, error)) {
            *ret_i = i;
            return true;
        }
    }
    return false;
}

static int add_attempt(struct store *store, int64_t seq, const struct job_attempt *a,
                       struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_HISTORY_IMPORT, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    bind_int(st, 2, a->epoch);
    bind_int(st, 3, a->number);
    bind_int(st, 4, a->started_ms);
    bind_int(st, 5, a->ended_ms);
    bind_int(st, 6, (int64_t)a->outcome);
    bind_int(st, 7, a->delay_ms);
    bind_int(st, 8, a->next_ms);
    bind_int(st, 9, (int64_t)a->error.class_);
    bind_int(st, 10, a->error.code);
    bind_key(st, 11, a->why);
    bind_str(st, 12, a->worker);
    bind_str(st, 13, a->error.type);
    bind_str(st, 14, a->error.message);
    bind_str(st, 15, a->error.stacktrace);
    return sql_run(store, st, err);
}

/* Adds the history; *ret_error_at is the row of the attempt numbered `error_i`. */
static int add_attempts(struct store *store, int64_t seq, const struct imported_job *imported,
                        size_t error_i, int64_t *ret_error_at, struct redrive_err *err)
{
    const size_t rows = imported_rows(imported);
    int rc = 0;
    for (size_t i = 0; i < rows && rc == 0; i++) {
        rc = add_attempt(store, seq, &imported->attempts[i], err);
        if (i == error_i)
            *ret_error_at = sqlite3_last_insert_rowid(store->db);
    }
    return rc;
}

static int add_result(struct store *store, int64_t seq, struct str result, struct redrive_err *err)
{
    if (result.len == 0)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_RESULT_WRITE, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    bind_str(st, 2, result);
    return sql_run(store, st, err);
}

/* The rows beside the job's own. */
static int add_sides(struct store *store, const struct job *job, const struct partition *partition,
                     int64_t seq, struct redrive_err *err)
{
    const bool is_live = !state_has_ended(job->status.state);
    int rc = add_result(store, seq, job->status.result, err);
    if (rc == 0 && is_live && job->spec.deadline_ms > 0)
        rc = deadline_add(store, job->spec.deadline_ms, seq, err);
    if (rc == 0 && job->spec.unique_key.len)
        rc = key_add(store, &job->spec, partition, seq, is_live, err);
    return rc;
}

static int add(struct store *store, const struct imported_job *imported,
               struct partition *partition, size_t error_i, struct redrive_err *err)
{
    const struct job *job = imported->job;
    struct row row = {
        .seq = store->next_seq,
        .partition = partition,
        .priority = job->spec.priority,
        .s = job->status,
    };
    int rc = spec_add(store, &job->spec, partition, row.seq, job->status.created_ms, err);
    if (rc == REDRIVE_E_EXISTS)
        return sql_damaged(store, row.seq, "its number is taken and is not", err);
    if (rc == 0)
        rc = add_attempts(store, row.seq, imported, error_i, &row.error_at, err);
    if (rc == 0)
        rc = row_import(store, &row, err);
    if (rc == 0)
        rc = add_sides(store, job, partition, row.seq, err);
    if (rc != 0)
        return rc;
    store->next_seq++;
    store->meta_moved = true;
    return 0;
}

static int import_one(struct store *store, const struct imported_job *imported,
                      struct move_result *ret, struct redrive_err *err)
{
    const struct job *job = imported->job;
    const struct job_spec *spec = &job->spec;
    struct partition *partition;
    size_t error_i = SIZE_MAX;
    if (job->status.error.class_ != REDRIVE_CLASS_SUCCESS && !find_error(imported, &error_i)) {
        *ret = (struct move_result){.code = REDRIVE_E_INVALID, .state = job->status.state};
        return 0;
    }
    int rc = partition_named(store, spec->tenant, spec->queue, spec->task, true, &partition, err);
    if (rc == 0)
        rc = refuse(store, partition, job, ret, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    *ret = (struct move_result){.state = job->status.state};
    return add(store, imported, partition, error_i, err);
}

int sqlite_import(struct store *store, const struct imported_job *jobs, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = import_one(store, &jobs[i], &ret[i], err);
    return rc;
}

static int remember_key(struct store *store, const struct remembered_key *key,
                        struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, key->tenant);
    int rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    st = sql_use(store, STATEMENT_HELD_KEY_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, key->tenant);
    bind_key(st, 2, key->key);
    bind_key(st, 3, key->id);
    bind_int(st, 4, (int64_t)key->state);
    return sql_run(store, st, err);
}

int sqlite_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                       struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = remember_key(store, &keys[i], err);
    return rc;
}

static int fill_keys(struct store *store, sqlite3_stmt *st, size_t limit,
                     struct remembered_key_page *ret, struct redrive_err *err)
{
    int rc;
    ret->keys = arena_array(&ret->arena, limit, sizeof *ret->keys);
    if (!ret->keys)
        return err_nomem(err);
    while ((rc = sql_step(store, st, err)) > 0) {
        if (ret->n == limit) {
            ret->more = true;
            return 0;
        }
        ret->keys[ret->n++] = (struct remembered_key){
            .tenant = column_dup(st, 0, &ret->arena),
            .key = column_dup(st, 1, &ret->arena),
            .id = column_dup(st, 2, &ret->arena),
            .state = (enum redrive_state)sqlite3_column_int(st, 3),
        };
    }
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    return rc;
}

int sqlite_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                           size_t limit, struct remembered_key_page *ret, struct redrive_err *err)
{
    remembered_key_page_release(ret);
    limit = limit < STORE_PAGE_MAX ? limit : STORE_PAGE_MAX;
    sqlite3_stmt *st = sql_use(store, STATEMENT_HELD_KEYS, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, after_tenant);
    bind_key(st, 2, after_key);
    bind_int(st, 3, (int64_t)limit + 1);
    int rc = fill_keys(store, st, limit, ret, err);
    sqlite3_reset(st);
    if (rc < 0)
        remembered_key_page_release(ret);
    return rc;
}
