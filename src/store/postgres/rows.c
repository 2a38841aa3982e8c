/* rows.c - rows of jobs that a transaction works on, running jobs that are kept, partitions. */
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "store/postgres/args.h"
#include "store/postgres/private.h"

/* ---- Which rows are kept --------------------------------------------------------------------- */

static struct str key_of(const int64_t *seq)
{
    return (struct str){(const char *)seq, sizeof *seq};
}

struct row *pg_row_find(const struct store *store, int64_t seq)
{
    struct row *row = map_get(&store->rows.by_seq, key_of(&seq));
    return row && !row->is_gone ? row : NULL;
}

static struct row *row_add(struct store *store, const struct row *from)
{
    struct rows *rows = &store->rows;
    if (rows->n == rows->capacity) {
        size_t capacity = rows->capacity ? rows->capacity * 2 : 64;
        struct row **grown = realloc(rows->all, capacity * sizeof(struct row *));
        if (!grown)
            return NULL;
        rows->all = grown;
        rows->capacity = capacity;
    }
    struct row *row = arena_alloc(&store->arena, sizeof *row);
    if (!row || map_put(&rows->by_seq, key_of(&from->seq), row) != 0)
        return NULL;
    *row = *from;
    rows->all[rows->n++] = row;
    return row;
}

const char *pg_row_fault(const struct store *store, const PGresult *r, int i)
{
    if (!partitions_at(&store->partitions, pg_get_int(r, i, COLUMN_PARTITION_ID)))
        return "it is in no partition";
    if (!pg_is_below(r, i, COLUMN_STATE, REDRIVE_STATE_COUNT))
        return "its state is none of those there are";
    if (!pg_is_below(r, i, COLUMN_REASON, REDRIVE_REASON_COUNT) ||
        !pg_is_below(r, i, COLUMN_ERROR_CLASS, REDRIVE_CLASS_COUNT))
        return "its end or its error is none of those there are";
    return NULL;
}

struct job_status pg_row_status(const PGresult *r, int i)
{
    return (struct job_status){
        .seq = pg_get_int(r, i, COLUMN_SEQ),
        .state = (enum redrive_state)pg_get_int(r, i, COLUMN_STATE),
        .reason = (enum redrive_reason)pg_get_int(r, i, COLUMN_REASON),
        .parked_by_limit = pg_get_bool(r, i, COLUMN_BY_LIMIT),
        .epoch = (uint32_t)pg_get_int(r, i, COLUMN_EPOCH),
        .attempts = (uint32_t)pg_get_int(r, i, COLUMN_ATTEMPTS),
        .deferrals = (uint32_t)pg_get_int(r, i, COLUMN_DEFERRALS),
        .crashes = (uint32_t)pg_get_int(r, i, COLUMN_CRASHES),
        .process_after_ms = pg_get_int(r, i, COLUMN_PROCESS_AFTER),
        .updated_ms = pg_get_int(r, i, COLUMN_UPDATED),
        .first_started_ms = pg_get_int(r, i, COLUMN_FIRST_STARTED),
        .started_ms = pg_get_int(r, i, COLUMN_STARTED),
        .finished_ms = pg_get_int(r, i, COLUMN_FINISHED),
        .paused_ms = pg_get_int(r, i, COLUMN_PAUSED),
        .paused_since_ms = pg_get_int(r, i, COLUMN_PAUSED_SINCE),
        .token = (uint64_t)pg_get_int(r, i, COLUMN_TOKEN),
        .lease_until_ms = pg_get_int(r, i, COLUMN_LEASE_UNTIL),
        .permit = {.generation = (uint64_t)pg_get_int(r, i, COLUMN_GENERATION),
                   .probe = (uint64_t)pg_get_int(r, i, COLUMN_PROBE)},
        .fingerprint = (uint64_t)pg_get_int(r, i, COLUMN_FINGERPRINT),
        .parents = (uint32_t)pg_get_int(r, i, COLUMN_PARENTS),
        .open_parents = (uint32_t)pg_get_int(r, i, COLUMN_OPEN_PARENTS),
        .children = (uint32_t)pg_get_int(r, i, COLUMN_CHILDREN),
    };
}

struct row *pg_row_keep(struct store *store, const PGresult *r, int i)
{
    const int64_t seq = pg_get_int(r, i, COLUMN_SEQ);
    struct row *known = map_get(&store->rows.by_seq, key_of(&seq));
    if (known)
        return known;
    struct row row = {
        .seq = seq,
        .partition = partitions_at(&store->partitions, pg_get_int(r, i, COLUMN_PARTITION_ID)),
        .priority = (int32_t)pg_get_int(r, i, COLUMN_PRIORITY),
        .deadline_ms = pg_get_int(r, i, COLUMN_DEADLINE),
        .history_n = (uint32_t)pg_get_int(r, i, COLUMN_HISTORY_N),
        .error_n = (uint32_t)pg_get_int(r, i, COLUMN_ERROR_N),
        .error_class = (enum redrive_class)pg_get_int(r, i, COLUMN_ERROR_CLASS),
        .fingerprint = (uint64_t)pg_get_int(r, i, COLUMN_FINGERPRINT),
        .has_key = pg_get_bool(r, i, COLUMN_HAS_KEY),
        .s = pg_row_status(r, i),
        .is_damaged = pg_row_fault(store, r, i) != NULL,
    };
    row.s.worker = pg_get_text(r, i, COLUMN_WORKER, &store->arena);
    row.holds_key = row.has_key && !state_has_ended(row.s.state);
    row.in_parked = row.s.state == REDRIVE_STATE_PARKED;
    return row_add(store, &row);
}

struct row *pg_row_new(struct store *store, int64_t seq, struct partition *partition,
                       const struct job_spec *spec)
{
    const struct row row = {
        .seq = seq,
        .partition = partition,
        .priority = spec->priority,
        .deadline_ms = spec->deadline_ms,
        .has_key = spec->unique_key.len > 0,
        .holds_key = spec->unique_key.len > 0,
        .s = transition_submit(spec, seq, store->now_ms),
    };
    return row_add(store, &row);
}

int pg_rows_keep(struct store *store, const PGresult *result, struct redrive_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < PQntuples(result); i++)
        if (!pg_row_keep(store, result, i))
            rc = err_nomem(err);
    return rc;
}

int pg_rows_lock(struct store *store, const struct move_list *list, bool skips_locked,
                 struct redrive_err *err)
{
    size_t unknown = 0;
    for (size_t i = 0; i < list->n; i++) {
        const int64_t seq = move_at(list, i).seq;
        if (map_get(&store->rows.by_seq, key_of(&seq)))
            continue;
        if (unknown++ == 0)
            pg_args_array(&store->args, ARG_INT8);
        pg_item_int8(&store->args, seq);
    }
    if (unknown == 0)
        return 0;
    pg_args_array_end(&store->args);
    const PGresult *result;
    int rc =
        pg_run(store, skips_locked ? STATEMENT_ROWS_LOCK_FREE : STATEMENT_ROWS_LOCK, &result, err);
    if (rc == 0)
        rc = pg_partitions_know(store, result, COLUMN_PARTITION_ID, err);
    return rc == 0 ? pg_rows_keep(store, result, err) : rc;
}

int pg_row_optimistic(struct store *store, int64_t seq, uint64_t token, struct redrive_err *err)
{
    struct row row;
    if (map_get(&store->rows.by_seq, key_of(&seq)) || !pg_kept_get(store, seq, token, &row))
        return 0;
    row.is_optimistic = true;
    row.held_by = token;
    row.held_children = row.s.children;
    return row_add(store, &row) ? 0 : err_nomem(err);
}

void pg_row_drop(struct store *store, int64_t seq)
{
    struct row *row = map_get(&store->rows.by_seq, key_of(&seq));
    if (!row)
        return;
    pg_scanned_forget(store);
    store->rows.n_dirty -= row->is_dirty;
    row->is_dirty = row->is_new = false;
    row->is_gone = true;
}

void pg_rows_forget(struct store *store)
{
    struct rows *rows = &store->rows;
    const uint64_t seed = rows->by_seq.seed;
    if (rows->n > 0) {
        map_release(&rows->by_seq);
        map_init(&rows->by_seq, seed);
    }
    rows->n = rows->n_dirty = 0;
}

void pg_rows_release(struct store *store)
{
    map_release(&store->rows.by_seq);
    free(store->rows.all);
}

/* ---- Moves ----------------------------------------------------------------------------------- */

static void make_dirty(struct store *store, struct row *row)
{
    pg_scanned_forget(store);
    if (!row->is_dirty) {
        row->is_dirty = true;
        store->rows.n_dirty++;
    }
}

void pg_row_touch(struct store *store, struct row *row)
{
    row->is_longer = false;
    make_dirty(store, row);
}

void pg_row_touch_lease(struct store *store, struct row *row)
{
    row->is_longer |= !row->is_dirty;
    make_dirty(store, row);
}

bool pg_row_is_moved(const struct store *store, int64_t seq)
{
    const struct row *row = map_get(&store->rows.by_seq, key_of(&seq));
    return row && (row->is_dirty || row->is_gone);
}

int pg_row_ended(struct store *store, struct row *row, const struct job_attempt *attempt,
                 struct redrive_err *err)
{
    struct attempt_end *grown =
        page_grow(&store->arena, store->ends, store->n_ends, sizeof *store->ends);
    if (!grown)
        return err_nomem(err);
    store->ends = grown;
    struct attempt_end *end = &store->ends[store->n_ends];
    *end = (struct attempt_end){.seq = row->seq, .n = ++row->history_n, .attempt = *attempt};
    struct str *const strings[] = {&end->attempt.worker, &end->attempt.why,
                                   &end->attempt.error.type, &end->attempt.error.message,
                                   &end->attempt.error.stacktrace};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        if (strings[i]->ptr)
            *strings[i] = arena_str(&store->arena, *strings[i]);
    if (store->arena.failed)
        return err_nomem(err);
    store->n_ends++;
    return 0;
}

/* ---- Running jobs of this handle ------------------------------------------------------------- */

/* Running jobs that this handle has started, as it has committed them: while the token is valid,
 * the row is still the same. Only the lease may be longer, if another handle has extended it, and
 * there may be more children: the statement that writes the row compares their number. */
struct kept_row {
    int64_t partition_id;
    struct row row; /* without partition and worker */
    size_t worker_len;
    char worker[64];
};

void pg_kept_init(struct store *store)
{
    row_cache_init(&store->kept, sizeof(struct kept_row));
}

static void keep_running(struct store *store, const struct row *row)
{
    const struct str worker = row->s.worker;
    struct kept_row *kept =
        worker.len <= sizeof kept->worker ? row_cache_put(&store->kept, row->seq) : NULL;
    if (!kept) {
        row_cache_drop(&store->kept, row->seq);
        return;
    }
    *kept = (struct kept_row){
        .partition_id = row->partition->id, .row = *row, .worker_len = worker.len};
    kept->row.partition = NULL;
    kept->row.s.worker = (struct str){NULL, 0};
    if (worker.len > 0)
        memcpy(kept->worker, worker.ptr, worker.len);
}

bool pg_kept_get(struct store *store, int64_t seq, uint64_t token, struct row *ret)
{
    const struct kept_row *kept = row_cache_get(&store->kept, seq);
    struct partition *partition =
        kept ? partitions_at(&store->partitions, kept->partition_id) : NULL;
    if (!partition || kept->row.s.token != token)
        return false;
    const struct str worker = {kept->worker, kept->worker_len};
    *ret = kept->row;
    ret->partition = partition;
    ret->s.worker = arena_str(&store->arena, worker);
    return ret->s.worker.ptr != NULL;
}

void pg_kept_learn(struct store *store)
{
    for (size_t i = 0; i < store->rows.n; i++) {
        const struct row *row = store->rows.all[i];
        if (row->is_ours && !row->is_gone && row->s.state == REDRIVE_STATE_RUNNING)
            keep_running(store, row);
        else
            row_cache_drop(&store->kept, row->seq);
    }
}

void pg_kept_forget(struct store *store)
{
    for (size_t i = 0; i < store->rows.n; i++)
        row_cache_drop(&store->kept, store->rows.all[i]->seq);
}

/* ---- Partitions ------------------------------------------------------------------------------ */

static int keep_partition(struct store *store, const struct partition *read, struct partition **ret,
                          struct redrive_err *err)
{
    if (read->id <= 0 || read->id > PARTITION_ID_MAX)
        return pg_damaged(store, 0, "a partition has an impossible number", err);
    return partitions_keep(&store->partitions, read, ret) ? 0 : err_nomem(err);
}

int pg_partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                       struct partition **ret, struct redrive_err *err)
{
    const PGresult *result;
    int rc = partitions_get(&store->partitions, tenant, queue, task, ret, err);
    if (rc != 0 || *ret)
        return rc;
    pg_args_name(&store->args, tenant);
    pg_args_name(&store->args, queue);
    pg_args_name(&store->args, task);
    rc = pg_run(store, STATEMENT_PARTITION_NAMED, &result, err);
    if (rc != 0)
        return rc;
    store->partitions.added = true;
    const struct partition read = {.id = pg_get_int(result, 0, 0),
                                   .tenant_id = pg_get_int(result, 0, 1),
                                   .tenant = tenant,
                                   .queue = queue,
                                   .task = task};
    return keep_partition(store, &read, ret, err);
}

/* Keeps the partitions of a result of (partition_id, tenant_id, tenant, queue, task). */
static int keep_partitions(struct store *store, const PGresult *result, struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = 0;
    for (int i = 0; i < PQntuples(result) && rc == 0; i++) {
        struct partition *partition;
        const struct partition read = {.id = pg_get_int(result, i, 0),
                                       .tenant_id = pg_get_int(result, i, 1),
                                       .tenant = pg_get_text(result, i, 2, &arena),
                                       .queue = pg_get_text(result, i, 3, &arena),
                                       .task = pg_get_text(result, i, 4, &arena)};
        rc = arena.failed ? err_nomem(err) : keep_partition(store, &read, &partition, err);
    }
    return rc;
}

/* The statement that it runs would drop the results of the one before, which the caller still
 * reads: they are set aside. */
int pg_partitions_know(struct store *store, const PGresult *result, int column,
                       struct redrive_err *err)
{
    size_t unknown = 0;
    int64_t last = 0;
    for (int i = 0; i < PQntuples(result); i++) {
        int64_t id = pg_get_int(result, i, column);
        if (id == 0 || id == last || partitions_at(&store->partitions, id))
            continue;
        if (unknown++ == 0)
            pg_args_array(&store->args, ARG_INT4);
        pg_item_int4(&store->args, (int32_t)id);
        last = id;
    }
    if (unknown == 0)
        return 0;
    pg_args_array_end(&store->args);
    PGresult **aside = store->results;
    const size_t n = store->n_results, capacity = store->results_capacity;
    store->results = NULL;
    store->n_results = store->results_capacity = 0;
    const PGresult *partitions;
    int rc = pg_run(store, STATEMENT_PARTITIONS_KNOWN, &partitions, err);
    if (rc == 0)
        rc = keep_partitions(store, partitions, err);
    pg_forget_results(store);
    free(store->results);
    store->results = aside;
    store->n_results = n;
    store->results_capacity = capacity;
    return rc;
}

int pg_partitions_flush(struct store *store, struct redrive_err *err)
{
    struct args *args = &store->args;
    if (!store->partitions.touched)
        return 0;
    pg_args_rows(args, store->types.count_deltas);
    for (const struct partition *partition = store->partitions.touched; partition;
         partition = partition->next_touched) {
        pg_row_begin(args);
        pg_field_int4(args, (int32_t)partition->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            pg_field_int8(args, partition->moved[i]);
        pg_row_end(args);
        store->n_appended++;
    }
    pg_args_array_end(args);
    partitions_written(&store->partitions);
    return pg_send(store, STATEMENT_COUNTS_ADD, false, err);
}
