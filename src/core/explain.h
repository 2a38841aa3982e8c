/* explain.h - what a policy will do to a job that keeps failing, retry by retry.
 *
 * Every verdict is decide()'s own: once with the least delay that jitter can give and once with
 * the most, so that a total time-out which only some schedules run into is shown as such. How it
 * ends is what the middle of these says: with full jitter the least delays are next to nothing, and
 * no job ever has only such.
 */
#ifndef CORE_EXPLAIN_H
#define CORE_EXPLAIN_H

#include "base/json/writer.h"
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
    struct redrive_failure failure;      /* how every run ends */
    const struct classifier *classifier; /* may be NULL */
    struct classify_context names;
    enum redrive_class class_; /* what that is */
    int64_t run_ms;            /* how long each run takes; counts for the total time-out */
    struct explain_row row;

    /* Once explain_next has returned false. */
    uint32_t certain;    /* so many retries are reached by every schedule */
    uint32_t usual;      /* and so many by the middle one */
    struct decision end; /* of that one */

    int64_t usual_total_ms;
    bool usual_ended;
};

/* A job that fails with `class_` every time, and takes no time in failing, unless run_ms is set
 * before the first explain_next. The policy is borrowed and has passed its check. */
void explain_init(struct explain *e, const struct redrive_policy *policy,
                  enum redrive_class class_);

/* The same for one that fails as `failure` says, which the classifier (NULL: the built-in table)
 * makes a class of. All is borrowed. */
void explain_init_failure(struct explain *e, const struct redrive_policy *policy,
                          const struct redrive_failure *failure,
                          const struct classifier *classifier,
                          const struct classify_context *names);

/* Moves to the next retry; false at the end. */
bool explain_next(struct explain *e);

/* Goes through all retries, and writes the first `max_rows` of them as "retries", then "class",
 * "then" and "reason": how it ends. "more" says that rows were left out. attempts_min,
 * attempts_usual and attempts_max are there when jitter decides how many attempts there are. */
void explain_write_members(struct explain *e, uint32_t max_rows, struct json_writer *w);

/* Whether the total time-out leaves time for all retries of a job that fails as some class that the
 * policy tries again, each time after `run_ms`; if not, how many attempts fit for that class, of
 * how many. */
bool explain_fits(const struct redrive_policy *policy, int64_t run_ms, uint32_t *ret_attempts,
                  uint32_t *ret_of);

#endif
