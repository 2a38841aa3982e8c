/* duration.h - spans of time as people write them.
 *
 * Accepted: `500ms`, `2m`, `1h30m`, `1.5s`, `7d`, `1w` (units ms s m/min h d w, each at most once,
 * largest first), ISO 8601 durations without years and months (`PT1H30M`, `P1DT12H`, `PT0.5S`,
 * `P2W`), and `0`. Anything else is refused: a bare number has no unit, and a negative span no
 * meaning.
 */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "redrive.h"

/* The longest span: 100 years. */
#define DURATION_MAX_MS (INT64_C(100) * 365 * 24 * 3600 * 1000)

int duration_parse(struct str text, int64_t *ret_ms, struct redrive_err *err);

/* Exact and shortest: `1h30m`, `2m`, `500ms`, `0s`; what duration_parse reads back. */
#define DURATION_TEXT_MAX 48
const char *duration_format(int64_t ms, char out[DURATION_TEXT_MAX]);

#endif
