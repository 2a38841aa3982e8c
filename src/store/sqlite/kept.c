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

/* A slot that is to be filled, or NULL. */
static struct row *take_slot(struct store *store, int64_t seq)
{
    if (!store->kept)
        store->kept = calloc(KEPT_MAX, sizeof *store->kept);
    if (!store->kept)
        return NULL;
    struct kept_row *slot = slot_of(store, seq);
    slot->generation = store->kept_generation;
    return &slot->row;
}

/* Strings are not kept. */
static void forget_strings(struct job_status *s)
{
    s->worker = s->result = (struct str){NULL, 0};
    s->error = (struct job_error){.class_ = s->error.class_};
}

void kept_put(struct store *store, const struct row *row)
{
    struct row *kept = take_slot(store, row->seq);
    if (!kept)
        return;
    *kept = *row;
    forget_strings(&kept->s);
}

void kept_put_job(struct store *store, struct line *line, const struct job *job)
{
    struct row *kept = take_slot(store, job->status.seq);
    if (!kept)
        return;
    kept->seq = job->status.seq;
    kept->line = line;
    kept->priority = job->spec.priority;
    kept->was = job->status.state;
    kept->has_key = job->spec.unique_key.ptr != NULL;
    kept->error_at = 0;
    kept->s = job->status;
    forget_strings(&kept->s);
}

void kept_drop(struct store *store, int64_t seq)
{
    if (store->kept && slot_of(store, seq)->row.seq == seq)
        slot_of(store, seq)->generation = 0;
}
