/* figures.h - spans, ages, rates and points in time as people read and write them. */
#ifndef CLI_OUTPUT_FIGURES_H
#define CLI_OUTPUT_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/output/term.h"
#include "core/time/tz.h"
#include "redrive.h"

#define FIGURE_MAX 48

/* The two largest units: 850ms, 45s, 3m05s, 2h10m, 3d04h. A negative span counts as none. */
const char *figure_span(int64_t ms, char out[FIGURE_MAX]);

/* How long until then, or "now"; "-" for 0, which means never. */
const char *figure_until(int64_t at_ms, int64_t now_ms, char out[FIGURE_MAX]);

/* How long ago; "-" for 0. */
const char *figure_since(int64_t at_ms, int64_t now_ms, char out[FIGURE_MAX]);

/* A rate: two digits after the point below 10, one below 100, else none. */
const char *figure_rate(double per_second, char out[FIGURE_MAX]);

/* The colour of a state: green for healthy and closed, red for unhealthy and open; a breaker's that
 * only a newer server knows has none. */
enum style figure_health_style(struct str status);
enum style figure_breaker_style(struct str state);

/* ---- Points in time ----------------------------------------------------------------------------
 *
 *     2026-03-28               a date: its first minute
 *     2026-03-28T12:00         local time; seconds and fractions of them may follow, and a space
 *                              may replace the T
 *     2026-03-28T12:00Z        UTC, as in all output
 *     2026-03-28T12:00+02:00   this far from UTC
 */

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
