/* job_json.h - a job as every interface shows it.
 *
 * One object with the same names everywhere: the command line, exports, HTTP. Times are text,
 * 2026-05-01T12:00:00.000Z; what is absent is null. The payload is written as it was submitted,
 * byte for byte.
 */
#ifndef STORE_JOB_JSON_H
#define STORE_JOB_JSON_H

#include "base/json/writer.h"
#include "store/page.h"

/* The whole job. `history` (may be NULL) adds its attempts, oldest first. */
void job_write_json(struct json_writer *w, const struct job *job,
                    const struct attempt_page *history);

/* The members of that object, for callers that add members of their own between begin and end. */
void job_write_members(struct json_writer *w, const struct job *job,
                       const struct attempt_page *history);

/* A time of the store: 0 writes null. */
void job_write_time(struct json_writer *w, const char *key, int64_t at_ms);

/* {"class":…,"type":…,"message":…,"stacktrace":…,"code":…}, or null when there was none. */
void job_write_error(struct json_writer *w, const char *key, const struct job_error *error);

/* A result or a payload: JSON as it stands; anything else, such as the output of a program, as a
 * string in which bytes that are not UTF-8 are replaced. */
void job_write_value(struct json_writer *w, const char *key, struct str value);

/* [{"id":…,"state":…,"result":…}, …], of results up to `max_bytes` together: one that does not fit,
 * or that the store has left out, is "result_omitted":true instead. */
void job_write_parents(struct json_writer *w, const struct job_parent *parents, size_t n,
                       size_t max_bytes);

/* Whether the job is not what was submitted: its store says so, or its payload is no JSON. Such a
 * job is shown and can be cancelled or removed, but must not run. */
bool job_is_damaged(const struct job *job);

/* Why the job is in its state: the reason of one that ended without success, `breaker` or `limit`
 * of one that is parked; NULL: no reason. */
const char *job_reason_word(const struct job_status *status);

#endif
