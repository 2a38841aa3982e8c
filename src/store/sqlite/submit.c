#include "base/err.h"
#include "store/sqlite/private.h"

/* Fills the answer with the job that a statement of (seq, state, id) finds. 1, 0 when there is
 * none, or a negative code. */
static int found(struct store *store, sqlite3_stmt *st, struct submit_result *ret,
                 struct arena *arena, struct redrive_err *err)
{
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    ret->code = REDRIVE_E_EXISTS;
    ret->seq = sqlite3_column_int64(st, 0);
    ret->state = (enum redrive_state)sqlite3_column_int(st, 1);
    ret->id = column_dup(st, 2, arena);
    sqlite3_reset(st);
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
    return found(store, st, ret, arena, err);
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
    return found(store, st, ret, arena, err);
}

/* A key that is to be unique for ever: whoever holds it, the lowest seq. */
static int first_holder(struct store *store, int64_t tenant_id, struct str key,
                        struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct submit_result other = {0};
    int gone = find(store, STATEMENT_FIND_GONE_KEY, tenant_id, key, ret, arena, err);
    if (gone < 0)
        return gone;
    int any = gone;
    for (int forever = 0; forever <= 1; forever++) {
        int rc = find_key(store, tenant_id, key, forever, &other, arena, err);
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

static void bind_job(struct store *store, sqlite3_stmt *st, int row, const struct job_spec *spec,
                     const struct partition *partition, int64_t seq)
{
    const int at = row * JOB_ROW_BINDS;
    const struct job_status s = transition_submit(spec, seq, store->now_ms);
    bind_int(st, at + 1, seq);
    bind_int(st, at + 2, (int64_t)s.state);
    bind_int(st, at + 3,
             s.state == REDRIVE_STATE_SCHEDULED ? s.process_after_ms
                                                : sort_key_ready(partition, spec->priority));
    bind_int(st, at + 4, partition->id);
    bind_int(st, at + 5, s.process_after_ms);
    bind_int(st, at + 6, s.updated_ms);
}

/* The index on ids refuses a second one, so that the usual case needs no look before. *ret_added is
 * how many rows there are now: REDRIVE_E_EXISTS is about the one after them. */
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

int spec_add(struct store *store, const struct job_spec *spec, const struct partition *partition,
             int64_t seq, int64_t created_ms, struct redrive_err *err)
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

int deadline_add(struct store *store, int64_t deadline_ms, int64_t seq, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_DEADLINE_ADD, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, deadline_ms);
    bind_int(st, 2, seq);
    return sql_run(store, st, err);
}

int key_add(struct store *store, const struct job_spec *spec, const struct partition *partition,
            int64_t seq, bool is_live, struct redrive_err *err)
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

/* What remains to be done when the rows are there. */
static int settle_in(struct store *store, const struct job_spec *spec, struct partition *partition,
                     struct submit_result *ret, struct arena *arena, struct redrive_err *err)
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
    if (rc != 0)
        return rc;
    store->next_seq++;
    store->meta_moved = true;
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
        return rc == 0 ? sql_damaged(store, store->next_seq, "its number or id is taken and is not",
                                     err)
                       : (rc < 0 ? rc : 0);
    }
    if (rc == 0)
        rc = add_job(store, spec, partition, store->next_seq, err);
    return rc == 0 ? settle_in(store, spec, partition, ret, arena, err) : rc;
}

/* Opening tables is a good part of adding a row, so that several are added at once. Keys must be
 * looked up one by one. */
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
        rc = settle_in(store, &specs[i], partitions[i], &ret[i], arena, err);
    return rc;
}

int sqlite_submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
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
