/* explain.h - what a policy will do to a job that keeps failing, retry by retry.
 *
 * Every verdict is decide()'s own: once with the least delay that jitter can give and once with
 * the most, so that a total time-out which only some schedules run into is shown as such.
 */
#ifndef CORE_EXPLAIN_H
#define CORE_EXPLAIN_H

#include "core/decide.h"
#include "redrive.h"

struct explain_row {
    uint32_t n;     /* the retry */
    int64_t min_ms; /* the delay before it; min = max where nothing is random */
    int64_t max_ms;
    int64_t total_min_ms; /* all delays up to here */
    int64_t total_max_ms;
    bool certain; /* false: some schedules pass the total time-out before this retry */
};

struct explain {
    const struct redrive_policy *policy;
    enum redrive_class class_;
    struct explain_row row;
    struct decision end; /* once explain_next has returned false */
};

/* A job that fails with `class_` every time, and takes no time in failing. The policy is borrowed
 * and has passed its check. */
void explain_init(struct explain *e, const struct redrive_policy *policy,
                  enum redrive_class class_);

/* Moves to the next retry; false at the end. */
bool explain_next(struct explain *e);

#endif
