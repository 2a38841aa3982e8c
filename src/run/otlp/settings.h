/* settings.h - the variables of OpenTelemetry that say where spans go, and which.
 *
 *     OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT   without one there is no
 * tracing OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _CERTIFICATE, _PROTOCOL     and _TRACES_… of each
 *     OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
 *     OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER
 *     OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
 *     OTEL_BSP_SCHEDULE_DELAY, _EXPORT_TIMEOUT, _MAX_QUEUE_SIZE, _MAX_EXPORT_BATCH_SIZE
 *
 * Names, defaults and units are those of OpenTelemetry's specification; an empty value is none.
 */
#ifndef RUN_OTLP_SETTINGS_H
#define RUN_OTLP_SETTINGS_H

#include "base/mem/arena.h"
#include "core/trace/span.h"
#include "run/http/client.h"

struct otlp_settings {
    struct arena arena; /* of the strings */
    const char *base;   /* http://host:4318; NULL: there is no tracing */
    const char *path;   /* /v1/traces */
    const char *ca_file;
    struct http_client_header *headers;
    size_t n_headers;
    struct trace_attribute *resource;
    size_t n_resource;
    struct trace_sampler sampler;
    int64_t timeout_ms;        /* of one request */
    int64_t delay_ms;          /* that a span waits for others */
    int64_t export_timeout_ms; /* of one batch, with all its tries */
    int64_t queue_max;         /* spans */
    int64_t batch_max;
};

/* As getenv. */
typedef const char *(*otlp_env_fn)(const char *name);

/* CONFIG names the variable, and what was expected. The settings are released in any case. */
int otlp_settings_read(struct otlp_settings *settings, otlp_env_fn env, struct redrive_err *err);
void otlp_settings_release(struct otlp_settings *settings);

#endif
