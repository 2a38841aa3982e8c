/* explain.c - walks over the retries of a policy with the least, the middle and the longest
 * delays. */
#include "core/explain.h"

#include "core/retry/backoff.h"
#include "core/retry/policy.h"
#include "core/vocabulary.h"

void explain_init_failure(struct explain *e, const struct redrive_policy *policy,
                          const struct redrive_failure *failure,
                          const struct classifier *classifier, const struct classify_context *names)
{
    *e = (struct explain){.policy = policy, .failure = *failure, .classifier = classifier};
    if (names)
        e->names = *names;
    e->class_ = classify(classifier, failure, names).class_;
    e->row.certain = true;
}

void explain_init(struct explain *e, const struct redrive_policy *policy, enum redrive_class class_)
{
    const struct redrive_failure failure = {.status =
                                                vocabulary_word(VOCABULARY_CLASS, (int)class_)};
    explain_init_failure(e, policy, &failure, NULL, NULL);
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

    struct job_facts job = {.attempts = n,
                            .elapsed_ms = elapsed_ms + n * e->run_ms,
                            .deadline_in_ms = INT64_MAX,
                            .names = e->names};
    struct outcome outcome = {.failure = e->failure};
    return decide(&job, &outcome, &policy, e->classifier);
}

/* A schedule of more retries than this is not followed to its end. */
#define FITS_MAX 10000

static void follow_usual(struct explain *e, uint32_t n, int64_t delay_ms)
{
    if (e->usual_ended)
        return;
    struct decision d = decide_with_delay(e, n, e->usual_total_ms, delay_ms);
    e->usual_ended = d.state != REDRIVE_STATE_RETRYING;
    if (e->usual_ended) {
        e->end = d;
        return;
    }
    e->usual = n;
    e->usual_total_ms += delay_ms;
}

bool explain_next(struct explain *e)
{
    struct explain_row *row = &e->row;
    uint32_t n = row->n + 1;
    int64_t min_ms, max_ms;
    backoff_bounds_ms(policy_backoff(e->policy, e->class_), n, &min_ms, &max_ms);

    follow_usual(e, n, min_ms + (max_ms - min_ms) / 2);
    struct decision soonest = decide_with_delay(e, n, row->total_min_ms, min_ms);
    if (soonest.state != REDRIVE_STATE_RETRYING)
        return false;
    struct decision latest = decide_with_delay(e, n, row->total_max_ms, max_ms);
    row->n = n;
    row->min_ms = min_ms;
    row->max_ms = max_ms;
    row->total_min_ms += min_ms;
    row->total_max_ms += max_ms;
    row->certain = row->certain && latest.state == REDRIVE_STATE_RETRYING;
    if (row->certain)
        e->certain = n;
    return true;
}

bool explain_fits(const struct redrive_policy *policy, int64_t run_ms, uint32_t *ret_attempts,
                  uint32_t *ret_of)
{
    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT && policy->total_timeout_ms > 0; class_++) {
        struct explain e;
        explain_init(&e, policy, (enum redrive_class)class_);
        e.run_ms = run_ms;
        if (class_ == REDRIVE_CLASS_SUCCESS)
            continue;
        while (!e.usual_ended && e.row.n < FITS_MAX && explain_next(&e))
            ;
        if (e.usual_ended && e.end.reason == REDRIVE_REASON_DEADLINE) {
            *ret_attempts = e.usual + 1;
            *ret_of = (uint32_t)policy_max_retries(policy, e.class_) + 1;
            return false;
        }
    }
    return true;
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void write_row(struct json_writer *w, const struct explain_row *row)
{
    json_begin_object(w);
    json_field_int(w, "n", row->n);
    if (row->min_ms == row->max_ms) {
        json_field_int(w, "delay_ms", row->min_ms);
    } else {
        json_field_int(w, "min_ms", row->min_ms);
        json_field_int(w, "max_ms", row->max_ms);
    }
    if (row->total_min_ms == row->total_max_ms) {
        json_field_int(w, "total_ms", row->total_min_ms);
    } else {
        json_field_int(w, "total_min_ms", row->total_min_ms);
        json_field_int(w, "total_max_ms", row->total_max_ms);
    }
    if (!row->certain)
        json_field_bool(w, "certain", false);
    json_end_object(w);
}

void explain_write_members(struct explain *e, uint32_t max_rows, struct json_writer *w)
{
    json_open_array(w, "retries");
    while (explain_next(e))
        if (e->row.n <= max_rows)
            write_row(w, &e->row);
    json_end_array(w);
    if (e->row.n > max_rows)
        json_field_bool(w, "more", true);
    if (e->certain < e->row.n) {
        json_field_int(w, "attempts_min", e->certain + 1);
        json_field_int(w, "attempts_usual", e->usual + 1);
        json_field_int(w, "attempts_max", e->row.n + 1);
    }
    json_field_cstr(w, "class", redrive_class_name(e->class_));
    json_field_cstr(w, "then", redrive_state_name(e->end.state));
    json_field_cstr(w, "reason", redrive_reason_name(e->end.reason));
}
