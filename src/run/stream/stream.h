/* stream.h - a pool of long-lived programs that take jobs as JSON lines.
 *
 *     in   {"id":"7","task":"mail","attempt":1,"max_attempts":5,"payload":{…}}
 *     out  {"id":"7","status":"SUCCESS","result":{…}}
 *          {"id":"7","status":"TRANSIENT_FAIL","message":"…","error_type":"…","retry_after":2.5}
 *          {"id":"7","snooze":3600}
 *
 * A job that has waited for others has the member `parents` as well (store/job_json.h).
 *
 * `id` and `status` are required: SUCCESS, TRANSIENT_FAIL, PERMANENT_FAIL, FAIL or the name of a
 * class, in any case of letters. With another word the job has failed, and its message names it;
 * the type is ProtocolError if the answer gives none. `snooze` takes the place of a status: the job
 * is run again after so many seconds, STREAM_SNOOZE_MAX_MS at most, and no attempt is used. Other
 * members are ignored. The payload is passed as it was submitted, but for its line ends; one that
 * is not JSON fails as `validation`. Standard error is kept for the case that the program dies.
 *
 *   - Programs are started when there is work, up to `processes`. Each has at most `in_flight` jobs
 *     at one time, 1 unless said otherwise, and answers them in any order. More than one is for
 *     programs that are concurrent themselves; it has a price, see the next points. Further jobs
 *     wait, and their time-outs run meanwhile.
 *   - A program that dies fails its own jobs in flight with its exit code or signal and the end of
 *     its standard error. With several in flight it is not known which one caused it, because
 *     answers come in any order: each costs an attempt, and its message says so. The program is
 *     started again when there is work. One that has exited is given no more, although a process
 *     that it has left behind may hold its pipes open for a while (exec/child.h).
 *   - A program that dies before its first answer cannot run, most likely: its jobs end with
 *     RUN_FAULT_LIKELY. Jobs that wait end with RUN_FAULT_CERTAIN if no program has answered yet.
 *   - A line that is not an answer, one for a job that it does not have, or one of over
 *     STREAM_LINE_MAX_BYTES means that its answers cannot be trusted: it is killed, its jobs fail
 *     as ProtocolError, and the log says so.
 *   - When a job times out or is cancelled, its program is ended. The program's other jobs fail as
 *     `system`: they have been begun, so that they cost an attempt, but the breaker is not moved.
 *   - At the end a program gets the end of its input, then SIGTERM, then SIGKILL, `kill_grace_ms`
 *     apart.
 */
#ifndef RUN_STREAM_STREAM_H
#define RUN_STREAM_STREAM_H

#include "run/runner.h"

#define STREAM_LINE_MAX_BYTES (2u * 1024 * 1024)
#define STREAM_MAX_PROCESSES  1024
#define STREAM_SNOOZE_MAX_MS  (INT64_C(30) * 24 * 3600 * 1000)

struct stream_options {
    const char *const *argv; /* borrowed, ends with NULL */
    char *const *environ;    /* borrowed; what may be passed on, see exec/spawn.h */
    const char *const *pass; /* borrowed; names to pass on besides; may be NULL */
    uint32_t processes;      /* 0: 1 */
    uint32_t in_flight;      /* 0: 1 */
    int64_t kill_grace_ms;   /* 0: CHILD_GRACE_MS */
};

/* NOMEM, or INVALID when argv is empty or there are too many processes. */
int stream_runner_new(uv_loop_t *loop, const struct log *log, const struct stream_options *options,
                      struct runner **ret, struct redrive_err *err);

#endif
