/* figures.h - spans, ages and shares as people read them at a glance. */
#ifndef CLI_OUTPUT_FIGURES_H
#define CLI_OUTPUT_FIGURES_H

#include <stdint.h>

#include "base/text/str.h"
#include "cli/output/table.h"
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

/* Green is well, red is not. */
enum style figure_health_style(const char *status);
enum style figure_breaker_style(enum redrive_breaker_state state);

/* A cell with a slice. */
void figure_add_str(struct table *t, struct str s);

#endif
