/* strategies.h - the ways of retrying that `redrive simulate` compares. */
#ifndef SIM_STRATEGIES_H
#define SIM_STRATEGIES_H

#include <stddef.h>

#include "base/str.h"
#include "redrive.h"
#include "sim/sim.h"

struct strategy {
    const char *name;  /* on the command line */
    const char *title; /* in tables and legends */
    struct redrive_backoff backoff;
    enum sim_breaker breaker;
};

/* In the order in which they are compared. */
const struct strategy *strategies(size_t *ret_n);

/* NULL when there is none of that name. */
const struct strategy *strategy_find(struct str name);

/* The strategy's policy: that many attempts, and no time limit that would decide in its stead. */
void strategy_policy(const struct strategy *strategy, uint32_t attempts,
                     struct redrive_policy *ret);

#endif
