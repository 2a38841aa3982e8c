/* log_pace.h - limits how often a log line is written that a client can cause at will.
 *
 * The lines in between are counted, and the next one that is written says how many there were. The
 * caller sees to it that one thread at a time uses it.
 */
#ifndef BASE_OS_LOG_PACE_H
#define BASE_OS_LOG_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct log_pace {
    int64_t next_ms;   /* before that nothing is written */
    int64_t held_back; /* lines since the last one that was */
};

/* Whether to write a line now; then `ret_held_back` is how many were not before it. */
static inline bool log_pace_allows(struct log_pace *pace, int64_t now_ms, int64_t every_ms,
                                   int64_t *ret_held_back)
{
    if (now_ms < pace->next_ms) {
        pace->held_back++;
        return false;
    }
    *ret_held_back = pace->held_back;
    *pace = (struct log_pace){.next_ms = now_ms + every_ms};
    return true;
}

#endif
