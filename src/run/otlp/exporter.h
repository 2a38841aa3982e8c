/* exporter.h - sends spans to a collector, from a thread of its own.
 *
 *     any thread ── add ──► queue, at most queue_max ──► thread ──► POST of up to batch_max spans
 *
 * A caller never waits for the collector: a span that finds the queue full is dropped and counted.
 * A batch is sent when it is full, or delay_ms after its first span. An answer of 429, 502, 503 or
 * 504, or none, is tried again after the time that the collector asks for, or after a pause that
 * doubles, until export_timeout_ms are over; then, and after any other refusal, the batch is
 * dropped. What was dropped is counted, and logged as trace_spans_dropped, at most once in
 * OTLP_LOG_EVERY_MS.
 */
#ifndef RUN_OTLP_EXPORTER_H
#define RUN_OTLP_EXPORTER_H

#include "base/os/log.h"
#include "core/trace/span.h"
#include "run/otlp/settings.h"

#define OTLP_PAUSE_MS     500 /* before the second try; each further one is twice as long */
#define OTLP_LOG_EVERY_MS 30000

struct otlp_exporter;

/* Reads the settings from the environment and starts; NULL in `ret`: there is no endpoint, or
 * tracing is switched off. The log is borrowed. CONFIG, NOMEM, IO. */
int otlp_exporter_start(otlp_env_fn env, const struct log *log, struct otlp_exporter **ret,
                        struct redrive_err *err);

/* For those who make spans; NULL of NULL. */
const struct tracing *otlp_exporter_tracing(const struct otlp_exporter *exporter);

/* Sends what is in the queue, for `grace_ms` and about a second at the most, and frees. No span may
 * come any more. NULL does nothing. */
void otlp_exporter_stop(struct otlp_exporter *exporter, int64_t grace_ms);

#endif
