/* remains.c - what is left of a job as JSON. */
#include "store/remains.h"

#include <stdlib.h>

#include "base/text/encode.h"
#include "redrive.h"

void remains_begin(struct json_writer *w, struct buf *lines, int64_t seq, const char *why)
{
    json_writer_init(w, lines);
    json_begin_object(w);
    json_field_int(w, "seq", seq);
    json_field_cstr(w, "why", why);
}

void remains_end(struct json_writer *w, struct buf *lines)
{
    json_end_object(w);
    buf_putc(lines, '\n');
}

void remains_put(struct json_writer *w, struct str bytes)
{
    if (utf8_valid(bytes)) {
        json_put_string(w, bytes);
        return;
    }
    char *text = malloc(BASE64_TEXT_SIZE(bytes.len));
    if (!text) {
        w->out->failed = REDRIVE_E_NOMEM;
        return;
    }
    json_begin_object(w);
    json_field_cstr(w, "base64", base64_encode(bytes.ptr, bytes.len, text));
    json_end_object(w);
    free(text);
}
