/* metrics.h - the figures of a tenant as Prometheus reads them (text format 0.0.4).
 *
 * A pure writer over what stats.h has read and run_times.h has kept. Names, labels and units are
 * for good: dashboards depend on them. docs/operations.md lists them. Each family has its HELP and
 * TYPE, and stands in one piece; label values are escaped, whatever a task is called.
 */
#ifndef DOORS_METRICS_H
#define DOORS_METRICS_H

#include "base/buf.h"
#include "doors/run_times.h"
#include "engine/pulse.h"
#include "engine/stats.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics_facts {
    const struct stats *stats; /* NULL: the store could not be read; what is its own is left out */
    const struct run_time *run_times;
    size_t n_run_times;
    int64_t started_ms; /* of this process */
    const struct pulse_state *pulse;
};

/* Failures are the buffer's. */
void metrics_write(const struct metrics_facts *facts, struct buf *out);

#endif
