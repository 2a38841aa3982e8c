/* rate_samples.h - how many jobs came, ran and ended, over the last hour.
 *
 * The counters of the store are noted every ten seconds, and what they have grown by in between is
 * what happened, in this process or any other. It is kept here: a server that starts begins anew,
 * and two servers on one store each note for themselves. Reading all counters takes longer where
 * there are many tasks and queues; then they are noted less often, so that it never costs more than
 * half a percent of a thread.
 */
#ifndef SERVER_DASHBOARD_RATE_SAMPLES_H
#define SERVER_DASHBOARD_RATE_SAMPLES_H

#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/str.h"
#include "redrive.h"

#define RATE_STEP_MS     10000
#define RATE_TENANTS_MAX 256 /* others have no rates */

struct rate_samples;
struct store;

int rate_samples_new(struct rate_samples **ret, struct redrive_err *err);
/* NULL does nothing. */
void rate_samples_free(struct rate_samples *samples);

/* Notes the counters as they are. Gives the time to wait before the next one. A store that cannot
 * be read leaves a gap. Any thread, one at a time. */
int64_t rate_samples_take(struct rate_samples *samples, struct store *store, int64_t now_ms);

/* One object for each span between two notes of the last `span_ms`, the oldest first:
 * {"at":…,"seconds":…,"submitted":…,"completed":…}; within an array that is open. Any thread. */
void rate_samples_write(struct rate_samples *samples, struct str tenant, int64_t span_ms,
                        struct json_writer *w);

#endif
