/* latency_samples.h - how long jobs waited and ran, over the last hour.
 *
 * The histograms of this process (metrics/metrics.h) are noted every ten seconds; what they have
 * grown by in between is what happened in that span. So it is about the jobs that this process
 * started and settled, its remote workers included, and not about those of other processes on the
 * store. A percentile is interpolated within a bucket of the histogram, as Prometheus does.
 */
#ifndef SERVER_DASHBOARD_LATENCY_SAMPLES_H
#define SERVER_DASHBOARD_LATENCY_SAMPLES_H

#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/str.h"
#include "redrive.h"
#include "server/metrics/metrics.h"

#define LATENCY_TENANTS_MAX 64 /* others have none */

struct latency_samples;

int latency_samples_new(struct latency_samples **ret, struct redrive_err *err);
/* NULL does nothing. */
void latency_samples_free(struct latency_samples *samples);

/* Notes the histograms as they are. Any thread, one at a time. */
void latency_samples_take(struct latency_samples *samples, struct run_times *times, int64_t now_ms);

/* One object for each span between two notes of the last `span_ms`, the oldest first, within an
 * array that is open; seconds, and null where there was no job:
 *
 *     {"at":…,"seconds":10,"started":4,"wait":{"p50":0.1,"p95":…,"p99":…},"ended":3,"run":{…}}
 *
 * Any thread. */
void latency_samples_write(struct latency_samples *samples, struct str tenant, int64_t span_ms,
                           struct json_writer *w);

/* The value that this share of the counts does not exceed, in seconds; counts as in struct
 * run_time. Negative: there are none. */
double latency_percentile(const uint64_t counts[RUN_TIMES_N_BOUNDS + 1], double share);

/* "p50":…,"p95":…,"p99":… into an object that is open. */
void latency_write_percentiles(struct json_writer *w,
                               const uint64_t counts[RUN_TIMES_N_BOUNDS + 1]);

#endif
