/* tenant_rings.h - samples of the last hour, a ring of them for each tenant.
 *
 * For what is noted every few seconds and shown as what it grew by between two notes. A sample is a
 * struct of the caller's that begins with its time, an int64_t in wall-clock ms; all of them are
 * zeroed before they are given out. Every function but init and release needs the mutex.
 */
#ifndef SERVER_DASHBOARD_TENANT_RINGS_H
#define SERVER_DASHBOARD_TENANT_RINGS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/map.h"
#include "base/text/str.h"

#define TENANT_RING_SAMPLES 361 /* points of time, ten seconds apart: an hour */

struct tenant_rings {
    pthread_mutex_t mutex; /* guards what follows */
    struct map tenants;    /* → the tenant's ring */
    size_t tenants_max;    /* others have none */
    size_t sample_size;
    int64_t last_ms; /* when tenants were last noted; 0: never */
};

void tenant_rings_init(struct tenant_rings *rings, size_t sample_size, size_t tenants_max);
/* Zeroed memory may be released. */
void tenant_rings_release(struct tenant_rings *rings);

/* The tenant's sample of this time: a new one, in place of the oldest when there are enough, or the
 * one that this time has already. NULL: there are too many tenants, or no memory. A tenant that was
 * not there at `last_ms` gets an empty sample of that time first, since it has had no jobs until
 * then. The caller sets `last_ms` when all tenants have been noted. */
void *tenant_rings_sample(struct tenant_rings *rings, struct str tenant, int64_t now_ms);

/* Calls with every two samples that follow each other within the last `span_ms` before `last_ms`,
 * the oldest first. */
void tenant_rings_each_span(const struct tenant_rings *rings, struct str tenant, int64_t span_ms,
                            void (*each)(const void *from, const void *to, void *ctx), void *ctx);

#endif
