/* text.c - writes families and samples. */
#include "server/metrics/text.h"

#include <inttypes.h>

#include "base/json/writer.h"

void metrics_family(struct buf *out, const char *name, const char *type, const char *help)
{
    (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_escaped(struct buf *out, struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\n')
            (void)buf_puts(out, "\\n");
        else if (c == '"' || c == '\\')
            (void)buf_printf(out, "\\%c", c);
        else
            (void)buf_putc(out, c);
    }
}

static void put_series(struct buf *out, const char *name, const struct metrics_labels *labels)
{
    size_t n = 0;
    (void)buf_puts(out, name);
    for (; n < METRICS_LABELS_MAX && labels->of[n].name; n++) {
        (void)buf_printf(out, "%c%s=\"", n == 0 ? '{' : ',', labels->of[n].name);
        put_escaped(out, labels->of[n].value);
        (void)buf_putc(out, '"');
    }
    (void)buf_puts(out, n > 0 ? "} " : " ");
}

void metrics_count(struct buf *out, const char *name, struct metrics_labels labels, uint64_t value)
{
    put_series(out, name, &labels);
    (void)buf_printf(out, "%" PRIu64 "\n", value);
}

void metrics_number(struct buf *out, const char *name, struct metrics_labels labels, double value)
{
    struct json_writer w;
    put_series(out, name, &labels);
    json_writer_init(&w, out);
    json_put_double(&w, value);
    (void)buf_putc(out, '\n');
}

void metrics_gauge(struct buf *out, const char *name, const char *help, double value)
{
    metrics_family(out, name, "gauge", help);
    metrics_number(out, name, NO_LABELS, value);
}
