/* watcher.c - a thread that hears what other processes do to the store. */
#include "engine/watcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/os/thread.h"
#include "base/time/clock.h"

/* How long it waits before it looks whether it should end, and before it tries again what has
 * failed. */
#define WATCH_MS 50
#define AGAIN_MS 250

/* How often to look, and how long a process stays the leader that no longer looks. */
#define LOOK_MS 1000
#define KEEP_MS 3000

/* When more than AT_ONCE processes claim, they follow at different moments: APART_US each, which is
 * about what a claim without jobs takes, and none waits longer than PAUSE_MAX_US. */
#define AT_ONCE      2
#define APART_US     1000
#define PAUSE_MAX_US 100000

struct watcher {
    struct watcher_options options;
    const struct store_ops *ops;
    pthread_t thread;
    struct rng rng;
    struct store_election election; /* as of the last look */
    int64_t look_at_ms;             /* monotonic; INT64_MAX: never */
    atomic_bool stopping;
    atomic_bool gives_up;
    atomic_bool claims;
};

bool watcher_leads_at_first(const struct store *store)
{
    return !(store_ops(store)->capabilities & STORE_ELECTS);
}

static void tell(struct watcher *w, uint32_t notification)
{
    w->options.tell(w->options.ctx, notification, w->election.is_leader);
}

static int look(struct watcher *w)
{
    const bool is_able = !w->options.can_lead || w->options.can_lead(w->options.ctx);
    const int64_t keep_ms = atomic_exchange(&w->gives_up, false) || !is_able ? 0 : KEEP_MS;
    return w->ops->elect(w->options.store, keep_ms, atomic_load(&w->claims), &w->election, NULL);
}

static void pause_us(int64_t us)
{
    const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

/* All processes have heard it, unless the store wakes few. Each looks, at its own moment, whether
 * jobs are left. */
static uint32_t ready_in_turn(struct watcher *w)
{
    const size_t n = w->election.claimers;
    if (w->ops->capabilities & STORE_WAKES_FEW || n <= AT_ONCE || !atomic_load(&w->claims))
        return STORE_NOTIFY_READY;
    const int64_t within_us = n < PAUSE_MAX_US / APART_US ? (int64_t)n * APART_US : PAUSE_MAX_US;
    pause_us((int64_t)rng_below(&w->rng, (uint64_t)within_us));
    return look(w) < 0 || w->election.has_ready ? STORE_NOTIFY_READY : 0;
}

static void follow(struct watcher *w, uint32_t notification)
{
    if (notification & STORE_NOTIFY_TIME && w->election.is_leader)
        tell(w, STORE_NOTIFY_TIME);
    uint32_t rest = notification & STORE_NOTIFY_READY ? ready_in_turn(w) : 0;
    if (clock_monotonic_ms() >= w->look_at_ms) {
        w->look_at_ms = clock_monotonic_ms() + LOOK_MS;
        if (look(w) < 0) /* then this process may be the only one that still reaches the store */
            rest |= STORE_NOTIFY_TIME | STORE_NOTIFY_READY;
        else
            rest |= (w->election.is_leader ? STORE_NOTIFY_TIME : 0) |
                    (w->election.has_ready ? STORE_NOTIFY_READY : 0);
    }
    tell(w, rest);
}

static void *run(void *arg)
{
    struct watcher *w = arg;
    while (!atomic_load(&w->stopping)) {
        uint32_t notification = 0;
        /* One that fails has none; what was missed comes with the next. */
        int rc = w->ops->wait(w->options.store, WATCH_MS, &notification, NULL);
        if (w->look_at_ms == INT64_MAX)
            tell(w, notification);
        else
            follow(w, notification);
        if (rc < 0 && !atomic_load(&w->stopping))
            pause_us((int64_t)AGAIN_MS * 1000);
    }
    return NULL;
}

int watcher_start(const struct watcher_options *options, struct watcher **ret,
                  struct redrive_err *err)
{
    *ret = NULL;
    struct watcher *w = calloc(1, sizeof *w);
    if (!w) {
        store_close(options->store);
        return err_nomem(err);
    }
    w->options = *options;
    w->ops = store_ops(options->store);
    w->election.is_leader = watcher_leads_at_first(options->store);
    w->look_at_ms = w->election.is_leader ? INT64_MAX : 0;
    rng_seed(&w->rng, rng_system_seed());
    if (!thread_start(&w->thread, run, w)) {
        store_close(options->store);
        free(w);
        return err_set(err, REDRIVE_E_NOMEM, "cannot start the watcher's thread");
    }
    *ret = w;
    return 0;
}

void watcher_stop(struct watcher *w)
{
    if (!w)
        return;
    atomic_store(&w->stopping, true);
    pthread_join(w->thread, NULL);
    store_close(w->options.store);
    free(w);
}

void watcher_claims(struct watcher *w)
{
    if (w)
        atomic_store(&w->claims, true);
}

void watcher_give_up_lead(struct watcher *w)
{
    if (w)
        atomic_store(&w->gives_up, true);
}
