/* removed.c - remembers removed queues, with how many ended jobs each had. */
#include "server/faktory/admin/removed.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem/map.h"
#include "base/os/thread.h"
#include "base/text/buf.h"
#include "store/store.h"

#define NAME_MAX_TEXT 1024

struct removal {
    bool is_counted;
    uint64_t n_ended;
};

struct faktory_removed {
    pthread_mutex_t mutex; /* guards what follows */
    struct map queues;     /* tenant, zero, queue → struct removal */
    struct buf name;
};

struct faktory_removed *faktory_removed_new(uint64_t seed)
{
    struct faktory_removed *removed = calloc(1, sizeof *removed);
    if (!removed)
        return NULL;
    pthread_mutex_init(&removed->mutex, NULL);
    map_init(&removed->queues, seed);
    buf_init(&removed->name, NAME_MAX_TEXT);
    return removed;
}

void faktory_removed_free(struct faktory_removed *removed)
{
    if (!removed)
        return;
    MAP_FOREACH (&removed->queues, slot)
        free(slot->value);
    map_release(&removed->queues);
    buf_release(&removed->name);
    pthread_mutex_destroy(&removed->mutex);
    free(removed);
}

void faktory_removed_note(struct faktory_removed *removed, struct str tenant, struct str queue)
{
    if (!removed)
        return;
    HOLD(&removed->mutex);
    const struct str name = buf_pair(&removed->name, tenant, queue);
    struct removal *removal = map_get(&removed->queues, name);
    if (removal) {
        removal->is_counted = false;
        return;
    }
    if (removed->queues.count >= FAKTORY_REMOVED_MAX || !(removal = calloc(1, sizeof *removal)))
        return;
    if (map_put(&removed->queues, name, removal) < 0)
        free(removal);
}

static bool has_ended(enum redrive_state state)
{
    return state == REDRIVE_STATE_COMPLETED || state == REDRIVE_STATE_FAILED ||
           state == REDRIVE_STATE_DEAD_LETTER || state == REDRIVE_STATE_CANCELLED;
}

/* Ended jobs only become fewer, by retention, unless new ones have come. */
bool faktory_removed_hides(struct faktory_removed *removed, const struct job_count *queue)
{
    uint64_t n_ended = 0, n_live = queue->paused;
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        *(has_ended((enum redrive_state)s) ? &n_ended : &n_live) += queue->by_state[s];
    if (!removed)
        return false;
    HOLD(&removed->mutex);
    const struct str name = buf_pair(&removed->name, queue->tenant, queue->queue);
    struct removal *removal = map_get(&removed->queues, name);
    if (!removal)
        return false;
    if (n_live > 0 || (removal->is_counted && n_ended > removal->n_ended)) {
        free(map_remove(&removed->queues, name));
        return false;
    }
    *removal = (struct removal){.is_counted = true, .n_ended = n_ended};
    return true;
}
