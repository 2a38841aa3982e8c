/* run_times.c - counts events into histograms. */
#include "server/metrics/metrics.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem/map.h"
#include "base/rng.h"
#include "base/text/buf.h"
#include "base/time/clock.h"

#define KEY_MAX_BYTES 4096

#define BOUND(seconds) seconds,
static const double BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND)};

/* A histogram with its names; they lie in `text`. */
struct entry {
    struct run_time time;
    struct str tenant;
    char text[];
};

struct run_times {
    int64_t since_ms;
    pthread_mutex_t mutex;
    struct map map; /* kind, tenant, queue, task with zero bytes between → struct entry */
    struct buf key;
};

struct run_times *run_times_new(void)
{
    struct run_times *times = calloc(1, sizeof *times);
    if (!times)
        return NULL;
    times->since_ms = clock_wall_ms();
    pthread_mutex_init(&times->mutex, NULL);
    map_init(&times->map, rng_system_seed());
    buf_init(&times->key, KEY_MAX_BYTES);
    return times;
}

int64_t run_times_since_ms(const struct run_times *times)
{
    return times->since_ms;
}

void run_times_free(struct run_times *times)
{
    if (!times)
        return;
    MAP_FOREACH (&times->map, slot)
        free(slot->value);
    map_release(&times->map);
    buf_release(&times->key);
    pthread_mutex_destroy(&times->mutex);
    free(times);
}

/* ---- Counting -------------------------------------------------------------------------------- */

static struct str keep(char **at, struct str s)
{
    const struct str kept = {*at, s.len};
    if (s.len > 0)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return kept;
}

static struct entry *entry_new(enum engine_event_kind kind, struct str tenant, struct str queue,
                               struct str task)
{
    struct entry *entry = calloc(1, sizeof *entry + tenant.len + queue.len + task.len);
    if (!entry)
        return NULL;
    char *at = entry->text;
    entry->tenant = keep(&at, tenant);
    entry->time = (struct run_time){
        .kind = kind,
        .queue = keep(&at, queue),
        .task = keep(&at, task),
    };
    return entry;
}

/* The mutex is held. NULL: there are too many, or no memory. */
static struct entry *find(struct run_times *times, enum engine_event_kind kind, struct str tenant,
                          struct str queue, struct str task, bool may_add)
{
    const struct str parts[] = {tenant, queue, task};
    buf_reset(&times->key);
    (void)buf_putc(&times->key, (char)('a' + (int)kind));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        (void)buf_putc(&times->key, '\0');
        (void)buf_add_str(&times->key, parts[i]);
    }
    if (buf_failed(&times->key))
        return NULL;
    struct entry *found = map_get(&times->map, buf_str(&times->key));
    if (found || !may_add)
        return found;
    found = entry_new(kind, tenant, queue, task);
    if (found && map_put(&times->map, buf_str(&times->key), found) < 0) {
        free(found);
        found = NULL;
    }
    return found;
}

static void count(struct run_times *times, const struct engine_event *event, int64_t took_ms)
{
    size_t i = 0;
    const uint64_t ms = took_ms > 0 ? (uint64_t)took_ms : 0;
    while (i < RUN_TIMES_N_BOUNDS && (double)ms / 1000 > BOUNDS[i])
        i++;
    HOLD(&times->mutex);
    const bool has_room = times->map.count < RUN_TIMES_MAX;
    struct entry *entry =
        find(times, event->kind, event->tenant, event->queue, event->task, has_room);
    if (!entry)
        entry = find(times, event->kind, event->tenant, STR(""), STR(""), true);
    if (entry) {
        entry->time.counts[i]++;
        entry->time.sum_ms += ms;
    }
}

void run_times_event(struct run_times *times, const struct engine_event *event)
{
    if (event->kind == ENGINE_EVENT_STARTED)
        count(times, event, event->wait_ms);
    else if (event->ran &&
             (event->kind == ENGINE_EVENT_COMPLETED || event->class_ != REDRIVE_CLASS_SUCCESS))
        count(times, event, event->run_ms);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int by_names(const void *left, const void *right)
{
    const struct run_time *a = left, *b = right;
    int order = str_compare(a->queue, b->queue);
    if (order == 0)
        order = str_compare(a->task, b->task);
    return order != 0 ? order : (int)a->kind - (int)b->kind;
}

/* Rows of the same names, which lie side by side, become one. Returns how many are left. */
static size_t add_up(struct run_time *rows, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || by_names(&rows[kept - 1], &rows[i]) != 0) {
            rows[kept++] = rows[i];
            continue;
        }
        for (size_t j = 0; j <= RUN_TIMES_N_BOUNDS; j++)
            rows[kept - 1].counts[j] += rows[i].counts[j];
        rows[kept - 1].sum_ms += rows[i].sum_ms;
    }
    return kept;
}

size_t run_times_read(struct run_times *times, struct str tenant, struct arena *arena,
                      struct run_time **ret)
{
    size_t n = 0;
    pthread_mutex_lock(&times->mutex);
    struct run_time *rows = arena_array(arena, times->map.count, sizeof *rows);
    MAP_FOREACH (&times->map, slot) {
        const struct entry *entry = slot->value;
        if (!rows || (tenant.ptr && !str_eq(tenant, entry->tenant)))
            continue;
        rows[n] = entry->time;
        rows[n].queue = arena_str(arena, entry->time.queue);
        rows[n].task = arena_str(arena, entry->time.task);
        n++;
    }
    pthread_mutex_unlock(&times->mutex);
    *ret = rows;
    if (arena->failed || n == 0)
        return 0;
    qsort(rows, n, sizeof *rows, by_names);
    return add_up(rows, n);
}

void run_times_each(struct run_times *times,
                    void (*each)(struct str tenant, const struct run_time *time, void *ctx),
                    void *ctx)
{
    HOLD(&times->mutex);
    MAP_FOREACH (&times->map, slot) {
        const struct entry *entry = slot->value;
        each(entry->tenant, &entry->time, ctx);
    }
}
