/* timer.h - calls functions at their time: one thread for any number of timers.
 *
 * A timer is embedded in what it belongs to and costs nothing while it waits. It fires once for
 * each time that it is set, on the thread of the timers, which must not be blocked. Times are those
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
    void (*fire)(struct timer *timer);
};

struct timers;

int timers_new(struct timers **ret, struct redrive_err *err);
/* Timers that are still set do not fire. NULL does nothing. */
void timers_free(struct timers *timers);

static inline void timer_init(struct timer *timer, void (*fire)(struct timer *timer))
{
    list_init(&timer->link);
    timer->fire = fire;
}

/* One that is set is set anew. Cheap for times that are later than most. */
void timer_set(struct timers *timers, struct timer *timer, int64_t at_ms);

/* When it returns, the timer will not fire and is not firing, unless this is called from the
 * timer's own function. A timer that was not set stays so. */
void timer_unset(struct timers *timers, struct timer *timer);

#endif
