/* duration.h - spans of time as people write them.
 *
 * Accepted: `500ms`, `2m`, `1h30m`, `1.5s`, `7d`, `1w` (units ms s m/min h d w, each at most once,
 * largest first), ISO 8601 durations without years and months (`PT1H30M`, `P1DT12H`, `PT0.5S`,
 * `P2W`), and `0`. Only the last part may have a fraction, and the whole must be a number of
 * milliseconds. Anything else is refused: a bare number has no unit, and a negative span no
 * meaning.
 */
#ifndef BASE_TIME_DURATION_H
#define BASE_TIME_DURATION_H

#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

/* The longest span: 100 years. */
#define DURATION_MAX_MS (INT64_C(100) * 365 * 24 * 3600 * 1000)

/* 0; REDRIVE_E_PARSE, with what was expected, what is wrong and what may have been meant; or
 * REDRIVE_E_RANGE for more than the longest span. */
int duration_parse(struct str text, int64_t *ret_ms, struct redrive_err *err);

/* Exact, largest unit first, nothing that is zero: `1h30m`, `2m`, `1.5s`, `500ms`, `0s`, `14d`.
 * duration_parse reads it back; only a negative span, written with a minus sign, it refuses. */
#define DURATION_TEXT_MAX 48
const char *duration_format(int64_t ms, char out[DURATION_TEXT_MAX]);

#endif
