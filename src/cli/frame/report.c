/* report.c - writes errors as text or JSON. */
#include "cli/frame/report.h"

#include "base/json/writer.h"
#include "cli/output/term.h"
#include "cli/output/text.h"

static const char *message_of(const struct redrive_err *e)
{
    return e->message[0] ? e->message : redrive_err_text(e->code);
}

void report_text(const struct redrive_err *e, enum report_kind kind, bool color, struct buf *out)
{
    if (kind == REPORT_ERROR)
        style_add(out, color, STYLE_RED, STR("redrive:"));
    else
        style_add(out, color, STYLE_YELLOW, STR("warning:"));
    buf_putc(out, ' ');
    text_add_clean(out, str_of(message_of(e)));
    buf_putc(out, '\n');
    if (e->detail[0]) {
        buf_puts(out, "  ");
        text_add_clean(out, str_of(e->detail));
        buf_putc(out, '\n');
    }
    if (e->hint[0]) {
        style_add(out, color, STYLE_YELLOW, STR("hint:"));
        buf_putc(out, ' ');
        text_add_clean(out, str_of(e->hint));
        buf_putc(out, '\n');
    }
}

void report_json(const struct redrive_err *e, enum report_kind kind, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, kind == REPORT_ERROR ? "error" : "warning");
    json_begin_object(&w);
    json_field_cstr(&w, "code", redrive_err_name(e->code));
    json_field_cstr(&w, "message", message_of(e));
    json_field_cstr(&w, "detail", e->detail[0] ? e->detail : NULL);
    json_field_cstr(&w, "hint", e->hint[0] ? e->hint : NULL);
    json_end_object(&w);
    json_end_object(&w);
    buf_putc(out, '\n');
}
