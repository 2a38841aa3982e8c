/* text.h - how Prometheus' text format (0.0.4) is written: families, labels, samples.
 *
 * Label values are escaped, whatever a task is called. Numbers are written as JSON has them:
 * without a locale, and so that they read back as the same value. Failures are the buffer's.
 */
#ifndef SERVER_METRICS_TEXT_H
#define SERVER_METRICS_TEXT_H

#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"

#define METRICS_LABELS_MAX 4

/* Up to the first without a name. */
struct metrics_labels {
    struct {
        const char *name;
        struct str value;
    } of[METRICS_LABELS_MAX];
};

#define LABELS(...) ((struct metrics_labels){{__VA_ARGS__}})
#define NO_LABELS   ((struct metrics_labels){0})

/* HELP and TYPE; the samples of the family follow. */
void metrics_family(struct buf *out, const char *name, const char *type, const char *help);

void metrics_count(struct buf *out, const char *name, struct metrics_labels labels, uint64_t value);
void metrics_number(struct buf *out, const char *name, struct metrics_labels labels, double value);

/* A family with one sample, without labels. */
void metrics_gauge(struct buf *out, const char *name, const char *help, double value);

#endif
