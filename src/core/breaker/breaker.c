/* breaker.c - the state machine of the breaker: permits, results, probes and leases. */
#include "core/breaker/breaker.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/time/duration.h"
#include "core/check.h"

void redrive_breaker_config_init(struct redrive_breaker_config *config)
{
    *config = (struct redrive_breaker_config){
        .failure_threshold = 5,
        .failure_rate = 0.5,
        .min_calls = 20,
        .window_ms = 10 * 1000,
        .slow_rate = 0.5,
        .recovery_timeout_ms = 30 * 1000,
        .recovery_multiplier = 1,
        .recovery_max_ms = 5 * 60 * 1000,
        .recovery_jitter = 0.1,
        .half_open_max = 1,
        .success_threshold = 1,
        .probe_lease_ms = 30 * 1000,
        .on_open = REDRIVE_ON_OPEN_PARK,
        .release_rate = 10,
        .release_growth = 10,
    };
}

int redrive_breaker_config_check(const struct redrive_breaker_config *c, struct redrive_err *err)
{
    const double longest = (double)DURATION_MAX_MS;
    if ((unsigned)c->on_open >= REDRIVE_ON_OPEN_COUNT)
        return err_set(err, REDRIVE_E_INVALID, "on_open is unknown");
    return RANGES_CHECK(
        "", err, {"failure_threshold", c->failure_threshold, 0, 1e9},
        {"failure_rate", c->failure_rate, 0, 1}, {"min_calls", c->min_calls, 1, 1e9},
        {"window (ms)", (double)c->window_ms, BREAKER_BUCKETS, longest},
        {"window_calls", c->window_calls, 0, REDRIVE_MAX_WINDOW_CALLS},
        {"slow_call (ms)", (double)c->slow_call_ms, 0, longest}, {"slow_rate", c->slow_rate, 0, 1},
        {"recovery_timeout (ms)", (double)c->recovery_timeout_ms, 1, longest},
        {"recovery_multiplier", c->recovery_multiplier, 1, 1000},
        {"recovery_max (ms)", (double)c->recovery_max_ms, 1, longest},
        {"recovery_jitter", c->recovery_jitter, 0, 1},
        {"half_open_max", c->half_open_max, 1, REDRIVE_MAX_PROBES},
        {"success_threshold", c->success_threshold, 1, 1e9},
        {"half_open_rate", c->half_open_rate, 0, 1},
        {"probe_lease (ms)", (double)c->probe_lease_ms, 1, longest},
        {"release_rate", c->release_rate, 1, 1e9}, {"release_growth", c->release_growth, 0, 1e9});
}

void breaker_init(struct breaker *b, uint64_t seed)
{
    memset(b, 0, sizeof *b);
    b->state = REDRIVE_BREAKER_CLOSED;
    b->generation = 1;
    b->seed = seed;
}

/* Every change of state passes through here. What opened the breaker (the row of failures, the
 * window) stays to be read until it closes. */
static void enter(struct breaker *b, enum redrive_breaker_state state)
{
    b->state = state;
    b->generation++;
    b->probe_successes = b->probe_failures = b->probe_slow = 0;
    memset(b->probes, 0, sizeof b->probes);
}

static int64_t recovery_ms(const struct breaker *b, const struct redrive_breaker_config *config)
{
    double ms = (double)config->recovery_timeout_ms;
    double most = (double)config->recovery_max_ms;
    for (uint32_t i = 0; i < b->reopened && ms < most; i++) {
        if (config->recovery_multiplier <= 1)
            break;
        ms *= config->recovery_multiplier;
        if (ms > most)
            ms = most;
    }
    double u = rng_unit(rng_mix(b->seed ^ rng_mix(b->generation)));
    return (int64_t)(ms * (1 + config->recovery_jitter * (2 * u - 1)) + 0.5);
}

static void open_at(struct breaker *b, const struct redrive_breaker_config *config, int64_t at_ms)
{
    enter(b, REDRIVE_BREAKER_OPEN);
    b->opened_at_ms = at_ms;
    b->retry_at_ms = at_ms + recovery_ms(b, config);
}

static void open_again(struct breaker *b, const struct redrive_breaker_config *config,
                       int64_t at_ms)
{
    b->reopened++;
    open_at(b, config, at_ms);
}

/* The probe whose lease was the first to lapse by now, or NULL. */
static struct breaker_probe *lapsed_probe(struct breaker *b, int64_t now_ms)
{
    struct breaker_probe *first = NULL;
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++) {
        struct breaker_probe *p = &b->probes[i];
        if (p->token != 0 && p->expires_ms <= now_ms &&
            (!first || p->expires_ms < first->expires_ms))
            first = p;
    }
    return first;
}

static bool has_slow_rule(const struct redrive_breaker_config *config)
{
    return config->slow_call_ms > 0 && config->slow_rate > 0;
}

/* Whether so many of the calls were failures, or slow, that it opens. */
static bool is_too_many(const struct redrive_breaker_config *config, struct breaker_counts counts,
                        double failure_rate)
{
    const double calls = counts.calls;
    return (failure_rate > 0 && counts.failures >= failure_rate * calls) ||
           (has_slow_rule(config) && counts.slow >= config->slow_rate * calls);
}

/* The probes that have been judged so far, and wait for the others. */
static uint32_t probes_judged(const struct breaker *b, const struct redrive_breaker_config *config)
{
    return config->half_open_rate > 0 ? b->probe_successes + b->probe_failures : 0;
}

static uint32_t probes_max(const struct redrive_breaker_config *config)
{
    return config->half_open_max < REDRIVE_MAX_PROBES ? config->half_open_max : REDRIVE_MAX_PROBES;
}

/* Its window begins now, so that it tells how long the breaker has been without a call. */
static void close_at(struct breaker *b, const struct redrive_breaker_config *config, int64_t at_ms)
{
    breaker_reset(b);
    breaker_window_advance(&b->window, config, at_ms);
}

/* With half_open_rate: all together once all have answered. The window holds the calls that opened
 * it again. */
static void judge_probes(struct breaker *b, const struct redrive_breaker_config *config,
                         int64_t at_ms)
{
    const struct breaker_counts counts = {
        .calls = probes_judged(b, config), .failures = b->probe_failures, .slow = b->probe_slow};
    if (counts.calls < probes_max(config))
        return;
    if (!is_too_many(config, counts, config->half_open_rate)) {
        close_at(b, config, at_ms);
        return;
    }
    breaker_window_set(&b->window, config, counts, at_ms);
    open_again(b, config, at_ms);
}

static uint32_t probes_out(const struct breaker *b)
{
    uint32_t out = 0;
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++)
        out += b->probes[i].token != 0;
    return out;
}

/* After a reload with a smaller half_open_max all that it asks for may have answered already, and
 * no probe is left whose answer would bring the verdict. */
static bool judge_rest(struct breaker *b, const struct redrive_breaker_config *config,
                       int64_t now_ms)
{
    if (b->state != REDRIVE_BREAKER_HALF_OPEN || config->half_open_rate <= 0 || probes_out(b) > 0)
        return false;
    judge_probes(b, config, now_ms);
    return b->state != REDRIVE_BREAKER_HALF_OPEN;
}

/* How long the next probe waits after one that proved nothing. */
static int64_t spacing_ms(const struct redrive_breaker_config *config)
{
    return (int64_t)(1000 / config->release_rate);
}

static bool follow_half_open(struct breaker *b, const struct redrive_breaker_config *config,
                             int64_t now_ms)
{
    bool changed = elapsed_end_is_ahead(b->retry_at_ms, spacing_ms(config), now_ms);
    if (changed)
        b->retry_at_ms = now_ms;
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++) {
        struct breaker_probe *p = &b->probes[i];
        if (p->token == 0 || !elapsed_end_is_ahead(p->expires_ms, config->probe_lease_ms, now_ms))
            continue;
        p->expires_ms = now_ms + config->probe_lease_ms;
        changed = true;
    }
    return changed;
}

bool breaker_follow_clock(struct breaker *b, const struct redrive_breaker_config *config,
                          int64_t now_ms)
{
    bool changed = breaker_window_follow_clock(&b->window, config, now_ms);
    if (breaker_is_open(b->state) && elapsed_follow(&b->opened_at_ms, now_ms)) {
        changed = true;
        if (b->state == REDRIVE_BREAKER_OPEN)
            b->retry_at_ms = now_ms + recovery_ms(b, config);
    }
    if (b->state == REDRIVE_BREAKER_HALF_OPEN)
        changed |= follow_half_open(b, config, now_ms);
    return changed;
}

/* A failure is as of the end of the lease, not as of when it was noticed. */
bool breaker_tick(struct breaker *b, const struct redrive_breaker_config *config, int64_t now_ms)
{
    bool changed = breaker_follow_clock(b, config, now_ms);
    struct breaker_probe *lapsed;
    while (b->state == REDRIVE_BREAKER_HALF_OPEN && (lapsed = lapsed_probe(b, now_ms)) != NULL) {
        const int64_t at_ms = lapsed->expires_ms;
        *lapsed = (struct breaker_probe){0};
        changed = true;
        b->probe_failures++;
        if (config->half_open_rate > 0)
            judge_probes(b, config, at_ms);
        else
            open_again(b, config, at_ms);
    }
    return judge_rest(b, config, now_ms) || changed;
}

uint32_t breaker_probe_room(const struct breaker *b, const struct redrive_breaker_config *config,
                            int64_t now_ms)
{
    if (b->state != REDRIVE_BREAKER_OPEN && b->state != REDRIVE_BREAKER_HALF_OPEN)
        return 0;
    const uint32_t gone = probes_out(b) + probes_judged(b, config), most = probes_max(config);
    return now_ms < b->retry_at_ms || gone >= most ? 0 : most - gone;
}

static bool admit_probe(struct breaker *b, const struct redrive_breaker_config *config,
                        int64_t now_ms, struct breaker_permit *ret)
{
    if (breaker_probe_room(b, config, now_ms) == 0)
        return false;
    struct breaker_probe *free_slot = b->probes;
    while (free_slot->token != 0)
        free_slot++;
    free_slot->token = ++b->next_token;
    free_slot->expires_ms = now_ms + config->probe_lease_ms;
    *ret = (struct breaker_permit){.generation = b->generation, .probe = free_slot->token};
    return true;
}

bool breaker_admit(struct breaker *b, const struct redrive_breaker_config *config, int64_t now_ms,
                   struct breaker_permit *ret)
{
    breaker_tick(b, config, now_ms);
    switch (b->state) {
    case REDRIVE_BREAKER_OPEN:
        if (now_ms < b->retry_at_ms)
            return false;
        enter(b, REDRIVE_BREAKER_HALF_OPEN);
        return admit_probe(b, config, now_ms, ret);
    case REDRIVE_BREAKER_HALF_OPEN: return admit_probe(b, config, now_ms, ret);
    case REDRIVE_BREAKER_FORCED_OPEN: return false;
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_DISABLED:
    default: *ret = (struct breaker_permit){.generation = b->generation}; return true;
    }
}

/* No more than the window can have. */
static uint32_t least_calls(const struct redrive_breaker_config *config)
{
    const bool is_more = config->window_calls > 0 && config->min_calls > config->window_calls;
    return is_more ? config->window_calls : config->min_calls;
}

static bool rate_trips(const struct breaker *b, const struct redrive_breaker_config *config)
{
    if (config->failure_rate <= 0 && !has_slow_rule(config))
        return false;
    const struct breaker_counts sum = breaker_window_sum(&b->window, config);
    return sum.calls >= least_calls(config) && is_too_many(config, sum, config->failure_rate);
}

static void record_closed(struct breaker *b, const struct redrive_breaker_config *config,
                          bool failed, bool slow, int64_t now_ms)
{
    breaker_window_add(&b->window, config, failed, slow, now_ms);
    b->consecutive = failed ? b->consecutive + 1 : 0;

    bool in_a_row = config->failure_threshold > 0 && b->consecutive >= config->failure_threshold;
    if (in_a_row || rate_trips(b, config)) {
        b->reopened = 0;
        open_at(b, config, now_ms);
    }
}

static void answer_probe(struct breaker *b, const struct redrive_breaker_config *config,
                         bool failed, bool slow, int64_t now_ms)
{
    if (config->half_open_rate > 0) {
        *(failed ? &b->probe_failures : &b->probe_successes) += 1;
        b->probe_slow += slow;
        judge_probes(b, config, now_ms);
    } else if (failed || slow) {
        open_again(b, config, now_ms);
    } else if (++b->probe_successes >= config->success_threshold) {
        close_at(b, config, now_ms);
    }
}

static void record_probe(struct breaker *b, const struct redrive_breaker_config *config,
                         uint64_t token, enum breaker_result result, bool slow, int64_t now_ms)
{
    struct breaker_probe *probe = NULL;
    for (int i = 0; i < REDRIVE_MAX_PROBES && !probe; i++)
        if (b->probes[i].token == token)
            probe = &b->probes[i];
    if (!probe)
        return;
    *probe = (struct breaker_probe){0};
    if (result == BREAKER_NEUTRAL)
        b->retry_at_ms = now_ms + spacing_ms(config);
    else if (result != BREAKER_RETURNED)
        answer_probe(b, config, result == BREAKER_FAILURE, slow, now_ms);
}

void breaker_record(struct breaker *b, const struct redrive_breaker_config *config,
                    struct breaker_permit permit, enum breaker_result result, int64_t run_ms,
                    int64_t now_ms)
{
    const bool slow = breaker_is_slow(config, run_ms);
    breaker_tick(b, config, now_ms);
    if (permit.generation != b->generation)
        return;
    if (b->state == REDRIVE_BREAKER_CLOSED) {
        if (result == BREAKER_SUCCESS || result == BREAKER_FAILURE)
            record_closed(b, config, result == BREAKER_FAILURE, slow, now_ms);
    } else if (b->state == REDRIVE_BREAKER_HALF_OPEN && permit.probe != 0) {
        record_probe(b, config, permit.probe, result, slow, now_ms);
    }
}

int64_t breaker_next_ms(const struct breaker *b, const struct redrive_breaker_config *config)
{
    if (b->state == REDRIVE_BREAKER_OPEN)
        return b->retry_at_ms;
    if (b->state != REDRIVE_BREAKER_HALF_OPEN)
        return 0;
    if (probes_out(b) + probes_judged(b, config) < probes_max(config))
        return b->retry_at_ms;
    int64_t next = INT64_MAX;
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++) {
        const struct breaker_probe *p = &b->probes[i];
        if (p->token != 0 && p->expires_ms < next)
            next = p->expires_ms;
    }
    return next;
}

void breaker_reset(struct breaker *b)
{
    enter(b, REDRIVE_BREAKER_CLOSED);
    b->consecutive = 0;
    b->reopened = 0;
    b->retry_at_ms = 0;
    breaker_window_clear(&b->window);
}

void breaker_trip(struct breaker *b, int64_t now_ms)
{
    enter(b, REDRIVE_BREAKER_FORCED_OPEN);
    b->opened_at_ms = now_ms;
    b->retry_at_ms = 0;
}

void breaker_disable(struct breaker *b)
{
    enter(b, REDRIVE_BREAKER_DISABLED);
    b->retry_at_ms = 0;
}

void breaker_simulate_failure(struct breaker *b, const struct redrive_breaker_config *config,
                              int64_t now_ms)
{
    struct breaker_permit permit;
    if (breaker_allow(b, config, now_ms, &permit))
        breaker_record(b, config, permit, BREAKER_FAILURE, 0, now_ms);
}

/* While closed the window is read as it would be now, without changing it; after that, as it was
 * when it opened. Nothing is known of too few calls, unless they are all the probes there were. */
static struct breaker_counts current_counts(const struct breaker *b,
                                            const struct redrive_breaker_config *config,
                                            int64_t now_ms)
{
    struct breaker_window window = b->window;
    if (b->state == REDRIVE_BREAKER_CLOSED) {
        (void)breaker_window_follow_clock(&window, config, now_ms);
        breaker_window_advance(&window, config, now_ms);
    }
    const struct breaker_counts sum = breaker_window_sum(&window, config);
    const bool is_of_probes =
        b->state != REDRIVE_BREAKER_CLOSED && b->reopened > 0 && config->half_open_rate > 0;
    return is_of_probes || sum.calls >= least_calls(config) ? sum : (struct breaker_counts){0};
}

void breaker_status(const struct breaker *b, const struct redrive_breaker_config *config,
                    int64_t now_ms, struct redrive_breaker_status *ret)
{
    const struct breaker_counts counts = current_counts(b, config, now_ms);
    const bool has_slow = has_slow_rule(config);
    ret->state = b->state;
    ret->generation = b->generation;
    ret->failure_count = b->consecutive;
    ret->success_count = b->probe_successes;
    ret->rate = counts.calls == 0 ? -1 : (double)counts.failures / counts.calls;
    ret->slow_rate = counts.calls == 0 || !has_slow ? -1 : (double)counts.slow / counts.calls;
    ret->opened_at_ms = b->opened_at_ms;
    ret->next_probe_ms = b->state == REDRIVE_BREAKER_OPEN ? b->retry_at_ms : 0;
    ret->config = *config;
}

/* ---- Releasing parked jobs ------------------------------------------------------------------- */

#define SLOWEST 1.0

void release_start(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms)
{
    *r = (struct release){
        .rate = config->release_rate > SLOWEST ? config->release_rate : SLOWEST,
        .credit = 1,
        .credit_ms = now_ms,
        .grown_ms = now_ms,
    };
}

/* A second's worth may be saved up; at a slow pace two jobs, or fractions would be lost. */
static void cap_credit(struct release *r)
{
    r->credit = fmin(r->credit, fmax(r->rate, 2));
}

bool release_follow_clock(struct release *r, int64_t now_ms)
{
    if (!elapsed_follow(&r->credit_ms, now_ms))
        return false;
    r->grown_ms = now_ms;
    return true;
}

/* Gives what has been earned since the last look: to the end of each second at that second's
 * pace. More than a second's worth is never kept, so a long silence is settled in one step. A
 * clock that goes back earns nothing for that, and goes on from there. */
static void earn(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms)
{
    (void)release_follow_clock(r, now_ms);
    int64_t silent_s = (now_ms - r->grown_ms) / 1000 - 2;
    if (silent_s > 0) {
        r->rate += config->release_growth * (double)silent_s;
        r->grown_ms += silent_s * 1000;
        r->credit_ms = r->grown_ms;
        r->credit = r->rate;
    }
    while (now_ms > r->credit_ms) {
        int64_t second_ends_ms = r->grown_ms + 1000;
        int64_t until_ms = now_ms < second_ends_ms ? now_ms : second_ends_ms;
        r->credit += r->rate * (double)(until_ms - r->credit_ms) / 1000;
        r->credit_ms = until_ms;
        if (until_ms == second_ends_ms) {
            r->grown_ms = second_ends_ms;
            r->rate += config->release_growth;
        }
        cap_credit(r);
    }
}

uint32_t release_take(struct release *r, const struct redrive_breaker_config *config,
                      int64_t now_ms, uint32_t waiting)
{
    earn(r, config, now_ms);
    double whole = floor(r->credit + 1e-9);
    uint32_t n = whole < (double)waiting ? (uint32_t)whole : waiting;
    r->credit -= n;
    return n;
}

void release_failed(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms)
{
    earn(r, config, now_ms);
    r->rate = r->rate / 2 > SLOWEST ? r->rate / 2 : SLOWEST;
    cap_credit(r);
    if (now_ms > r->grown_ms)
        r->grown_ms = now_ms;
}

int64_t release_next_ms(const struct release *r)
{
    if (r->credit >= 1)
        return r->credit_ms;
    return r->credit_ms + (int64_t)ceil((1 - r->credit) / r->rate * 1000);
}
