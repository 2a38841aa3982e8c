/* decide.c - the decision: retry, give up, or another state. */
#include "core/decide.h"

#include <signal.h>

#include "core/retry/backoff.h"
#include "core/retry/policy.h"
#include "core/vocabulary.h"

const char *delay_why_name(enum delay_why why)
{
    static const char *const NAMES[] = {
        [DELAY_NONE] = "none",   [DELAY_BACKOFF] = "backoff",   [DELAY_CLASS_RULE] = "class_rule",
        [DELAY_ASKED] = "asked", [DELAY_TOO_LATE] = "too_late", [DELAY_SNOOZE] = "snooze",
    };
    return NAMES[why];
}

/* Signals that a program sends to itself by being wrong. */
static bool is_crash(const struct outcome *outcome)
{
    if (outcome->ending == ENDING_LEASE_LOST)
        return true;
    switch (outcome->failure.signal) {
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGILL:
    case SIGFPE: return true;
    default: return false;
    }
}

static void end(struct decision *d, const struct redrive_policy *policy, enum redrive_reason reason)
{
    d->state = policy->enable_dlq ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_FAILED;
    d->reason = reason;
}

/* Signals that end a process from outside: by people, by a supervisor, for want of memory. */
static bool is_killed(const struct outcome *outcome)
{
    switch (outcome->failure.signal) {
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGQUIT:
    case SIGHUP: return true;
    default: return outcome->was_killed;
    }
}

/* The run ended for reasons that its job has no part in, as far as can be known. */
static bool is_not_the_jobs_doing(const struct outcome *outcome, enum redrive_class class_)
{
    if (class_ != REDRIVE_CLASS_SYSTEM)
        return false;
    return outcome->ending == ENDING_LEASE_LOST || is_killed(outcome);
}

/* give_up_on beats retry_on, and retry_on beats the class. What retry_on does not list is given up,
 * unless the job has no part in it. */
static bool is_worth_retrying(const struct redrive_policy *policy, enum redrive_class class_,
                              const struct outcome *outcome)
{
    const struct redrive_match *retry_on = &policy->retry_on;
    if (policy_matches(&policy->give_up_on, class_, &outcome->failure))
        return false;
    if (retry_on->classes == 0 && retry_on->n_types == 0)
        return class_is_retried(class_);
    return policy_matches(retry_on, class_, &outcome->failure) ||
           is_not_the_jobs_doing(outcome, class_);
}

/* The delay that the policy has, or the program that runs the job in its place. */
static int64_t own_delay_ms(enum redrive_class class_, const struct job_facts *job,
                            const struct outcome *outcome, const struct redrive_policy *policy)
{
    struct redrive_backoff backoff = *policy_backoff(policy, class_);
    if (outcome->delay && !policy->on[class_]) {
        backoff.strategy = REDRIVE_STRATEGY_CUSTOM;
        backoff.custom = outcome->delay;
        backoff.custom_ctx = outcome->delay_ctx;
    }
    return backoff_delay_ms(&backoff, job->attempts, job->seed);
}

static void choose_delay(struct decision *d, const struct job_facts *job,
                         const struct outcome *outcome, const struct redrive_policy *policy)
{
    const int64_t asked_ms = outcome->failure.retry_after_ms;
    uint32_t n = job->attempts;
    int64_t own_ms = own_delay_ms(d->class_, job, outcome, policy);
    d->delay_ms = backoff_honour_asked_ms(own_ms, asked_ms, n, job->seed);
    if (asked_ms > own_ms && own_ms < BACKOFF_MAX_ASKED_MS)
        d->why = DELAY_ASKED;
    else
        d->why = policy->on[d->class_] ? DELAY_CLASS_RULE : DELAY_BACKOFF;
}

static bool begins_too_late(const struct job_facts *job, const struct redrive_policy *policy,
                            int64_t delay_ms, int64_t *ret_total_timeout_ms)
{
    const bool passes_timeout =
        policy->total_timeout_ms > 0 && delay_ms > policy->total_timeout_ms - job->elapsed_ms;
    *ret_total_timeout_ms = passes_timeout ? policy->total_timeout_ms : 0;
    return passes_timeout || delay_ms > job->deadline_in_ms;
}

/* Retry or give up. The reasons are checked in the order of how much they say about the job. */
static void decide_failure(struct decision *d, const struct job_facts *job,
                           const struct outcome *outcome, const struct redrive_policy *policy)
{
    d->crashes = is_crash(outcome) ? job->crashes + 1 : 0;
    d->max_attempts = (uint32_t)policy_max_retries(policy, d->class_) + 1;
    if (d->max_attempts < job->attempts) /* failures of other classes were allowed more */
        d->max_attempts = job->attempts;
    if (d->crashes >= DECIDE_POISON_AFTER) {
        end(d, policy, REDRIVE_REASON_POISON);
        return;
    }
    if (!is_worth_retrying(policy, d->class_, outcome)) {
        end(d, policy, REDRIVE_REASON_NOT_RETRIABLE);
        return;
    }
    if (job->attempts >= d->max_attempts) {
        end(d, policy, REDRIVE_REASON_EXHAUSTED);
        return;
    }
    choose_delay(d, job, outcome, policy);
    int64_t total_timeout_ms;
    if (begins_too_late(job, policy, d->delay_ms, &total_timeout_ms)) {
        d->too_late = (struct too_late){d->delay_ms, d->why == DELAY_ASKED, total_timeout_ms};
        d->delay_ms = 0;
        d->why = DELAY_TOO_LATE;
        end(d, policy, REDRIVE_REASON_DEADLINE);
        return;
    }
    d->state = REDRIVE_STATE_RETRYING;
}

static void decide_ran(struct decision *d, const struct job_facts *job,
                       const struct outcome *outcome, const struct redrive_policy *policy,
                       const struct classifier *classifier)
{
    struct verdict verdict = classify(classifier, &outcome->failure, &job->names);
    d->class_ = verdict.class_;
    d->severity = verdict.severity;
    d->unclassified = verdict.unclassified;
    if (verdict.class_ == REDRIVE_CLASS_SUCCESS) {
        d->state = REDRIVE_STATE_COMPLETED;
        d->breaker = BREAKER_SUCCESS;
        return;
    }
    d->breaker = class_counts_for_breaker(verdict.class_) ? BREAKER_FAILURE : BREAKER_NEUTRAL;
    d->is_overload = verdict.class_ == REDRIVE_CLASS_RATE_LIMITED ||
                     (class_is_retried(verdict.class_) && failure_is_timeout(&outcome->failure));
    decide_failure(d, job, outcome, policy);
}

/* A lost worker says nothing about the service, unless it was sent to find out. */
static void decide_lost(struct decision *d, const struct job_facts *job,
                        const struct outcome *outcome, const struct redrive_policy *policy)
{
    d->class_ = REDRIVE_CLASS_SYSTEM;
    d->severity = class_severity(REDRIVE_CLASS_SYSTEM);
    d->breaker = job->is_probe ? BREAKER_FAILURE : BREAKER_NEUTRAL;
    decide_failure(d, job, outcome, policy);
}

struct decision decide(const struct job_facts *job, const struct outcome *outcome,
                       const struct redrive_policy *policy, const struct classifier *classifier)
{
    struct decision d = {
        .breaker = BREAKER_RETURNED,
        .class_ = REDRIVE_CLASS_SUCCESS,
        .severity = REDRIVE_SEVERITY_INFO,
        .crashes = job->crashes,
        .uses_attempt = true,
    };

    switch (outcome->ending) {
    case ENDING_RAN:
        d.crashes = 0;
        decide_ran(&d, job, outcome, policy, classifier);
        break;
    case ENDING_LEASE_LOST: decide_lost(&d, job, outcome, policy); break;
    case ENDING_RELEASED:
        d.state = REDRIVE_STATE_QUEUED;
        d.uses_attempt = false;
        break;
    case ENDING_SNOOZED:
        d.state = REDRIVE_STATE_SCHEDULED;
        d.delay_ms = outcome->snooze_ms > 0 ? outcome->snooze_ms : 0;
        d.why = DELAY_SNOOZE;
        d.uses_attempt = false;
        break;
    case ENDING_CANCELLED: d.state = REDRIVE_STATE_CANCELLED; break;
    case ENDING_KILLED:
        d.state = REDRIVE_STATE_DEAD_LETTER;
        d.reason = REDRIVE_REASON_MANUAL;
        break;
    case ENDING_DEADLINE: end(&d, policy, REDRIVE_REASON_DEADLINE); break;
    case ENDING_INVALID:
        d.class_ = REDRIVE_CLASS_VALIDATION;
        d.severity = class_severity(REDRIVE_CLASS_VALIDATION);
        end(&d, policy, REDRIVE_REASON_NOT_RETRIABLE);
        break;
    case ENDING_DAMAGED:
        d.class_ = REDRIVE_CLASS_VALIDATION;
        d.severity = class_severity(REDRIVE_CLASS_VALIDATION);
        end(&d, policy, REDRIVE_REASON_DAMAGED);
        break;
    case ENDING_BREAKER_OPEN:
    default: end(&d, policy, REDRIVE_REASON_BREAKER_OPEN); break;
    }
    return d;
}
