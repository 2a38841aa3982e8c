/* held_jobs.h - jobs that remote workers claimed through this server and have not settled, as far
 * as it knows: a server that stops waits for them.
 *
 * A job is held from its claim on until it is settled, cancelled or taken back in this process, or
 * until its lease ends. It may have been settled at another server: what the store says of the
 * lease (engine/verbs/settle.h) is put in with held_jobs_answer. Times are those of the engine. Any
 * thread may call anything; NULL does nothing and holds nothing.
 */
#ifndef SERVER_HELD_JOBS_H
#define SERVER_HELD_JOBS_H

#include "base/mem/arena.h"
#include "engine/event.h"
#include "engine/verbs/settle.h"

/* Asked for at once: jobs are read with their payloads. */
#define HELD_ASK_MAX 100

struct held_jobs;

/* NULL: there is no memory. */
struct held_jobs *held_jobs_new(void);
void held_jobs_free(struct held_jobs *all);

/* Without memory it is not held. */
void held_jobs_add(struct held_jobs *all, const struct lease *lease, int64_t now_ms);
/* It has been given back. */
void held_jobs_drop(struct held_jobs *all, const struct job_name *job, uint64_t token);
/* The lease lasts for so long from now; 0: as long as when it was claimed. */
void held_jobs_extend(struct held_jobs *all, const struct job_name *job, uint64_t token,
                      int64_t lease_ms, int64_t now_ms);

/* An engine_event_fn whose context is this. */
void held_jobs_event(const struct engine_event *event, void *ctx);

/* How many there are; those whose lease has ended are forgotten. */
size_t held_jobs_count(struct held_jobs *all, int64_t now_ms);

/* Up to HELD_ASK_MAX of them, copied into the arena, other ones each time if there are more. */
size_t held_jobs_ask(struct held_jobs *all, struct arena *arena, struct lease **ret);
/* What the store says of them. */
void held_jobs_answer(struct held_jobs *all, const struct lease *leases, size_t n);

#endif
