/* health.h - one number for how well the work goes, from 0 to 1.
 *
 *     health_score = success rate × share of breakers that are not open × latency factor
 *
 * success rate    of about the last minute: each event's weight falls to 1/e in that time. When
 *                 nothing happens, what weight is missing to one whole event counts as success,
 *                 so that an idle system drifts back to 1. Jobs that fail by their own fault, of
 *                 class validation or permanent, say nothing against the system.
 * latency factor  min(1, baseline p90 / recent p90): recent fades over a minute, the baseline
 *                 over an hour. Only successes count: a refused connection is fast, and an hour of
 *                 them must not make normal times look slow. 1 with less than 20 recent ones.
 *
 * It is advice: it trips nothing. Time runs as in elapsed.h.
 * Plain data, some 5.4 KB; the owner locks it.
 */
#ifndef CORE_BREAKER_HEALTH_H
#define CORE_BREAKER_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/quantile.h"
#include "redrive.h"

#define HEALTH_MIN_SAMPLES 20

struct health {
    double events; /* faded up to updated_ms */
    double failures;
    int64_t updated_ms;
    struct quantile recent;
    struct quantile baseline;
};

/* From which score on it is which. */
struct health_thresholds {
    double healthy;
    double degraded;
};
extern const struct health_thresholds HEALTH_THRESHOLDS_DEFAULT; /* 0.8 and 0.5 */

void health_init(struct health *h, int64_t now_ms);

/* One attempt has ended with this class. A failure of the job's own making (bad input) is an event
 * that lowers nothing. Only the latency of a success counts, if it is a number and not negative. */
void health_record(struct health *h, enum redrive_class class_, double latency_ms, int64_t now_ms);

/* Fills in all of `ret`. NULL thresholds are the default ones. */
void health_read(const struct health *h, const struct health_thresholds *thresholds,
                 uint32_t breakers, uint32_t breakers_open, int64_t now_ms,
                 struct redrive_health *ret);

/* ---- Several processes ------------------------------------------------------------------------
 *
 * The health of one process in a form small enough to be stored, and the sum of several such
 * values: as if all their events had been recorded in one place. Latency factors weigh as much as
 * the events behind them.
 */
struct health_share {
    double events; /* faded up to at_ms */
    double failures;
    double latency_factor;
    int64_t at_ms;
};

void health_share(const struct health *h, int64_t now_ms, struct health_share *ret);

/* Adds the values of another process, both faded to now. A zeroed sum is an empty one. */
void health_share_add(struct health_share *sum, const struct health_share *other, int64_t now_ms);

/* As health_read. */
void health_share_read(const struct health_share *share, const struct health_thresholds *thresholds,
                       uint32_t breakers, uint32_t breakers_open, int64_t now_ms,
                       struct redrive_health *ret);

/* Events a second over about the last minute, of one that has counted since then. */
double health_share_rate(const struct health_share *share, int64_t since_ms, int64_t now_ms);

#endif
