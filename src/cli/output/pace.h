/* pace.h - how fast a number grows, from looking at it now and then.
 *
 * Keeps the last looks. In between the number is taken to have grown evenly, so that the pace of
 * any second can be computed however often one looks. A number that falls (the store was made anew)
 * starts it over.
 */
#ifndef CLI_OUTPUT_PACE_H
#define CLI_OUTPUT_PACE_H

#include <stdint.h>

#include "base/text/buf.h"

#define PACE_LOOKS 512

struct pace {
    struct {
        int64_t at_ms;
        double value;
    } looks[PACE_LOOKS]; /* a ring */
    unsigned first;
    unsigned n;
};

/* Zeroed is empty. Times that do not rise are left out. */
void pace_add(struct pace *pace, int64_t at_ms, double value);

/* Growth a second between two times; -1 when that is before the first look or after the last. */
double pace_between(const struct pace *pace, int64_t from_ms, int64_t to_ms);

/* Growth a second over up to the last `span_ms`; 0 before there are two looks. */
double pace_recent(const struct pace *pace, int64_t span_ms);

/* One sign a second for the last `seconds`, the latest at the right, as high as the highest; blank
 * where nothing is known. */
void pace_draw(const struct pace *pace, unsigned seconds, struct buf *out);

#endif
