#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"
#include "store/sqlite/packed_status.h"

int64_t sort_key_ready(const struct partition *partition, int32_t priority)
{
    return partition->id << 32 | (int64_t)((uint32_t)INT32_MAX - (uint32_t)priority);
}

static int64_t rank_of(const struct row *row)
{
    const struct job_status *s = &row->s;
    switch (s->state) {
    case REDRIVE_STATE_SCHEDULED:
    case REDRIVE_STATE_RETRYING: return s->process_after_ms;
    case REDRIVE_STATE_QUEUED: return sort_key_ready(row->partition, row->priority);
    case REDRIVE_STATE_RUNNING: return s->lease_until_ms;
    case REDRIVE_STATE_PARKED: return 0;
    default: return s->finished_ms;
    }
}

bool status_set(struct job_status *s, int64_t sort_key, sqlite3_stmt *st, int packed_status_column)
{
    const unsigned char *packed = sqlite3_column_blob(st, packed_status_column);
    s->lease_until_ms = s->state == REDRIVE_STATE_RUNNING ? sort_key : 0;
    s->finished_ms = state_has_ended(s->state) ? sort_key : 0;
    return !packed ||
           packed_status_unpack(packed, (size_t)sqlite3_column_bytes(st, packed_status_column), s);
}

int row_read(struct store *store, int64_t seq, struct row *ret, struct redrive_err *err)
{
    const struct row *kept = row_cache_get(&store->kept, seq);
    if (kept) {
        *ret = *kept;
        return 1;
    }
    sqlite3_stmt *st = sql_use(store, STATEMENT_ROW_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    int64_t state = sqlite3_column_int64(st, 0);
    int64_t partition_id = sqlite3_column_int64(st, 2);
    *ret = (struct row){
        .seq = seq,
        .priority = sqlite3_column_int(st, 13),
        .has_key = sqlite3_column_int(st, 14) != 0,
        .was = (enum redrive_state)state,
        .error_at = sqlite3_column_int64(st, 10),
        .s =
            {
                .seq = seq,
                .state = (enum redrive_state)state,
                .process_after_ms = sqlite3_column_int64(st, 3),
                .attempts = (uint32_t)sqlite3_column_int64(st, 4),
                .epoch = (uint32_t)sqlite3_column_int64(st, 5),
                .reason = (enum redrive_reason)sqlite3_column_int(st, 6),
                .started_ms = sqlite3_column_int64(st, 7),
                .paused_ms = sqlite3_column_int64(st, 8),
                .error = {.class_ = (enum redrive_class)sqlite3_column_int(st, 9)},
                .fingerprint = (uint64_t)sqlite3_column_int64(st, 11),
                .updated_ms = sqlite3_column_int64(st, 15),
            },
    };
    const bool is_whole = status_set(&ret->s, sqlite3_column_int64(st, 1), st, 12);
    sqlite3_reset(st);
    if (state < 0 || state >= REDRIVE_STATE_COUNT)
        return sql_damaged(store, seq, "its state is none of those there are", err);
    if (!is_whole)
        return sql_damaged(store, seq, "its numbers cannot be read", err);
    rc = partition_numbered(store, partition_id, &ret->partition, err);
    return rc == 0 ? 1 : rc;
}

static void forget_strings(struct job_status *s)
{
    s->worker = s->result = (struct str){NULL, 0};
    s->error = (struct job_error){.class_ = s->error.class_};
}

void row_keep(struct store *store, const struct row *row)
{
    struct row *kept = row_cache_put(&store->kept, row->seq);
    if (!kept)
        return;
    *kept = *row;
    forget_strings(&kept->s);
}

void row_keep_job(struct store *store, struct partition *partition, const struct job *job)
{
    struct row *kept = row_cache_put(&store->kept, job->status.seq);
    if (!kept)
        return;
    kept->seq = job->status.seq;
    kept->partition = partition;
    kept->priority = job->spec.priority;
    kept->was = job->status.state;
    kept->has_key = job->spec.unique_key.ptr != NULL;
    kept->error_at = 0;
    kept->s = job->status;
    forget_strings(&kept->s);
}

int time_lock(struct store *store, const struct partition *partition, int64_t process_after_ms,
              int64_t seq, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TIME_LOCK, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, partition->id);
    bind_int(st, 2, process_after_ms);
    bind_int(st, 3, seq);
    return sql_run(store, st, err);
}

/* Puts it on the list of its state, the one of the time-locked or that of the parked. */
static int enter_state(struct store *store, const struct row *row, struct redrive_err *err)
{
    const struct job_status *s = &row->s;
    if (s->state < REDRIVE_STATE_QUEUED)
        return time_lock(store, row->partition, s->process_after_ms, row->seq, err);
    if (s->state != REDRIVE_STATE_PARKED)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARKED_ADD, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, row->seq);
    bind_int(st, 2, s->parked_by_limit);
    return sql_run(store, st, err);
}

/* What stands beside the row and depends on its state. */
static int follow(struct store *store, const struct row *row, enum key_move key,
                  struct redrive_err *err)
{
    const enum redrive_state from = row->was, to = row->s.state;
    int rc = 0;
    if (from == to)
        return 0;
    partitions_count(&store->partitions, row->partition, (int)from, (int)to);
    if (row->has_key && key == KEY_IS_FREED)
        rc = sql_run_for(store, STATEMENT_KEY_FREE, row->seq, err);
    if (rc == 0 && from == REDRIVE_STATE_PARKED)
        rc = sql_run_for(store, STATEMENT_PARKED_REMOVE, row->seq, err);
    return rc == 0 ? enter_state(store, row, err) : rc;
}

int row_write(struct store *store, struct row *row, const struct transition *t,
              struct redrive_err *err)
{
    /* Before its time is overwritten. */
    int rc = row->was < REDRIVE_STATE_QUEUED && row->was != row->s.state
                 ? sql_run_for(store, STATEMENT_TIME_UNLOCK, row->seq, err)
                 : 0;
    if (rc != 0)
        return rc;
    sqlite3_stmt *st = sql_use(store, STATEMENT_ROW_WRITE, err);
    if (!st)
        return store->last_error;
    const struct job_status *s = &row->s;
    unsigned char packed[PACKED_STATUS_MAX];
    const int64_t values[] = {
        row->seq,
        (int64_t)s->state,
        rank_of(row),
        row->partition->id,
        s->process_after_ms,
        s->attempts,
        s->epoch,
        (int64_t)s->reason,
        s->updated_ms,
        s->started_ms,
        s->paused_ms,
        (int64_t)s->error.class_,
        row->error_at,
        (int64_t)s->fingerprint,
    };
    _Static_assert(sizeof values == sizeof store->row_bound, "one for each");
    for (size_t i = 0; i < ROW_NUMBERS; i++) {
        /* What is bound stays bound, and most numbers are those of the row before. */
        if (store->row_is_bound && store->row_bound[i] == values[i])
            continue;
        bind_int(st, (int)i + 1, values[i]);
        if (values[i] == 0 && i + 1 == ROW_ERROR_AT)
            sqlite3_bind_null(st, ROW_ERROR_AT);
    }
    memcpy(store->row_bound, values, sizeof values);
    store->row_is_bound = true;
    const size_t packed_status_len = packed_status_pack(s, packed);
    sqlite3_bind_blob(st, ROW_NUMBERS + 1, packed_status_len ? packed : NULL,
                      (int)packed_status_len, SQLITE_STATIC);
    bind_str(st, ROW_NUMBERS + 2, s->worker);
    rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    rc = follow(store, row, t->key, err);
    if (rc != 0)
        return rc;
    row->was = s->state;
    /* Whoever has ended is seldom asked for again. */
    if (state_has_ended(s->state))
        row_cache_drop(&store->kept, row->seq);
    else
        row_keep(store, row);
    return 0;
}

/* The keys and the deadline are the spec's. */
int row_import(struct store *store, const struct row *row, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_IMPORT, err);
    if (!st)
        return store->last_error;
    const struct job_status *s = &row->s;
    unsigned char packed[PACKED_STATUS_MAX];
    bind_int(st, 1, row->seq);
    bind_int(st, 2, (int64_t)s->state);
    bind_int(st, 3, rank_of(row));
    bind_int(st, 4, row->partition->id);
    bind_int(st, 5, s->process_after_ms);
    bind_int(st, 6, s->attempts);
    bind_int(st, 7, s->epoch);
    bind_int(st, 8, (int64_t)s->reason);
    bind_int(st, 9, s->updated_ms);
    bind_int(st, 10, s->started_ms);
    bind_int(st, 11, s->paused_ms);
    bind_int(st, 12, (int64_t)s->error.class_);
    if (row->error_at)
        bind_int(st, 13, row->error_at);
    else
        sqlite3_bind_null(st, 13);
    bind_int(st, 14, (int64_t)s->fingerprint);
    bind_str(st, 15, s->worker);
    const size_t packed_status_len = packed_status_pack(s, packed);
    sqlite3_bind_blob(st, 16, packed_status_len ? packed : NULL, (int)packed_status_len,
                      SQLITE_STATIC);
    partitions_count(&store->partitions, row->partition, -1, (int)s->state);
    int rc = sql_run(store, st, err);
    return rc == 0 ? enter_state(store, row, err) : rc;
}

/* The first steps are for jobs that have a key. */
#define STEPS_OF_KEY 2

int row_remove(struct store *store, struct row *row, struct redrive_err *err)
{
    static const enum statement STEPS[] = {
        STATEMENT_FOREVER_KEEP,  STATEMENT_KEY_REMOVE,  STATEMENT_HISTORY_REMOVE,
        STATEMENT_RESULT_REMOVE, STATEMENT_SPEC_REMOVE, STATEMENT_JOB_REMOVE,
    };
    for (size_t i = row->has_key ? 0 : STEPS_OF_KEY; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        int rc = sql_run_for(store, STEPS[i], row->seq, err);
        if (rc != 0)
            return rc;
    }
    row_cache_drop(&store->kept, row->seq);
    partitions_count(&store->partitions, row->partition, (int)row->was, -1);
    return 0;
}
