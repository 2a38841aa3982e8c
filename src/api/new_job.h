/* new_job.h - the fields of a new job, and new jobs as JSON.
 *
 *     {"task": "mail", "payload": {…}, "id": "…", "queue": "…", "priority": 0,
 *      "delay": "5m" | "process_after": TIME | "at": TIME, "deadline": TIME | "1h",
 *      "unique_key": "…", "unique": "live" | "forever", "user": "…", "project": "…",
 *      "service": "…", "retry": {…}, "max_attempts": 5, "traceparent": "…",
 *      "failed": {"class": "network", "reason": "exhausted", "error_type": "…", "message": "…",
 *                 "stacktrace": "…"}}
 *
 * or an array of such objects. A job that has failed takes none of the members that say when it
 * starts.
 */
#ifndef API_NEW_JOB_H
#define API_NEW_JOB_H

#include "fields/json.h"
#include "store/job.h"

/* The rows of NEW_JOB_FIELDS. */
enum new_job_field {
    NEW_JOB_TASK,
    NEW_JOB_PAYLOAD,
    NEW_JOB_ID,
    NEW_JOB_QUEUE,
    NEW_JOB_PRIORITY,
    NEW_JOB_DELAY,
    NEW_JOB_PROCESS_AFTER,
    NEW_JOB_AT,
    NEW_JOB_DEADLINE,
    NEW_JOB_UNIQUE_KEY,
    NEW_JOB_UNIQUE,
    NEW_JOB_USER,
    NEW_JOB_PROJECT,
    NEW_JOB_SERVICE,
    NEW_JOB_RETRY,
    NEW_JOB_TRACEPARENT,
    NEW_JOB_MAX_ATTEMPTS,
    NEW_JOB_AFTER,
    NEW_JOB_FAILED,
};

/* What a job is told: names, kinds and bounds, also of the options that set them. */
extern const struct field NEW_JOB_FIELDS[];

/* The most jobs in one array. */
#define NEW_JOBS_MAX 1000

struct new_jobs_input {
    struct str text;
    struct str tenant;
    int64_t now_ms;
    bool are_options; /* the members were options: an error names --at in place of at */
};

struct new_jobs {
    struct job_spec *specs; /* in the arena; texts are slices of the input, or in the arena */
    size_t n;
    bool is_array;
    char field[FIELD_PLACE_MAX]; /* at fault, after a failure; "": the text as a whole */
};
int new_jobs_read(const struct new_jobs_input *input, struct arena *arena, struct new_jobs *ret,
                  struct redrive_err *err);

#endif
