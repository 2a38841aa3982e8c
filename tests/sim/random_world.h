/* random_world.h - worlds that nobody would think of, from a seed. */
#ifndef TESTS_SIM_RANDOM_WORLD_H
#define TESTS_SIM_RANDOM_WORLD_H

#include "sim/sim.h"

#define RANDOM_MAX_OUTAGES 3
#define RANDOM_MAX_FAULTS  8

/* Everything that a struct sim_config borrows; it points into itself and may not be copied. */
struct random_world {
    struct redrive_policy policy;
    struct redrive_class_rule rules[REDRIVE_CLASS_COUNT];
    const char *retry_types[2];
    const char *give_up_types[2];
    struct redrive_breaker_config breaker;
    bool has_breaker;
    struct service_outage outages[RANDOM_MAX_OUTAGES];
    struct service_fault faults[RANDOM_MAX_FAULTS];
    struct service_config service;
    struct sim_hands hands;
    struct sim_config config; /* without an observer */
};

/* Policy and breaker are valid: the core's own checks are asserted. */
void random_world_init(struct random_world *world, uint64_t seed);

#endif
