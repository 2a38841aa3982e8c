/* remote_workers.h - workers that claim through this server, so that they are listed like others.
 *
 * A worker that claims over HTTP under a name, or says HELLO with a wid, has no access to the
 * store; the server writes its row (engine/report/worker_row.h) on its behalf. Its jobs are counted
 * from their events. It is listed as long as it has jobs, is waiting for some, or was active within
 * WORKER_GONE_MS; the interface that sees it disconnect says so.
 *
 * The server collects the rows that are due on a timer, in small batches, each worker at most once
 * in REMOTE_EVERY_MS; nothing else here touches the store. There are at most REMOTE_WORKERS_MAX;
 * more work as well, but are not shown. Any thread may call anything.
 */
#ifndef SERVER_REMOTE_WORKERS_H
#define SERVER_REMOTE_WORKERS_H

#include "base/mem/arena.h"
#include "engine/event.h"
#include "engine/report/worker_row.h"
#include "engine/verbs/settle.h"

#define REMOTE_WORKERS_MAX 1000
#define REMOTE_BATCH_MAX   256
#define REMOTE_EVERY_MS    10000   /* between two rows of a worker, at least */
#define REMOTE_REFRESH_MS  20000   /* at most, also when nothing has changed */
#define REMOTE_HOLDS_MS    3600000 /* after the last sign of a worker with jobs */

struct remote_workers;

/* NULL: there is no memory. */
struct remote_workers *remote_workers_new(void);
/* NULL does nothing, here and below. */
void remote_workers_free(struct remote_workers *all);

/* It is active, and may be silent for a while: it waits for jobs until then. Times here are those
 * of the engine (engine_now_ms). */
void remote_workers_seen(struct remote_workers *all, struct str tenant, struct str name,
                         int64_t now_ms, int64_t waits_until_ms);
/* It has gone. */
void remote_workers_gone(struct remote_workers *all, struct str tenant, struct str name);

/* An engine_event_fn whose context is this: counts the jobs of workers, and forgets those that are
 * no longer held. */
void remote_workers_event(const struct engine_event *event, void *ctx);

/* The rows that are to be written now, those of workers that have gone among them; all of them
 * when the server is `leaving`. The strings are copies in the arena. At most REMOTE_BATCH_MAX. */
size_t remote_workers_collect(struct remote_workers *all, int64_t now_ms, bool leaving,
                              struct arena *arena, struct remote_worker **ret);

/* ---- Jobs that they hold -----------------------------------------------------------------------
 *
 * Jobs that remote workers claimed through this server and have not settled, as far as it knows: a
 * server that stops waits for them.
 *
 * A job is held from its claim on until it is settled, cancelled or taken back in this process, or
 * until its lease ends. It may have been settled at another server: what the store says of the
 * lease (engine/verbs/settle.h) is put in with remote_jobs_answer.
 */

/* Asked for at once: jobs are read with their payloads. */
#define HELD_ASK_MAX 100

/* Without memory it is not held. */
void remote_jobs_add(struct remote_workers *all, const struct lease *lease, int64_t now_ms);
/* It has been given back. */
void remote_jobs_drop(struct remote_workers *all, const struct job_name *job, uint64_t token);
/* The lease lasts for so long from now. */
void remote_jobs_extend(struct remote_workers *all, const struct job_name *job, uint64_t token,
                        int64_t lease_ms, int64_t now_ms);

/* How many there are; those whose lease has ended are forgotten. */
size_t remote_jobs_count(struct remote_workers *all, int64_t now_ms);

/* Up to HELD_ASK_MAX of them, copied into the arena, other ones each time if there are more. */
size_t remote_jobs_ask(struct remote_workers *all, struct arena *arena, struct lease **ret);
/* What the store says of them. */
void remote_jobs_answer(struct remote_workers *all, const struct lease *leases, size_t n);

#endif
