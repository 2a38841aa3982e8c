/* quantile.h - quantiles of durations from a histogram of fixed size.
 *
 * Buckets grow with the value, ten to each power of two, so that every answer lies within 5 % of
 * the true value between 0.1 ms and 10 days; what lies outside counts as the nearer end.
 * Histograms of several threads or processes can be merged without further error.
 *
 * With a half-life old values fade: a value counts half as much after each half-life. Fading is
 * done forwards, by giving new values more weight, so that adding touches one bucket only. Time
 * runs as in elapsed.h.
 *
 * Plain data: it may be copied. Some 2.7 KB.
 */
#ifndef CORE_QUANTILE_H
#define CORE_QUANTILE_H

#include <stdint.h>

#define QUANTILE_MIN_MS  0.1
#define QUANTILE_MAX_MS  864000000.0
#define QUANTILE_BUCKETS 331

struct quantile {
    double weights[QUANTILE_BUCKETS];
    double total; /* of the weights */
    double unit;  /* the weight of a value that is added now */
    int64_t half_life_ms;
    int64_t updated_ms;
};

/* An empty one; a half-life of 0 never forgets. */
void quantile_init(struct quantile *q, int64_t half_life_ms, int64_t now_ms);

/* Adds a duration. Not a number is left out. */
void quantile_add(struct quantile *q, double ms, int64_t now_ms);

/* Adds all values of `other`, faded to now by its own half-life. */
void quantile_merge(struct quantile *q, const struct quantile *other, int64_t now_ms);

/* The value below or at which a share `p` (0–1) of all values lies; 0 when there are none. It
 * does not depend on the time: all values fade alike. */
double quantile_get(const struct quantile *q, double p);

/* How many values there are, each counted as far as it has not faded. */
double quantile_count(const struct quantile *q, int64_t now_ms);

#endif
