/* job.h - a job as the stores keep it.
 *
 * Plain data. Strings are slices: of the caller's memory on the way in, of a struct job_page's
 * arena on the way out. Absent strings are {NULL, 0}. Times are wall-clock milliseconds; 0 means
 * "not yet" or "never".
 */
#ifndef STORE_JOB_H
#define STORE_JOB_H

#include <stdint.h>

#include "base/text/str.h"
#include "core/after.h"
#include "core/breaker/breaker.h"
#include "core/trace/context.h"
#include "redrive.h"

/* How a failure is remembered. */
struct job_error {
    enum redrive_class class_; /* REDRIVE_CLASS_SUCCESS: there was none */
    struct str type;
    struct str message;
    struct str stacktrace;
    int32_t code; /* HTTP status, exit code, signal … whichever decided */
};

/* What a job is known by. */
struct job_name {
    struct str tenant;
    struct str id;
};

/* A job that another one waits for, as a client names it. */
struct job_after {
    struct str id; /* of the same tenant */
    struct after_rule rule;
};

/* How a job has failed for good that was tried elsewhere: in a program, by its own handler. */
struct job_failed {
    enum redrive_reason reason;
    struct job_error error; /* class_ is none that means success */
};

/* What never changes after submit, except by an edit of a dead letter's payload. CONTRIBUTING.md
 * has the recipe for a new field. */
struct job_spec {
    struct str tenant;
    struct str id; /* unique within the tenant */
    struct str task;
    struct str queue;
    struct str payload; /* JSON, kept byte for byte */
    struct str user;
    struct str project;
    struct str service;
    struct str unique_key;
    bool unique_forever;      /* the first ever, even after its row is retired */
    bool payload_is_json;     /* for submit only: the engine need not look whether it is */
    struct str policy;        /* JSON of a per-job override and of the job's traceparent
                                 (core/trace/context.h), or absent */
    struct str breaker_key;   /* which breaker it meets; absent: none */
    struct str limit_key;     /* which limit it falls under; absent: none */
    int32_t priority;         /* -100 … 100 */
    int32_t max_attempts;     /* by the policy of that time; the policy in force decides */
    int64_t process_after_ms; /* for submit only: reads give 0 here, the status has it */
    int64_t delay_ms;         /* for submit only, instead of it: so long from the submit on, by the
                               * clock of the store that takes it in. The engine reads it, a store
                               * does not; 0: none */
    int64_t deadline_ms;

    /* For submit only: it has failed elsewhere, and becomes a dead letter at once. NULL: it has
     * not. The engine reads it, a store does not. */
    const struct job_failed *failed;

    /* For submit only, as process_after_ms. The engine reads `after`, a store the numbers. */
    const struct job_after *after;
    size_t n_after;
    uint32_t parents;      /* how many edges it is the child of, */
    uint32_t open_parents; /* and how many of these are open: it waits until there are none */
    uint32_t children;     /* how many edges it is the parent of */
};

/* Where it is now. */
struct job_status {
    int64_t seq; /* order of submission, unique in the store */
    enum redrive_state state;
    enum redrive_reason reason; /* of a job that ended without success */
    bool parked_by_limit;       /* parked: by a limit rather than by its breaker */
    uint32_t epoch;             /* redrives so far */
    uint32_t attempts;          /* starts of this epoch that count */
    uint32_t deferrals;         /* times it was parked, snoozed or released */
    uint32_t crashes;           /* in a row */
    int64_t process_after_ms;
    int64_t created_ms;
    int64_t updated_ms;
    int64_t first_started_ms; /* of this epoch */
    int64_t started_ms;
    int64_t finished_ms;
    int64_t paused_ms;       /* parked since first_started_ms */
    int64_t paused_since_ms; /* while parked */
    uint64_t token;          /* of the lease; 0: none */
    int64_t lease_until_ms;
    struct str worker;
    struct breaker_permit permit; /* under which it runs */
    struct job_error error;       /* the latest */
    struct str result;
    uint64_t fingerprint;
    uint32_t parents; /* edges, as in the spec */
    uint32_t open_parents;
    uint32_t children; /* at least as many as there are */
};

/* A job that another one has waited for, as the handler of the other one is given it. */
struct job_parent {
    int64_t child; /* the seq of the other one */
    struct str id;
    enum redrive_state state;
    struct str result;
    bool is_omitted; /* it has a result, which is too long to be given */
};

struct job {
    struct job_spec spec;
    struct job_status status;
    bool is_damaged; /* the store found that the spec is not what was submitted: job_is_damaged */

    /* Of a claim that asked for them, in the order of submission. NULL: it did not, or the job has
     * waited for none; reads of a store leave it so. */
    const struct job_parent *parents;
    size_t n_parents;
};

/* The maximum that people and handlers are shown: the one at submit, which is that of the failure
 * class with the most, or the attempts so far if a later policy allowed more. A job that has used
 * its attempts up had as many as it has made, whatever other classes would have allowed. */
static inline uint32_t job_max_attempts(const struct job *job)
{
    if (job->status.reason == REDRIVE_REASON_EXHAUSTED)
        return job->status.attempts;
    const uint32_t most = job->spec.max_attempts > 0 ? (uint32_t)job->spec.max_attempts : 0;
    return job->status.attempts > most ? job->status.attempts : most;
}

/* How many retries were made: what is called retry_count wherever it is shown. The SQL views of the
 * stores compute it in the same way. */
static inline uint32_t job_retry_count(const struct job_status *status)
{
    return status->attempts > 0 ? status->attempts - 1 : 0;
}

/* What the spans of its attempt are made of. */
static inline struct trace_job job_trace(const struct job *job)
{
    return (struct trace_job){
        .tenant = job->spec.tenant,
        .id = job->spec.id,
        .created_ms = job->status.created_ms,
        .epoch = job->status.epoch,
        .attempt = job->status.attempts,
        .traceparent = trace_kept(job->spec.policy),
    };
}

/* That one job waits for another. Kept beside the rows until the child is removed. */
struct job_edge {
    int64_t parent; /* seqs */
    int64_t child;
    struct after_rule rule;
    enum after_outcome outcome;
};

/* The same of a child, as it is copied to another store: seqs are each store's own. */
struct copied_edge {
    struct str parent; /* its id */
    uint32_t rule;     /* after_rule_number */
    uint32_t outcome;
};

/* One attempt, for the history; transition.h says which have a row. */
struct job_attempt {
    uint32_t epoch;
    uint32_t number; /* 0: the start was taken back */
    int64_t started_ms;
    int64_t ended_ms;
    struct str worker;
    enum redrive_state outcome; /* the state that the attempt led to */
    struct job_error error;
    int64_t delay_ms;
    struct str why;  /* why the delay is what it is: delay_why_name */
    int64_t next_ms; /* process_after, of retrying and scheduled; else 0 */
};

#endif
