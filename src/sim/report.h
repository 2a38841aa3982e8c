/* report.h - a comparison in words, as JSON and as a picture. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "sim/compare.h"

/* What was simulated, in one line without a full stop. */
void comparison_describe(const struct comparison *comparison, struct buf *out);

/* "8 attempts", the word that is to follow, and what differs: " (your policy: 6)". */
void comparison_attempts(const struct comparison *comparison, const char *after, struct buf *out);

/* How to read the numbers, in one line: which strategy lost no job at the least waste, or that none
 * did. A job that was refused at submit is lost as well. */
void comparison_read(const struct comparison *comparison, struct buf *out);

/* One object: `options`, as used, `strategies`, an array in the order of the comparison, and the
 * name of the `best`. */
void comparison_json(const struct comparison *comparison, struct buf *out);
/* The members of that object, within an object that is open. */
void comparison_write_members(const struct comparison *comparison, struct json_writer *w);
/* What the picture shows, likewise: `step_ms`, the length of a point of time, and `calls_per_s`, an
 * array for each strategy. */
void comparison_write_series(const struct comparison *comparison, struct json_writer *w);

/* The strategy that lost the fewest jobs and, among equals, wasted the fewest calls. */
size_t comparison_best(const struct comparison *comparison);

/* Appends a picture: calls per second over time, one line a strategy. It is standalone SVG with no
 * scripts, no fonts of its own and nothing to load. Lines differ by colour (the Okabe-Ito palette,
 * which is safe for colour-blind readers) and by dash pattern, so that it also works in print.
 * Returns 0, or the failure of the buffer. */
int chart_svg(const struct comparison *comparison, struct buf *out);

#endif
