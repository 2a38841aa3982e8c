/* chart.h - a comparison as a picture: calls per second over time, one line a strategy.
 *
 * Standalone SVG with no scripts, no fonts of its own and nothing to load. Lines differ by colour
 * (the Okabe-Ito palette, which is safe for colour-blind readers) and by dash pattern, so that it
 * also works in print.
 */
#ifndef SIM_CHART_H
#define SIM_CHART_H

#include "base/text/buf.h"
#include "sim/compare.h"

/* Appends the whole document; 0, or the failure of the buffer. */
int chart_svg(const struct comparison *comparison, struct buf *out);

#endif
