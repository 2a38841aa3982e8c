/* moment.h - points in time as requests write them: RFC 3339.
 *
 *     2026-03-28T12:00:00Z          seconds and fractions of them may be left out
 *     2026-03-28T12:00+02:00        so far from UTC
 *
 * Whoever asks over a network may be anywhere, so a time without Z or an offset is refused.
 */
#ifndef DOORS_MOMENT_H
#define DOORS_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define MOMENT_EXPECTED "a time such as 2026-03-28T12:00:00Z"

/* False: it is no time, or one before 1970. */
bool moment_parse(struct str text, int64_t *ret_ms);

/* Whether the text begins as a date does, and not as a duration. */
bool moment_looks_like_one(struct str text);

#endif
