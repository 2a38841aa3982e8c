/* fault.h - a store that fails on demand.
 *
 * The nth call of a slot that can fail answers REDRIVE_E_IO: once, or it and all that follow. The
 * inner store is not asked. Or the nth commit answers so after the inner one has succeeded, as when
 * the answer gets lost on its way.
 */
#ifndef TESTS_STORE_FAULT_H
#define TESTS_STORE_FAULT_H

#include "wrap.h"

struct fault {
    struct wrap wrap;
    unsigned long calls;
    unsigned long fail_at; /* counts from 1; 0: never */
    bool from_then_on;
    bool after_commit; /* count commits only, and fail after the fact */
    bool met;          /* the fault has been met */
};

void fault_init(struct fault *fault, struct store *inner);

/* How many calls there are from one that fails to the next, in tests that let each of them fail: 1,
 * or REDRIVE_FAULT_STEP. A new place on a server takes its time, so that not every call has its
 * turn there. */
unsigned long fault_step(void);

/* No more faults. */
void fault_heal(struct fault *fault);

#endif
