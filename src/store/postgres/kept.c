/* Jobs that this handle has started, as it has committed them: a settlement whose token is still
 * valid finds them so. Only the end of the lease may be another, if it was moved by another handle.
 */
#include "store/postgres/private.h"

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

static void put(struct store *store, const struct row *row)
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
            put(store, row);
        else
            row_cache_drop(&store->kept, row->seq);
    }
}

void pg_kept_forget(struct store *store)
{
    for (size_t i = 0; i < store->rows.n; i++)
        row_cache_drop(&store->kept, store->rows.all[i]->seq);
}
