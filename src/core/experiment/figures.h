/* figures.h - what is known of the arms of an experiment, and how sure it is.
 *
 * All figures are sums over jobs, so that they can be counters, which processes add to. Intervals
 * are those of 95 %: Wilson's for shares, the normal one for means. Two arms are compared by the
 * interval of their difference: Newcombe's for shares, Welch's for means. A difference is
 * significant if its interval does not contain 0.
 *
 * Pure.
 */
#ifndef CORE_EXPERIMENT_FIGURES_H
#define CORE_EXPERIMENT_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

/* With fewer jobs in an arm the interval of a mean is not to be relied upon: there is none. */
#define FIGURES_LEAST_JOBS 30

/* A sum and the sum of squares. The squares are kept in two parts, above and below 2^32, so that
 * neither leaves 64 bits: with values up to MOMENTS_MAX there is room for 2^31 of them. */
struct moments {
    int64_t sum;
    int64_t squares_high;
    int64_t squares_low;
};
#define MOMENTS_MAX INT64_C(0x7fffffff) /* in ms: 24 days */

/* A larger value counts as MOMENTS_MAX, a negative one as 0. */
void moments_add(struct moments *m, int64_t value);

/* The first lives of jobs: what a redrive leads to does not count. */
struct arm_figures {
    int64_t submitted;
    int64_t completed;
    int64_t dead;            /* dead letters, and jobs that failed without one */
    int64_t cancelled;       /* in no other figure */
    struct moments attempts; /* of those that were completed or have died */
    struct moments time_ms;  /* from the first start to the end, of those that were completed */
};

/* Those that were completed or have died. */
int64_t figures_ended(const struct arm_figures *figures);

/* A value with its interval of 95 %. */
struct estimate {
    bool is_known; /* else there are too few jobs */
    double value;
    double low;
    double high;
};

enum measure_kind {
    MEASURE_COMPLETED, /* share of the jobs that have ended */
    MEASURE_ATTEMPTS,  /* of a job, on average */
    MEASURE_TIME,      /* in ms, of a job that was completed, on average */
    MEASURE_KINDS
};

/* "completed", "attempts", "time". */
const char *measure_name(enum measure_kind kind);

struct estimate figures_estimate(const struct arm_figures *figures, enum measure_kind kind);
/* How much more it is in `other` than in `base`. */
struct estimate figures_difference(const struct arm_figures *base, const struct arm_figures *other,
                                   enum measure_kind kind);
/* Whether the interval of a difference is known and does not contain 0. */
bool estimate_is_significant(const struct estimate *difference);

#endif
