/* linger.c - whether the next transaction waits a moment for operations that are about to come. */
#include "engine/linger.h"

#include <stdbool.h>

/* A transaction that takes so long waits for a network or a disk, whatever is in it. */
#define FAR_US 300

/* The part of a transaction's time that may be waited. */
#define PART   4
#define MAX_US 1000

/* So often it is tried whether more come back than is known. */
#define TRY_EVERY 16

void linger_answered(struct linger *l, size_t n_left, size_t n_answered, int64_t took_us,
                     int64_t now_us)
{
    const int64_t part_us = took_us / PART;
    l->n_left = n_left;
    l->n_answered = n_answered;
    l->until_us = took_us < FAR_US ? 0 : now_us + (part_us < MAX_US ? part_us : MAX_US);
    if (l->until_us == 0)
        l->n_back = 0;
}

size_t linger_for(struct linger *l, int64_t now_us)
{
    if (now_us >= l->until_us) { /* they have stayed away */
        l->n_back = 0;
        return 0;
    }
    const bool tries = l->n_asked++ % TRY_EVERY == 0;
    const size_t n_back = tries || l->n_back > l->n_answered ? l->n_answered : l->n_back;
    return n_back == 0 ? 0 : l->n_left + n_back;
}

void linger_learn(struct linger *l, size_t n_waiting)
{
    l->n_back = n_waiting > l->n_left ? n_waiting - l->n_left : 0;
}
