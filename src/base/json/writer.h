/* writer.h - writes JSON into a struct buf, compact, commas by itself.
 *
 * Misuse (a value where a key is due, an unbalanced end, more than 64 levels) is a bug of the
 * caller and asserts. Failures are the buffer's: check buf_failed() once at the end. Values at the
 * outermost level follow each other with nothing between them: a caller that writes JSON lines adds
 * the newline to the buffer itself. The output does not depend on the locale.
 */
#ifndef BASE_JSON_WRITER_H
#define BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"

struct json_writer {
    struct buf *out;
    uint64_t in_object; /* one bit a level */
    uint64_t has_items;
    unsigned depth; /* at most 64 */
    bool after_key;
};

void json_writer_init(struct json_writer *w, struct buf *out);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);

void json_key(struct json_writer *w, const char *key);
void json_key_str(struct json_writer *w, struct str key);
/* A key, and the beginning of its value. */
void json_open_object(struct json_writer *w, const char *key);
void json_open_array(struct json_writer *w, const char *key);

/* Bytes that are not UTF-8 are written as U+FFFD, so that the output is always valid. */
void json_put_string(struct json_writer *w, struct str s);
void json_put_cstr(struct json_writer *w, const char *s); /* NULL writes null */
void json_put_int(struct json_writer *w, int64_t value);
void json_put_uint(struct json_writer *w, uint64_t value);
/* With the fewest digits that read back as the same value; NaN and infinity write null. */
void json_put_double(struct json_writer *w, double value);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
/* A value that is already JSON, byte for byte. */
void json_put_raw(struct json_writer *w, struct str value);

/* Key and value in one call. */
void json_field_cstr(struct json_writer *w, const char *key, const char *value);
void json_field_string(struct json_writer *w, const char *key, struct str value);
/* An empty one is null. */
void json_field_string_or_null(struct json_writer *w, const char *key, struct str value);
void json_field_int(struct json_writer *w, const char *key, int64_t value);
void json_field_double(struct json_writer *w, const char *key, double value);
void json_field_bool(struct json_writer *w, const char *key, bool value);

/* ---- Layout ---------------------------------------------------------------------------------- */

/* The white space of JSON, taken out or put in.
 *
 * Both read text that json_check has accepted and change nothing but the space between its tokens:
 * numbers and strings stay byte for byte, the order of keys too. Failures are the buffer's.
 */

/* Appends it without any space, so on one line. */
void json_compact(struct str text, struct buf *out);

/* Appends it for people: a line for each key and item, two spaces a level, after `indent` spaces in
 * all lines but the first. */
void json_indent(struct str text, size_t indent, struct buf *out);

#endif
