/* json.h - a strict RFC 8259 reader that pulls tokens and copies nothing.
 *
 * The reader walks over text that the caller owns and hands out slices of it. It accepts exactly
 * RFC 8259 and refuses, with position and expectation: trailing commas, comments, NaN, leading
 * zeros, unescaped control characters, bad UTF-8, lone surrogate escapes, duplicate keys in an
 * object, anything after the value, nesting deeper than its limit, text longer than its limit.
 *
 *     struct json_reader r;
 *     json_reader_init(&r, text, NULL);
 *     if (json_enter_object(&r) < 0) …
 *     while ((rc = json_next_key(&r, &key)) > 0)
 *         if (str_is(key.raw, "id")) json_read_string(&r, &id);
 *         else json_skip(&r, NULL);
 *
 * The first error sticks: every later call returns it, so a chain of reads needs one check.
 * Strings come raw, with a flag that says whether they contain escapes; json_unescape decodes.
 * json_skip gives the raw slice of a whole value (a payload), checked as strictly as all else.
 * No allocation, except for duplicate-key detection in objects of more than 16 keys.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "redrive.h"

#define JSON_MAX_DEPTH 64 /* default, and the most that can be asked for */
#define JSON_MAX_BYTES (64u * 1024 * 1024)

struct json_limits {
    size_t max_bytes;   /* 0: JSON_MAX_BYTES */
    unsigned max_depth; /* 0: JSON_MAX_DEPTH */
};

enum json_type {
    JSON_TYPE_NULL,
    JSON_TYPE_FALSE,
    JSON_TYPE_TRUE,
    JSON_TYPE_NUMBER,
    JSON_TYPE_STRING,
    JSON_TYPE_ARRAY,
    JSON_TYPE_OBJECT,
};

/* The inside of a string, between its quotes. */
struct json_string {
    struct str raw;
    bool escaped; /* raw contains a backslash */
};

struct json_reader; /* the struct itself is below: callers put it on their stack */

/* Starts on `text`, which must outlive the reader. Limits may be NULL. */
void json_reader_init(struct json_reader *r, struct str text, const struct json_limits *limits);
void json_reader_release(struct json_reader *r);

/* What comes next, without reading it: an enum json_type, or a negative code. */
int json_peek(struct json_reader *r);

/* Each reads one value of its type; 0 or a negative code. A value of another type is an error
 * that says what was expected and what was found. */
int json_read_null(struct json_reader *r);
int json_read_bool(struct json_reader *r, bool *ret);
int json_read_string(struct json_reader *r, struct json_string *ret);
/* A whole number within the range of int64_t; `1.0` and `1e3` are refused. */
int json_read_int(struct json_reader *r, int64_t *ret);
/* Any number, correctly rounded; one that overflows to infinity is refused. */
int json_read_double(struct json_reader *r, double *ret);
/* Reads any value; `ret` (may be NULL) is its text without surrounding space. */
int json_skip(struct json_reader *r, struct str *ret);

/* Steps into an object; json_next_key then gives 1 and a key, or 0 after the last and leaves the
 * object. After each key its value must be read. Keys are compared as decoded text. */
int json_enter_object(struct json_reader *r);
int json_next_key(struct json_reader *r, struct json_string *ret);

/* Steps into an array; json_next_item gives 1 when a value is there to be read, or 0 after the
 * last and leaves the array. */
int json_enter_array(struct json_reader *r);
int json_next_item(struct json_reader *r);

/* After the outermost value: 0 when nothing but space is left. */
int json_end(struct json_reader *r);

/* Copies the error (message with line, column and expectation) into err; returns its code, or 0
 * when there was none. */
int json_error(const struct json_reader *r, struct redrive_err *err);

/* Fails the reader at its last value with a message of the caller's ("expected a queue name"). */
int json_fail(struct json_reader *r, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends the decoded string. NUL (\u0000) is allowed: look at the length. */
int json_unescape(struct json_string s, struct buf *out);
/* True when the decoded string equals `text`. */
bool json_string_is(struct json_string s, const char *text);

/* Whether `text` is one valid value and nothing else. */
int json_check(struct str text, const struct json_limits *limits, struct redrive_err *err);

const char *json_type_name(enum json_type type);

#include "base/json_reader_struct.h"

#endif
