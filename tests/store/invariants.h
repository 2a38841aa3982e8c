/* invariants.h - holds a store to the invariants of docs/architecture.md that a store can break.
 *
 * A store around another one, which writes a ledger of what is acknowledged (ledger.h), and a
 * check of what the store then holds against it. Of the invariants, 1 to 5 and 7 to 9.
 *
 * A commit that fails with REDRIVE_E_IO has happened or has not. From then on there are two
 * ledgers, and the store is right if one of both is.
 */
#ifndef TESTS_STORE_INVARIANTS_H
#define TESTS_STORE_INVARIANTS_H

#include "ledger.h"
#include "wrap.h"

struct invariants {
    struct wrap wrap;
    struct ledger committed[2];
    struct ledger transaction[2];
    size_t n; /* of ledgers: 1 or 2 */
};

/* Watches calls to wrap_store(&v->wrap). */
void invariants_init(struct invariants *v, struct store *inner);

/* Reads everything from `store` and compares. */
struct violation invariants_check(const struct invariants *v, struct store *store);

#endif
