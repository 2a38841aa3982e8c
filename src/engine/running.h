/* running.h - what an engine remembers of the jobs that it has started.
 *
 * While a job runs under a token nothing changes in its row that a settlement looks at, so the row
 * need not be read again: the store refuses a token that no longer holds. Payloads are not kept.
 * This is a help and no more: what is not here is read from the store.
 */
#ifndef ENGINE_RUNNING_H
#define ENGINE_RUNNING_H

#include "base/map.h"
#include "store/job.h"

/* When there are more, all are forgotten: most of them have been settled by others. */
#define RUNNING_MAX 65536

struct running {
    struct map map; /* number → struct job with its strings */
};

void running_init(struct running *running, uint64_t seed);
void running_release(struct running *running);

/* Keeps a copy. */
void running_add(struct running *running, const struct job *job);
/* The job if it was started here under this token, else NULL. It stays until it is dropped. */
const struct job *running_get(const struct running *running, int64_t seq, uint64_t token);
void running_drop(struct running *running, int64_t seq);
/* Forgets a job and hands it over: the caller frees it. NULL when it is not there. */
struct job *running_take(struct running *running, int64_t seq);

#endif
