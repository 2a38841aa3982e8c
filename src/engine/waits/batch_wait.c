/* batch_wait.c - whether the next transaction waits a moment for operations that are about to come.
 */
#include "engine/waits/batch_wait.h"

#include <stdbool.h>

/* A transaction that takes so long waits for a network or a disk, whatever is in it. */
#define FAR_US 300

/* The part of a transaction's time that may be waited. */
#define PART   4
#define MAX_US 1000

/* So often it is tried whether more come back than is known. */
#define TRY_EVERY 16

void batch_wait_answered(struct batch_wait *w, size_t n_left, size_t n_answered, int64_t took_us,
                         int64_t now_us)
{
    const int64_t part_us = took_us / PART;
    w->n_left = n_left;
    w->n_answered = n_answered;
    w->until_us = took_us < FAR_US ? 0 : now_us + (part_us < MAX_US ? part_us : MAX_US);
    if (w->until_us == 0)
        w->n_back = 0;
}

size_t batch_wait_enough(struct batch_wait *w, int64_t now_us)
{
    if (now_us >= w->until_us) { /* they have stayed away */
        w->n_back = 0;
        return 0;
    }
    const bool tries = w->n_asked++ % TRY_EVERY == 0;
    const size_t n_back = tries || w->n_back > w->n_answered ? w->n_answered : w->n_back;
    return n_back == 0 ? 0 : w->n_left + n_back;
}

void batch_wait_learn(struct batch_wait *w, size_t n_waiting)
{
    w->n_back = n_waiting > w->n_left ? n_waiting - w->n_left : 0;
}
