/* type_name.h - how a pattern names an error type, in policies and in classification rows. */
#ifndef CORE_TYPE_NAME_H
#define CORE_TYPE_NAME_H

#include <string.h>

#include "base/str.h"

/* True when `pattern` is the whole type, is its last component (`Timeout` names
 * `requests.Timeout`), has a type without components as its own last one (`requests.Timeout` names
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

#endif
