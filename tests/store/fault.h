/* fault.h - a store that fails on demand.
 *
 * The nth call of a slot that can fail answers REDRIVE_E_IO: once, or it and all that follow. The
 * inner store is not asked; but a commit may also fail after the inner one has succeeded, as when
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
    bool after_commit; /* the commit that fails has happened */
    bool met;          /* the fault has been met */
};

void fault_init(struct fault *fault, struct store *inner);

/* No more faults. */
void fault_heal(struct fault *fault);

#endif
