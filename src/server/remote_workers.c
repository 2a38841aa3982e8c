/* remote_workers.c - a list of workers and their job counts; a map of claimed jobs and when their
 * leases end. */
#include "server/remote_workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/list.h"
#include "base/mem/map.h"
#include "base/text/buf.h"
#include "base/time/clock.h"

/* Two names, the sign between them, and some spare bytes. */
#define KEY_MAX_BYTES 4096

/* ---- Entries by tenant and name: workers, and jobs that they hold ---------------------------- */

/* The first member of a struct remote or a struct held; the bytes of the names follow that. */
struct entry {
    struct list link; /* of `list` */
    struct str tenant;
    struct str name;
};

struct entries {
    atomic_size_t n;  /* so that events of a server without any cost nothing */
    struct map map;   /* tenant, NUL, name → struct entry */
    struct list list; /* struct entry */
};

struct remote_workers {
    pthread_mutex_t mutex;
    struct buf key;
    struct entries workers; /* struct remote; those that wait longest for their row come first */
    struct remote *last;    /* the worker of the last event: the next is often about the same */
    struct entries jobs;    /* struct held */
    size_t sweep_at;        /* so many jobs: looks for leases that have ended */
};

static void entries_init(struct entries *entries)
{
    map_init(&entries->map, (uint64_t)clock_monotonic_ms() ^ (uintptr_t)entries);
    list_init(&entries->list);
}

static void entries_release(struct entries *entries)
{
    LIST_FOREACH (&entries->list, link)
        free(LIST_ENTRY(link, struct entry, link));
    map_release(&entries->map);
}

struct remote_workers *remote_workers_new(void)
{
    struct remote_workers *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    pthread_mutex_init(&all->mutex, NULL);
    buf_init(&all->key, KEY_MAX_BYTES);
    entries_init(&all->workers);
    entries_init(&all->jobs);
    return all;
}

void remote_workers_free(struct remote_workers *all)
{
    if (!all)
        return;
    entries_release(&all->workers);
    entries_release(&all->jobs);
    buf_release(&all->key);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}

/* ---- The mutex is held ----------------------------------------------------------------------- */

/* A new one of this size, all zero but for its names; NULL: there is no memory. */
static void *entry_add(struct remote_workers *all, struct entries *entries, struct str tenant,
                       struct str name, size_t size)
{
    struct str key = buf_pair(&all->key, tenant, name);
    struct entry *one = buf_failed(&all->key) ? NULL : calloc(1, size + key.len);
    if (!one || map_put(&entries->map, key, one) < 0) {
        free(one);
        return NULL;
    }
    char *names = memcpy((char *)one + size, key.ptr, key.len);
    one->tenant = (struct str){names, tenant.len};
    one->name = (struct str){names + tenant.len + 1, name.len};
    list_insert(&entries->list, &one->link);
    entries->n++;
    return one;
}

static void entry_drop(struct remote_workers *all, struct entries *entries, struct entry *one)
{
    (void)map_remove(&entries->map, buf_pair(&all->key, one->tenant, one->name));
    list_remove(&one->link);
    entries->n--;
    free(one);
}

/* ---- The workers ----------------------------------------------------------------------------- */

struct remote {
    struct entry entry;
    int64_t started_ms;
    int64_t alive_until_ms; /* unless it has jobs */
    int64_t written_ms;     /* 0: never */
    uint32_t running;
    uint32_t most; /* at one time, so far */
    uint64_t runs;
    uint64_t failed;
    bool has_changed;
    bool has_gone;
};

static struct remote *find(struct remote_workers *all, struct str tenant, struct str name)
{
    struct remote *last = all->last;
    if (last && str_eq(last->entry.name, name) && str_eq(last->entry.tenant, tenant))
        return last;
    struct remote *found = map_get(&all->workers.map, buf_pair(&all->key, tenant, name));
    if (found)
        all->last = found;
    return found;
}

static struct remote *add(struct remote_workers *all, struct str tenant, struct str name,
                          int64_t now_ms)
{
    struct remote *one = NULL;
    if (all->workers.n < REMOTE_WORKERS_MAX)
        one = entry_add(all, &all->workers, tenant, name, sizeof *one);
    if (one) {
        one->started_ms = now_ms;
        one->has_changed = true;
    }
    return one;
}

static void drop(struct remote_workers *all, struct remote *one)
{
    if (all->last == one)
        all->last = NULL;
    entry_drop(all, &all->workers, &one->entry);
}

void remote_workers_seen(struct remote_workers *all, struct str tenant, struct str name,
                         int64_t now_ms, int64_t waits_until_ms)
{
    if (!all)
        return;
    const int64_t heard_ms = waits_until_ms > now_ms ? waits_until_ms : now_ms;
    HOLD(&all->mutex);
    struct remote *one = find(all, tenant, name);
    if (!one)
        one = add(all, tenant, name, now_ms);
    if (one) {
        one->alive_until_ms = heard_ms + WORKER_GONE_MS;
        one->has_gone = false;
    }
}

void remote_workers_gone(struct remote_workers *all, struct str tenant, struct str name)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    struct remote *one = find(all, tenant, name);
    if (one)
        one->has_gone = true;
}

/* Whether the worker no longer has the job. It may not have had a job that was ended by hand
 * either: then the count is too low until its last job has ended, which does less harm than a
 * worker that has one for ever. */
static bool takes_away(const struct engine_event *event)
{
    return event->ran || event->kind == ENGINE_EVENT_CANCELLED ||
           (event->kind == ENGINE_EVENT_DEAD && event->reason == REDRIVE_REASON_MANUAL);
}

static void count(struct remote *one, const struct engine_event *event)
{
    if (event->kind == ENGINE_EVENT_STARTED) {
        one->running++;
        one->most = one->running > one->most ? one->running : one->most;
    } else if (takes_away(event)) {
        one->running -= one->running > 0;
        one->runs += event->ran;
        one->failed += event->ran && event->kind != ENGINE_EVENT_COMPLETED;
    }
    one->has_changed = true;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Jobs keep a silent worker in the list for a while only: they may have ended in another
 * process. */
static bool is_gone(const struct remote *one, int64_t now_ms)
{
    const int64_t until_ms = one->alive_until_ms + (one->running > 0 ? REMOTE_HOLDS_MS : 0);
    return one->has_gone || until_ms <= now_ms;
}

static bool is_due(const struct remote *one, int64_t now_ms)
{
    const int64_t age_ms = now_ms - one->written_ms;
    return age_ms >= (one->has_changed ? REMOTE_EVERY_MS : REMOTE_REFRESH_MS) || age_ms < 0;
}

static struct remote_worker row_of(const struct remote *one, bool gone, struct arena *arena)
{
    return (struct remote_worker){
        .name = arena_str(arena, one->entry.name),
        .tenant = arena_str(arena, one->entry.tenant),
        .started_ms = one->started_ms,
        .running = one->running,
        .slots = one->most > 0 ? one->most : 1,
        .runs = one->runs,
        .failed = one->failed,
        .gone = gone,
    };
}

size_t remote_workers_collect(struct remote_workers *all, int64_t now_ms, bool leaving,
                              struct arena *arena, struct remote_worker **ret)
{
    size_t n = 0;
    *ret = NULL;
    if (!all || all->workers.n == 0 || !(*ret = arena_array(arena, REMOTE_BATCH_MAX, sizeof **ret)))
        return 0;
    struct list written;
    list_init(&written);
    HOLD(&all->mutex);
    LIST_FOREACH (&all->workers.list, link) {
        struct remote *one = LIST_ENTRY(link, struct remote, entry.link);
        const bool gone = leaving || is_gone(one, now_ms);
        if (n == REMOTE_BATCH_MAX)
            break;
        if (gone && one->written_ms == 0) {
            drop(all, one); /* it has no row yet */
        } else if (gone) {
            (*ret)[n++] = row_of(one, true, arena);
            drop(all, one);
        } else if (is_due(one, now_ms)) {
            (*ret)[n++] = row_of(one, false, arena);
            one->written_ms = now_ms;
            one->has_changed = false;
            list_remove(link);
            list_insert(&written, link);
        }
    }
    LIST_FOREACH (&written, link) {
        list_remove(link);
        list_insert(&all->workers.list, link);
    }
    return arena->failed ? 0 : n;
}

/* ---- Jobs that they hold --------------------------------------------------------------------- */

/* With fewer of them it is not worth the while to look for leases that have ended. */
#define SWEEP_LEAST 1024

struct held {
    struct entry entry; /* its name is the job's id */
    uint64_t token;
    int64_t until_ms;
};

static struct held *find_held(struct remote_workers *all, const struct job_name *job)
{
    return map_get(&all->jobs.map, buf_pair(&all->key, job->tenant, job->id));
}

static struct held *find_lease(struct remote_workers *all, const struct job_name *job,
                               uint64_t token)
{
    struct held *one = find_held(all, job);
    return one && one->token == token ? one : NULL;
}

static void drop_held(struct remote_workers *all, struct held *one)
{
    if (one)
        entry_drop(all, &all->jobs, &one->entry);
}

static void sweep(struct remote_workers *all, int64_t now_ms)
{
    LIST_FOREACH (&all->jobs.list, link) {
        struct held *one = LIST_ENTRY(link, struct held, entry.link);
        if (one->until_ms <= now_ms)
            drop_held(all, one);
    }
    all->sweep_at = 2 * all->jobs.n;
}

static void add_held(struct remote_workers *all, const struct lease *lease)
{
    const struct job_name *job = &lease->job;
    drop_held(all, find_held(all, job)); /* an earlier lease of the same job */
    struct held *one = entry_add(all, &all->jobs, job->tenant, job->id, sizeof *one);
    if (one) {
        one->token = lease->token;
        one->until_ms = lease->until_ms;
    }
}

/* ---- Changes --------------------------------------------------------------------------------- */

void remote_jobs_add(struct remote_workers *all, const struct lease *lease, int64_t now_ms)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    if (all->jobs.n >= SWEEP_LEAST && all->jobs.n >= all->sweep_at)
        sweep(all, now_ms);
    add_held(all, lease);
}

void remote_jobs_drop(struct remote_workers *all, const struct job_name *job, uint64_t token)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    drop_held(all, find_lease(all, job, token));
}

void remote_jobs_extend(struct remote_workers *all, const struct job_name *job, uint64_t token,
                        int64_t lease_ms, int64_t now_ms)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    struct held *one = find_lease(all, job, token);
    if (one)
        one->until_ms = now_ms + lease_ms;
}

/* ---- Reading --------------------------------------------------------------------------------- */

size_t remote_jobs_count(struct remote_workers *all, int64_t now_ms)
{
    if (!all)
        return 0;
    HOLD(&all->mutex);
    sweep(all, now_ms);
    return all->jobs.n;
}

size_t remote_jobs_ask(struct remote_workers *all, struct arena *arena, struct lease **ret)
{
    size_t n = 0;
    if (!all || !(*ret = arena_array(arena, HELD_ASK_MAX, sizeof **ret)))
        return 0;
    HOLD(&all->mutex);
    const size_t most = all->jobs.n < HELD_ASK_MAX ? all->jobs.n : HELD_ASK_MAX;
    while (n < most) {
        struct held *one = LIST_ENTRY(all->jobs.list.next, struct held, entry.link);
        (*ret)[n++] = (struct lease){
            .job = {arena_str(arena, one->entry.tenant), arena_str(arena, one->entry.name)},
            .token = one->token,
            .until_ms = one->until_ms,
        };
        list_remove(&one->entry.link);
        list_insert(&all->jobs.list, &one->entry.link);
    }
    return arena->failed ? 0 : n;
}

void remote_jobs_answer(struct remote_workers *all, const struct lease *leases, size_t n)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    for (size_t i = 0; i < n; i++) {
        struct held *one = find_lease(all, &leases[i].job, leases[i].token);
        if (one && leases[i].until_ms == 0)
            drop_held(all, one);
        else if (one)
            one->until_ms = leases[i].until_ms;
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Whatever happens to a job that is not about to start is its end for the worker that had it. */
static bool ends_hold(const struct engine_event *event)
{
    return event->kind != ENGINE_EVENT_STARTED && event->kind != ENGINE_EVENT_BREAKER;
}

static bool has_some(struct entries *entries)
{
    return atomic_load_explicit(&entries->n, memory_order_relaxed) > 0;
}

void remote_workers_event(const struct engine_event *event, void *ctx)
{
    struct remote_workers *all = ctx;
    const bool counts = all && event->worker.len > 0 && has_some(&all->workers);
    const bool ends = all && ends_hold(event) && has_some(&all->jobs);
    if (!counts && !ends)
        return;
    HOLD(&all->mutex);
    struct remote *one = counts ? find(all, event->tenant, event->worker) : NULL;
    if (one)
        count(one, event);
    if (ends)
        drop_held(all, find_held(all, &(struct job_name){event->tenant, event->id}));
}
