#include "checker.h"

#include <stdlib.h>

/* Enough to hold every failure that could trip a rate rule in the random worlds. */
#define RING 256

static const char *state_name(enum redrive_breaker_state state)
{
    return redrive_breaker_state_name(state);
}

void checker_breaker_begin(struct checker *c)
{
    int64_t *failures = c->breaker.failures;
    if (!failures)
        failures = calloc((size_t)2 * RING, sizeof *failures);
    if (!failures)
        abort();
    c->breaker = (struct checker_breaker){.state = REDRIVE_BREAKER_CLOSED,
                                          .generation = 1,
                                          .failures = failures,
                                          .slow = failures + RING};
}

static const struct checker_probe *lapsed_probe(const struct checker_breaker *b, int64_t now_ms)
{
    const struct checker_probe *first = NULL;
    for (uint32_t i = 0; i < b->n_probes; i++)
        if (b->probes[i].expires_ms <= now_ms &&
            (!first || b->probes[i].expires_ms < first->expires_ms))
            first = &b->probes[i];
    return first;
}

static bool forget_probe(struct checker_breaker *b, uint32_t job)
{
    for (uint32_t i = 0; i < b->n_probes; i++)
        if (b->probes[i].job == job) {
            b->probes[i] = b->probes[--b->n_probes];
            return true;
        }
    return false;
}

static bool judges_together(const struct checker *c)
{
    return c->breaker_config->half_open_rate > 0;
}

static uint32_t judged(const struct checker *c)
{
    return judges_together(c) ? c->breaker.successes + c->breaker.probe_failures : 0;
}

static bool has_slow_rule(const struct redrive_breaker_config *config)
{
    return config->slow_call_ms > 0 && config->slow_rate > 0;
}

static bool was_slow(const struct checker *c, const struct sim_event *e)
{
    return has_slow_rule(c->breaker_config) &&
           e->at_ms - e->started_ms > c->breaker_config->slow_call_ms;
}

/* Of probes that are judged together, those whose lease is over have failed. */
static void count_lapsed(struct checker *c, int64_t now_ms)
{
    struct checker_breaker *b = &c->breaker;
    const struct checker_probe *lapsed;
    if (!c->breaker_config || !judges_together(c))
        return;
    while ((lapsed = lapsed_probe(b, now_ms)) != NULL) {
        b->lapsed_at_ms = lapsed->expires_ms;
        b->probe_failures++;
        forget_probe(b, lapsed->job);
    }
}

static bool verdict_is_open(const struct checker *c)
{
    const struct redrive_breaker_config *config = c->breaker_config;
    return c->breaker.probe_failures >= config->half_open_rate * judged(c) ||
           (has_slow_rule(config) && c->breaker.slow_probes >= config->slow_rate * judged(c));
}

/* By the books, has the row of failures reached the threshold? */
static bool must_be_open(const struct checker *c)
{
    uint32_t threshold = c->breaker_config->failure_threshold;
    return threshold > 0 && c->breaker.consecutive >= threshold;
}

static bool start_probe(struct checker *c, const struct sim_event *e)
{
    struct checker_breaker *b = &c->breaker;
    if (lapsed_probe(b, e->at_ms))
        return checker_violated(c, e->job, "a probe has lapsed, and the breaker lets more through");
    if (b->n_probes + judged(c) >= c->breaker_config->half_open_max)
        return checker_violated(c, e->job, "probe %u of at most %u", b->n_probes + judged(c) + 1,
                                c->breaker_config->half_open_max);
    if (e->permit.probe == 0)
        return checker_violated(c, e->job, "an ordinary call went through a half-open breaker");
    b->probes[b->n_probes++] = (struct checker_probe){
        .job = e->job, .expires_ms = e->at_ms + c->breaker_config->probe_lease_ms};
    c->seen.probes++;
    return true;
}

bool checker_breaker_start(struct checker *c, const struct sim_event *e)
{
    struct checker_breaker *b = &c->breaker;
    struct checker_job *j = &c->jobs[e->job];
    if (!c->breaker_config)
        return true;
    count_lapsed(c, e->at_ms);
    j->period = b->period;
    j->is_probe = b->state == REDRIVE_BREAKER_HALF_OPEN;
    switch (b->state) {
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_FORCED_OPEN:
        return checker_violated(c, e->job, "started while the breaker was %s",
                                state_name(b->state));
    case REDRIVE_BREAKER_HALF_OPEN:
        if (!judges_together(c) && b->successes >= c->breaker_config->success_threshold)
            return checker_violated(c, e->job, "enough probes succeeded, and it is not closed");
        if (b->probe_failed)
            return checker_violated(c, e->job, "a probe failed, and it is not open");
        return start_probe(c, e);
    case REDRIVE_BREAKER_CLOSED:
        if (must_be_open(c))
            return checker_violated(c, e->job, "started after %u counted failures in a row",
                                    b->consecutive);
        return true;
    default: return true;
    }
}

/* Only what the written table says counts, counts; a lost probe does as well. */
static bool counts(const struct sim_event *e)
{
    if (e->outcome->ending == ENDING_LEASE_LOST)
        return e->permit.probe != 0;
    if (e->outcome->ending != ENDING_RAN)
        return false;
    switch (e->decision->class_) {
    case REDRIVE_CLASS_TRANSIENT:
    case REDRIVE_CLASS_NETWORK:
    case REDRIVE_CLASS_DATABASE:
    case REDRIVE_CLASS_AUTHENTICATION: return true;
    default: return false;
    }
}

void checker_breaker_result(struct checker *c, const struct sim_event *e)
{
    struct checker_breaker *b = &c->breaker;
    const struct checker_job *j = &c->jobs[e->job];
    bool failed = counts(e);
    bool succeeded = e->to == REDRIVE_STATE_COMPLETED;
    if (!c->breaker_config || j->period != b->period)
        return;
    count_lapsed(c, e->at_ms);
    const bool slow = (failed || succeeded) && was_slow(c, e);
    if (b->state == REDRIVE_BREAKER_CLOSED) {
        if (succeeded)
            b->consecutive = 0;
        if (failed) {
            b->consecutive++;
            b->failures[b->n_failures++ % RING] = e->at_ms;
        }
        if (slow)
            b->slow[b->n_slow++ % RING] = e->at_ms;
    } else if (b->state == REDRIVE_BREAKER_HALF_OPEN && !lapsed_probe(b, e->at_ms)) {
        if (!forget_probe(b, e->job))
            return;
        b->successes += succeeded;
        b->probe_failures += failed;
        b->slow_probes += slow;
        b->probe_failed = !judges_together(c) && (b->probe_failed || failed || slow);
    }
}

/* How many of them the window may have. One of time is kept in tenths, so that it may be shorter
 * than its name by one of them; one of calls may reach back to the beginning of the period. */
static uint32_t recent(const struct redrive_breaker_config *config, const int64_t *times, size_t n,
                       int64_t now_ms)
{
    uint32_t count = 0;
    for (size_t i = n > RING ? n - RING : 0; i < n; i++)
        count += config->window_calls > 0 || times[i % RING] > now_ms - config->window_ms;
    return count;
}

static double least_calls(const struct redrive_breaker_config *config)
{
    return config->window_calls > 0 && config->window_calls < config->min_calls
               ? config->window_calls
               : config->min_calls;
}

static bool rate_may_trip(const struct checker *c, int64_t now_ms)
{
    const struct redrive_breaker_config *config = c->breaker_config;
    const struct checker_breaker *b = &c->breaker;
    return config->failure_rate > 0 && recent(config, b->failures, b->n_failures, now_ms) >=
                                           config->failure_rate * least_calls(config);
}

static bool slow_may_trip(const struct checker *c, int64_t now_ms)
{
    const struct redrive_breaker_config *config = c->breaker_config;
    const struct checker_breaker *b = &c->breaker;
    return has_slow_rule(config) &&
           recent(config, b->slow, b->n_slow, now_ms) >= config->slow_rate * least_calls(config);
}

static bool may_change(const struct checker *c, enum redrive_breaker_state to, int64_t now_ms)
{
    const struct checker_breaker *b = &c->breaker;
    const struct redrive_breaker_config *config = c->breaker_config;
    double recovery_ms = (double)config->recovery_timeout_ms * (1 - config->recovery_jitter) - 1;

    if (b->state == REDRIVE_BREAKER_CLOSED && to == REDRIVE_BREAKER_OPEN)
        return must_be_open(c) || rate_may_trip(c, now_ms) || slow_may_trip(c, now_ms);
    if (b->state == REDRIVE_BREAKER_OPEN && to == REDRIVE_BREAKER_HALF_OPEN)
        return (double)(now_ms - b->opened_at_ms) >= recovery_ms;
    if (b->state == REDRIVE_BREAKER_HALF_OPEN && judges_together(c))
        return judged(c) == config->half_open_max &&
               to == (verdict_is_open(c) ? REDRIVE_BREAKER_OPEN : REDRIVE_BREAKER_CLOSED);
    if (b->state == REDRIVE_BREAKER_HALF_OPEN && to == REDRIVE_BREAKER_OPEN)
        return b->probe_failed || lapsed_probe(b, now_ms);
    if (b->state == REDRIVE_BREAKER_HALF_OPEN && to == REDRIVE_BREAKER_CLOSED)
        return b->successes >= config->success_threshold && !lapsed_probe(b, now_ms);
    return false;
}

bool checker_breaker_changed(struct checker *c, const struct sim_event *e)
{
    struct checker_breaker *b = &c->breaker;
    count_lapsed(c, e->at_ms);
    const struct checker_probe *lapsed = lapsed_probe(b, e->at_ms);
    if (!e->by_hand && !may_change(c, e->breaker, e->at_ms))
        return checker_violated(c, UINT32_MAX, "the breaker went from %s to %s for no reason",
                                state_name(b->state), state_name(e->breaker));
    if (e->generation <= b->generation)
        return checker_violated(c, UINT32_MAX, "the breaker changed without a new generation");
    c->seen.breaker[b->state][e->breaker]++;
    bool by_lapse = e->breaker == REDRIVE_BREAKER_OPEN && lapsed && !b->probe_failed;
    c->seen.lapsed += by_lapse;
    const bool together =
        !e->by_hand && b->state == REDRIVE_BREAKER_HALF_OPEN && judges_together(c);
    c->seen.judged_open += together && e->breaker == REDRIVE_BREAKER_OPEN;
    c->seen.judged_closed += together && e->breaker == REDRIVE_BREAKER_CLOSED;
    c->seen.slow += !e->by_hand && b->state == REDRIVE_BREAKER_CLOSED && !must_be_open(c) &&
                    !rate_may_trip(c, e->at_ms);
    const int64_t opened_at_ms = together && b->lapsed_at_ms != 0 ? b->lapsed_at_ms
                                 : by_lapse                       ? lapsed->expires_ms
                                                                  : e->at_ms;

    *b = (struct checker_breaker){
        .state = e->breaker,
        .period = b->period + 1,
        .generation = e->generation,
        .opened_at_ms = opened_at_ms,
        .failures = b->failures,
        .slow = b->slow,
    };
    return true;
}
