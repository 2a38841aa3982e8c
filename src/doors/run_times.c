#include "doors/run_times.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/rng.h"

#define KEY_MAX_BYTES 4096

#define BOUND(seconds) seconds,
static const double BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND)};

struct run_times {
    int64_t since_ms;
    pthread_mutex_t mutex;
    struct map map; /* tenant, zero byte, task → struct run_time without its name */
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

/* The mutex is held. NULL: there is no room, or no memory. */
static struct run_time *find(struct run_times *times, struct str tenant, struct str task, bool add)
{
    buf_reset(&times->key);
    (void)buf_add_str(&times->key, tenant);
    (void)buf_putc(&times->key, '\0');
    if (buf_add_str(&times->key, task) < 0)
        return NULL;
    struct run_time *found = map_get(&times->map, buf_str(&times->key));
    if (found || !add)
        return found;
    found = calloc(1, sizeof *found);
    if (found && map_put(&times->map, buf_str(&times->key), found) < 0) {
        free(found);
        found = NULL;
    }
    return found;
}

void run_times_event(struct run_times *times, const struct engine_event *event)
{
    size_t i = 0;
    if (!event->ran ||
        (event->kind != ENGINE_EVENT_COMPLETED && event->class_ == REDRIVE_CLASS_SUCCESS))
        return;
    uint64_t ms = event->run_ms > 0 ? (uint64_t)event->run_ms : 0;
    while (i < RUN_TIMES_N_BOUNDS && (double)ms / 1000 > BOUNDS[i])
        i++;
    pthread_mutex_lock(&times->mutex);
    bool has_room = times->map.count < RUN_TIMES_MAX_TASKS;
    struct run_time *time = find(times, event->tenant, event->task, has_room);
    if (!time)
        time = find(times, event->tenant, STR(""), true);
    if (time) {
        time->counts[i]++;
        time->sum_ms += ms;
    }
    pthread_mutex_unlock(&times->mutex);
}

static int by_task(const void *a, const void *b)
{
    const struct str x = ((const struct run_time *)a)->task, y = ((const struct run_time *)b)->task;
    int order = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

size_t run_times_read(struct run_times *times, struct str tenant, struct arena *arena,
                      struct run_time **ret)
{
    size_t n = 0;
    pthread_mutex_lock(&times->mutex);
    struct run_time *rows = arena_array(arena, times->map.count, sizeof *rows);
    MAP_FOREACH (&times->map, slot) {
        const size_t skip = strlen(slot->key) + 1;
        const struct str task = {slot->key + skip, slot->key_len - skip};
        if (!rows || !str_is(tenant, slot->key))
            continue;
        rows[n] = *(const struct run_time *)slot->value;
        rows[n].task = (struct str){arena_dup(arena, task), task.len};
        n++;
    }
    pthread_mutex_unlock(&times->mutex);
    if (arena->failed)
        n = 0;
    if (n > 1)
        qsort(rows, n, sizeof *rows, by_task);
    *ret = rows;
    return n;
}
