/* decide.h - what happens to a job now that it has run, or could not.
 *
 * The one decision of the whole program: engine, in-process handler, simulator and `redrive policy
 * explain` call this function and no other. It is pure, allocates nothing, and returns a delay,
 * never a time: the store that keeps the job adds its own clock.
 */
#ifndef CORE_DECIDE_H
#define CORE_DECIDE_H

#include <stdint.h>

#include "core/breaker/breaker.h"
#include "core/classify/classify.h"
#include "redrive.h"

/* A job whose runs crash or get lost so many times in a row is the cause of it. */
#define DECIDE_POISON_AFTER 3

/* Only what the decision depends on. */
struct job_facts {
    uint32_t attempts;      /* starts of this epoch, the one that just ended included */
    uint32_t crashes;       /* crashed or lost runs in a row before this one */
    int64_t elapsed_ms;     /* since the epoch's first start, less parked, paused, limited time */
    int64_t deadline_in_ms; /* until the job's own deadline; INT64_MAX: none */
    uint64_t seed;          /* backoff_seed(id, epoch) */
    bool is_probe;          /* it ran as a breaker's probe */
    struct classify_context names;
};

enum ending {
    ENDING_RAN,          /* it returned; `failure` says how */
    ENDING_LEASE_LOST,   /* its worker did not report in time */
    ENDING_RELEASED,     /* given back unfinished: a graceful stop */
    ENDING_SNOOZED,      /* asked to be run later, without blame */
    ENDING_CANCELLED,    /* by hand */
    ENDING_KILLED,       /* sent to the dead letters by hand */
    ENDING_DEADLINE,     /* its time was up while it waited */
    ENDING_BREAKER_OPEN, /* met an open breaker with on_open: dead_letter */
    ENDING_INVALID,      /* it can never run: what it needs is missing */
    ENDING_DAMAGED,      /* it must not run: the store does not have what was submitted */
};

struct outcome {
    enum ending ending;
    struct redrive_failure failure; /* ENDING_RAN; all zero: success */
    bool was_killed;                /* ENDING_RAN: its process had to die for another job */
    redrive_delay_fn delay; /* in place of the policy's strategy, where no class rule has one */
    void *delay_ctx;
    int64_t snooze_ms; /* ENDING_SNOOZED */
};

/* Why the delay is what it is, for the history. */
enum delay_why {
    DELAY_NONE,
    DELAY_BACKOFF,
    DELAY_CLASS_RULE, /* the policy's rule for this class */
    DELAY_ASKED,      /* the failing side asked for longer */
    DELAY_TOO_LATE,   /* there is none: the retry would have begun after the job's time */
    DELAY_SNOOZE,
};
const char *delay_why_name(enum delay_why why);

/* The retry that there was no time for, to be shown to people. */
struct too_late {
    int64_t delay_ms;         /* before it */
    bool was_asked;           /* the failing side wanted that long */
    int64_t total_timeout_ms; /* the policy's, which it passes; 0: it passes the job's deadline */
};

struct decision {
    enum redrive_state
        state;        /* completed, retrying, queued, scheduled, failed, dead_letter, cancelled */
    int64_t delay_ms; /* retrying and scheduled */
    enum delay_why why;
    enum redrive_reason reason;
    enum redrive_class class_;
    enum redrive_severity severity;
    enum breaker_result breaker;
    uint32_t crashes; /* to be kept with the job */
    /* Attempts that the policy allows a job whose last failure is of this class; 0: no failure. */
    uint32_t max_attempts;
    bool unclassified;
    bool uses_attempt;        /* false: the start is taken back */
    bool is_overload;         /* the service turned the call away as too much, or it timed out */
    struct too_late too_late; /* with DELAY_TOO_LATE */
};

/* The policy has passed redrive_policy_check; the classifier may be NULL. */
struct decision decide(const struct job_facts *job, const struct outcome *outcome,
                       const struct redrive_policy *policy, const struct classifier *classifier);

#endif
