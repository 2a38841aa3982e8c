/* leases.h - whether leases that were handed out are still held.
 *
 * A job that was claimed in this process may be settled, extended or taken back in another one, of
 * which this one hears nothing: it has to ask the store.
 */
#ifndef ENGINE_CLOCK_LEASES_H
#define ENGINE_CLOCK_LEASES_H

#include "engine/transaction.h"
#include "store/store.h"

struct lease {
    struct job_name job;
    uint64_t token;
    int64_t until_ms; /* the answer: when it ends; 0: it is not held any more */
};

struct leases_op {
    struct op op;
    struct lease *leases; /* borrowed */
    size_t n;
};

/* Up to STORE_PAGE_MAX of them. Nothing is changed. */
void leases_op_init(struct leases_op *op, struct lease *leases, size_t n);

#endif
