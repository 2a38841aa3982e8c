/* check.h - which names jobs, tasks, queues and workers may have; limits that numbers must keep.
 *
 * Names come from clients. They are checked before they are looked up anywhere.
 */
#ifndef CORE_CHECK_H
#define CORE_CHECK_H

#include <stddef.h>

#include "base/text/str.h"
#include "redrive.h"

#define NAME_MAX_BYTES 255

/* 0 for 1 to NAME_MAX_BYTES bytes of UTF-8 without control characters. Otherwise
 * REDRIVE_E_INVALID or REDRIVE_E_TOO_BIG; the message begins with `what`. */
int name_check(const char *what, struct str name, struct redrive_err *err);

/* The same of a queue, whose name has letters, digits, '.', '_' and '-' only: it is written
 * unescaped in commands and paths. */
int name_check_queue(struct str name, struct redrive_err *err);

/* What the names of workers that claim through the Faktory protocol begin with, in leases and lists
 * of workers; a worker of another kind may not be called so. It decides whether a Faktory client
 * may settle a job. */
#define NAME_FAKTORY_WORKER "faktory:"

/* ---- Numbers --------------------------------------------------------------------------------- */

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
