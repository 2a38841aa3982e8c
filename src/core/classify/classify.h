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

#include <stddef.h>
#include <string.h>

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

/* Whether the call took too long: a number, an error type or the message says so. */
bool failure_is_timeout(const struct redrive_failure *failure);

/* What a handler's own word means, upper or lower case: the class, CLASSIFY_FAIL for a failure of
 * which the rest of the table is to find the class, or -1 for an unknown word. */
#define CLASSIFY_FAIL REDRIVE_CLASS_COUNT
int classify_status(struct str word);

/* The number of a signal or errno by its name (case ignored, with or without SIG), or 0. */
int classify_signal_number(struct str name);
int classify_errno_number(struct str name);

/* ---- The facts of a failure --------------------------------------------------------------------
 *
 * Which error types it names, and copies that outlive them.
 *
 * A failure may name its type, its type and the types that this one derives from, or none. All of
 * them are looked at in one order, the most derived first: error_type, then error_types.
 */

/* Type number i of a failure, from 0; NULL behind the last. */
static inline const char *failure_type_at(const struct redrive_failure *f, size_t i)
{
    if (f->error_type && i-- == 0)
        return f->error_type;
    return i < f->n_error_types && i < REDRIVE_ERROR_TYPES_MAX ? f->error_types[i] : NULL;
}

/* The type that people are shown; NULL: none is known. */
static inline const char *failure_type(const struct redrive_failure *f)
{
    return failure_type_at(f, 0);
}

/* Bytes at which a copy cuts text. */
struct failure_limits {
    size_t name; /* status, error types, SQLSTATE */
    size_t message;
    size_t stacktrace;
};

/* Copies a failure with all that it points at. Returns the block that holds the copy; the caller
 * frees it. NULL when there is nothing to point at, or no memory: then the numbers are kept. `ret`
 * may be what `failure` points at. */
void *failure_copy(const struct redrive_failure *failure, const struct failure_limits *limits,
                   struct redrive_failure *ret);

/* ---- Names of error types -------------------------------------------------------------------- */

/* True when `pattern` is the whole type, is its last component (`Timeout` names
 * `requests.Timeout`), ends with a type that has no components (`requests.Timeout` names
 * `Timeout`), or is a glob that matches the type or its last component. */
static inline bool type_name_matches(const char *pattern, struct str type)
{
    struct str last = str_last_component(type);
    if (strpbrk(pattern, "*?"))
        return str_glob(pattern, type) || str_glob(pattern, last);
    if (str_is(type, pattern) || str_is(last, pattern))
        return true;
    return last.len == type.len && str_eq(type, str_last_component(str_of(pattern)));
}

/* Whether it names one of the types of a failure. */
static inline bool type_name_matches_any(const char *pattern, const struct redrive_failure *failure)
{
    const char *type;
    for (size_t i = 0; (type = failure_type_at(failure, i)); i++)
        if (type_name_matches(pattern, str_of(type)))
            return true;
    return false;
}

#endif
