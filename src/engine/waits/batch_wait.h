/* batch_wait.h - whether the next transaction waits a moment for operations that are about to come.
 *
 * Where a transaction takes a millisecond because of a network or a disk, its cost hardly depends
 * on how much is in it. Callers that have just been answered often come back at once: a worker
 * whose jobs are short settles them and claims the next ones. If the transaction that is due does
 * not wait for them, callers fall into two groups that take turns, and each sees two transactions
 * for every one of its own.
 *
 * So the committer learns how many of the callers that were answered come back soon. It waits for
 * that many, until a small part of the time that the last transaction took has passed since its
 * answers. If none come back, it does not wait; now and then it tries again. Pure: times and counts
 * are arguments.
 */
#ifndef ENGINE_WAITS_BATCH_WAIT_H
#define ENGINE_WAITS_BATCH_WAIT_H

#include <stddef.h>
#include <stdint.h>

struct batch_wait {
    size_t n_left;     /* operations that waited already when the last ones were answered */
    size_t n_answered; /* by the last transaction */
    size_t n_back;     /* how many of the answered callers have come back soon, lately */
    int64_t until_us;  /* later than this they are not waited for; 0: the store is near */
    uint32_t n_asked;
};

/* A transaction that has taken so long has ended; its operations are about to be answered. */
void batch_wait_answered(struct batch_wait *wait, size_t n_left, size_t n_answered, int64_t took_us,
                         int64_t now_us);

/* How many waiting operations are enough for the next transaction, which may wait for them until
 * `until_us`; 0: it begins at once. */
size_t batch_wait_enough(struct batch_wait *wait, int64_t now_us);

/* The wait is over, and so many operations have gathered. */
void batch_wait_learn(struct batch_wait *wait, size_t n_waiting);

#endif
