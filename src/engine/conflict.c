#include "engine/conflict.h"

#include <time.h>

#include "base/time/clock.h"

#define MOST_TRIES      50
#define MOST_MS         5000
#define STEP_BACK_MS    32
#define NANOS_IN_MILLIS 1000000

static void step_back(const struct conflict *c)
{
    if (c->tries < 2)
        return;
    const uint64_t most_ms = c->tries < 5 ? UINT64_C(1) << c->tries : STEP_BACK_MS;
    const struct timespec pause = {.tv_nsec = (long)rng_below(c->rng, most_ms * NANOS_IN_MILLIS)};
    nanosleep(&pause, NULL);
}

void conflict_init(struct conflict *c, struct rng *rng)
{
    *c = (struct conflict){.rng = rng, .started_ms = clock_monotonic_ms()};
}

bool conflict_try(struct conflict *c)
{
    if (c->tries == MOST_TRIES || (c->tries > 0 && clock_monotonic_ms() - c->started_ms >= MOST_MS))
        return false;
    step_back(c);
    c->tries++;
    return true;
}
