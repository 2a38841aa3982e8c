/* backoff.c - the formulas of the strategies and of jitter. */
#include "core/retry/backoff.h"

#include <math.h>

#include "base/rng.h"
#include "base/time/duration.h"
#include "core/retry/policy.h"
#include "redrive.h"

/* x^k by squaring for whole k: unlike pow() it gives the same bits with every C library, which
 * replaying a schedule on another machine depends on. */
static double power(double x, double k)
{
    if (k != floor(k))
        return pow(x, k);
    double result = 1;
    for (uint32_t bits = (uint32_t)k; bits != 0; bits >>= 1, x *= x)
        if (bits & 1)
            result *= x;
    return result;
}

/* Infinity and everything too long become the longest duration. */
static int64_t to_ms(double ms)
{
    if (!(ms > 0))
        return 0;
    return ms < (double)DURATION_MAX_MS ? (int64_t)(ms + 0.5) : DURATION_MAX_MS;
}

static double uniform(uint64_t seed, uint32_t n)
{
    return rng_unit(rng_mix(seed ^ rng_mix(n)));
}

uint64_t backoff_seed(struct str job_id, uint32_t epoch)
{
    return rng_hash(job_id.ptr, job_id.len, epoch);
}

static double listed_ms(const struct redrive_backoff *b, uint32_t n)
{
    const size_t place = n < 1 ? 1 : n < b->n_delays ? n : b->n_delays;
    return (double)b->delays_ms[place - 1];
}

/* Before cap and jitter. */
static double plain_ms(const struct redrive_backoff *b, uint32_t n, uint64_t seed)
{
    double initial = (double)b->initial_delay_ms;
    double before = n > 0 ? (double)n - 1 : 0;

    switch (b->strategy) {
    case REDRIVE_STRATEGY_EXPONENTIAL: return initial * power(b->multiplier, before);
    case REDRIVE_STRATEGY_LINEAR: return initial + b->backoff_factor * 1000 * before;
    case REDRIVE_STRATEGY_POLYNOMIAL: return initial + power(before, b->exponent) * 1000;
    case REDRIVE_STRATEGY_DELAYS: return listed_ms(b, n);
    case REDRIVE_STRATEGY_CUSTOM: return (double)b->custom(n, seed, b->custom_ctx);
    case REDRIVE_STRATEGY_FIXED:
    case REDRIVE_STRATEGY_IMMEDIATE:
    default: return initial;
    }
}

/* Each delay depends on the one before, so the chain is walked from its start: a hundred thousand
 * steps, the most there can be, take about a millisecond. */
static double decorrelated_ms(const struct redrive_backoff *b, uint32_t n, uint64_t seed)
{
    double initial = (double)b->initial_delay_ms;
    double cap = (double)b->max_delay_ms;
    double delay = initial;
    for (uint32_t i = 1; i <= n; i++) {
        delay = initial + uniform(seed, i) * (3 * delay - initial);
        if (delay > cap)
            delay = cap;
    }
    return delay;
}

static enum redrive_jitter_mode mode_of(const struct redrive_backoff *b)
{
    if (b->jitter.mode != REDRIVE_JITTER_AUTO)
        return b->jitter.mode;
    const bool grows =
        b->strategy == REDRIVE_STRATEGY_EXPONENTIAL || b->strategy == REDRIVE_STRATEGY_POLYNOMIAL;
    return grows ? REDRIVE_JITTER_FULL : REDRIVE_JITTER_NONE;
}

/* The delay for a draw of u between 0 and 1; d is capped already. */
static double jittered_ms(const struct redrive_backoff *b, double d, uint32_t n, double u)
{
    const struct redrive_jitter *jitter = &b->jitter;
    switch (mode_of(b)) {
    case REDRIVE_JITTER_FULL: return d * u;
    case REDRIVE_JITTER_EQUAL: return d / 2 + d / 2 * u;
    case REDRIVE_JITTER_ADD: return d + d * (jitter->min + (jitter->max - jitter->min) * u);
    case REDRIVE_JITTER_SPREAD: return d * (1 - jitter->max + 2 * jitter->max * u);
    case REDRIVE_JITTER_STEP: return d + (double)jitter->step_ms * u * n;
    case REDRIVE_JITTER_NONE:
    case REDRIVE_JITTER_DECORRELATED:
    case REDRIVE_JITTER_AUTO:
    case REDRIVE_JITTER_COUNT:
    default: return d;
    }
}

static int64_t clamp_ms(const struct redrive_backoff *b, double ms)
{
    int64_t delay = to_ms(ms);
    if (b->strategy == REDRIVE_STRATEGY_DELAYS && b->jitter.mode != REDRIVE_JITTER_DECORRELATED)
        return delay;
    if (delay > b->max_delay_ms)
        delay = b->max_delay_ms;
    return delay < b->min_delay_ms ? b->min_delay_ms : delay;
}

static double capped_ms(const struct redrive_backoff *b, uint32_t n, uint64_t seed)
{
    double ms = plain_ms(b, n, seed);
    double cap = (double)b->max_delay_ms;
    if (!(ms > 0))
        return 0;
    return ms < cap || b->strategy == REDRIVE_STRATEGY_DELAYS ? ms : cap;
}

int64_t backoff_delay_ms(const struct redrive_backoff *b, uint32_t n, uint64_t seed)
{
    if (b->strategy == REDRIVE_STRATEGY_IMMEDIATE)
        return 0;
    if (b->jitter.mode == REDRIVE_JITTER_DECORRELATED)
        return clamp_ms(b, decorrelated_ms(b, n, seed));
    double d = capped_ms(b, n, seed);
    if (mode_of(b) == REDRIVE_JITTER_NONE)
        return clamp_ms(b, d);
    return clamp_ms(b, jittered_ms(b, d, n, uniform(seed, n)));
}

void backoff_bounds_ms(const struct redrive_backoff *b, uint32_t n, int64_t *ret_min,
                       int64_t *ret_max)
{
    if (b->strategy == REDRIVE_STRATEGY_IMMEDIATE) {
        *ret_min = *ret_max = 0;
    } else if (b->jitter.mode == REDRIVE_JITTER_DECORRELATED) {
        *ret_min = clamp_ms(b, (double)b->initial_delay_ms);
        *ret_max = clamp_ms(b, (double)b->initial_delay_ms * power(3, n));
    } else {
        double d = capped_ms(b, n, 0);
        *ret_min = clamp_ms(b, jittered_ms(b, d, n, 0));
        *ret_max = clamp_ms(b, jittered_ms(b, d, n, 1));
    }
}

/* The extra tenth has a draw of its own: own and asked delays must not move together. */
int64_t backoff_honour_asked_ms(int64_t own_ms, int64_t asked_ms, uint32_t n, uint64_t seed)
{
    if (asked_ms <= 0)
        return own_ms;
    if (asked_ms > BACKOFF_MAX_ASKED_MS)
        asked_ms = BACKOFF_MAX_ASKED_MS;
    double floor_ms = (double)(own_ms > asked_ms ? own_ms : asked_ms);
    return to_ms(floor_ms * (1 + 0.1 * uniform(~seed, n)));
}
