/* classify.h - what kind of failure was it?
 *
 * The answer comes from an ordered table; the first match wins:
 *   1. the handler's own word: SUCCESS, TRANSIENT_FAIL, PERMANENT_FAIL, or a class by name; FAIL
 *      and unknown words only say that it failed;
 *   2. an outcome in which nothing indicates a failure is a success;
 *   3. the user's rows, in their order (one of them may call a failure a success); a row of an
 *      error type matches if any of the failure's types does;
 *   4. special cases: 503 with Retry-After and 403 with a rate-limit reason are rate_limited;
 *   5. built-in rows, by source in the order of enum redrive_source. The types that the error's
 *      own derives from come, most derived first, after all numbers but the exit code: an
 *      HTTPError with status 404 is what 404 says;
 *   6. nothing: transient, and `unclassified` is set so that the caller can count it.
 */
#ifndef CORE_CLASSIFY_CLASSIFY_H
#define CORE_CLASSIFY_CLASSIFY_H

#include "base/text/str.h"
#include "redrive.h"

/* Whose failure it is, for rows that are limited to a task, queue, service or user. NULL fields
 * match only rows without that limit. */
struct classify_context {
    const char *task;
    const char *queue;
    const char *service;
    const char *user;
};

struct verdict {
    enum redrive_class class_;
    enum redrive_severity severity;
    bool unclassified;
};

/* The user's rows, compiled. Immutable after creation: threads may share it. */
struct classifier;

/* Copies and compiles; a bad pattern fails with the row's number (from 1), the source, and what
 * was expected. */
int classifier_new(const struct redrive_classify_row *rows, size_t n_rows, struct classifier **ret,
                   struct redrive_err *err);
void classifier_free(struct classifier *classifier);

/* Checks one row as classifier_new would. */
int classify_row_check(const struct redrive_classify_row *row, struct redrive_err *err);

/* A NULL classifier has no user rows; a NULL context has no names. Allocates nothing, unless a
 * user's message row is reached (regexec may). */
struct verdict classify(const struct classifier *classifier, const struct redrive_failure *failure,
                        const struct classify_context *context);

/* What a handler's own word means, upper or lower case: the class, CLASSIFY_FAIL for a failure of
 * which the rest of the table is to find the class, or -1 for an unknown word. */
#define CLASSIFY_FAIL REDRIVE_CLASS_COUNT
int classify_status(struct str word);

/* The number of a signal or errno by its name (case ignored, with or without SIG), or 0. */
int classify_signal_number(struct str name);
int classify_errno_number(struct str name);

#endif
