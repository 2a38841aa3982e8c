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

struct remote {
    struct list link; /* of `list`: those that wait longest for their row come first */
    struct str tenant;
    struct str name;
    int64_t started_ms;
    int64_t alive_until_ms; /* unless it has jobs */
    int64_t written_ms;     /* 0: never */
    uint32_t running;
    uint32_t most; /* at one time, so far */
    uint64_t runs;
    uint64_t failed;
    bool has_changed;
    bool has_gone;
    char names[];
};

struct remote_workers {
    atomic_size_t n; /* so that events of a server without any cost nothing */
    pthread_mutex_t mutex;
    struct map map; /* tenant, NUL, name → struct remote */
    struct list list;
    struct remote *last; /* the worker of the last event: the next is often about the same */
    struct buf key;
};

struct remote_workers *remote_workers_new(void)
{
    struct remote_workers *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    pthread_mutex_init(&all->mutex, NULL);
    map_init(&all->map, (uint64_t)clock_monotonic_ms() ^ (uintptr_t)all);
    list_init(&all->list);
    buf_init(&all->key, KEY_MAX_BYTES);
    return all;
}

void remote_workers_free(struct remote_workers *all)
{
    if (!all)
        return;
    LIST_FOREACH (&all->list, link)
        free(LIST_ENTRY(link, struct remote, link));
    map_release(&all->map);
    buf_release(&all->key);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}

/* ---- The list; the mutex is held ------------------------------------------------------------- */

static struct remote *find(struct remote_workers *all, struct str tenant, struct str name)
{
    struct remote *last = all->last;
    if (last && str_eq(last->name, name) && str_eq(last->tenant, tenant))
        return last;
    struct remote *found = map_get(&all->map, buf_pair(&all->key, tenant, name));
    if (found)
        all->last = found;
    return found;
}

static struct remote *add(struct remote_workers *all, struct str tenant, struct str name,
                          int64_t now_ms)
{
    struct str key = buf_pair(&all->key, tenant, name);
    if (all->n >= REMOTE_WORKERS_MAX || buf_failed(&all->key))
        return NULL;
    struct remote *one = calloc(1, sizeof *one + tenant.len + name.len);
    if (!one || map_put(&all->map, key, one) < 0) {
        free(one);
        return NULL;
    }
    memcpy(one->names, tenant.ptr, tenant.len);
    memcpy(one->names + tenant.len, name.ptr, name.len);
    one->tenant = (struct str){one->names, tenant.len};
    one->name = (struct str){one->names + tenant.len, name.len};
    one->started_ms = now_ms;
    one->has_changed = true;
    list_insert(&all->list, &one->link);
    all->n++;
    return one;
}

static void drop(struct remote_workers *all, struct remote *one)
{
    if (all->last == one)
        all->last = NULL;
    (void)map_remove(&all->map, buf_pair(&all->key, one->tenant, one->name));
    list_remove(&one->link);
    all->n--;
    free(one);
}

/* ---- Events ---------------------------------------------------------------------------------- */

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

void remote_workers_event(const struct engine_event *event, void *ctx)
{
    struct remote_workers *all = ctx;
    if (!all || event->worker.len == 0 || atomic_load_explicit(&all->n, memory_order_relaxed) == 0)
        return;
    HOLD(&all->mutex);
    struct remote *one = find(all, event->tenant, event->worker);
    if (one)
        count(one, event);
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
        .name = arena_str(arena, one->name),
        .tenant = arena_str(arena, one->tenant),
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
    if (!all || all->n == 0 || !(*ret = arena_array(arena, REMOTE_BATCH_MAX, sizeof **ret)))
        return 0;
    struct list written;
    list_init(&written);
    HOLD(&all->mutex);
    LIST_FOREACH (&all->list, link) {
        struct remote *one = LIST_ENTRY(link, struct remote, link);
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
        list_insert(&all->list, link);
    }
    return arena->failed ? 0 : n;
}

/* ---- Jobs that they hold --------------------------------------------------------------------- */

/* With fewer of them it is not worth the while to look for leases that have ended. */
#define SWEEP_LEAST 1024

struct held {
    struct list link; /* of `list` */
    struct lease lease;
    int64_t lease_ms; /* as it was claimed */
    char names[];
};

struct held_jobs {
    atomic_size_t n; /* so that events of a server without any cost nothing */
    pthread_mutex_t mutex;
    struct map map; /* tenant, NUL, id → struct held */
    struct list list;
    size_t sweep_at;
    struct buf key;
};

struct held_jobs *held_jobs_new(void)
{
    struct held_jobs *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    pthread_mutex_init(&all->mutex, NULL);
    map_init(&all->map, (uint64_t)clock_monotonic_ms() ^ (uintptr_t)all);
    list_init(&all->list);
    buf_init(&all->key, KEY_MAX_BYTES);
    all->sweep_at = SWEEP_LEAST;
    return all;
}

void held_jobs_free(struct held_jobs *all)
{
    if (!all)
        return;
    LIST_FOREACH (&all->list, link)
        free(LIST_ENTRY(link, struct held, link));
    map_release(&all->map);
    buf_release(&all->key);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}

/* ---- The mutex is held ----------------------------------------------------------------------- */

static struct str key_of(struct held_jobs *all, const struct job_name *job)
{
    return buf_pair(&all->key, job->tenant, job->id);
}

static struct held *find_held(struct held_jobs *all, const struct job_name *job, uint64_t token)
{
    struct held *one = map_get(&all->map, key_of(all, job));
    return one && one->lease.token == token ? one : NULL;
}

static void drop_held(struct held_jobs *all, struct held *one)
{
    if (!one)
        return;
    (void)map_remove(&all->map, key_of(all, &one->lease.job));
    list_remove(&one->link);
    all->n--;
    free(one);
}

static void sweep(struct held_jobs *all, int64_t now_ms)
{
    LIST_FOREACH (&all->list, link) {
        struct held *one = LIST_ENTRY(link, struct held, link);
        if (one->lease.until_ms <= now_ms)
            drop_held(all, one);
    }
    all->sweep_at = 2 * all->n > SWEEP_LEAST ? 2 * all->n : SWEEP_LEAST;
}

static void add_held(struct held_jobs *all, const struct lease *lease, int64_t now_ms)
{
    const struct job_name *job = &lease->job;
    drop_held(all, map_get(&all->map, key_of(all, job))); /* an earlier lease of the same job */
    struct str key = key_of(all, job);
    struct held *one = calloc(1, sizeof *one + key.len);
    if (!one || buf_failed(&all->key) || map_put(&all->map, key, one) < 0) {
        free(one);
        return;
    }
    memcpy(one->names, key.ptr, key.len);
    one->lease = *lease;
    one->lease.job.tenant = (struct str){one->names, job->tenant.len};
    one->lease.job.id = (struct str){one->names + job->tenant.len + 1, job->id.len};
    one->lease_ms = lease->until_ms - now_ms;
    list_insert(&all->list, &one->link);
    all->n++;
}

/* ---- Changes --------------------------------------------------------------------------------- */

void held_jobs_add(struct held_jobs *all, const struct lease *lease, int64_t now_ms)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    if (all->n >= all->sweep_at)
        sweep(all, now_ms);
    add_held(all, lease, now_ms);
}

void held_jobs_drop(struct held_jobs *all, const struct job_name *job, uint64_t token)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    drop_held(all, find_held(all, job, token));
}

void held_jobs_extend(struct held_jobs *all, const struct job_name *job, uint64_t token,
                      int64_t lease_ms, int64_t now_ms)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    struct held *one = find_held(all, job, token);
    if (one)
        one->lease.until_ms = now_ms + (lease_ms > 0 ? lease_ms : one->lease_ms);
}

/* Whatever happens to a job that is not about to start is its end for the worker that had it. */
void held_jobs_event(const struct engine_event *event, void *ctx)
{
    struct held_jobs *all = ctx;
    const struct job_name job = {event->tenant, event->id};
    if (!all || event->kind == ENGINE_EVENT_STARTED || event->kind == ENGINE_EVENT_BREAKER ||
        atomic_load_explicit(&all->n, memory_order_relaxed) == 0)
        return;
    HOLD(&all->mutex);
    drop_held(all, map_get(&all->map, key_of(all, &job)));
}

/* ---- Reading --------------------------------------------------------------------------------- */

size_t held_jobs_count(struct held_jobs *all, int64_t now_ms)
{
    if (!all)
        return 0;
    HOLD(&all->mutex);
    sweep(all, now_ms);
    return all->n;
}

size_t held_jobs_ask(struct held_jobs *all, struct arena *arena, struct lease **ret)
{
    size_t n = 0;
    if (!all || !(*ret = arena_array(arena, HELD_ASK_MAX, sizeof **ret)))
        return 0;
    HOLD(&all->mutex);
    const size_t most = all->n < HELD_ASK_MAX ? all->n : HELD_ASK_MAX;
    while (n < most) {
        struct held *one = LIST_ENTRY(all->list.next, struct held, link);
        struct lease *lease = &(*ret)[n++];
        *lease = one->lease;
        lease->job.tenant = arena_str(arena, one->lease.job.tenant);
        lease->job.id = arena_str(arena, one->lease.job.id);
        list_remove(&one->link);
        list_insert(&all->list, &one->link);
    }
    return arena->failed ? 0 : n;
}

void held_jobs_answer(struct held_jobs *all, const struct lease *leases, size_t n)
{
    if (!all)
        return;
    HOLD(&all->mutex);
    for (size_t i = 0; i < n; i++) {
        struct held *one = find_held(all, &leases[i].job, leases[i].token);
        if (one && leases[i].until_ms == 0)
            drop_held(all, one);
        else if (one)
            one->lease.until_ms = leases[i].until_ms;
    }
}
