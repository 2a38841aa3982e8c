#include "base/err.h"
#include "store/postgres/private.h"

/* As many rows of a batch as one statement takes. */
#define TOGETHER_MAX 256

/* In the order of the columns of redrive.specs; the seq is given there. */
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
    if (is_new) {
        row->is_new = row->is_dirty = true;
        store->rows.n_dirty++;
    }
    partitions_count(&store->partitions, partition, -1, (int)row->s.state);
    *ret = (struct submit_result){.seq = seq, .state = row->s.state, .id = {id, spec->id.len}};
    return 0;
}

/* ---- Jobs without a key ---------------------------------------------------------------------- */

/* The number of the spec that a row of the answer is about: of equal ids the first was taken. Those
 * before `first` have their answer, as have those without a code. */
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

/* Answers come in the order of ids, mostly that of the request, because ids are made in order: then
 * the first spec without an answer is the one. */
static int note_seqs(struct store *store, const PGresult *result, const struct job_spec *specs,
                     struct partition *const *partitions, size_t n, struct submit_result *ret,
                     struct redrive_err *err)
{
    struct arena scratch;
    size_t first = 0;
    int rc = 0;
    arena_init(&scratch);
    for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
        while (first < n && ret[first].code == 0)
            first++;
        const size_t at = spec_of(result, i, specs, partitions, ret, first, n, &scratch);
        if (at < n)
            ret[at] = (struct submit_result){.seq = pg_get_int(result, i, 0)};
        else
            rc = scratch.failed
                     ? err_nomem(err)
                     : pg_damaged(store, pg_get_int(result, i, 0), "nobody asked for it", err);
    }
    arena_release(&scratch);
    return rc;
}

int pg_ids_find(struct store *store, const struct job_spec *specs,
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
    /* It may have been removed between the one statement and the other. */
    if ((size_t)PQntuples(result) != missing)
        return err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
    for (int i = 0; i < PQntuples(result); i++) {
        struct submit_result *r = &ret[pg_get_int(result, i, 0)];
        r->seq = pg_get_int(result, i, 1);
        r->state = (enum redrive_state)pg_get_int(result, i, 2);
        r->id = pg_get_text(result, i, 3, arena);
    }
    return arena->failed ? err_nomem(err) : 0;
}

int pg_specs_add(struct store *store, const struct job_spec *specs,
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
    int rc = pg_specs_add(store, specs, partitions, NULL, n, ret, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (ret[i].code == 0)
            rc = accept(store, &specs[i], partitions[i], ret[i].seq, true, &ret[i], arena, err);
    return rc == 0 ? pg_ids_find(store, specs, partitions, n, ret, arena, err) : rc;
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
    }
    return rc == 0 && arena->failed ? err_nomem(err) : rc;
}

/* Transactions that want the same keys get them in the same order, whatever the order of their
 * jobs. Two that waited for each other crosswise would find that out after a second only. */
static int queue_up(struct store *store, const struct job_spec *specs, size_t n, bool *ret_any,
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
    return pg_send(store, STATEMENT_KEYS_QUEUE_UP, false, err);
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
            rc = queue_up(store, &specs[i], some, &any_key, err);
        if (rc == 0)
            rc = any_key ? submit_keyed(store, &specs[i], partitions, some, &ret[i], arena, err)
                         : submit_plain(store, &specs[i], partitions, some, &ret[i], arena, err);
    }
    return rc;
}
