/* figures.c - sums over the jobs of an arm, and their intervals. */
#include "core/experiment/figures.h"

#include <math.h>

#define Z95 1.959963984540054 /* of 95 %, both sides */

void moments_add(struct moments *m, int64_t value)
{
    const int64_t bounded = value < 0 ? 0 : value > MOMENTS_MAX ? MOMENTS_MAX : value;
    const uint64_t square = (uint64_t)bounded * (uint64_t)bounded;
    m->sum += bounded;
    m->squares_high += (int64_t)(square >> 32);
    m->squares_low += (int64_t)(square & UINT32_MAX);
}

int64_t figures_ended(const struct arm_figures *figures)
{
    return figures->completed + figures->dead;
}

const char *measure_name(enum measure_kind kind)
{
    static const char *const NAMES[MEASURE_KINDS] = {"completed", "attempts", "time"};
    return NAMES[kind];
}

/* Wilson's score interval: it stays within 0 and 1, and means something near them. */
static struct estimate share_of(int64_t part, int64_t whole)
{
    if (whole <= 0)
        return (struct estimate){0};
    const double n = (double)whole, p = (double)part / n, z2 = Z95 * Z95;
    const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
    const double half = Z95 / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    return (struct estimate){.is_known = true,
                             .value = p,
                             .low = fmax(0, centre - half),
                             .high = fmin(1, centre + half)};
}

static struct estimate around(double value, double variance)
{
    const double half = Z95 * sqrt(variance);
    return (struct estimate){
        .is_known = true, .value = value, .low = value - half, .high = value + half};
}

/* A mean and its variance: that of the values, divided by how many they are. */
struct mean {
    int64_t n;
    double value;
    double variance;
};

static struct mean mean_of(const struct moments *m, int64_t n)
{
    struct mean mean = {.n = n};
    if (n < FIGURES_LEAST_JOBS)
        return mean;
    const double count = (double)n;
    const double squares = (double)m->squares_high * 0x1.0p32 + (double)m->squares_low;
    mean.value = (double)m->sum / count;
    /* What is left of two large numbers may fall below 0 when all values are alike. */
    const double spread = fmax(0, squares - count * mean.value * mean.value);
    mean.variance = spread / (count - 1) / count;
    return mean;
}

static struct mean mean_by_kind(const struct arm_figures *figures, enum measure_kind kind)
{
    return kind == MEASURE_TIME ? mean_of(&figures->time_ms, figures->completed)
                                : mean_of(&figures->attempts, figures_ended(figures));
}

struct estimate figures_estimate(const struct arm_figures *figures, enum measure_kind kind)
{
    if (kind == MEASURE_COMPLETED)
        return share_of(figures->completed, figures_ended(figures));
    const struct mean mean = mean_by_kind(figures, kind);
    struct estimate estimate = {0};
    if (mean.n < FIGURES_LEAST_JOBS)
        return estimate;
    estimate = around(mean.value, mean.variance);
    estimate.low = fmax(0, estimate.low);
    return estimate;
}

/* Newcombe's interval, made of Wilson's two. */
static struct estimate share_difference(const struct estimate *base, const struct estimate *other)
{
    const double difference = other->value - base->value;
    const double below = hypot(other->value - other->low, base->high - base->value);
    const double above = hypot(other->high - other->value, base->value - base->low);
    return (struct estimate){.is_known = true,
                             .value = difference,
                             .low = difference - below,
                             .high = difference + above};
}

struct estimate figures_difference(const struct arm_figures *base, const struct arm_figures *other,
                                   enum measure_kind kind)
{
    const struct estimate a = figures_estimate(base, kind), b = figures_estimate(other, kind);
    if (!a.is_known || !b.is_known)
        return (struct estimate){0};
    if (kind == MEASURE_COMPLETED)
        return share_difference(&a, &b);
    const struct mean from = mean_by_kind(base, kind), to = mean_by_kind(other, kind);
    return around(to.value - from.value, from.variance + to.variance);
}

bool estimate_is_significant(const struct estimate *difference)
{
    return difference->is_known && (difference->low > 0 || difference->high < 0);
}
