/* log.c - formats log lines as text and as JSON. */
#include "base/os/log.h"

#include <string.h>
#include <unistd.h>

#include "base/json/writer.h"
#include "base/time/clock.h"
#include "redrive.h"

#define LINE_MAX_BYTES (64 * 1024)
/* Most lines fit, and need no memory: not even those that say that there is none. */
#define ROOM_BYTES 2048

static const char *const LEVELS[] = {"debug", "info", "warning", "error", "off"};
static const char *const LABELS[] = {"DEBUG", "INFO ", "WARN ", "ERROR", "OFF  "};

const char *log_level_name(enum log_level level)
{
    return LEVELS[level];
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
    char at_text[CLOCK_TEXT_MAX];
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "at", clock_format(at_ms, at_text));
    json_field_cstr(&w, "level", log_level_name(level));
    json_field_cstr(&w, "event", event);
    for (size_t i = 0; i < n_fields; i++) {
        json_key(&w, fields[i].key);
        put_value(&w, &fields[i]);
    }
    json_end_object(&w);
}

void log_write(const struct log *log, enum log_level level, int64_t at_ms, const char *event,
               const struct log_field *fields, size_t n_fields)
{
    if (!log_wants(log, level))
        return;
    void (*put)(struct buf *, enum log_level, int64_t, const char *, const struct log_field *,
                size_t) = log->format == LOG_JSON ? put_json : put_text;
    char room[ROOM_BYTES];
    struct buf line;
    buf_init_fixed(&line, room, sizeof room);
    RELEASED_BY(buf_release) struct buf longer = BUF_MAX(LINE_MAX_BYTES);
    put(&line, level, at_ms, event, fields, n_fields);
    if (buf_putc(&line, '\n') != 0) {
        put(&longer, level, at_ms, event, fields, n_fields);
        buf_putc(&longer, '\n');
    }
    /* A field that does not fit takes the rest with it; the event itself always gets out. */
    if (buf_failed(&longer)) {
        const struct log_field cut =
            LOG_S("cut", buf_failed(&longer) == REDRIVE_E_NOMEM ? "out of memory"
                                                                : "the fields are over 64 KiB");
        buf_reset(&line);
        put(&line, level, at_ms, event, &cut, 1);
        buf_putc(&line, '\n');
    }
    log->sink(buf_str(buf_failed(&line) ? &longer : &line), log->ctx);
}

static void send_gathered(struct log_gather *gather)
{
    if (gather->n_bytes > 0)
        gather->to->sink((struct str){gather->bytes, gather->n_bytes}, gather->to->ctx);
    gather->n_bytes = 0;
}

static void gather_line(struct str line, void *ctx)
{
    struct log_gather *gather = ctx;
    if (line.len > LOG_GATHER_BYTES - gather->n_bytes)
        send_gathered(gather);
    if (line.len > LOG_GATHER_BYTES) {
        gather->to->sink(line, gather->to->ctx);
        return;
    }
    memcpy(gather->bytes + gather->n_bytes, line.ptr, line.len);
    gather->n_bytes += line.len;
}

const struct log *log_gather_begin(struct log_gather *gather, const struct log *to)
{
    gather->to = to;
    gather->n_bytes = 0;
    if (!to || !to->sink || !to->takes_several)
        return to;
    gather->log = *to;
    gather->log.sink = gather_line;
    gather->log.ctx = gather;
    return &gather->log;
}

void log_gather_end(struct log_gather *gather)
{
    send_gathered(gather);
}
