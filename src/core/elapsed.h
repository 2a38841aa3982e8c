/* elapsed.h - time that only runs forward, for state that grows or fades with it.
 *
 * A wall clock can be set back, and two threads may hand in their readings in the wrong order.
 * Neither may pay out the same stretch of time twice, nor stop the clock for long. So a step back
 * counts as no time at all. Up to ELAPSED_SLACK_MS it is taken for readings out of order: the mark
 * stays where it is, and time goes on once it is reached again. Further back, the clock has been
 * set: the mark follows it, and time goes on at once. All callers that share a mark must read the
 * same clock: two clocks a minute apart would add that minute each time the callers alternate.
 */
#ifndef CORE_ELAPSED_H
#define CORE_ELAPSED_H

#include <stdbool.h>
#include <stdint.h>

#define ELAPSED_SLACK_MS 1000

/* How much time has passed since the mark. */
static inline int64_t elapsed_since(int64_t mark_ms, int64_t now_ms)
{
    int64_t elapsed;
    if (now_ms <= mark_ms)
        return 0;
    return __builtin_sub_overflow(now_ms, mark_ms, &elapsed) ? INT64_MAX : elapsed;
}

/* Whether a mark, which had passed when it was made, lies ahead: the clock was ahead then, and has
 * been set back. */
static inline bool elapsed_mark_is_ahead(int64_t mark_ms, int64_t now_ms)
{
    return elapsed_since(now_ms, mark_ms) > ELAPSED_SLACK_MS;
}

/* The same as elapsed_since, and moves the mark. */
static inline int64_t elapsed_take(int64_t *mark_ms, int64_t now_ms)
{
    int64_t elapsed = elapsed_since(*mark_ms, now_ms);
    if (elapsed > 0 || elapsed_mark_is_ahead(*mark_ms, now_ms))
        *mark_ms = now_ms;
    return elapsed;
}

/* Whether an end, which was at most `longest_ms` away when it was set, lies further ahead:
 * likewise. What is to end then begins anew from now, and does not wait until the old time comes
 * again. */
static inline bool elapsed_end_is_ahead(int64_t end_ms, int64_t longest_ms, int64_t now_ms)
{
    const int64_t left_ms = elapsed_since(now_ms, end_ms);
    return left_ms > ELAPSED_SLACK_MS && left_ms - ELAPSED_SLACK_MS > longest_ms;
}

/* Moves a mark that is ahead back to now. Whether it was. */
static inline bool elapsed_follow(int64_t *mark_ms, int64_t now_ms)
{
    const bool is_ahead = elapsed_mark_is_ahead(*mark_ms, now_ms);
    if (is_ahead)
        *mark_ms = now_ms;
    return is_ahead;
}

#endif
