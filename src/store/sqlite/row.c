/* row.c - the part of a job that moves, its packed numbers, and the partition that it names. */
#include <endian.h>
#include <string.h>

#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

int64_t sort_key_ready(const struct partition *partition, int32_t priority)
{
    return partition->id << 32 | (int64_t)((uint32_t)INT32_MAX - (uint32_t)priority);
}

static int64_t sort_key_of(const struct row *row)
{
    const struct job_status *s = &row->s;
    switch (s->state) {
    case REDRIVE_STATE_SCHEDULED:
    case REDRIVE_STATE_RETRYING: return s->process_after_ms;
    case REDRIVE_STATE_QUEUED: return sort_key_ready(row->partition, row->priority);
    case REDRIVE_STATE_RUNNING: return s->lease_until_ms;
    case REDRIVE_STATE_PARKED:
    case REDRIVE_STATE_WAITING: return 0;
    default: return s->finished_ms;
    }
}

bool status_set(struct job_status *s, int64_t sort_key, sqlite3_stmt *st, int packed_status_column)
{
    const unsigned char *packed = sqlite3_column_blob(st, packed_status_column);
    if ((unsigned)s->state >= REDRIVE_STATE_COUNT || (unsigned)s->reason >= REDRIVE_REASON_COUNT ||
        (unsigned)s->error.class_ >= REDRIVE_CLASS_COUNT)
        return false;
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

/* Adds it to the table of its state, if that has one: time_locked or parked. */
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

/* Writes what is kept beside the row and depends on its state. */
static int write_sides(struct store *store, const struct row *row, enum key_move key,
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

/* In the order of STATEMENT_ROW_WRITE and STATEMENT_JOB_IMPORT. */
static inline void list_numbers(const struct row *row, int64_t ret[ROW_NUMBERS])
{
    const struct job_status *s = &row->s;
    const int64_t numbers[ROW_NUMBERS] = {
        row->seq,
        (int64_t)s->state,
        sort_key_of(row),
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
    memcpy(ret, numbers, sizeof numbers);
}

static inline void bind_number(sqlite3_stmt *st, int i, int64_t number)
{
    if (number == 0 && i == ROW_ERROR_AT)
        sqlite3_bind_null(st, i);
    else
        bind_int(st, i, number);
}

int row_write(struct store *store, struct row *row, const struct transition *t,
              struct redrive_err *err)
{
    /* Before process_after_ms is overwritten, by which it is found. */
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
    int64_t values[ROW_NUMBERS];
    list_numbers(row, values);
    for (size_t i = 0; i < ROW_NUMBERS; i++) {
        /* Bindings stay, and most numbers are those of the row that was written before. */
        if (store->row_is_bound && store->row_bound[i] == values[i])
            continue;
        bind_number(st, (int)i + 1, values[i]);
    }
    memcpy(store->row_bound, values, sizeof values);
    store->row_is_bound = true;
    const size_t packed_len = packed_status_pack(s, packed);
    sqlite3_bind_blob(st, ROW_NUMBERS + 1, packed_len ? packed : NULL, (int)packed_len,
                      SQLITE_STATIC);
    bind_str(st, ROW_NUMBERS + 2, s->worker);
    rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    rc = write_sides(store, row, t->key, err);
    if (rc != 0)
        return rc;
    row->was = s->state;
    /* A job that has ended is seldom read again. */
    if (state_has_ended(s->state))
        row_cache_drop(&store->kept, row->seq);
    else
        row_keep(store, row);
    return 0;
}

int row_import(struct store *store, const struct row *row, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_IMPORT, err);
    if (!st)
        return store->last_error;
    const struct job_status *s = &row->s;
    unsigned char packed[PACKED_STATUS_MAX];
    int64_t numbers[ROW_NUMBERS];
    list_numbers(row, numbers);
    for (int i = 0; i < ROW_NUMBERS; i++)
        bind_number(st, i + 1, numbers[i]);
    const size_t packed_len = packed_status_pack(s, packed);
    sqlite3_bind_blob(st, ROW_NUMBERS + 1, packed_len ? packed : NULL, (int)packed_len,
                      SQLITE_STATIC);
    bind_str(st, ROW_NUMBERS + 2, s->worker);
    partitions_count(&store->partitions, row->partition, -1, (int)s->state);
    int rc = sql_run(store, st, err);
    return rc == 0 ? enter_state(store, row, err) : rc;
}

int row_leave(struct store *store, const struct row *row, struct redrive_err *err)
{
    int rc = 0;
    if (row->has_key)
        rc = sql_run_for(store, STATEMENT_FOREVER_KEEP, row->seq, err);
    if (row->has_key && rc == 0)
        rc = sql_run_for(store, STATEMENT_KEY_REMOVE, row->seq, err);
    if (rc != 0)
        return rc;
    row_cache_drop(&store->kept, row->seq);
    partitions_count(&store->partitions, row->partition, (int)row->was, -1);
    return row->s.parents > 0 ? sql_run_for(store, STATEMENT_EDGES_REMOVE, row->seq, err) : 0;
}

/* Before jobs up to this number go: it is never given again. */
static int raise_seq_floor(struct store *store, int64_t last_seq, struct redrive_err *err)
{
    if (last_seq < store->seq_floor)
        return 0;
    int rc = seq_needed(store, err);
    if (rc != 0)
        return rc;
    store->seq_floor = store->next_seq;
    store->meta_moved = true;
    return 0;
}

/* Whether any job has a deadline, as few stores do: it is looked for once a transaction, so that
 * jobs without one cost nothing. */
static int look_for_deadlines(struct store *store, struct redrive_err *err)
{
    if (store->deadlines != DEADLINES_UNKNOWN)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_DEADLINES_ANY, err);
    if (!st)
        return store->last_error;
    int rc = sql_step(store, st, err);
    sqlite3_reset(st);
    if (rc >= 0)
        store->deadlines = rc > 0 ? DEADLINES_SOME : DEADLINES_NONE;
    return rc < 0 ? rc : 0;
}

int rows_remove(struct store *store, int64_t first_seq, int64_t last_seq, struct redrive_err *err)
{
    static const enum statement STEPS[] = {
        STATEMENT_DEADLINES_REMOVE, /* reads the specs */
        STATEMENT_ATTEMPTS_REMOVE,  STATEMENT_RESULTS_REMOVE,
        STATEMENT_SPECS_REMOVE,     STATEMENT_JOBS_REMOVE,
    };
    int rc = raise_seq_floor(store, last_seq, err);
    if (rc == 0)
        rc = look_for_deadlines(store, err);
    for (size_t i = store->deadlines == DEADLINES_NONE;
         i < sizeof STEPS / sizeof STEPS[0] && rc == 0; i++) {
        sqlite3_stmt *st = sql_use(store, STEPS[i], err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, first_seq);
        bind_int(st, 2, last_seq);
        rc = sql_run(store, st, err);
    }
    return rc;
}

/* ---- The column packed_status ---------------------------------------------------------------- */

#define TOKEN_BYTES sizeof(uint64_t)

size_t packed_status_pack(const struct job_status *s, unsigned char ret[PACKED_STATUS_MAX])
{
    const uint64_t numbers[PACKED_NUMBERS] = {
        s->permit.generation,
        (uint64_t)s->first_started_ms,
        s->permit.probe,
        s->deferrals,
        s->crashes,
        s->parked_by_limit,
        (uint64_t)s->paused_since_ms,
        s->open_parents,
        s->parents,
        s->children,
    };
    size_t n = PACKED_NUMBERS, len = 0;
    while (n > 0 && numbers[n - 1] == 0)
        n--;
    if (n == 0 && s->token == 0)
        return 0;
    const uint64_t token = htole64(s->token);
    memcpy(ret, &token, TOKEN_BYTES);
    len = TOKEN_BYTES;
    for (size_t i = 0; i < n; i++) {
        uint64_t left = numbers[i];
        for (; left > 0x7f; left >>= 7)
            ret[len++] = (unsigned char)(left | 0x80);
        ret[len++] = (unsigned char)left;
    }
    return len;
}

/* The numbers after the token. */
static bool unpack(const unsigned char *bytes, size_t len, uint64_t ret[PACKED_NUMBERS])
{
    size_t n = 0;
    unsigned shift = 0;
    for (size_t i = 0; i < len; i++) {
        if (n == PACKED_NUMBERS || shift > 63)
            return false;
        ret[n] |= (uint64_t)(bytes[i] & 0x7f) << shift;
        shift += 7;
        if (bytes[i] & 0x80)
            continue;
        n++;
        shift = 0;
    }
    return shift == 0;
}

bool packed_status_unpack(const unsigned char *bytes, size_t len, struct job_status *ret)
{
    uint64_t numbers[PACKED_NUMBERS] = {0}, token;
    if (len == 0)
        return true;
    if (len < TOKEN_BYTES || !unpack(bytes + TOKEN_BYTES, len - TOKEN_BYTES, numbers) ||
        numbers[3] > UINT32_MAX || numbers[4] > UINT32_MAX || numbers[5] > 1 ||
        numbers[7] > UINT32_MAX || numbers[8] > UINT32_MAX || numbers[9] > UINT32_MAX)
        return false;
    memcpy(&token, bytes, TOKEN_BYTES);
    ret->token = le64toh(token);
    ret->permit = (struct breaker_permit){.generation = numbers[0], .probe = numbers[2]};
    ret->first_started_ms = (int64_t)numbers[1];
    ret->deferrals = (uint32_t)numbers[3];
    ret->crashes = (uint32_t)numbers[4];
    ret->parked_by_limit = numbers[5] != 0;
    ret->paused_since_ms = (int64_t)numbers[6];
    ret->open_parents = (uint32_t)numbers[7];
    ret->parents = (uint32_t)numbers[8];
    ret->children = (uint32_t)numbers[9];
    return true;
}

/* ---- Partitions ------------------------------------------------------------------------------ */

/* Keeps the partition of the current row of a statement. */
static int keep_partition(struct store *store, sqlite3_stmt *st, struct partition **ret,
                          struct redrive_err *err)
{
    const struct partition read = {
        .id = sqlite3_column_int64(st, 0),
        .tenant_id = sqlite3_column_int64(st, 1),
        .tenant = column_str(st, 2),
        .queue = column_str(st, 3),
        .task = column_str(st, 4),
    };
    if (read.id <= 0 || read.id > PARTITION_ID_MAX)
        return sql_damaged(store, 0, "a partition has an impossible number", err);
    return partitions_keep(&store->partitions, &read, ret) ? 0 : err_nomem(err);
}

static int find_partition(struct store *store, struct str tenant, struct str queue, struct str task,
                          struct partition **ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARTITION_FIND, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    rc = keep_partition(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

static int add_partition(struct store *store, struct str tenant, struct str queue, struct str task,
                         struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    st = sql_use(store, STATEMENT_PARTITION_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    store->partitions.added = true;
    return sql_run(store, st, err);
}

int partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                    bool add, struct partition **ret, struct redrive_err *err)
{
    int rc = partitions_get(&store->partitions, tenant, queue, task, ret, err);
    if (rc != 0 || *ret)
        return rc;
    rc = find_partition(store, tenant, queue, task, ret, err);
    if (rc != 0 || *ret || !add)
        return rc;
    rc = add_partition(store, tenant, queue, task, err);
    return rc != 0 ? rc : find_partition(store, tenant, queue, task, ret, err);
}

int partition_numbered(struct store *store, int64_t id, struct partition **ret,
                       struct redrive_err *err)
{
    *ret = partitions_at(&store->partitions, id);
    if (*ret)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARTITION_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, id);
    int rc = sql_step(store, st, err);
    if (rc == 0)
        return sql_damaged(store, 0, "jobs stand in a partition that is not there", err);
    if (rc < 0)
        return rc;
    rc = keep_partition(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

int partitions_flush(struct store *store, struct redrive_err *err)
{
    for (struct partition *partition = store->partitions.touched; partition;
         partition = partition->next_touched) {
        sqlite3_stmt *st = sql_use(store, STATEMENT_PARTITION_COUNT, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, partition->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            bind_int(st, i + 2, partition->moved[i]);
        int rc = sql_run(store, st, err);
        if (rc != 0)
            return rc;
    }
    partitions_written(&store->partitions);
    return 0;
}
