#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
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
    return row_add(store, &row) ? 0 : err_nomem(err);
}

void pg_row_drop(struct store *store, int64_t seq)
{
    struct row *row = map_get(&store->rows.by_seq, key_of(&seq));
    if (!row)
        return;
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
    row->s.updated_ms = store->now_ms;
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
    if (store->n_ends == store->ends_capacity) {
        size_t capacity = store->ends_capacity ? store->ends_capacity * 2 : 64;
        struct attempt_end *grown = arena_array(&store->arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (store->n_ends)
            memcpy(grown, store->ends, store->n_ends * sizeof *grown);
        store->ends = grown;
        store->ends_capacity = capacity;
    }
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
