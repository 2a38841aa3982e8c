/* quantile.c - the histogram: buckets, fading and quantiles. */
#include "core/quantile.h"

#include <math.h>
#include <string.h>

#include "core/elapsed.h"

#define PER_OCTAVE 10

/* Weights grow until this, then all are scaled down; well inside of what a double can add up. */
#define UNIT_LIMIT 0x1p40

/* What has faded below this share of a value is gone. */
#define DUST 0x1p-40

/* Values are taken in tenths of a ms, so that the first bucket starts at 1. The exponent of a
 * double is the octave and its fraction the place within, without a logarithm. */
static int bucket_of(double ms)
{
    if (!(ms > QUANTILE_MIN_MS))
        return 0;
    if (ms >= QUANTILE_MAX_MS)
        return QUANTILE_BUCKETS - 1;
    double value = ms / QUANTILE_MIN_MS;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int octave = (int)(bits >> 52) - 1023;
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    return octave * PER_OCTAVE + (int)(fraction * PER_OCTAVE >> 52);
}

static double bucket_start(int bucket)
{
    double within = 1.0 + (double)(bucket % PER_OCTAVE) / PER_OCTAVE;
    return QUANTILE_MIN_MS * ldexp(within, bucket / PER_OCTAVE);
}

/* The value whose relative distance to both ends of the bucket is the same: 1/21 at most. */
static double bucket_value(int bucket)
{
    double low = bucket_start(bucket), high = bucket_start(bucket + 1);
    return 2 * low * high / (low + high);
}

void quantile_init(struct quantile *q, int64_t half_life_ms, int64_t now_ms)
{
    *q = (struct quantile){.unit = 1, .half_life_ms = half_life_ms, .updated_ms = now_ms};
}

/* How much a value of the last update has faded, as the factor by which new ones weigh more. */
static double growth(const struct quantile *q, int64_t elapsed_ms)
{
    if (elapsed_ms == 0 || q->half_life_ms == 0)
        return 1;
    return exp2((double)elapsed_ms / (double)q->half_life_ms);
}

/* Brings the weights back to where a new value weighs 1, and drops the remains of old ones. */
static void rescale(struct quantile *q)
{
    double factor = 1 / q->unit;
    q->total = 0;
    for (int i = 0; i < QUANTILE_BUCKETS; i++) {
        double weight = q->weights[i] * factor;
        q->weights[i] = weight < DUST ? 0 : weight;
        q->total += q->weights[i];
    }
    q->unit = 1;
}

static void advance(struct quantile *q, int64_t now_ms)
{
    q->unit *= growth(q, elapsed_take(&q->updated_ms, now_ms));
    if (q->unit > UNIT_LIMIT)
        rescale(q);
}

void quantile_add(struct quantile *q, double ms, int64_t now_ms)
{
    if (isnan(ms))
        return;
    advance(q, now_ms);
    q->weights[bucket_of(ms)] += q->unit;
    q->total += q->unit;
}

void quantile_merge(struct quantile *q, const struct quantile *other, int64_t now_ms)
{
    advance(q, now_ms);
    double other_unit = other->unit * growth(other, elapsed_since(other->updated_ms, now_ms));
    double factor = q->unit / other_unit;
    for (int i = 0; i < QUANTILE_BUCKETS; i++) {
        double weight = other->weights[i] * factor;
        q->weights[i] += weight;
        q->total += weight;
    }
}

double quantile_get(const struct quantile *q, double p)
{
    double wanted = fmin(fmax(p, 0), 1) * q->total;
    double below = 0;
    int last = -1;

    /* Rounding may leave the sum of all a trifle below the total: the last one that counts is the
     * answer then. */
    for (int i = 0; i < QUANTILE_BUCKETS; i++) {
        if (q->weights[i] == 0)
            continue;
        last = i;
        below += q->weights[i];
        if (below >= wanted)
            break;
    }
    return last < 0 ? 0 : bucket_value(last);
}

double quantile_count(const struct quantile *q, int64_t now_ms)
{
    return q->total / (q->unit * growth(q, elapsed_since(q->updated_ms, now_ms)));
}
