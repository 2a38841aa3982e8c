/* range.c - checks numbers against their limits. */
#include "core/range.h"

#include "base/err.h"

int ranges_check(const struct range *ranges, size_t n, const char *where, struct redrive_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct range *r = &ranges[i];
        if (r->value >= r->min && r->value <= r->max)
            continue;
        err_set(err, REDRIVE_E_RANGE, "%s%s is out of range", where, r->name);
        err_detail(err, "%.15g is not between %.15g and %.15g", r->value, r->min, r->max);
        return REDRIVE_E_RANGE;
    }
    return 0;
}
