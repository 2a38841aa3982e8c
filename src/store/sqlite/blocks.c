/* blocks.c - in which blocks of numbers a partition has jobs: the table job_blocks.
 *
 * Numbers are given in order and never again, so that a block which lies before the next number
 * gets no new jobs: only such a block is forgotten, and a handle may rely on what it has noted of
 * the newest one, whatever other processes do.
 */
#include "base/err.h"
#include "store/sqlite/private.h"

static int run_for_block(struct store *store, enum statement which,
                         const struct partition *partition, int64_t block, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, partition->id);
    bind_int(st, 2, block);
    return sql_run(store, st, err);
}

int block_note(struct store *store, struct partition *partition, int64_t seq,
               struct redrive_err *err)
{
    const int64_t block = block_of(seq);
    if (partition->noted_end == block_begin(block + 1))
        return 0;
    const int rc = run_for_block(store, STATEMENT_BLOCK_ADD, partition, block, err);
    if (rc == 0)
        partition->noted_end = block_begin(block + 1);
    return rc;
}

int block_left(struct store *store, const struct partition *partition, int64_t seq,
               struct redrive_err *err)
{
    const int64_t block = block_of(seq);
    const int rc = seq_needed(store, err); /* not known after a rollback, or another's commit */
    if (rc != 0 || block >= block_of(store->next_seq))
        return rc;
    return run_for_block(store, STATEMENT_BLOCK_REMOVE, partition, block, err);
}
