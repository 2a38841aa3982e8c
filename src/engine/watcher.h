/* watcher.h - a thread that hears what other processes do to the store, and passes on what
 * concerns this one.
 *
 * On a store that many processes share most notifications concern one of them, and all hear them.
 * If each asked for the store at once, a hundred idle workers would be a hundred times the load of
 * one for every job. So
 *
 *   - of all processes one is the leader (store_ops.elect), and only that one is told that
 *     something waits for its time, or has been changed. Once a second it is told so in any case:
 *     a process may have died with jobs in hand, and no other has heard of their leases;
 *   - that jobs are ready is told to few of the processes that wait, where the store can do that
 *     (STORE_WAKES_FEW). Elsewhere all hear it, and follow at different moments, the further apart
 *     the more claim, and only if the jobs are still there then. All of them together ask as often
 *     as a few would;
 *   - once a second each process looks, so that a lost notification costs no more than that.
 *
 * Two processes need none of this, and follow at once. Where a store cannot tell which processes
 * there are, all notifications are passed on, and each process is the leader.
 */
#ifndef ENGINE_WATCHER_H
#define ENGINE_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct watcher_options {
    struct store *store; /* owned from watcher_start on, also when that fails */
    /* Called on the watcher's thread: bits of enum store_notification, and whether this process is
     * the leader.
     */
    void (*tell)(void *ctx, uint32_t notification, bool is_leader);
    /* Called on the watcher's thread: whether this process could carry out what time brings. The
     * watcher has a connection of its own: as long as that one works it would stay the leader
     * for all, while the process itself hangs or stops. NULL: always. */
    bool (*can_lead)(void *ctx);
    void *ctx;
};

struct watcher;

int watcher_start(const struct watcher_options *options, struct watcher **ret,
                  struct redrive_err *err);
/* Ends the thread and closes the store. Accepts NULL. */
void watcher_stop(struct watcher *watcher);

/* This process has begun to claim jobs. Any thread. */
void watcher_claims(struct watcher *watcher);
/* This process cannot lead, it seems: another one may, if there is one. Any thread. */
void watcher_give_up_lead(struct watcher *watcher);

/* Whether a process on this store is the leader before it has looked. */
bool watcher_leads_at_first(const struct store *store);

#endif
