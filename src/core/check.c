/* check.c - checks names, and numbers against their limits. */
#include "core/check.h"

#include "base/err.h"
#include "base/text/encode.h"

int name_check(const char *what, struct str name, struct redrive_err *err)
{
    if (name.len == 0)
        return err_set(err, REDRIVE_E_INVALID, "%s is empty", what);
    if (name.len > NAME_MAX_BYTES)
        return err_set(err, REDRIVE_E_TOO_BIG, "%s is over %d bytes", what, NAME_MAX_BYTES);
    if (str_has_control(name))
        return err_set(err, REDRIVE_E_INVALID, "%s has a control character", what);
    if (!utf8_valid(name))
        return err_set(err, REDRIVE_E_INVALID, "%s is not UTF-8", what);
    return 0;
}

static bool is_queue_sign(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

int name_check_queue(struct str name, struct redrive_err *err)
{
    if (name.len == 0 || name.len > NAME_MAX_BYTES)
        return name_check("queue", name, err);
    for (size_t i = 0; i < name.len; i++)
        if (!is_queue_sign(name.ptr[i]))
            return err_set(err, REDRIVE_E_INVALID, "queue names must match [a-zA-Z0-9._-]+");
    return 0;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

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
