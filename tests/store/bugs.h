/* bugs.h - a store with one planted bug, to see whether the checker finds it. */
#ifndef TESTS_STORE_BUGS_H
#define TESTS_STORE_BUGS_H

#include "wrap.h"

/* Name, the invariant that it breaks, what it does. */
#define BUG_MAP(XX)                                                         \
    XX(ACKS_WITHOUT_COMMIT, 1, "says yes to a commit and rolls back")       \
    XX(LOSES_ON_ROLLBACK, 1, "a rollback takes a job along that was there") \
    XX(ALTERS_PAYLOAD, 2, "adds a space to a payload")                      \
    XX(REVIVES_THE_DEAD, 3, "a dead letter comes back by itself")           \
    XX(IGNORES_KEYS, 4, "lets a second job have a key")                     \
    XX(COUNTS_TWICE, 5, "a start is two attempts")                          \
    XX(KEEPS_RELEASED, 5, "a release does not give the attempt back")       \
    XX(LEASES_TWICE, 7, "starts a job that runs")                           \
    XX(ACCEPTS_STALE, 8, "a stale token settles")                           \
    XX(HIDES_THE_DEAD, 9, "a dead letter is kept as failed")

enum bug {
#define XX(name, invariant, text) BUG_##name,
    BUG_MAP(XX)
#undef XX
    BUG_COUNT
};

struct buggy {
    struct wrap wrap;
    enum bug bug;
};

void buggy_init(struct buggy *buggy, struct store *inner, enum bug bug);

#endif
