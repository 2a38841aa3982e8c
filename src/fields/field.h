/* field.h - fields: what a value of an input may be, where it goes, and what is said of a wrong
 * one.
 *
 *     static const struct field FIELDS[] = {
 *         {"task", &FIELD_TEXT, offsetof(struct ask, task), .max = 100},
 *         {"n", &FIELD_INT, offsetof(struct ask, n), .min = 1, .max = 100},
 *         {0},
 *     };
 *
 * A table is read from a JSON object (json.h) or from parameters with names (query.h). Both are
 * strict, so that a misspelt name is an error and not a surprise: a name that is not in the table
 * is refused, with the nearest that is. Every number has bounds, every text is UTF-8.
 *
 * The first failure ends the reading. `place` of the reader then names the value at fault,
 * `items[2].token`; the message begins with the place, and the detail says what was expected.
 */
#ifndef FIELDS_FIELD_H
#define FIELDS_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json/json.h"
#include "base/mem/arena.h"
#include "core/vocabulary.h"

#define FIELD_NAME_MAX  255 /* bytes of a name */
#define FIELD_PLACE_MAX 160

struct field_kind;

struct field {
    const char *name;
    const struct field_kind *kind;
    size_t offset;              /* of the member that gets the value */
    int64_t min;                /* of numbers, and of spans in ms */
    int64_t max;                /* the same; bytes of a text, names of a list */
    const char *const *words;   /* of FIELD_WORD; NULL ends them */
    enum vocabulary vocabulary; /* of FIELD_VOCABULARY, */
    size_t skip;                /* without its first words */
    unsigned uses; /* 0, or bits: the field is there for a reader that has one of them */
};

/* The type of the member is in brackets. */
extern const struct field_kind FIELD_NAME;  /* [struct str] 1 to 255 bytes, no control character */
extern const struct field_kind FIELD_TEXT;  /* [const char *] up to `max` bytes, without NUL */
extern const struct field_kind FIELD_WORDING; /* [struct str] any text without NUL */
extern const struct field_kind FIELD_NAMES;   /* [struct field_names] 1 to `max` names */
extern const struct field_kind FIELD_QUEUES;  /* [struct field_names] 1 to `max` names of queues */
extern const struct field_kind FIELD_INT;     /* [int64_t or uint64_t] from `min` to `max` */
extern const struct field_kind FIELD_UINT;    /* [uint32_t] from `min` to `max` */
extern const struct field_kind FIELD_COUNT;   /* [size_t] from `min` to `max` */
extern const struct field_kind FIELD_DOUBLE;  /* [double] */
extern const struct field_kind FIELD_BOOL;    /* [bool] a parameter without a value is true */
extern const struct field_kind FIELD_SPAN;    /* [int64_t] ms, from `min` to `max` */
extern const struct field_kind FIELD_AGE;     /* [int64_t] ms; the time that is so long ago */
extern const struct field_kind FIELD_RATE;    /* [struct rate] "90/min", or a number a second */
extern const struct field_kind FIELD_TIME;    /* [int64_t] ms */
extern const struct field_kind FIELD_WHEN;    /* [int64_t] ms; a time, or a span from now */
extern const struct field_kind FIELD_WORD;    /* [int] the number of one of `words` */
extern const struct field_kind FIELD_VOCABULARY;  /* [uint32_t] bits of words with commas between */
extern const struct field_kind FIELD_FINGERPRINT; /* [uint64_t] of an error */
extern const struct field_kind FIELD_JSON;        /* [struct str] any value as it is, null too */
extern const struct field_kind FIELD_OBJECT;      /* [struct str] an object as it is */

struct field_names {
    struct str *items;
    size_t n;
};

struct field_reader {
    struct json_reader json; /* where values come from, */
    struct str text;         /* unless there is this one */
    struct arena *arena;     /* has what members point to */
    int64_t now_ms;
    unsigned uses;
    struct redrive_err *err;
    char at[FIELD_PLACE_MAX / 2]; /* where the object is: "items[2]." */
    char place[FIELD_PLACE_MAX];  /* at fault; "": the input as a whole */
};

/* Fails at a field of the object that was read last. */
int field_fault(struct field_reader *r, const char *name, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fails because a field is not there. */
int field_missing(struct field_reader *r, const char *name, const char *expected);

/* Fails because none of `words` is `word`: all of them are the detail, the nearest is the hint. */
int field_no_such_word(struct field_reader *r, const char *name, struct str word,
                       const char *const *words, size_t n);

/* Adds the detail "expected one of …" and the hint "did you mean 'x'?" to an error. */
void field_suggest(struct redrive_err *err, struct str word, const char *const *words, size_t n);

/* Whether a row of the table was there. */
static inline bool field_given(uint64_t given, size_t row)
{
    return (given >> row & 1) != 0;
}

#endif
