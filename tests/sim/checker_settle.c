#include "checker.h"

#include "base/time/duration.h"
#include "core/retry/backoff.h"
#include "faults.h"

#define ASKED_AT_MOST_MS (INT64_C(3600) * 1000)

static bool class_is_worth_retrying(enum redrive_class class_)
{
    return class_ == REDRIVE_CLASS_TRANSIENT || class_ == REDRIVE_CLASS_RATE_LIMITED ||
           class_ == REDRIVE_CLASS_NETWORK || class_ == REDRIVE_CLASS_SYSTEM ||
           class_ == REDRIVE_CLASS_DATABASE;
}

static bool list_names(const struct redrive_match *list, enum redrive_class class_,
                       const struct fault *fault)
{
    if (list->classes & (1u << class_))
        return true;
    for (size_t i = 0; fault && i < list->n_types; i++)
        for (size_t p = 0; p < FAULT_N_PATTERNS; p++)
            if (list->types[i] == FAULT_PATTERNS[p] && (fault->patterns >> p & 1))
                return true;
    return false;
}

/* Without a fault the run was lost with its worker. */
static bool is_worth_retrying(const struct redrive_policy *policy, enum redrive_class class_,
                              const struct fault *fault)
{
    bool has_retry_on = policy->retry_on.classes != 0 || policy->retry_on.n_types != 0;
    if (list_names(&policy->give_up_on, class_, fault))
        return false;
    return has_retry_on ? !fault || list_names(&policy->retry_on, class_, fault)
                        : class_is_worth_retrying(class_);
}

static uint32_t attempts_allowed(const struct redrive_policy *policy, enum redrive_class class_)
{
    const struct redrive_class_rule *rule = policy->on[class_];
    int32_t retries = policy->max_retries;
    if (rule && rule->max_retries >= 0)
        retries = rule->max_retries;
    return (uint32_t)retries + 1;
}

/* ---- Delays ---------------------------------------------------------------------------------- */

static const struct redrive_backoff *backoff_for(const struct redrive_policy *policy,
                                                 enum redrive_class class_)
{
    const struct redrive_class_rule *rule = policy->on[class_];
    return rule ? &rule->backoff : &policy->backoff;
}

/* What the written rules bound, narrowed by the bounds that the core gives. */
static bool delay_bounds(struct checker *c, const struct sim_event *e, int64_t *ret_least,
                         int64_t *ret_most)
{
    const struct redrive_backoff *backoff = backoff_for(c->policy, e->decision->class_);
    bool immediate = backoff->strategy == REDRIVE_STRATEGY_IMMEDIATE;
    int64_t least = immediate ? 0 : backoff->min_delay_ms;
    int64_t most = immediate ? 0 : backoff->max_delay_ms;
    /* Delays that were listed have no other bounds; the longest jitter adds a span for each retry.
     */
    if (backoff->strategy == REDRIVE_STRATEGY_DELAYS &&
        backoff->jitter.mode != REDRIVE_JITTER_DECORRELATED) {
        least = 0;
        most = DURATION_MAX_MS;
    }
    int64_t core_least = least;
    int64_t core_most = most;

    /* What a callback gives for other seeds is not known. */
    if (backoff->strategy != REDRIVE_STRATEGY_CUSTOM)
        backoff_bounds_ms(backoff, e->facts->attempts, &core_least, &core_most);
    if (core_least < least || core_most > most || core_least > core_most)
        return checker_violated(c, e->job, "bounds %lld to %lld ms are outside the policy's",
                                (long long)core_least, (long long)core_most);

    int64_t asked = e->outcome->failure.retry_after_ms;
    if (asked > ASKED_AT_MOST_MS)
        asked = ASKED_AT_MOST_MS;
    *ret_least = core_least > asked ? core_least : asked;
    *ret_most = core_most > asked ? core_most : asked;
    if (asked > 0)
        *ret_most += *ret_most / 10 + 1;
    return true;
}

static bool check_delay(struct checker *c, const struct sim_event *e)
{
    int64_t delay = e->decision->delay_ms;
    int64_t least;
    int64_t most;
    if (!delay_bounds(c, e, &least, &most))
        return false;
    if (delay < least || delay > most)
        return checker_violated(c, e->job, "delay %lld ms is not within %lld to %lld ms",
                                (long long)delay, (long long)least, (long long)most);
    if (e->outcome->failure.retry_after_ms > 0)
        return true;
    const struct redrive_backoff *backoff = backoff_for(c->policy, e->decision->class_);
    if (delay != backoff_delay_ms(backoff, e->facts->attempts, e->facts->seed))
        return checker_violated(c, e->job, "delay %lld ms is not that of (policy, %u, seed)",
                                (long long)delay, e->facts->attempts);
    return true;
}

static bool check_same_again(struct checker *c, const struct sim_event *e)
{
    struct decision again = decide(e->facts, e->outcome, c->policy, NULL);
    const struct decision *d = e->decision;
    if (again.state != d->state || again.delay_ms != d->delay_ms || again.reason != d->reason ||
        again.class_ != d->class_ || again.breaker != d->breaker ||
        again.uses_attempt != d->uses_attempt || again.crashes != d->crashes)
        return checker_violated(c, e->job, "the same question got another answer");
    return true;
}

/* ---- Settling -------------------------------------------------------------------------------- */

static bool check_retry(struct checker *c, const struct sim_event *e, struct checker_job *j,
                        int64_t elapsed_ms, const struct fault *fault)
{
    const struct decision *d = e->decision;
    int64_t timeout_ms = c->policy->total_timeout_ms;

    if (!is_worth_retrying(c->policy, d->class_, fault))
        return checker_violated(c, e->job, "retried, though nothing allows it");
    if (j->attempts >= attempts_allowed(c->policy, d->class_))
        return checker_violated(c, e->job, "retried after its last attempt");
    if (j->crashes >= DECIDE_POISON_AFTER)
        return checker_violated(c, e->job, "retried after crash %u", j->crashes);
    if (timeout_ms > 0 && elapsed_ms + d->delay_ms > timeout_ms)
        return checker_violated(c, e->job, "a retry would begin after total_timeout");
    if (d->delay_ms > e->facts->deadline_in_ms)
        return checker_violated(c, e->job, "a retry would begin after the deadline");
    j->limit = attempts_allowed(c->policy, d->class_);
    return check_delay(c, e);
}

/* A job may not end earlier than its reason allows, either. */
static bool check_end_of_failure(struct checker *c, const struct sim_event *e,
                                 const struct checker_job *j, int64_t elapsed_ms,
                                 const struct fault *fault)
{
    const struct decision *d = e->decision;
    int64_t timeout_ms = c->policy->total_timeout_ms;
    int64_t least;
    int64_t most;
    switch (d->reason) {
    case REDRIVE_REASON_EXHAUSTED:
        if (j->attempts < attempts_allowed(c->policy, d->class_))
            return checker_violated(c, e->job, "exhausted with attempts left");
        break;
    case REDRIVE_REASON_NOT_RETRIABLE:
        if (is_worth_retrying(c->policy, d->class_, fault))
            return checker_violated(c, e->job, "not retried, though it should be");
        break;
    case REDRIVE_REASON_POISON:
        if (j->crashes < DECIDE_POISON_AFTER)
            return checker_violated(c, e->job, "poison after %u crashes", j->crashes);
        break;
    case REDRIVE_REASON_DEADLINE:
        if (!delay_bounds(c, e, &least, &most))
            return false;
        if (most <= e->facts->deadline_in_ms &&
            (timeout_ms == 0 || elapsed_ms + most <= timeout_ms))
            return checker_violated(c, e->job, "ended for a deadline that it could have met");
        break;
    default:
        return checker_violated(c, e->job, "a failed run ended for reason %s",
                                redrive_reason_name(d->reason));
    }
    return true;
}

static bool check_failure(struct checker *c, const struct sim_event *e, struct checker_job *j,
                          int64_t elapsed_ms)
{
    const struct fault *fault = NULL;
    enum redrive_class class_ = REDRIVE_CLASS_SYSTEM;
    bool crashed = true;
    if (e->outcome->ending == ENDING_RAN) {
        fault = fault_find(e->outcome->failure.message);
        if (!fault)
            return checker_violated(c, e->job, "unknown fault");
        class_ = fault->class_;
        crashed = fault->is_crash;
    }
    j->crashes = crashed ? j->crashes + 1 : 0;
    if (e->decision->class_ != class_)
        return checker_violated(c, e->job, "classified as %s, which is %s",
                                redrive_class_name(e->decision->class_),
                                redrive_class_name(class_));
    if (e->to == REDRIVE_STATE_RETRYING)
        return check_retry(c, e, j, elapsed_ms, fault);
    if (e->to != (c->policy->enable_dlq ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_FAILED))
        return checker_violated(c, e->job, "a failed run became %s", redrive_state_name(e->to));
    return check_end_of_failure(c, e, j, elapsed_ms, fault);
}

static bool check_ending(struct checker *c, const struct sim_event *e, struct checker_job *j,
                         int64_t elapsed_ms)
{
    enum redrive_state dead =
        c->policy->enable_dlq ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_FAILED;
    enum redrive_state expected = dead;
    bool runs = e->from == REDRIVE_STATE_RUNNING;
    bool must_run = true;

    switch (e->outcome->ending) {
    case ENDING_LEASE_LOST: return check_failure(c, e, j, elapsed_ms);
    case ENDING_RAN:
        if (e->outcome->failure.message)
            return check_failure(c, e, j, elapsed_ms);
        j->crashes = 0;
        expected = REDRIVE_STATE_COMPLETED;
        break;
    case ENDING_RELEASED: expected = REDRIVE_STATE_QUEUED; break;
    case ENDING_SNOOZED: expected = REDRIVE_STATE_SCHEDULED; break;
    case ENDING_CANCELLED:
        expected = REDRIVE_STATE_CANCELLED;
        must_run = runs;
        break;
    case ENDING_KILLED:
        expected = REDRIVE_STATE_DEAD_LETTER;
        must_run = runs;
        break;
    case ENDING_DEADLINE:
    case ENDING_BREAKER_OPEN:
    case ENDING_DAMAGED:
    case ENDING_INVALID: must_run = false; break;
    }
    if (e->to != expected || runs != must_run)
        return checker_violated(c, e->job, "ending %d out of %s gave %s", (int)e->outcome->ending,
                                redrive_state_name(e->from), redrive_state_name(e->to));
    return true;
}

bool checker_settled(struct checker *c, const struct sim_event *e, struct checker_job *j)
{
    bool was_running = e->from == REDRIVE_STATE_RUNNING;
    bool taken_back = e->outcome->ending == ENDING_RELEASED || e->outcome->ending == ENDING_SNOOZED;
    int64_t elapsed_ms = 0;
    if (j->first_start_ms >= 0)
        elapsed_ms = e->at_ms - j->first_start_ms - j->parked_ms;

    c->seen.endings[e->outcome->ending]++;
    c->seen.reasons[e->decision->reason]++;
    c->seen.classes[e->decision->class_]++;
    c->seen.whys[e->decision->why]++;
    if (e->decision->delay_ms < 0)
        return checker_violated(c, e->job, "a negative delay");
    if (e->facts->attempts != j->attempts || e->facts->elapsed_ms != elapsed_ms)
        return checker_violated(c, e->job, "decided by %u attempts in %lld ms; they are %u, %lld",
                                e->facts->attempts, (long long)e->facts->elapsed_ms, j->attempts,
                                (long long)elapsed_ms);
    if (!check_ending(c, e, j, elapsed_ms) || !check_same_again(c, e))
        return false;
    if (was_running && taken_back)
        j->attempts--;
    j->process_after_ms = e->at_ms + e->decision->delay_ms;
    if (was_running)
        checker_breaker_result(c, e);
    return true;
}
