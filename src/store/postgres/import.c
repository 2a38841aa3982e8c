#include "base/err.h"
#include "core/state.h"
#include "store/postgres/private.h"

#define TOGETHER_MAX 256

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

/* The unique key first: 1 when it is the job's own now, 0 when another live job holds it. */
static int take_key(struct store *store, const struct job *job, int64_t seq,
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

static bool own(struct arena *arena, struct str *s)
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
    int rc = job->spec.unique_key.len > 0 ? take_key(store, job, seq, err) : 1;
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
    if (!own(&store->arena, &row->s.worker) || !own(&store->arena, &row->result))
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
        rc = pg_specs_add(store, specs, partitions, created_ms, n, results, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        ret[i] = (struct move_result){.code = results[i].code, .state = jobs[i].job->status.state};
        if (results[i].code == 0)
            rc = import_one(store, &jobs[i], partitions[i], results[i].seq, &ret[i], err);
    }
    if (rc == 0)
        rc = pg_ids_find(store, specs, partitions, n, results, &store->arena, err);
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
    int rc = pg_read(store, STATEMENT_HELD_KEYS, NULL, &r, err);
    size_t n = rc == 0 ? (size_t)PQntuples(r) : 0;
    ret->more = n > limit;
    n = n < limit ? n : limit;
    ret->keys = arena_array(&ret->arena, n, sizeof *ret->keys);
    for (int i = 0; ret->keys && (size_t)i < n; i++)
        ret->keys[ret->n++] = (struct remembered_key){
            .tenant = pg_get_text(r, i, 0, &ret->arena),
            .key = pg_get_text(r, i, 1, &ret->arena),
            .id = pg_get_text(r, i, 2, &ret->arena),
            .state = (enum redrive_state)pg_get_int(r, i, 3),
        };
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        remembered_key_page_release(ret);
    return rc;
}
