/* when.h - points in time as people write them on a command line.
 *
 *     2026-03-28               a date: its first minute
 *     2026-03-28T12:00         local time; seconds and fractions of them may follow, and a space
 *                              may replace the T
 *     2026-03-28T12:00Z        UTC, as in all output
 *     2026-03-28T12:00+02:00   this far from UTC
 */
#ifndef CLI_FRAME_WHEN_H
#define CLI_FRAME_WHEN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/time/tz.h"
#include "redrive.h"

/* `label` is how the user wrote the option. Local times are those of `tz`; NULL: of the machine, as
 * TZ says. REDRIVE_E_USAGE for what is no time. */
int when_parse(const char *label, const char *text, const struct tz *tz, int64_t *ret_ms,
               struct redrive_err *err);

/* Whether the text begins as a date does, and not as a duration. */
bool when_looks_like_date(const char *text);

/* A time on the clocks of a zone, with its distance from UTC: 2026-03-28T12:00:00+01:00. */
#define WHEN_TEXT_MAX 48
const char *when_format(const struct tz *tz, int64_t at_ms, char out[WHEN_TEXT_MAX]);

/* A span for people, to the second unless it is shorter: 1h2m5s. */
const char *when_span(int64_t ms, char out[WHEN_TEXT_MAX]);

#endif
