/* json.h - a strict RFC 8259 reader that pulls tokens and copies nothing.
 *
 * The reader walks over text that the caller owns and hands out slices of it. It accepts exactly
 * RFC 8259, less the two things that I-JSON (RFC 7493) takes from it because readers disagree about
 * them: duplicate keys in an object and lone surrogate escapes. So it refuses, with position and
 * expectation, also: trailing commas, comments, NaN, leading zeros, unescaped control characters,
 * bad UTF-8, anything after the value; and nesting deeper or text longer than its limit.
 *
 *     struct json_reader r;
 *     json_reader_init(&r, text, NULL);
 *     if (json_enter_object(&r) < 0) …
 *     while ((rc = json_next_key(&r, &key)) > 0)
 *         if (json_string_is(key, "id")) json_read_string(&r, &id);
 *         else json_skip(&r, NULL);
 *
 * The first error sticks: every later call returns it, so a chain of reads needs one check.
 * Strings come raw, with a flag that says whether they contain escapes; json_unescape decodes.
 * json_skip gives the raw slice of a whole value (a payload), checked as strictly as all else.
 * No allocation, except for duplicate-key detection in objects of more than 16 keys (a few times
 * the size of the text); json_reader_release frees what an object left unfinished holds.
 *
 * Codes: REDRIVE_E_PARSE for text that is not JSON, REDRIVE_E_INVALID for a value of another type,
 * REDRIVE_E_RANGE for a number that does not fit, REDRIVE_E_TOO_BIG, REDRIVE_E_TOO_DEEP,
 * REDRIVE_E_NOMEM. Calls out of order (a key left without reading its value) are bugs and assert.
 */
#ifndef BASE_JSON_JSON_H
#define BASE_JSON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

struct arena;

#define JSON_MAX_DEPTH   64 /* default */
#define JSON_DEPTH_LIMIT 72 /* the most that can be asked for: such a value within an answer */
#define JSON_MAX_BYTES   (64u * 1024 * 1024)

struct json_limits {
    size_t max_bytes;   /* 0: JSON_MAX_BYTES; never more than 4 GiB */
    unsigned max_depth; /* 0: JSON_MAX_DEPTH; never more than JSON_DEPTH_LIMIT */
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

/* Where a key is in the text, and 32 bits of its hash. */
struct json_key_slot {
    uint32_t at; /* offset of its first byte; never 0, which marks a free slot */
    uint32_t hash;
};

/* An object that has been entered. Its keys are slots of the reader up to JSON_FEW_KEYS, and
 * move into a hash table when there are more. */
struct json_open_object {
    uint64_t seen; /* a bit a key, chosen by its hash: a clear bit means a new key */
    uint32_t first_slot;
    uint32_t n_many;     /* keys in `many` */
    uint32_t many_slots; /* a power of two */
    struct json_key_slot *many;
};

#define JSON_FEW_KEYS 16

/* Callers put it on their stack (12 KiB, of which most stays untouched) and use none of its fields.
 */
struct json_reader {
    const char *text;
    const char *p; /* the next byte to read */
    const char *end;
    const char *token_at; /* the last key, value or closing bracket */
    unsigned depth;
    unsigned max_depth;
    bool is_object[JSON_DEPTH_LIMIT]; /* each level, the outermost first; else it is an array */
    enum {
        JSON_DUE_VALUE,
        JSON_DUE_FIRST, /* an item or key, or the end of a container just entered */
        JSON_DUE_NEXT,  /* a comma, or the end of the container or the text */
    } due;

    int error;            /* 0 until the first one */
    const char *error_at; /* NULL: the text as a whole */
    char error_text[192];

    uint64_t key_seed;
    uint32_t n_slots; /* in use, by all open objects, the innermost last */
    struct json_open_object objects[JSON_DEPTH_LIMIT];
    struct json_key_slot slots[JSON_DEPTH_LIMIT * JSON_FEW_KEYS];
};

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

/* After the outermost value has been read: 0 when nothing but space is left. */
int json_end(struct json_reader *r);

/* Copies the error (`line 3, column 14: expected ',' or '}', found 'x'`; columns count bytes) into
 * err; returns its code, or 0 when there was none. */
int json_error(const struct json_reader *r, struct redrive_err *err);

/* Fails the reader at the last key, value or closing bracket read, with a message of the caller's
 * ("expected a queue name"). Control characters in it are made harmless. Returns the first error,
 * which is an earlier one if there was one. */
int json_fail(struct json_reader *r, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads a string as decoded text: a slice of the text that is read, or, where something is escaped,
 * a copy in the arena. */
int json_read_text(struct json_reader *r, struct arena *arena, struct str *ret);

/* Appends the decoded string; returns what buf_failed would. NUL (\u0000) is allowed: look at the
 * length. */
int json_unescape(struct json_string s, struct buf *out);
bool json_escaped_is(struct json_string s, const char *text);
/* True when the decoded string equals `text`. Inline, so that the usual key without escapes costs
 * a comparison with a literal. */
static inline bool json_string_is(struct json_string s, const char *text)
{
    return s.escaped ? json_escaped_is(s, text) : str_is(s.raw, text);
}

/* All members of a text that is one object, in its order. Names are decoded; names and values point
 * into `json`, or into the arena where a name had escapes. */
struct json_member {
    struct str name;
    struct str value; /* its text */
};
int json_read_members(struct str json, const struct json_limits *limits, struct arena *arena,
                      struct json_member **ret, size_t *ret_n, struct redrive_err *err);
/* The same of the object that a reader comes to next; 0 or a negative code. */
int json_read_object(struct json_reader *r, struct arena *arena, struct json_member **ret,
                     size_t *ret_n);

/* Whether `text` is one valid value and nothing else. */
int json_check(struct str text, const struct json_limits *limits, struct redrive_err *err);

/* "null", "false", "true", "number", "string", "array", "object". */
const char *json_type_name(enum json_type type);

#endif
