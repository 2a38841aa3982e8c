/* timer.h - being called at a time: one thread that rings any number of bells.
 *
 * A bell is embedded in what it belongs to and costs nothing while it waits. It rings once for each
 * time that it is set, on the thread of the bells, which must not be held up. Times are those of
 * clock_monotonic_ms.
 */
#ifndef SERVER_TIMER_H
#define SERVER_TIMER_H

#include <stdint.h>

#include "base/mem/list.h"
#include "redrive.h"

struct bell {
    struct list link;
    int64_t at_ms;
    void (*ring)(struct bell *bell);
};

struct bells;

int bells_new(struct bells **ret, struct redrive_err *err);
/* Bells that are still set do not ring. NULL does nothing. */
void bells_free(struct bells *bells);

static inline void bell_init(struct bell *bell, void (*ring)(struct bell *bell))
{
    list_init(&bell->link);
    bell->ring = ring;
}

/* One that is set is set anew. Cheap for times that are later than most. */
void bell_set(struct bells *bells, struct bell *bell, int64_t at_ms);

/* When it returns, the bell does not ring, and is not ringing either, unless it is called from the
 * ringing itself. A bell that was not set does not mind. */
void bell_unset(struct bells *bells, struct bell *bell);

#endif
