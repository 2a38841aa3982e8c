/* failure.h - the facts of a failure: which error types it names, and copies that outlive them.
 *
 * A failure may name its type, its type and the types that this one derives from, or none. All of
 * them are looked at in one order, the most derived first: error_type, then error_types.
 */
#ifndef CORE_CLASSIFY_FAILURE_H
#define CORE_CLASSIFY_FAILURE_H

#include <stddef.h>
#include <string.h>

#include "base/text/str.h"
#include "redrive.h"

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
 * may be what `failure` points at. NULL limits: nothing is cut. */
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
