/* running.h - what an engine remembers of the jobs that it has started.
 *
 * While a job runs under a token nothing changes in its row that a settlement looks at, so the row
 * need not be read again: the store refuses a token that no longer holds. Payloads are not kept.
 * This only saves reads: what is not here is read from the store.
 */
#ifndef ENGINE_RUNNING_H
#define ENGINE_RUNNING_H

#include "base/mem/map.h"
#include "store/job.h"

/* What is not settled here for so long, up to twice as long, is forgotten, and earlier if there
 * would be more than RUNNING_MAX jobs or RUNNING_BYTES_MAX bytes of them: most of it has been ended
 * by other processes, of which this one hears nothing. */
#define RUNNING_KEPT_MS   (5 * 60 * 1000)
#define RUNNING_MAX       65536
#define RUNNING_BYTES_MAX ((size_t)64 << 20)

struct running_job;

struct running {
    struct map young;   /* token → struct running_job */
    struct map old;     /* token → struct running_job; forgotten at the next turn */
    size_t young_bytes; /* of the jobs in `young` */
    int64_t turned_ms;
    struct running_job *taken; /* by the open transaction */
    struct running_job *added; /* by the open transaction: known from its commit on */
};

void running_init(struct running *running, uint64_t seed);
void running_release(struct running *running);

/* Keeps a copy, once the open transaction is committed. */
void running_add(struct running *running, const struct job *job);
/* The job if it was started here under this token, else NULL. It stays until it is dropped, or the
 * transaction ends. */
const struct job *running_get(const struct running *running, uint64_t token);
void running_drop(struct running *running, uint64_t token);
/* Takes it away for the open transaction: it is gone with running_commit, and back after
 * running_rollback. */
const struct job *running_take(struct running *running, uint64_t token);

/* Now and then, between transactions: forgets what is old, and young becomes old. */
void running_turn(struct running *running, int64_t now_ms);

/* The transaction has ended: it was committed, or rolled back and is perhaps tried again. */
void running_commit(struct running *running);
void running_rollback(struct running *running);

#endif
