/* tenant_rings.c - rings of samples in a map by tenant. */
#include "server/dashboard/tenant_rings.h"

#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"

/* `n` samples, of which the next one goes to `next`. */
struct ring {
    size_t n;
    size_t next;
    _Alignas(max_align_t) char samples[];
};

void tenant_rings_init(struct tenant_rings *rings, size_t sample_size, size_t tenants_max)
{
    *rings = (struct tenant_rings){.sample_size = sample_size, .tenants_max = tenants_max};
    pthread_mutex_init(&rings->mutex, NULL);
    map_init(&rings->tenants, (uint64_t)clock_monotonic_ns());
}

void tenant_rings_release(struct tenant_rings *rings)
{
    if (rings->sample_size == 0)
        return;
    MAP_FOREACH (&rings->tenants, slot)
        free(slot->value);
    map_release(&rings->tenants);
    pthread_mutex_destroy(&rings->mutex);
}

/* Every sample begins with its time. */
static int64_t time_of(const void *sample)
{
    return *(const int64_t *)sample;
}

static void *sample_in(const struct tenant_rings *rings, struct ring *ring, size_t at)
{
    return ring->samples + at % TENANT_RING_SAMPLES * rings->sample_size;
}

static void *sample_at(const struct tenant_rings *rings, struct ring *ring, int64_t now_ms)
{
    void *last = sample_in(rings, ring, ring->next + TENANT_RING_SAMPLES - 1);
    if (ring->n > 0 && time_of(last) == now_ms)
        return last;
    void *sample = sample_in(rings, ring, ring->next);
    memset(sample, 0, rings->sample_size);
    *(int64_t *)sample = now_ms;
    ring->next = (ring->next + 1) % TENANT_RING_SAMPLES;
    ring->n += ring->n < TENANT_RING_SAMPLES;
    return sample;
}

static struct ring *ring_of(struct tenant_rings *rings, struct str tenant)
{
    struct ring *ring = map_get(&rings->tenants, tenant);
    if (ring || rings->tenants.count >= rings->tenants_max)
        return ring;
    ring = calloc(1, sizeof *ring + TENANT_RING_SAMPLES * rings->sample_size);
    if (ring && map_put(&rings->tenants, tenant, ring) < 0) {
        free(ring);
        return NULL;
    }
    if (ring && rings->last_ms != 0)
        (void)sample_at(rings, ring, rings->last_ms);
    return ring;
}

void *tenant_rings_sample(struct tenant_rings *rings, struct str tenant, int64_t now_ms)
{
    struct ring *ring = ring_of(rings, tenant);
    return ring ? sample_at(rings, ring, now_ms) : NULL;
}

void tenant_rings_each_span(const struct tenant_rings *rings, struct str tenant, int64_t span_ms,
                            void (*each)(const void *from, const void *to, void *ctx), void *ctx)
{
    struct ring *ring = map_get(&rings->tenants, tenant);
    for (size_t i = 1; ring && i < ring->n; i++) {
        const size_t at = ring->next + TENANT_RING_SAMPLES - ring->n + i;
        const void *from = sample_in(rings, ring, at + TENANT_RING_SAMPLES - 1);
        const void *to = sample_in(rings, ring, at);
        if (time_of(to) > time_of(from) && time_of(to) > rings->last_ms - span_ms)
            each(from, to, ctx);
    }
}
