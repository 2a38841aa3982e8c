/* service.h - the service that jobs call, and that fails.
 *
 * A call is judged when it begins, by the first of these that applies:
 *   outage      refused at once (or it hangs until it times out); in a brownout only a share of
 * them rate limit  429 with Retry-After, for what is beyond rate_limit calls/s capacity    503, for
 * what is beyond capacity calls/s: a service that has just come back falls over again when
 * everything that waited arrives together. With overload_waits it is not refused: calls are worked
 * on one after the other, so that each takes longer the more there are. A call that has timed out
 * meanwhile is worked on all the same error rate  one of the faults, drawn by weight else success
 * It takes a random time: half of latency_ms for certain, and an exponential tail with the other
 * half as its mean; a share of slow_rate takes slow_ms on top. Whatever takes longer than
 * timeout_ms ends there, as a time-out. Rate limit and capacity are token buckets that hold one
 * second's worth.
 */
#ifndef SIM_SERVICE_H
#define SIM_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "redrive.h"

struct service_outage {
    int64_t start_ms;
    int64_t length_ms;
};

struct service_fault {
    struct redrive_failure failure;
    double weight;
};

/* All zero: it answers at once and never fails. Arrays are borrowed. */
struct service_config {
    const struct service_outage *outages;
    size_t n_outages;
    bool outage_hangs;
    double brownout;   /* the share of calls that an outage fails; 0: all */
    double rate_limit; /* calls/s; 0: none */
    int64_t retry_after_ms;
    double capacity; /* calls/s; 0: unlimited */
    bool overload_waits;
    double error_rate;
    const struct service_fault *faults; /* none: HTTP 503 */
    size_t n_faults;
    int64_t latency_ms; /* mean */
    double slow_rate;
    int64_t slow_ms;
    int64_t timeout_ms;    /* 0: none, and a hanging outage then refuses */
    int64_t sound_from_ms; /* from here on nothing but success; 0: never */
};

struct service_bucket {
    double tokens;
    int64_t filled_ms;
};

struct service {
    struct service_config config;
    struct rng rng;
    struct service_bucket limit;
    struct service_bucket capacity;
    double busy_until_ms; /* with overload_waits */
    double total_weight;
    struct redrive_failure too_many; /* the 429 */
};

struct service_answer {
    int64_t takes_ms;                      /* at least 1 */
    const struct redrive_failure *failure; /* NULL: success; valid as long as the service */
};

void service_init(struct service *service, const struct service_config *config, uint64_t seed);

/* Times of successive calls may not go back. */
struct service_answer service_call(struct service *service, int64_t now_ms);

#endif
