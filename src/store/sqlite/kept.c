#include <stdlib.h>

#include "store/sqlite/private.h"

/* As many as a unit of the committer moves; a power of two. */
#define KEPT_MAX 4096

struct kept_row {
    uint64_t generation;
    struct row row;
};

void kept_forget(struct store *store)
{
    store->kept_generation++;
}

void kept_release(struct store *store)
{
    free(store->kept);
    store->kept = NULL;
}

static struct kept_row *slot_of(const struct store *store, int64_t seq)
{
    return &store->kept[(uint64_t)seq & (KEPT_MAX - 1)];
}

const struct row *kept_get(const struct store *store, int64_t seq)
{
    if (!store->kept)
        return NULL;
    const struct kept_row *slot = slot_of(store, seq);
    return slot->generation == store->kept_generation && slot->row.seq == seq ? &slot->row : NULL;
}

void kept_put(struct store *store, const struct row *row)
{
    if (!store->kept)
        store->kept = calloc(KEPT_MAX, sizeof *store->kept);
    if (!store->kept)
        return;
    struct kept_row *slot = slot_of(store, row->seq);
    *slot = (struct kept_row){store->kept_generation, *row};
    slot->row.worker = (struct str){NULL, 0};
}

void kept_put_job(struct store *store, struct line *line, const struct job *job)
{
    struct row row = {
        .seq = job->status.seq,
        .line = line,
        .priority = job->spec.priority,
        .was = job->status.state,
        .has_key = job->spec.unique_key.ptr != NULL,
        .s = job->status,
    };
    row.s.worker = row.s.result = (struct str){NULL, 0};
    row.s.error = (struct job_error){.class_ = REDRIVE_CLASS_SUCCESS};
    kept_put(store, &row);
}

void kept_drop(struct store *store, int64_t seq)
{
    if (store->kept && slot_of(store, seq)->row.seq == seq)
        slot_of(store, seq)->generation = 0;
}
