/* submit.c - jobs that come in: new ones, and jobs and keys of another store. */
#include "base/err.h"
#include "core/state.h"
#include "store/postgres/private.h"

/* How many rows one statement takes at most. */
#define TOGETHER_MAX 256

/* In the order of the columns of redrive.specs; the statement gives the seq. */
static void add_specs(struct store *store, const struct job_spec *specs,
                      struct partition *const *partitions, const int64_t *created_ms, size_t n)
{
    struct args *args = &store->args;
    pg_args_rows(args, store->types.specs);
    for (size_t i = 0; i < n; i++) {
        const struct job_spec *spec = &specs[i];
        pg_row_begin(args);
        pg_field_int8(args, 0);
        pg_field_int4(args, (int32_t)partitions[i]->tenant_id);
        pg_field_int8(args, created_ms ? created_ms[i] : store->now_ms);
        pg_field_int4(args, spec->max_attempts);
        pg_field_bool(args, spec->unique_forever);
        pg_field_name(args, spec->id);
        pg_field_option(args, spec->unique_key);
        pg_field_option(args, spec->breaker_key);
        pg_field_option(args, spec->limit_key);
        pg_field_text(args, spec->user);
        pg_field_text(args, spec->project);
        pg_field_text(args, spec->service);
        pg_field_text(args, spec->policy);
        pg_field_text(args, spec->payload);
        pg_row_end(args);
    }
    pg_args_array_end(args);
}

static int accept(struct store *store, const struct job_spec *spec, struct partition *partition,
                  int64_t seq, bool is_new, struct submit_result *ret, struct arena *arena,
                  struct redrive_err *err)
{
    struct row *row = pg_row_new(store, seq, partition, spec);
    char *id = arena_dup(arena, spec->id);
    if (!row || !id)
        return err_nomem(err);
    row->is_new = is_new;
    /* The server's function adds a job without edges. */
    if (is_new || spec->parents > 0 || spec->children > 0) {
        row->is_dirty = true;
        store->rows.n_dirty++;
    }
    partitions_count(&store->partitions, partition, -1, (int)row->s.state);
    *ret = (struct submit_result){.seq = seq, .state = row->s.state, .id = {id, spec->id.len}};
    return 0;
}

/* ---- Jobs without a key ---------------------------------------------------------------------- */

/* The index of the spec that a row of the answer is about: of equal ids the first one. Specs before
 * `first`, and those without a code, have their answers already. */
static size_t spec_of(const PGresult *result, int i, const struct job_spec *specs,
                      struct partition *const *partitions, const struct submit_result *answers,
                      size_t first, size_t n, struct arena *arena)
{
    const struct str id = pg_get_text(result, i, 2, arena);
    const int64_t tenant_id = pg_get_int(result, i, 1);
    size_t at = first;
    while (at < n && (answers[at].code == 0 || partitions[at]->tenant_id != tenant_id ||
                      !str_eq(specs[at].id, id)))
        at++;
    return at;
}

/* Answers come in the order of ids, which is mostly that of the request: then the first spec
 * without an answer is the right one. */
static int note_seqs(struct store *store, const PGresult *result, const struct job_spec *specs,
                     struct partition *const *partitions, size_t n, struct submit_result *ret,
                     struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena scratch = {0};
    size_t first = 0;
    int rc = 0;
    for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
        while (first < n && ret[first].code == 0)
            first++;
        const size_t at = spec_of(result, i, specs, partitions, ret, first, n, &scratch);
        if (at < n)
            ret[at] = (struct submit_result){.seq = pg_get_int(result, i, 0)};
        else
            rc = scratch.failed
                     ? err_nomem(err)
                     : pg_damaged(store, pg_get_int(result, i, 0), "it was not submitted", err);
    }
    return rc;
}

/* Fills in the answers that have REDRIVE_E_EXISTS, with the jobs that have these ids. */
static int find_ids(struct store *store, const struct job_spec *specs,
                    struct partition *const *partitions, size_t n, struct submit_result *ret,
                    struct arena *arena, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result;
    size_t missing = 0;
    for (size_t i = 0; i < n; i++)
        missing += ret[i].code != 0;
    if (missing == 0)
        return 0;
    int rc = pg_rows_flush(store, err);
    if (rc != 0)
        return rc;
#define MISSING(type, item, expression) \
    do {                                \
        pg_args_array(args, type);      \
        for (size_t i = 0; i < n; i++)  \
            if (ret[i].code != 0)       \
                item(args, expression); \
        pg_args_array_end(args);        \
    } while (0)
    MISSING(ARG_INT4, pg_item_int4, (int32_t)i);
    MISSING(ARG_INT4, pg_item_int4, (int32_t)partitions[i]->tenant_id);
    MISSING(ARG_TEXT, pg_item_name, specs[i].id);
#undef MISSING
    rc = pg_run(store, STATEMENT_IDS_FIND, &result, err);
    if (rc != 0)
        return rc;
    /* A job may have been removed between the two statements. */
    if ((size_t)PQntuples(result) != missing)
        return err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
    for (int i = 0; i < PQntuples(result); i++) {
        const int64_t at = pg_get_int(result, i, 0);
        if (at < 0 || (size_t)at >= n || !pg_is_below(result, i, 2, REDRIVE_STATE_COUNT))
            return pg_damaged(store, pg_get_int(result, i, 1), "it cannot stand for another", err);
        struct submit_result *r = &ret[at];
        r->seq = pg_get_int(result, i, 1);
        r->state = (enum redrive_state)pg_get_int(result, i, 2);
        r->id = pg_get_text(result, i, 3, arena);
    }
    return arena->failed ? err_nomem(err) : 0;
}

/* Takes ids and gives seqs; a spec whose id is taken gets REDRIVE_E_EXISTS. `created_ms` NULL: the
 * transaction's time. */
static int take_ids(struct store *store, const struct job_spec *specs,
                    struct partition *const *partitions, const int64_t *created_ms, size_t n,
                    struct submit_result *ret, struct redrive_err *err)
{
    const PGresult *result;
    add_specs(store, specs, partitions, created_ms, n);
    for (size_t i = 0; i < n; i++)
        ret[i] = (struct submit_result){.code = REDRIVE_E_EXISTS};
    int rc = pg_run_checked(store, STATEMENT_SPECS_ADD, &result, err);
    return rc == 0 ? note_seqs(store, result, specs, partitions, n, ret, err) : rc;
}

static int submit_plain(struct store *store, const struct job_spec *specs,
                        struct partition *const *partitions, size_t n, struct submit_result *ret,
                        struct arena *arena, struct redrive_err *err)
{
    int rc = take_ids(store, specs, partitions, NULL, n, ret, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (ret[i].code == 0)
            rc = accept(store, &specs[i], partitions[i], ret[i].seq, true, &ret[i], arena, err);
    return rc == 0 ? find_ids(store, specs, partitions, n, ret, arena, err) : rc;
}

/* ---- Jobs of which some have a key: one by one, on the server -------------------------------- */

static int submit_keyed(struct store *store, const struct job_spec *specs,
                        struct partition *const *partitions, size_t n, struct submit_result *ret,
                        struct arena *arena, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result;
    int rc = pg_rows_flush(store, err);
    if (rc != 0)
        return rc;
    add_specs(store, specs, partitions, NULL, n);
#define COLUMN(type, item, expression) \
    do {                               \
        pg_args_array(args, type);     \
        for (size_t i = 0; i < n; i++) \
            item(args, expression);    \
        pg_args_array_end(args);       \
    } while (0)
    COLUMN(ARG_INT4, pg_item_int4, (int32_t)partitions[i]->id);
    COLUMN(ARG_INT8, pg_item_int8,
           specs[i].process_after_ms ? specs[i].process_after_ms : store->now_ms);
    COLUMN(ARG_INT8, pg_item_int8, specs[i].deadline_ms);
    COLUMN(ARG_INT4, pg_item_int4, specs[i].priority);
#undef COLUMN
    pg_args_int8(args, store->now_ms);
    rc = pg_run_checked(store, STATEMENT_JOBS_ADD, &result, err);
    if (rc == 0 && (size_t)PQntuples(result) != n)
        rc = pg_damaged(store, 0, "not every submit was answered", err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!pg_get_bool(result, (int)i, 0)) {
            rc = accept(store, &specs[i], partitions[i], pg_get_int(result, (int)i, 1), false,
                        &ret[i], arena, err);
            continue;
        }
        ret[i] = (struct submit_result){
            .code = REDRIVE_E_EXISTS,
            .seq = pg_get_int(result, (int)i, 1),
            .state = (enum redrive_state)pg_get_int(result, (int)i, 2),
            .id = pg_get_text(result, (int)i, 3, arena),
        };
        /* One of the same call that waits is queued on the server until its row is written. */
        const struct row *own = pg_row_find(store, ret[i].seq);
        if (own)
            ret[i].state = own->s.state;
        else if (!pg_is_below(result, (int)i, 2, REDRIVE_STATE_COUNT))
            rc = pg_damaged(store, ret[i].seq, "its state is none of those there are", err);
    }
    return rc == 0 && arena->failed ? err_nomem(err) : rc;
}

/* Locks the keys in one order for all transactions, whatever the order of their jobs. PostgreSQL
 * would find a deadlock only after a second. */
static int lock_keys(struct store *store, const struct job_spec *specs, size_t n, bool *ret_any,
                     struct redrive_err *err)
{
    struct args *args = &store->args;
    *ret_any = false;
    for (size_t i = 0; i < n && !*ret_any; i++)
        *ret_any = specs[i].unique_key.len > 0;
    if (!*ret_any)
        return 0;
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < n; i++)
        if (specs[i].unique_key.len > 0)
            pg_item_name(args, specs[i].unique_key);
    pg_args_array_end(args);
    return pg_send(store, STATEMENT_KEYS_LOCK, false, err);
}

int postgres_submit(struct store *store, const struct job_spec *specs, size_t n,
                    struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct partition *partitions[TOGETHER_MAX];
    bool any_key = false;
    int rc = pg_transaction_needed(store, err);
    for (size_t i = 0; rc == 0 && i < n; i += TOGETHER_MAX) {
        const size_t some = n - i < TOGETHER_MAX ? n - i : TOGETHER_MAX;
        for (size_t k = 0; rc == 0 && k < some; k++)
            rc = pg_partition_named(store, specs[i + k].tenant, specs[i + k].queue,
                                    specs[i + k].task, &partitions[k], err);
        if (rc == 0)
            rc = lock_keys(store, &specs[i], some, &any_key, err);
        if (rc == 0)
            rc = any_key ? submit_keyed(store, &specs[i], partitions, some, &ret[i], arena, err)
                         : submit_plain(store, &specs[i], partitions, some, &ret[i], arena, err);
    }
    return rc;
}

/* ---- Jobs and keys of another store ---------------------------------------------------------- */

static int keep_history(struct store *store, struct row *row, const struct imported_job *imported,
                        struct redrive_err *err)
{
    const size_t n = imported_rows(imported);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct job_attempt *attempt = &imported->attempts[i];
        rc = pg_row_ended(store, row, attempt, err);
        if (attempt->error.class_ != REDRIVE_CLASS_SUCCESS)
            row->error_n = row->history_n;
    }
    return rc;
}

/* Takes the unique key: 1, or 0 when another live job holds it. */
static int import_key(struct store *store, const struct job *job, int64_t seq,
                      struct redrive_err *err)
{
    const PGresult *result;
    int rc = 0;
    if (!state_has_ended(job->status.state)) {
        pg_args_int8(&store->args, seq);
        rc = pg_run(store, STATEMENT_KEY_TAKE, &result, err);
        if (rc != 0)
            return rc;
        if (strcmp(PQcmdTuples((PGresult *)result), "1") != 0) {
            pg_args_int8(&store->args, seq);
            return pg_send(store, STATEMENT_SPEC_REMOVE, false, err);
        }
    }
    pg_args_int8(&store->args, seq);
    rc = pg_send(store, STATEMENT_KEY_ADD, false, err);
    return rc == 0 ? 1 : rc;
}

static bool copy_str(struct arena *arena, struct str *s)
{
    if (s->ptr)
        *s = arena_str(arena, *s);
    return !arena->failed;
}

static int import_one(struct store *store, const struct imported_job *imported,
                      struct partition *partition, int64_t seq, struct move_result *ret,
                      struct redrive_err *err)
{
    const struct job *job = imported->job;
    *ret = (struct move_result){.state = job->status.state};
    int rc = job->spec.unique_key.len > 0 ? import_key(store, job, seq, err) : 1;
    if (rc <= 0) {
        ret->code = REDRIVE_E_EXISTS;
        return rc;
    }
    struct row *row = pg_row_new(store, seq, partition, &job->spec);
    if (!row)
        return err_nomem(err);
    row->s = job->status;
    row->s.seq = seq;
    row->error_class = job->status.error.class_;
    row->fingerprint = job->status.fingerprint;
    row->result = job->status.result;
    row->holds_key = row->has_key && !state_has_ended(job->status.state);
    row->is_new = row->is_dirty = true;
    store->rows.n_dirty++;
    partitions_count(&store->partitions, partition, -1, (int)job->status.state);
    if (!copy_str(&store->arena, &row->s.worker) || !copy_str(&store->arena, &row->result))
        return err_nomem(err);
    return keep_history(store, row, imported, err);
}

static int import_some(struct store *store, const struct imported_job *jobs, size_t n,
                       struct move_result *ret, struct redrive_err *err)
{
    struct job_spec specs[TOGETHER_MAX];
    struct partition *partitions[TOGETHER_MAX];
    int64_t created_ms[TOGETHER_MAX];
    struct submit_result results[TOGETHER_MAX];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        specs[i] = jobs[i].job->spec;
        created_ms[i] = jobs[i].job->status.created_ms;
        rc = pg_partition_named(store, specs[i].tenant, specs[i].queue, specs[i].task,
                                &partitions[i], err);
    }
    if (rc == 0)
        rc = take_ids(store, specs, partitions, created_ms, n, results, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        ret[i] = (struct move_result){.code = results[i].code, .state = jobs[i].job->status.state};
        if (results[i].code == 0)
            rc = import_one(store, &jobs[i], partitions[i], results[i].seq, &ret[i], err);
    }
    if (rc == 0)
        rc = find_ids(store, specs, partitions, n, results, &store->arena, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (results[i].code != 0)
            ret[i].state = results[i].state;
    return rc;
}

int postgres_import(struct store *store, const struct imported_job *jobs, size_t n,
                    struct move_result *ret, struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    for (size_t i = 0; rc == 0 && i < n; i += TOGETHER_MAX)
        rc =
            import_some(store, jobs + i, n - i < TOGETHER_MAX ? n - i : TOGETHER_MAX, ret + i, err);
    return rc;
}

int postgres_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                         struct redrive_err *err)
{
    struct args *args = &store->args;
    int rc = pg_transaction_needed(store, err);
    if (rc == 0)
        rc = pg_rows_flush(store, err);
    if (rc != 0 || n == 0)
        return rc;
#define COLUMN(type, item, member)      \
    do {                                \
        pg_args_array(args, type);      \
        for (size_t i = 0; i < n; i++)  \
            item(args, keys[i].member); \
        pg_args_array_end(args);        \
    } while (0)
    COLUMN(ARG_TEXT, pg_item_name, tenant);
    COLUMN(ARG_TEXT, pg_item_name, key);
    COLUMN(ARG_TEXT, pg_item_name, id);
    COLUMN(ARG_INT4, pg_item_int4, state);
#undef COLUMN
    return pg_send(store, STATEMENT_KEYS_IMPORT, false, err);
}

int postgres_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                             size_t limit, struct remembered_key_page *ret, struct redrive_err *err)
{
    const PGresult *r;
    remembered_key_page_release(ret);
    if (limit > STORE_PAGE_MAX)
        limit = STORE_PAGE_MAX;
    pg_args_name(&store->args, after_tenant);
    pg_args_name(&store->args, after_key);
    pg_args_int8(&store->args, (int64_t)limit + 1);
    int rc = pg_read(store, STATEMENT_REMEMBERED_KEYS, NULL, &r, err);
    size_t n = rc == 0 ? (size_t)PQntuples(r) : 0;
    ret->more = n > limit;
    n = n < limit ? n : limit;
    ret->keys = arena_array(&ret->arena, n, sizeof *ret->keys);
    for (int i = 0; ret->keys && (size_t)i < n; i++) {
        if (!pg_is_below(r, i, 3, REDRIVE_STATE_COUNT))
            rc = pg_damaged(store, 0, "the state of a remembered key is damaged", err);
        ret->keys[ret->n++] = (struct remembered_key){
            .tenant = pg_get_text(r, i, 0, &ret->arena),
            .key = pg_get_text(r, i, 1, &ret->arena),
            .id = pg_get_text(r, i, 2, &ret->arena),
            .state = (enum redrive_state)pg_get_int(r, i, 3),
        };
    }
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        remembered_key_page_release(ret);
    return rc;
}

int postgres_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                       bool *ret, struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result = NULL;
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    pg_args_name(args, tenant);
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_item_name(args, keys[i]);
    pg_args_array_end(args);
    rc = pg_read(store, STATEMENT_KEYS_HELD, NULL, &result, err);
    if (rc == 0 && (size_t)PQntuples(result) != n)
        rc = pg_damaged(store, 0, "not every key was answered", err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        ret[i] = pg_get_bool(result, (int)i, 0);
    return rc;
}
