/* job.h - new jobs as a request describes them.
 *
 *     {"task": "mail", "payload": {…}, "id": "…", "queue": "…", "priority": 0,
 *      "delay": "5m" | "process_after": TIME | "at": TIME, "deadline": TIME | "1h",
 *      "unique_key": "…", "unique": "live" | "forever", "user": "…", "project": "…",
 *      "service": "…", "retry": {…}, "max_attempts": 5, "traceparent": "…",
 *      "failed": {"class": "network", "reason": "exhausted", "error_type": "…", "message": "…",
 *                 "stacktrace": "…"}}
 *
 * or an array of such objects.
 */
#ifndef SERVER_REST_BODY_JOB_H
#define SERVER_REST_BODY_JOB_H

#include "fields/json.h"
#include "store/job.h"

/* The most jobs in one array. */
#define JOB_BODY_MAX 1000

/* The longest key for a repetition, less the numbers of an array. */
#define JOB_BODY_KEY_MAX 200

struct job_body {
    struct job_spec *specs; /* in the arena; payloads are slices of the text */
    size_t n;
    bool is_array;
    char field[FIELD_PLACE_MAX]; /* at fault, after a failure; "": the body as a whole */
};

/* `key` (absent: none) makes a repeated request the same jobs: it is the id of the job where the
 * request gives none; in an array KEY/0, KEY/1 … */
int job_body_read(struct str text, struct str tenant, struct str key, int64_t now_ms,
                  struct arena *arena, struct job_body *ret, struct redrive_err *err);

/* Whether a key can be the id of a job: REDRIVE_E_INVALID or _TOO_BIG. */
int job_body_check_key(struct str key, struct redrive_err *err);

#endif
