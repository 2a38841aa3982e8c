/* type_name.h - how a pattern names an error type, in policies and in classification rows. */
#ifndef CORE_TYPE_NAME_H
#define CORE_TYPE_NAME_H

#include <string.h>

#include "base/str.h"

/* True when `pattern` is the whole type, is its last component, has it as its last component
 * (`requests.Timeout` and `Timeout` name each other), or is a glob that matches either. */
static inline bool type_name_matches(const char *pattern, struct str type)
{
    struct str last = str_last_component(type);
    if (strpbrk(pattern, "*?"))
        return str_glob(pattern, type) || str_glob(pattern, last);
    return str_is(type, pattern) || str_is(last, pattern);
}

#endif
