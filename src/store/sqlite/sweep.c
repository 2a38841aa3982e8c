/* sweep.c - removes many ended jobs at once.
 *
 * Jobs end in about the order in which they came. Sorted by their numbers, those that have become
 * old together are long runs of numbers without a gap, and each run goes with one statement a
 * table: that costs less than half of removing the same jobs one by one.
 */
#include <stdlib.h>

#include "base/err.h"
#include "store/sqlite/private.h"

struct candidate {
    int64_t seq;
    size_t at;                   /* in the list */
    struct partition *partition; /* of a job that goes */
};

static int by_seq(const void *left, const void *right)
{
    const int64_t a = ((const struct candidate *)left)->seq;
    const int64_t b = ((const struct candidate *)right)->seq;
    return (a > b) - (a < b);
}

/* The end of the run that begins at `first`: each number is the one before and one. */
static size_t run_end(const struct candidate *all, size_t n, size_t first)
{
    size_t end = first + 1;
    while (end < n && all[end].seq == all[end - 1].seq + 1)
        end++;
    return end;
}

/* Makes the move of the job of the current row of STATEMENT_ENDED_RUN, but for its rows. A job
 * whose row is damaged stays: it does not stop the others. */
static int leave(struct store *store, sqlite3_stmt *st, const struct move *move,
                 struct partition **ret_partition, struct move_result *ret, struct redrive_err *err)
{
    const int64_t state = sqlite3_column_int64(st, 1);
    struct row row = {.seq = move->seq,
                      .was = (enum redrive_state)state,
                      .has_key = sqlite3_column_int(st, 4) != 0};
    struct job_status status = {
        .seq = move->seq, .state = row.was, .finished_ms = sqlite3_column_int64(st, 2)};
    struct transition t;
    const unsigned char *packed = sqlite3_column_blob(st, 5);
    if (state < 0 || state >= REDRIVE_STATE_COUNT ||
        (packed && !packed_status_unpack(packed, (size_t)sqlite3_column_bytes(st, 5), &status))) {
        *ret = (struct move_result){.code = REDRIVE_E_CORRUPT};
        return 0;
    }
    row.s = status;
    transition(&status, move, store_time_of(store, store->now_ms), &t);
    *ret = (struct move_result){t.code, row.was, status.children};
    if (t.code != 0)
        return 0;
    int rc = partition_numbered(store, sqlite3_column_int64(st, 3), &row.partition, err);
    *ret_partition = row.partition;
    return rc == 0 ? row_leave(store, &row, err) : rc;
}

/* Looks at the jobs of a run. Those that are there and may go are moved to the front of it; their
 * number is *ret_n. */
static int leave_run(struct store *store, const struct move_list *list, struct candidate *run,
                     size_t n, struct move_result *results, size_t *ret_n, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_ENDED_RUN, err);
    *ret_n = 0;
    if (!st)
        return store->last_error;
    const int64_t first_seq = run[0].seq;
    bind_int(st, 1, first_seq);
    bind_int(st, 2, run[n - 1].seq);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct candidate job = run[sqlite3_column_int64(st, 0) - first_seq];
        const struct move move = move_at(list, job.at);
        rc = leave(store, st, &move, &job.partition, &results[job.at], err);
        if (rc != 0)
            break;
        if (results[job.at].code == 0)
            run[(*ret_n)++] = job;
    }
    sqlite3_reset(st);
    return rc;
}

/* Forgets the blocks in which these were the last jobs of their partitions. Jobs of several
 * partitions take turns in a run: each block of each is looked for once. */
static int leave_blocks(struct store *store, const struct candidate *gone, size_t n,
                        struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        gone[i].partition->left_block = -1;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const int64_t block = block_of(gone[i].seq);
        if (gone[i].partition->left_block == block)
            continue;
        gone[i].partition->left_block = block;
        rc = block_left(store, gone[i].partition, gone[i].seq, err);
    }
    return rc;
}

static int sweep_run(struct store *store, const struct move_list *list, struct candidate *run,
                     size_t n, struct move_result *results, struct redrive_err *err)
{
    size_t n_going = 0;
    int rc = leave_run(store, list, run, n, results, &n_going, err);
    for (size_t first = 0, end; first < n_going && rc == 0; first = end) {
        end = run_end(run, n_going, first);
        rc = rows_remove(store, run[first].seq, run[end - 1].seq, err);
    }
    return rc == 0 ? leave_blocks(store, run, n_going, err) : rc;
}

int rows_sweep(struct store *store, const struct move_list *list, struct move_result *ret,
               struct redrive_err *err)
{
    const size_t n = list->n;
    struct candidate *all = calloc(n + 1, sizeof *all);
    if (!all)
        return err_nomem(err);
    bool is_sorted = true;
    for (size_t i = 0; i < n; i++) {
        all[i] = (struct candidate){.seq = list->changes[i].seq, .at = i};
        ret[i] = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        is_sorted = is_sorted && (i == 0 || all[i - 1].seq < all[i].seq);
    }
    if (!is_sorted)
        qsort(all, n, sizeof *all, by_seq);
    int rc = 0;
    for (size_t first = 0, end; first < n && rc == 0; first = end) {
        end = run_end(all, n, first);
        rc = sweep_run(store, list, &all[first], end - first, ret, err);
    }
    free(all);
    return rc;
}
