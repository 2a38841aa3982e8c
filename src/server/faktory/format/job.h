/* job.h - a job as Faktory's clients write it, and as its workers read it.
 *
 * A job that is pushed here is kept whole: its payload is the object that the producer sent, byte
 * for byte, so that the worker gets back every member, also those that are unknown here. What the
 * queue needs (jid, jobtype, queue, retry, priority, at, reserve_for, custom.traceparent) is read
 * from it.
 *
 * A worker may also get a job that was submitted elsewhere. Its payload becomes `args`: an array as
 * it is, nothing as no arguments, anything else as the only argument.
 *
 * Pure. Error messages have Faktory's own text.
 */
#ifndef SERVER_FAKTORY_FORMAT_JOB_H
#define SERVER_FAKTORY_FORMAT_JOB_H

#include "base/json/json.h"
#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "redrive.h"
#include "store/job.h"

#define FAKTORY_RETRY_DEFAULT    25
#define FAKTORY_PRIORITY_DEFAULT 5
#define FAKTORY_RESERVE_MS       (INT64_C(1800) * 1000)
#define FAKTORY_RESERVE_MIN_MS   (INT64_C(60) * 1000)
#define FAKTORY_RESERVE_MAX_MS   (INT64_C(86400) * 1000)

/* Strings are slices of the text, or of the arena where they had escapes. */
struct faktory_job {
    struct str text; /* the whole object */
    struct str jid;
    struct str type;
    struct str queue;
    int64_t retry;          /* 0: discarded when it fails; below 0: a dead letter at once */
    int64_t priority;       /* 1 … 9 */
    int64_t at_ms;          /* 0: now */
    struct str traceparent; /* of `custom`; absent: none */
};

int faktory_job_read(struct str json, struct arena *arena, struct faktory_job *ret,
                     struct redrive_err *err);

/* Which number of retries counts. */
enum faktory_policy {
    FAKTORY_POLICY_CLIENT, /* the task is not declared: Faktory's own policy */
    FAKTORY_POLICY_BOTH,   /* the task's policy, with the number of retries that the client gives */
    FAKTORY_POLICY_TASK,   /* the task's policy alone */
};

/* What is to be submitted. A job whose task is declared in the configuration follows the policy of
 * that task, any other one Faktory's own: every failure is retried, on the curve of the profile
 * `faktory`, and a dead job is kept for 180 days. In all cases a retry of 0 or below holds; another
 * number holds as `from` says, unless it is the protocol's default. Borrows from the job; what it
 * has to write goes to the arena, whose `failed` says whether there was memory. */
void faktory_job_spec(const struct faktory_job *job, struct str tenant, enum faktory_policy from,
                      struct arena *arena, struct job_spec *ret);

/* Priorities 1 … 9 are -100 … 100 here, 5 is 0. */
int32_t faktory_priority_in(int64_t priority);
int64_t faktory_priority_out(int32_t priority);

/* How long a worker may keep the job: reserve_for, within Faktory's bounds, or 30 minutes. */
int64_t faktory_job_lease_ms(const struct job *job);

/* Writes a running job for a worker; returns what buf_failed would. */
int faktory_job_write(const struct job *job, struct buf *out);

#endif
