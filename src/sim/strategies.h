/* strategies.h - the ways of retrying that `redrive simulate` compares. */
#ifndef SIM_STRATEGIES_H
#define SIM_STRATEGIES_H

#include <stddef.h>

#include "base/text/str.h"
#include "redrive.h"
#include "sim/sim.h"

/* What a task is configured with. Borrowed, and has passed its checks. */
struct strategy_config {
    const struct redrive_policy *policy;
    const struct redrive_breaker_config *breaker;
    const struct classifier *classifier; /* may be NULL */
    struct classify_context names;
};

struct strategy {
    const char *name;  /* on the command line */
    const char *title; /* in tables and legends */
    struct redrive_backoff backoff;
    enum sim_breaker breaker;
    const struct strategy_config *configured; /* if set, it replaces `backoff` and attempts */
};

#define STRATEGY_CONFIGURED "configured"

/* In the order in which they are compared. */
const struct strategy *strategies(size_t *ret_n);

/* NULL when there is none of that name. */
const struct strategy *strategy_find(struct str name);

/* The user's own configuration as a strategy, which is not in the table. */
struct strategy strategy_of_config(const struct strategy_config *configured);

/* The strategy's policy: that many attempts, and no time limit that would end a job earlier; or the
 * configured one as it is. */
void strategy_policy(const struct strategy *strategy, uint32_t attempts,
                     struct redrive_policy *ret);

/* How often a job is run at most. */
uint32_t strategy_attempts(const struct strategy *strategy, uint32_t attempts);

#endif
