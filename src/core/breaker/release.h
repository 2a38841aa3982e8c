/* release.h - how fast parked jobs are let go after a breaker has closed.
 *
 * A service that has just come back falls over again if everything that waited runs at once. So
 * the pace starts at release_rate jobs/s, grows by release_growth with each whole second without
 * a counted failure, and is halved by a failure (never below one job a second). Growth is
 * additive on purpose: doubling overshoots by as much as it has gained.
 */
#ifndef CORE_BREAKER_RELEASE_H
#define CORE_BREAKER_RELEASE_H

#include <stdint.h>

#include "redrive.h"

struct release {
    double rate;       /* jobs/s */
    double credit;     /* jobs that may go now; at most one second's worth, or two */
    int64_t credit_ms; /* up to when credit has been given */
    int64_t grown_ms;  /* up to when growth has been given */
};

/* The breaker has closed. */
void release_start(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms);

/* How many of `waiting` may go now; they are taken as gone. */
uint32_t release_take(struct release *r, const struct redrive_breaker_config *config,
                      int64_t now_ms, uint32_t waiting);

/* A counted failure while jobs are being let go. */
void release_failed(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms);

/* When the next one may go. */
int64_t release_next_ms(const struct release *r);

#endif
