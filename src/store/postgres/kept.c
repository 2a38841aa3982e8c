/* Jobs that this handle has started, as it has committed them: whoever still holds the token finds
 * them so. Only the end of the lease may be another, if it was moved by another handle. */
#include <stdlib.h>

#include "store/postgres/private.h"

/* As many as are likely to run at a time; a power of two. */
#define KEPT_MAX 4096

struct kept_row {
    uint64_t token; /* 0: there is none */
    int64_t line_id;
    struct row row; /* without line and worker */
    size_t worker_len;
    char worker[64];
};

static struct kept_row *slot_of(const struct store *store, int64_t seq)
{
    return &store->kept[(uint64_t)seq & (KEPT_MAX - 1)];
}

static struct kept_row *find(const struct store *store, int64_t seq)
{
    struct kept_row *kept = store->kept ? slot_of(store, seq) : NULL;
    return kept && kept->token != 0 && kept->row.seq == seq ? kept : NULL;
}

static void put(struct store *store, const struct row *row)
{
    const struct str worker = row->s.worker;
    if (!store->kept)
        store->kept = calloc(KEPT_MAX, sizeof *store->kept);
    if (!store->kept)
        return;
    struct kept_row *kept = slot_of(store, row->seq);
    *kept = (struct kept_row){
        .token = row->s.token, .line_id = row->line->id, .row = *row, .worker_len = worker.len};
    kept->row.line = NULL;
    kept->row.s.worker = (struct str){NULL, 0};
    if (worker.len > sizeof kept->worker)
        kept->token = 0;
    else if (worker.len > 0)
        memcpy(kept->worker, worker.ptr, worker.len);
}

static void drop(struct store *store, int64_t seq)
{
    struct kept_row *kept = find(store, seq);
    if (kept)
        kept->token = 0;
}

bool pg_kept_get(struct store *store, int64_t seq, uint64_t token, struct row *ret)
{
    const struct kept_row *kept = find(store, seq);
    struct line *line = kept ? lines_at(&store->lines, kept->line_id) : NULL;
    if (!line || kept->token != token)
        return false;
    const struct str worker = {kept->worker, kept->worker_len};
    *ret = kept->row;
    ret->line = line;
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
            drop(store, row->seq);
    }
}

void pg_kept_forget(struct store *store)
{
    for (size_t i = 0; i < store->rows.n; i++)
        drop(store, store->rows.all[i]->seq);
}

void pg_kept_release(struct store *store)
{
    free(store->kept);
    store->kept = NULL;
}
