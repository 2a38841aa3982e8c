#include "core/explain.h"

#include "core/backoff.h"
#include "core/policy.h"
#include "core/vocabulary.h"

void explain_init(struct explain *e, const struct redrive_policy *policy, enum redrive_class class_)
{
    *e = (struct explain){.policy = policy, .class_ = class_};
    e->row.certain = true;
}

/* What decide() says when the backoff gives exactly this delay. */
static struct decision decide_with_delay(const struct explain *e, uint32_t n, int64_t elapsed_ms,
                                         int64_t delay_ms)
{
    struct redrive_policy policy = *e->policy;
    struct redrive_class_rule rule = {
        .backoff = {.strategy = REDRIVE_STRATEGY_FIXED,
                    .initial_delay_ms = delay_ms,
                    .min_delay_ms = delay_ms,
                    .max_delay_ms = delay_ms},
        .max_retries = policy_max_retries(&policy, e->class_),
    };
    policy.on[e->class_] = &rule;

    struct job_facts job = {.attempts = n, .elapsed_ms = elapsed_ms, .deadline_in_ms = INT64_MAX};
    struct outcome outcome = {
        .failure = {.status = vocabulary_word(VOCABULARY_CLASS, (int)e->class_)}};
    return decide(&job, &outcome, &policy, NULL);
}

bool explain_next(struct explain *e)
{
    struct explain_row *row = &e->row;
    uint32_t n = row->n + 1;
    int64_t min_ms, max_ms;
    backoff_bounds_ms(policy_backoff(e->policy, e->class_), n, &min_ms, &max_ms);

    struct decision soonest = decide_with_delay(e, n, row->total_min_ms, min_ms);
    if (soonest.state != REDRIVE_STATE_RETRYING) {
        e->end = soonest;
        return false;
    }
    struct decision latest = decide_with_delay(e, n, row->total_max_ms, max_ms);
    row->n = n;
    row->min_ms = min_ms;
    row->max_ms = max_ms;
    row->total_min_ms += min_ms;
    row->total_max_ms += max_ms;
    row->certain = row->certain && latest.state == REDRIVE_STATE_RETRYING;
    return true;
}
