/* removed.h - queues that a client has removed, and that INFO no longer lists.
 *
 * A queue is in the store as long as it has jobs, ended ones too, until their retention is over.
 * QUEUE REMOVE of a queue that has only ended jobs changes nothing there, so this process remembers
 * it: such a queue is not listed until a job comes to it. Other processes, and this one after a
 * restart, list it. Any thread: with shards several committers ask.
 */
#ifndef SERVER_FAKTORY_ADMIN_REMOVED_H
#define SERVER_FAKTORY_ADMIN_REMOVED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"

struct job_count;
struct faktory_removed;

/* Beyond so many queues, removals are not remembered. */
#define FAKTORY_REMOVED_MAX 10000

/* NULL without memory. */
struct faktory_removed *faktory_removed_new(uint64_t seed);
/* NULL does nothing. */
void faktory_removed_free(struct faktory_removed *removed);

/* The queue was removed. NULL does nothing. */
void faktory_removed_note(struct faktory_removed *removed, struct str tenant, struct str queue);

/* Whether the queue is not to be listed: it was removed, and has had no job since. NULL: false. */
bool faktory_removed_hides(struct faktory_removed *removed, const struct job_count *queue);

#endif
