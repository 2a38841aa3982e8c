/* samples.h - how many jobs came, ran and ended, and how long they took, over the last hour.
 *
 * Rates are the counters of the store, noted every ten seconds: what they have grown by in between
 * is what happened, in this process or any other. Reading all counters takes longer where there are
 * many tasks and queues; then they are noted less often, so that it never costs more than half a
 * percent of a thread.
 *
 * Latencies are the histograms of this process (metrics/metrics.h), noted at the same times. So
 * they are about the jobs that this process started and settled, its remote workers included, and
 * not about those of other processes on the store. A percentile is interpolated within a bucket of
 * the histogram, as Prometheus does.
 *
 * Samples are kept here: a server that starts begins anew, and two servers on one store each note
 * for themselves. Any thread may call any function, but only one at a time may take samples.
 */
#ifndef SERVER_DASHBOARD_SAMPLES_H
#define SERVER_DASHBOARD_SAMPLES_H

#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/str.h"
#include "redrive.h"
#include "server/metrics/metrics.h"

#define SAMPLES_STEP_MS 10000
#define SAMPLES_KEPT    361 /* of each tenant: an hour */

struct samples;
struct store;

int samples_new_rates(struct samples **ret, struct redrive_err *err);
int samples_new_latencies(struct samples **ret, struct redrive_err *err);
/* NULL does nothing. */
void samples_free(struct samples *samples);

/* Notes the counters as they are. Gives the time to wait before the next one. A store that cannot
 * be read leaves a gap. */
int64_t samples_take_rates(struct samples *rates, struct store *store, int64_t now_ms);
/* Notes the histograms as they are. */
void samples_take_latencies(struct samples *latencies, struct run_times *times, int64_t now_ms);

/* One object for each span between two notes of the last `span_ms`, the oldest first, within an
 * array that is open. Times are in seconds, and null where there was no job:
 *
 *     {"at":…,"seconds":10,"submitted":…,"completed":…}
 *     {"at":…,"seconds":10,"started":4,"wait":{"p50":0.1,"p95":…,"p99":…},"ended":3,"run":{…}}
 */
void samples_write(struct samples *samples, struct str tenant, int64_t span_ms,
                   struct json_writer *w);

/* The value that this share of the counts does not exceed, in seconds; counts as in struct
 * run_time. Negative: there are none. */
double latency_percentile(const uint64_t counts[RUN_TIMES_N_BOUNDS + 1], double share);

/* {"attempts":…,"mean":…,"p50":…,"p95":…,"p99":…} of a task, over all queues and outcomes; null: no
 * attempt has ended. `run_times` is a struct run_times, or NULL. An absent tenant: all of them. */
void latency_write_task(void *run_times, struct str tenant, struct str task, struct json_writer *w);

#endif
