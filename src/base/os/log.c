/* log.c - formats log lines as text and as JSON. */
#include "base/os/log.h"

#include <unistd.h>

#include "base/json/writer.h"
#include "base/time/clock.h"

#define LINE_MAX_BYTES (64 * 1024)

static const char *const LEVELS[] = {"debug", "info", "warning", "error", "off"};
static const char *const LABELS[] = {"DEBUG", "INFO ", "WARN ", "ERROR", "OFF  "};

const char *log_level_name(enum log_level level)
{
    return LEVELS[level];
}

int log_level_find(struct str name)
{
    for (int i = 0; i <= LOG_LEVEL_OFF; i++)
        if (str_is(name, LEVELS[i]))
            return i;
    return -1;
}

void log_to_stderr(struct str line, void *ctx)
{
    (void)ctx;
    while (line.len > 0) {
        ssize_t n = write(STDERR_FILENO, line.ptr, line.len);
        if (n <= 0)
            return;
        line.ptr += n;
        line.len -= (size_t)n;
    }
}

static void put_time(struct buf *out, int64_t at_ms)
{
    char text[CLOCK_TEXT_MAX];
    buf_puts(out, clock_format(at_ms, text));
}

/* Space, quotes, `=`, control characters and everything beyond ASCII want quotes. */
static bool is_plain_word(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return s.len > 0;
}

static void put_value(struct json_writer *w, const struct log_field *field)
{
    switch (field->type) {
    case LOG_FIELD_STR: json_put_string(w, field->str); break;
    case LOG_FIELD_INT: json_put_int(w, field->i); break;
    case LOG_FIELD_DOUBLE: json_put_double(w, field->d); break;
    case LOG_FIELD_BOOL: json_put_bool(w, field->b); break;
    }
}

static void put_text(struct buf *out, enum log_level level, int64_t at_ms, const char *event,
                     const struct log_field *fields, size_t n_fields)
{
    put_time(out, at_ms);
    buf_printf(out, " %s %s", LABELS[level], event);
    for (size_t i = 0; i < n_fields; i++) {
        buf_printf(out, " %s=", fields[i].key);
        if (fields[i].type == LOG_FIELD_STR && is_plain_word(fields[i].str)) {
            buf_add_str(out, fields[i].str);
        } else {
            struct json_writer w;
            json_writer_init(&w, out);
            put_value(&w, &fields[i]);
        }
    }
}

static void put_json(struct buf *out, enum log_level level, int64_t at_ms, const char *event,
                     const struct log_field *fields, size_t n_fields)
{
    struct buf at_text;
    buf_init(&at_text, 40);
    put_time(&at_text, at_ms);

    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_string(&w, "at", buf_str(&at_text));
    json_field_cstr(&w, "level", log_level_name(level));
    json_field_cstr(&w, "event", event);
    for (size_t i = 0; i < n_fields; i++) {
        json_key(&w, fields[i].key);
        put_value(&w, &fields[i]);
    }
    json_end_object(&w);
    buf_release(&at_text);
}

void log_write(const struct log *log, enum log_level level, int64_t at_ms, const char *event,
               const struct log_field *fields, size_t n_fields)
{
    if (!log_wants(log, level))
        return;
    void (*put)(struct buf *, enum log_level, int64_t, const char *, const struct log_field *,
                size_t) = log->format == LOG_JSON ? put_json : put_text;
    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    put(&line, level, at_ms, event, fields, n_fields);

    /* A field that does not fit takes the rest with it; the event itself always gets out. */
    if (buf_failed(&line) || line.len == LINE_MAX_BYTES) {
        buf_reset(&line);
        const struct log_field cut = LOG_S("cut", "the fields are over 64 KiB");
        put(&line, level, at_ms, event, &cut, 1);
    }
    buf_putc(&line, '\n');
    log->sink(buf_str(&line), log->ctx);
    buf_release(&line);
}
