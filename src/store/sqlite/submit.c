/* submit.c - jobs that come in: new ones, and jobs and keys of another store. */
#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

/* Fills the answer with the job that a statement of (seq, state, id) finds. 1, 0 when there is
 * none, or a negative code. */
static int take_found(struct store *store, sqlite3_stmt *st, struct submit_result *ret,
                      struct arena *arena, struct redrive_err *err)
{
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    ret->code = REDRIVE_E_EXISTS;
    ret->seq = sqlite3_column_int64(st, 0);
    ret->state = (enum redrive_state)sqlite3_column_int(st, 1);
    ret->id = column_dup(st, 2, arena);
    const bool is_state = column_is_below(st, 1, REDRIVE_STATE_COUNT);
    sqlite3_reset(st);
    if (!is_state)
        return sql_damaged(store, ret->seq, "its state is none of those there are", err);
    return arena->failed ? err_nomem(err) : 1;
}

static int find(struct store *store, enum statement which, int64_t tenant_id, struct str key,
                struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, tenant_id);
    bind_key(st, 2, key);
    return take_found(store, st, ret, arena, err);
}

static int find_key(struct store *store, int64_t tenant_id, struct str key, bool forever,
                    struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_FIND_KEY, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, tenant_id);
    bind_key(st, 2, key);
    bind_int(st, 3, forever);
    return take_found(store, st, ret, arena, err);
}

static int key_is_held(struct store *store, int64_t tenant_id, struct str key, bool *ret,
                       struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_KEY_HELD, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, tenant_id);
    bind_key(st, 2, key);
    int rc = sql_step(store, st, err);
    *ret = rc > 0;
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

/* A key that is to be unique for ever: the job with the lowest seq that holds it. Mostly there is
 * none, which one statement tells. */
static int first_holder(struct store *store, int64_t tenant_id, struct str key,
                        struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct submit_result other = {0};
    bool is_held = false;
    int rc = key_is_held(store, tenant_id, key, &is_held, err);
    if (rc < 0 || !is_held)
        return rc;
    int gone = find(store, STATEMENT_FIND_GONE_KEY, tenant_id, key, ret, arena, err);
    if (gone < 0)
        return gone;
    int any = gone;
    for (int forever = 0; forever <= 1; forever++) {
        rc = find_key(store, tenant_id, key, forever, &other, arena, err);
        if (rc < 0)
            return rc;
        if (rc == 1 && (!any || other.seq < ret->seq))
            *ret = other;
        any |= rc;
    }
    return any;
}

static int key_holder(struct store *store, int64_t tenant_id, const struct job_spec *spec,
                      struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct str key = spec->unique_key;
    if (spec->unique_forever)
        return first_holder(store, tenant_id, key, ret, arena, err);
    int rc = find(store, STATEMENT_FIND_LIVE_KEY, tenant_id, key, ret, arena, err);
    if (rc == 0)
        rc = find_key(store, tenant_id, key, true, ret, arena, err);
    if (rc == 0)
        rc = find(store, STATEMENT_FIND_GONE_KEY, tenant_id, key, ret, arena, err);
    return rc;
}

static void bind_spec(sqlite3_stmt *st, int row, const struct job_spec *spec,
                      const struct partition *partition, int64_t seq, int64_t created_ms)
{
    const int at = row * SPEC_ROW_BINDS;
    bind_int(st, at + 1, seq);
    bind_int(st, at + 2, partition->tenant_id);
    bind_key(st, at + 3, spec->id);
    bind_int(st, at + 4, spec->priority);
    bind_int(st, at + 5, spec->max_attempts);
    bind_int(st, at + 6, created_ms);
    bind_int(st, at + 7, spec->deadline_ms);
    bind_int(st, at + 8, (int64_t)spec_sum(seq, spec));
    bind_int(st, at + 9, spec->unique_forever);
    bind_option(st, at + 10, spec->unique_key);
    bind_option(st, at + 11, spec->breaker_key);
    bind_option(st, at + 12, spec->limit_key);
    bind_str(st, at + 13, spec->user);
    bind_str(st, at + 14, spec->project);
    bind_str(st, at + 15, spec->service);
    bind_str(st, at + 16, spec->policy);
    bind_str(st, at + 17, spec->payload);
}

/* The column packed_status of a new job, which has nothing there but its edges. */
static void bind_edges(sqlite3_stmt *st, int i, const struct job_status *s)
{
    unsigned char packed[PACKED_STATUS_MAX];
    if (s->parents == 0 && s->children == 0)
        sqlite3_bind_null(st, i);
    else
        sqlite3_bind_blob(st, i, packed, (int)packed_status_pack(s, packed), SQLITE_TRANSIENT);
}

static void bind_job(struct store *store, sqlite3_stmt *st, int row, const struct job_spec *spec,
                     const struct partition *partition, int64_t seq)
{
    const int at = row * JOB_ROW_BINDS;
    const struct job_status s = transition_submit(spec, seq, store->now_ms);
    bind_int(st, at + 1, seq);
    bind_int(st, at + 2, (int64_t)s.state);
    bind_int(st, at + 3,
             s.state == REDRIVE_STATE_QUEUED      ? sort_key_ready(partition, spec->priority)
             : s.state == REDRIVE_STATE_SCHEDULED ? s.process_after_ms
                                                  : 0);
    bind_int(st, at + 4, partition->id);
    bind_int(st, at + 5, s.process_after_ms);
    bind_int(st, at + 6, s.updated_ms);
    bind_edges(st, at + 7, &s);
}

/* The index on ids refuses a second one, so that ids need not be looked up before. *ret_added is
 * how many rows were added: REDRIVE_E_EXISTS is about the one after them. */
static int run_specs(struct store *store, sqlite3_stmt *st, int *ret_added, struct redrive_err *err)
{
    int rc = sqlite3_step(st);
    *ret_added = sqlite3_changes(store->db);
    if ((rc & 0xff) == SQLITE_CONSTRAINT)
        rc = REDRIVE_E_EXISTS;
    else
        rc = rc == SQLITE_DONE ? 0 : sql_error(store, rc, err);
    sqlite3_reset(st);
    return rc;
}

static int spec_add(struct store *store, const struct job_spec *spec,
                    const struct partition *partition, int64_t seq, int64_t created_ms,
                    struct redrive_err *err)
{
    int ignored;
    sqlite3_stmt *st = sql_use(store, STATEMENT_SPEC_ADD, err);
    if (!st)
        return store->last_error;
    bind_spec(st, 0, spec, partition, seq, created_ms);
    return run_specs(store, st, &ignored, err);
}

static int add_job(struct store *store, const struct job_spec *spec,
                   const struct partition *partition, int64_t seq, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_ADD, err);
    if (!st)
        return store->last_error;
    bind_job(store, st, 0, spec, partition, seq);
    return sql_run(store, st, err);
}

static int deadline_add(struct store *store, int64_t deadline_ms, int64_t seq,
                        struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_DEADLINE_ADD, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, deadline_ms);
    bind_int(st, 2, seq);
    store->deadlines = DEADLINES_SOME;
    return sql_run(store, st, err);
}

static int key_add(struct store *store, const struct job_spec *spec,
                   const struct partition *partition, int64_t seq, bool is_live,
                   struct redrive_err *err)
{
    static const enum statement STEPS[] = {STATEMENT_KEY_ADD, STATEMENT_LIVE_KEY_ADD};
    const size_t n = is_live ? 2 : 1;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        sqlite3_stmt *st = sql_use(store, STEPS[i], err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, partition->tenant_id);
        bind_key(st, 2, spec->unique_key);
        bind_int(st, 3, seq);
        if (STEPS[i] == STATEMENT_KEY_ADD)
            bind_int(st, 4, spec->unique_forever);
        rc = sql_run(store, st, err);
    }
    return rc;
}

/* Writes what is kept beside the rows of a new job, counts it, and fills the answer. */
static int finish_submit(struct store *store, const struct job_spec *spec,
                         struct partition *partition, struct submit_result *ret,
                         struct arena *arena, struct redrive_err *err)
{
    const int64_t seq = store->next_seq;
    const enum redrive_state state = transition_submit(spec, seq, store->now_ms).state;
    int rc = 0;
    if (spec->deadline_ms > 0)
        rc = deadline_add(store, spec->deadline_ms, seq, err);
    if (rc == 0 && state == REDRIVE_STATE_SCHEDULED)
        rc = time_lock(store, partition, spec->process_after_ms, seq, err);
    if (rc == 0 && spec->unique_key.len)
        rc = key_add(store, spec, partition, seq, true, err);
    if (rc == 0)
        rc = block_note(store, partition, seq, err);
    if (rc != 0)
        return rc;
    store->next_seq++;
    partitions_count(&store->partitions, partition, -1, (int)state);
    char *id = arena_dup(arena, spec->id);
    if (!id)
        return err_nomem(err);
    *ret = (struct submit_result){.seq = seq, .state = state, .id = {id, spec->id.len}};
    return 0;
}

static int submit_one(struct store *store, const struct job_spec *spec, struct submit_result *ret,
                      struct arena *arena, struct redrive_err *err)
{
    struct partition *partition;
    int rc = partition_named(store, spec->tenant, spec->queue, spec->task, true, &partition, err);
    if (rc != 0)
        return rc;
    if (spec->unique_key.len) {
        /* An id that is taken is the answer before a key that is taken. */
        rc = find(store, STATEMENT_FIND_ID, partition->tenant_id, spec->id, ret, arena, err);
        if (rc == 0)
            rc = key_holder(store, partition->tenant_id, spec, ret, arena, err);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    rc = spec_add(store, spec, partition, store->next_seq, store->now_ms, err);
    if (rc == REDRIVE_E_EXISTS) {
        rc = find(store, STATEMENT_FIND_ID, partition->tenant_id, spec->id, ret, arena, err);
        return rc == 0
                   ? sql_damaged(store, store->next_seq, "its number or id is taken by no job", err)
                   : (rc < 0 ? rc : 0);
    }
    if (rc == 0)
        rc = add_job(store, spec, partition, store->next_seq, err);
    return rc == 0 ? finish_submit(store, spec, partition, ret, arena, err) : rc;
}

/* Opening tables is a large part of the cost of adding a row, so that several are added at once.
 * Keys must be looked up one by one. */
static bool may_go_together(const struct job_spec *specs, size_t n)
{
    for (size_t i = 0; i < n && i < ADD_ROWS_AT_ONCE; i++)
        if (specs[i].unique_key.len)
            return false;
    return n >= ADD_ROWS_AT_ONCE;
}

/* Adds the jobs up to the first one whose id is taken; *ret_added is how many these are. */
static int submit_together(struct store *store, const struct job_spec *specs,
                           struct submit_result *ret, int *ret_added, struct arena *arena,
                           struct redrive_err *err)
{
    struct partition *partitions[ADD_ROWS_AT_ONCE];
    const int64_t seq = store->next_seq;
    int rc = 0;
    *ret_added = 0;
    for (int i = 0; i < ADD_ROWS_AT_ONCE && rc == 0; i++)
        rc = partition_named(store, specs[i].tenant, specs[i].queue, specs[i].task, true,
                             &partitions[i], err);
    if (rc != 0)
        return rc;
    sqlite3_stmt *add_specs = sql_use(store, STATEMENT_SPECS_ADD, err);
    sqlite3_stmt *add_jobs = add_specs ? sql_use(store, STATEMENT_JOBS_ADD, err) : NULL;
    if (!add_jobs)
        return store->last_error;
    for (int i = 0; i < ADD_ROWS_AT_ONCE; i++)
        bind_spec(add_specs, i, &specs[i], partitions[i], seq + i, store->now_ms);
    rc = run_specs(store, add_specs, ret_added, err);
    if (rc == REDRIVE_E_EXISTS) {
        rc = 0;
        for (int i = 0; i < *ret_added && rc == 0; i++)
            rc = add_job(store, &specs[i], partitions[i], seq + i, err);
    } else if (rc == 0) {
        for (int i = 0; i < ADD_ROWS_AT_ONCE; i++)
            bind_job(store, add_jobs, i, &specs[i], partitions[i], seq + i);
        rc = sql_run(store, add_jobs, err);
    }
    for (int i = 0; i < *ret_added && rc == 0; i++)
        rc = finish_submit(store, &specs[i], partitions[i], &ret[i], arena, err);
    return rc;
}

int sqlite_submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    if (rc == 0)
        rc = seq_needed(store, err);
    for (size_t i = 0; i < n && rc == 0;) {
        int added = 0;
        if (may_go_together(specs + i, n - i))
            rc = submit_together(store, specs + i, ret + i, &added, arena, err);
        i += (size_t)added;
        if (rc != 0 || added == ADD_ROWS_AT_ONCE)
            continue;
        rc = submit_one(store, &specs[i], &ret[i], arena, err);
        i++;
    }
    return rc;
}

/* ---- Jobs and keys of another store ---------------------------------------------------------- */

/* Finds a job by id, or the live one by key: its state. 1, 0 when there is none, or a negative
 * code. */
static int find_state(struct store *store, enum statement which, int64_t tenant_id, struct str name,
                      enum redrive_state *ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, tenant_id);
    bind_key(st, 2, name);
    int rc = sql_step(store, st, err);
    if (rc > 0 && !column_is_below(st, 1, REDRIVE_STATE_COUNT))
        rc = sql_damaged(store, sqlite3_column_int64(st, 0), "its state is none of those there are",
                         err);
    if (rc > 0)
        *ret = (enum redrive_state)sqlite3_column_int(st, 1);
    sqlite3_reset(st);
    return rc;
}

/* 1: another job has the id or the key, and *ret is the refusal. */
static int refuse_import(struct store *store, const struct partition *partition,
                         const struct job *job, struct move_result *ret, struct redrive_err *err)
{
    const struct job_spec *spec = &job->spec;
    *ret = (struct move_result){.code = REDRIVE_E_EXISTS};
    int rc = find_state(store, STATEMENT_FIND_ID, partition->tenant_id, spec->id, &ret->state, err);
    if (rc == 0 && spec->unique_key.len && !state_has_ended(job->status.state))
        rc = find_state(store, STATEMENT_FIND_LIVE_KEY, partition->tenant_id, spec->unique_key,
                        &ret->state, err);
    return rc;
}

static bool is_same_error(const struct job_error *a, const struct job_error *b)
{
    return a->class_ == b->class_ && a->code == b->code && str_eq(a->type, b->type) &&
           str_eq(a->message, b->message) && str_eq(a->stacktrace, b->stacktrace);
}

/* The latest attempt that has the job's error: errors are kept in the history only. False when
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

/* Adds the history; *ret_error_at is the row of the attempt numbered `error_i`. */
static int add_attempts(struct store *store, int64_t seq, const struct imported_job *imported,
                        size_t error_i, int64_t *ret_error_at, struct redrive_err *err)
{
    const size_t rows = imported_rows(imported);
    int rc = 0;
    for (size_t i = 0; i < rows && rc == 0; i++) {
        rc = history_add(store, STATEMENT_HISTORY_IMPORT, seq, &imported->attempts[i], err);
        if (i == error_i)
            *ret_error_at = sqlite3_last_insert_rowid(store->db);
    }
    return rc;
}

/* The job is here again, and holds its key itself. */
static int forget_key(struct store *store, const struct job_spec *spec, int64_t tenant_id,
                      struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_REMEMBERED_KEY_REMOVE, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, tenant_id);
    bind_key(st, 2, spec->unique_key);
    bind_key(st, 3, spec->id);
    return sql_run(store, st, err);
}

/* The rows beside the job's own. */
static int add_sides(struct store *store, const struct job *job, const struct partition *partition,
                     int64_t seq, struct redrive_err *err)
{
    const bool is_live = !state_has_ended(job->status.state);
    int rc = job->status.result.len > 0 ? result_write(store, seq, job->status.result, err) : 0;
    if (rc == 0 && is_live && job->spec.deadline_ms > 0)
        rc = deadline_add(store, job->spec.deadline_ms, seq, err);
    if (rc == 0 && job->spec.unique_key.len)
        rc = key_add(store, &job->spec, partition, seq, is_live, err);
    if (rc == 0 && job->spec.unique_key.len && job->spec.unique_forever)
        rc = forget_key(store, &job->spec, partition->tenant_id, err);
    return rc;
}

static int add_imported(struct store *store, const struct imported_job *imported,
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
        return sql_damaged(store, row.seq, "its number is taken by no job", err);
    if (rc == 0)
        rc = add_attempts(store, row.seq, imported, error_i, &row.error_at, err);
    if (rc == 0)
        rc = row_import(store, &row, err);
    if (rc == 0)
        rc = add_sides(store, job, partition, row.seq, err);
    if (rc == 0)
        rc = block_note(store, partition, row.seq, err);
    if (rc != 0)
        return rc;
    store->next_seq++;
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
        rc = refuse_import(store, partition, job, ret, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    *ret = (struct move_result){.state = job->status.state};
    return add_imported(store, imported, partition, error_i, err);
}

int sqlite_import(struct store *store, const struct imported_job *jobs, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    if (rc == 0)
        rc = seq_needed(store, err);
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
    st = sql_use(store, STATEMENT_REMEMBERED_KEY_ADD, err);
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

/* 1: the tenant is there; 0: it has no jobs. */
static int find_tenant(struct store *store, struct str tenant, int64_t *ret,
                       struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_FIND, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc;
}

int sqlite_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                     bool *ret, struct redrive_err *err)
{
    int64_t tenant_id = 0;
    int rc = store_check_count(n, err);
    if (rc == 0)
        rc = view_begin(store, err);
    if (rc < 0)
        return rc;
    memset(ret, 0, n * sizeof *ret);
    rc = find_tenant(store, tenant, &tenant_id, err);
    if (rc > 0) {
        rc = 0;
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = key_is_held(store, tenant_id, keys[i], &ret[i], err);
    }
    view_end(store);
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
        if (!column_is_below(st, 3, REDRIVE_STATE_COUNT))
            return sql_damaged(store, 0, "the state of a remembered key is damaged", err);
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
    sqlite3_stmt *st = sql_use(store, STATEMENT_REMEMBERED_KEYS, err);
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
