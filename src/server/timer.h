/* timer.h - being called at a time: one thread that rings any number of timers.
 *
 * A timer is embedded in what it belongs to and costs nothing while it waits. It rings once for
 * each time that it is set, on the thread of the timers, which must not be held up. Times are those
 * of clock_monotonic_ms.
 */
#ifndef SERVER_TIMER_H
#define SERVER_TIMER_H

#include <stdint.h>

#include "base/mem/list.h"
#include "redrive.h"

struct timer {
    struct list link;
    int64_t at_ms;
    void (*ring)(struct timer *timer);
};

struct timers;

int timers_new(struct timers **ret, struct redrive_err *err);
/* Bells that are still set do not ring. NULL does nothing. */
void timers_free(struct timers *timers);

static inline void timer_init(struct timer *timer, void (*ring)(struct timer *timer))
{
    list_init(&timer->link);
    timer->ring = ring;
}

/* One that is set is set anew. Cheap for times that are later than most. */
void timer_set(struct timers *timers, struct timer *timer, int64_t at_ms);

/* When it returns, the timer does not ring, and is not ringing either, unless it is called from the
 * ringing itself. A timer that was not set does not mind. */
void timer_unset(struct timers *timers, struct timer *timer);

#endif
