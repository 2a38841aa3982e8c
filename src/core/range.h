/* range.h - named numbers and the limits that they must keep. */
#ifndef CORE_RANGE_H
#define CORE_RANGE_H

#include <stddef.h>

#include "redrive.h"

struct range {
    const char *name;
    double value;
    double min;
    double max;
};

/* 0 when all are within their limits, else REDRIVE_E_RANGE and a message about the first that is
 * not, opened by `where`. NaN is within no limits. */
int ranges_check(const struct range *ranges, size_t n, const char *where, struct redrive_err *err);

#define RANGES_CHECK(where, err, ...)                 \
    ranges_check((const struct range[]){__VA_ARGS__}, \
                 sizeof((const struct range[]){__VA_ARGS__}) / sizeof(struct range), where, err)

#endif
