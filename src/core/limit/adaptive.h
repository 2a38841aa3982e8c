/* adaptive.h - how many calls at one time a service can take, found out by trying.
 *
 * Additive increase, multiplicative decrease. A round is as many successes as the limit lets run at
 * one time. Until a service has turned the first call away the limit doubles with each round; from
 * then on it grows by 1 in ADAPTIVE_ROUNDS. A call that the service turned away as too much, or
 * that timed out, cuts it to ADAPTIVE_CUT of itself. Calls that had begun before the last cut cut
 * nothing: they say about the old limit what is known already. The limit grows only while half of
 * it or more is in use, or it would grow without end at night and be far too high in the morning.
 *
 * It grows slowly because each time that it grows too far costs a call that is turned away: with 20
 * at one time, about one call in 200.
 *
 * Processes share `limit` and `cut_ms`. Each adds what it has seen to its own `grown`, and raises
 * the limit when that is a whole: together they raise it as often as one that sees all, and write
 * once a round or less. It begins at the floor, and stays between floor and ceiling. Plain data;
 * time is an argument.
 */
#ifndef CORE_LIMIT_ADAPTIVE_H
#define CORE_LIMIT_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPTIVE_CUT     0.9
#define ADAPTIVE_ROUNDS  10
#define ADAPTIVE_FLOOR   1
#define ADAPTIVE_CEILING 1000
#define ADAPTIVE_MOST    1000000

/* All zero: the limit is fixed. */
struct adaptive_config {
    uint32_t floor;   /* 1 or more */
    uint32_t ceiling; /* not below the floor, at most ADAPTIVE_MOST */
};

static inline bool adaptive_is_set(const struct adaptive_config *config)
{
    return config->ceiling > 0;
}

bool adaptive_config_is_valid(const struct adaptive_config *config);

struct adaptive {
    uint32_t limit;
    int64_t cut_ms; /* the last; 0: there was none */
    double grown;   /* since the last whole: this process alone */
};

void adaptive_init(struct adaptive *a, const struct adaptive_config *config);

/* How many may run at one time. */
uint32_t adaptive_limit(const struct adaptive *a, const struct adaptive_config *config);

/* A call has succeeded, while so many ran, itself among them. */
void adaptive_succeeded(struct adaptive *a, const struct adaptive_config *config, uint32_t running);

/* A call that began then was too much for the service. */
void adaptive_overloaded(struct adaptive *a, const struct adaptive_config *config,
                         int64_t started_ms, int64_t now_ms);

#endif
