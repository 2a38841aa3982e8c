/* pause.h - how long a store in trouble is left alone before it is tried again. */
#ifndef ENGINE_PAUSE_H
#define ENGINE_PAUSE_H

#include <stdint.h>

#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 5000

/* The pause that follows one of `last_ms`: twice as long, within the bounds. 0: there was none. */
static inline int64_t pause_after_ms(int64_t last_ms)
{
    const int64_t doubled_ms = last_ms < PAUSE_MAX_MS ? last_ms * 2 : PAUSE_MAX_MS;
    if (doubled_ms < PAUSE_MIN_MS)
        return PAUSE_MIN_MS;
    return doubled_ms < PAUSE_MAX_MS ? doubled_ms : PAUSE_MAX_MS;
}

#endif
