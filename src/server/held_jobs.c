/* held_jobs.c - a map of claimed jobs and when their leases end. */
#include "server/held_jobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/list.h"
#include "base/mem/map.h"
#include "base/text/buf.h"
#include "base/time/clock.h"

/* Two names and the sign between them. */
#define KEY_MAX_BYTES 4096

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
    buf_reset(&all->key);
    (void)buf_add_str(&all->key, job->tenant);
    (void)buf_putc(&all->key, '\0');
    (void)buf_add_str(&all->key, job->id);
    return buf_str(&all->key);
}

static struct held *find(struct held_jobs *all, const struct job_name *job, uint64_t token)
{
    struct held *one = map_get(&all->map, key_of(all, job));
    return one && one->lease.token == token ? one : NULL;
}

static void drop(struct held_jobs *all, struct held *one)
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
            drop(all, one);
    }
    all->sweep_at = 2 * all->n > SWEEP_LEAST ? 2 * all->n : SWEEP_LEAST;
}

static void add(struct held_jobs *all, const struct lease *lease, int64_t now_ms)
{
    const struct job_name *job = &lease->job;
    drop(all, map_get(&all->map, key_of(all, job))); /* an earlier lease of the same job */
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
    pthread_mutex_lock(&all->mutex);
    if (all->n >= all->sweep_at)
        sweep(all, now_ms);
    add(all, lease, now_ms);
    pthread_mutex_unlock(&all->mutex);
}

void held_jobs_drop(struct held_jobs *all, const struct job_name *job, uint64_t token)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->mutex);
    drop(all, find(all, job, token));
    pthread_mutex_unlock(&all->mutex);
}

void held_jobs_extend(struct held_jobs *all, const struct job_name *job, uint64_t token,
                      int64_t lease_ms, int64_t now_ms)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->mutex);
    struct held *one = find(all, job, token);
    if (one)
        one->lease.until_ms = now_ms + (lease_ms > 0 ? lease_ms : one->lease_ms);
    pthread_mutex_unlock(&all->mutex);
}

/* Whatever happens to a job that is not about to start is its end for the worker that had it. */
void held_jobs_event(const struct engine_event *event, void *ctx)
{
    struct held_jobs *all = ctx;
    const struct job_name job = {event->tenant, event->id};
    if (!all || event->kind == ENGINE_EVENT_STARTED || event->kind == ENGINE_EVENT_BREAKER ||
        atomic_load_explicit(&all->n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&all->mutex);
    drop(all, map_get(&all->map, key_of(all, &job)));
    pthread_mutex_unlock(&all->mutex);
}

/* ---- Reading --------------------------------------------------------------------------------- */

size_t held_jobs_count(struct held_jobs *all, int64_t now_ms)
{
    if (!all)
        return 0;
    pthread_mutex_lock(&all->mutex);
    sweep(all, now_ms);
    const size_t n = all->n;
    pthread_mutex_unlock(&all->mutex);
    return n;
}

size_t held_jobs_ask(struct held_jobs *all, struct arena *arena, struct lease **ret)
{
    size_t n = 0;
    if (!all || !(*ret = arena_array(arena, HELD_ASK_MAX, sizeof **ret)))
        return 0;
    pthread_mutex_lock(&all->mutex);
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
    pthread_mutex_unlock(&all->mutex);
    return arena->failed ? 0 : n;
}

void held_jobs_answer(struct held_jobs *all, const struct lease *leases, size_t n)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->mutex);
    for (size_t i = 0; i < n; i++) {
        struct held *one = find(all, &leases[i].job, leases[i].token);
        if (one && leases[i].until_ms == 0)
            drop(all, one);
        else if (one)
            one->lease.until_ms = leases[i].until_ms;
    }
    pthread_mutex_unlock(&all->mutex);
}
