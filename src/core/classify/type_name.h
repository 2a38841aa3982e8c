/* type_name.h - how a pattern names an error type, in policies and in classification rows. */
#ifndef CORE_CLASSIFY_TYPE_NAME_H
#define CORE_CLASSIFY_TYPE_NAME_H

#include <string.h>

#include "base/text/str.h"
#include "core/classify/failure.h"

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
