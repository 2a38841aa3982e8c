/* body.h - the bodies of requests: JSON objects whose members are known by name.
 *
 *     static const struct member MEMBERS[] = {
 *         {"task", MEMBER_TEXT, offsetof(struct ask, task)},
 *         {"n", MEMBER_INT, offsetof(struct ask, n), .min = 1, .max = 100},
 *         {0},
 *     };
 *     body_open(&b, text, arena, now_ms, err);
 *     rc = body_object(&b, MEMBERS, &ask, &given);
 *     if (rc == 0) rc = body_end(&b);
 *     body_release(&b);
 *
 * Strict, so that a misspelt member is an error and not a surprise: one that is not in the table is
 * refused, with the nearest that is. `null` is as good as absent. Every number has bounds, every
 * text at most its `max` bytes, and all of it is UTF-8. The first failure sticks; b.field then
 * names what is at fault, `items[2].token`, and the error says what was expected.
 */
#ifndef SERVER_REST_BODY_BODY_H
#define SERVER_REST_BODY_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json/json.h"
#include "base/mem/arena.h"
#include "redrive.h"

#define BODY_NAME_MAX  255 /* bytes of a name, as for every job */
#define BODY_FIELD_MAX 160

/* The type of the member is in brackets. */
enum member_type {
    MEMBER_NAME,  /* [struct str] 1 to 255 bytes, without control characters */
    MEMBER_TEXT,  /* [const char *] up to `max` bytes, without NUL */
    MEMBER_NAMES, /* [struct names] an array of names, at most `max` of them */
    MEMBER_INT,   /* [int64_t] from `min` to `max` */
    MEMBER_BOOL,  /* [bool] */
    MEMBER_SPAN,  /* [int64_t] ms, from `min` to `max`; seconds as a number, or "1h30m" */
    MEMBER_TIME,  /* [int64_t] ms */
    MEMBER_WHEN,  /* [int64_t] ms; a time, or a span from now */
    MEMBER_WORD,  /* [int] the number of one of `words` */
    MEMBER_JSON,  /* [struct str] any value, byte for byte, null too */
    MEMBER_OBJECT /* [struct str] an object, byte for byte */
};

struct names {
    struct str *items;
    size_t n;
};

struct member {
    const char *name;
    enum member_type type;
    size_t offset;
    int64_t min;
    int64_t max;
    const char *const *words; /* ends with NULL */
};

struct body {
    struct json_reader reader;
    struct arena *arena; /* what members point to */
    int64_t now_ms;
    struct redrive_err *err;
    char at[BODY_FIELD_MAX / 2]; /* where the object is: "items[2]." */
    char field[BODY_FIELD_MAX];  /* at fault; "": the body as a whole */
};

/* Starts on `text`, which the results may point into. */
void body_open(struct body *b, struct str text, struct arena *arena, int64_t now_ms,
               struct redrive_err *err);
void body_release(struct body *b);

/* Reads an object into `ret`, which has the defaults. `ret_given` has a bit for each row of the
 * table that was there; at most 64 rows. */
int body_object(struct body *b, const struct member *members, void *ret, uint64_t *ret_given);

/* Steps into an array and over its items: 1, 0 after the last, or a code. `name` is the member that
 * has it ("": the array is the body), `i` its number. */
int body_enter(struct body *b, const char *name);
int body_next(struct body *b, const char *name, size_t i);

/* How many items the text of an array has; no more than `max` + 1 are counted, and none of what is
 * no array. */
size_t body_count(struct str array, size_t max);

/* Nothing but space may follow. */
int body_end(struct body *b);

/* Whether the outermost value is an array. */
bool body_is_array(struct body *b);

/* Fails at a member of the object that was read last. */
int body_fault(struct body *b, const char *name, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fails because a member is not there. */
int body_missing(struct body *b, const char *name, const char *expected);

/* Whether a row of the table was there. */
static inline bool body_given(uint64_t given, size_t row)
{
    return (given >> row & 1) != 0;
}

/* "did you mean 'x'?", and all words as the detail. */
void body_suggest(struct redrive_err *err, struct str word, const char *const *words, size_t n);

#endif
