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
        failures = calloc(RING, sizeof *failures);
    if (!failures)
        abort();
    c->breaker = (struct checker_breaker){
        .state = REDRIVE_BREAKER_CLOSED, .generation = 1, .failures = failures};
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

static void forget_probe(struct checker_breaker *b, uint32_t job)
{
    for (uint32_t i = 0; i < b->n_probes; i++)
        if (b->probes[i].job == job)
            b->probes[i] = b->probes[--b->n_probes];
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
    if (b->n_probes >= c->breaker_config->half_open_max)
        return checker_violated(c, e->job, "probe %u of at most %u", b->n_probes + 1,
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
    j->period = b->period;
    j->is_probe = b->state == REDRIVE_BREAKER_HALF_OPEN;
    switch (b->state) {
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_FORCED_OPEN:
        return checker_violated(c, e->job, "started while the breaker was %s",
                                state_name(b->state));
    case REDRIVE_BREAKER_HALF_OPEN:
        if (b->successes >= c->breaker_config->success_threshold)
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
    if (b->state == REDRIVE_BREAKER_CLOSED) {
        if (succeeded)
            b->consecutive = 0;
        if (failed) {
            b->consecutive++;
            b->failures[b->n_failures++ % RING] = e->at_ms;
        }
    } else if (b->state == REDRIVE_BREAKER_HALF_OPEN && !lapsed_probe(b, e->at_ms)) {
        forget_probe(b, e->job);
        b->successes += succeeded;
        b->probe_failed = b->probe_failed || failed;
    }
}

/* The window is kept in tenths, so that it may be shorter than its name by one of them; enough
 * failures to trip it must lie within its full length. */
static bool rate_may_trip(const struct checker *c, int64_t now_ms)
{
    const struct redrive_breaker_config *config = c->breaker_config;
    const struct checker_breaker *b = &c->breaker;
    if (config->failure_rate <= 0)
        return false;
    uint32_t recent = 0;
    size_t first = b->n_failures > RING ? b->n_failures - RING : 0;
    for (size_t i = first; i < b->n_failures; i++)
        recent += b->failures[i % RING] > now_ms - config->window_ms;
    return recent >= config->failure_rate * config->min_calls;
}

static bool may_change(const struct checker *c, enum redrive_breaker_state to, int64_t now_ms)
{
    const struct checker_breaker *b = &c->breaker;
    const struct redrive_breaker_config *config = c->breaker_config;
    double recovery_ms = (double)config->recovery_timeout_ms * (1 - config->recovery_jitter) - 1;

    if (b->state == REDRIVE_BREAKER_CLOSED && to == REDRIVE_BREAKER_OPEN)
        return must_be_open(c) || rate_may_trip(c, now_ms);
    if (b->state == REDRIVE_BREAKER_OPEN && to == REDRIVE_BREAKER_HALF_OPEN)
        return (double)(now_ms - b->opened_at_ms) >= recovery_ms;
    if (b->state == REDRIVE_BREAKER_HALF_OPEN && to == REDRIVE_BREAKER_OPEN)
        return b->probe_failed || lapsed_probe(b, now_ms);
    if (b->state == REDRIVE_BREAKER_HALF_OPEN && to == REDRIVE_BREAKER_CLOSED)
        return b->successes >= config->success_threshold && !lapsed_probe(b, now_ms);
    return false;
}

bool checker_breaker_changed(struct checker *c, const struct sim_event *e)
{
    struct checker_breaker *b = &c->breaker;
    const struct checker_probe *lapsed = lapsed_probe(b, e->at_ms);
    if (!e->by_hand && !may_change(c, e->breaker, e->at_ms))
        return checker_violated(c, UINT32_MAX, "the breaker went from %s to %s for no reason",
                                state_name(b->state), state_name(e->breaker));
    if (e->generation <= b->generation)
        return checker_violated(c, UINT32_MAX, "the breaker changed without a new generation");
    c->seen.breaker[b->state][e->breaker]++;
    bool by_lapse = e->breaker == REDRIVE_BREAKER_OPEN && lapsed && !b->probe_failed;
    c->seen.lapsed += by_lapse;

    *b = (struct checker_breaker){
        .state = e->breaker,
        .period = b->period + 1,
        .generation = e->generation,
        .opened_at_ms = by_lapse ? lapsed->expires_ms : e->at_ms,
        .failures = b->failures,
    };
    return true;
}
