/* clock.h - time, injected.
 *
 * Nothing to the right of base reads the system's clock except through these. Wall time is
 * milliseconds since 1970 UTC; it may jump. Monotonic time is for measuring spans.
 */
#ifndef BASE_TIME_CLOCK_H
#define BASE_TIME_CLOCK_H

#include <stdint.h>

int64_t clock_wall_ms(void);
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_ns(void);

/* A wall time as every interface shows it: 2026-05-01T12:00:00.000Z. */
#define CLOCK_TEXT_MAX 40
const char *clock_format(int64_t wall_ms, char out[CLOCK_TEXT_MAX]);

#endif
