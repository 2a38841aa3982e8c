/* field.h - fields: what a value of an input may be, where it goes, and what is said of a wrong
 * one.
 *
 *     static const struct field FIELDS[] = {
 *         {"task", &FIELD_TEXT, offsetof(struct ask, task), .max = 100},
 *         {"n", &FIELD_INT, offsetof(struct ask, n), .min = 1, .max = 100},
 *         {0},
 *     };
 *
 * A table is read from a JSON object (json.h), from parameters with names (query.h), from the
 * options of a command line (cli/frame/options.h), or from the configuration
 * (config/schema/bind.h). All are strict, so that a misspelt name is an error and not a surprise:
 * a name that is not in the table is refused, with the nearest that is. Every text is UTF-8.
 *
 * The first failure ends the reading. `place` of the reader then names the value at fault,
 * `items[2].token` or `--limit`; the message begins with the place, and the detail says what was
 * expected.
 */
#ifndef FIELDS_FIELD_H
#define FIELDS_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "core/vocabulary.h"

#define FIELD_NAME_MAX  255 /* bytes of a name */
#define FIELD_PLACE_MAX 160
#define FIELD_TEXT_MAX  4096

struct binder;
struct field_kind;
struct field_reader;
struct node;
struct table;

struct field {
    const char *name;
    const struct field_kind *kind;
    size_t offset;     /* of the member that gets the value */
    int64_t min, max;  /* bounds of a number, or of a span in ms; a field without bounds has 0, 0 */
    double min_double; /* bounds of a FIELD_DOUBLE */
    double max_double;
    const char *const *words;   /* of FIELD_WORD; NULL ends them */
    enum vocabulary vocabulary; /* of FIELD_TERM and FIELD_TERMS, */
    size_t skip;                /* without its first words */
    unsigned uses; /* 0, or bits: the field is there for a reader that has one of them */

    /* What a command line has besides. */
    char letter;             /* 0: none */
    bool negatable;          /* understands --no-NAME */
    const char *placeholder; /* names the value in help; one with "FILE" completes file names */
    const char *help;        /* how it reads after the name: lower case, no full stop */
    /* What the value is when the option is not given, as one would write it. It is parsed before
     * the command line, so that help and program cannot disagree. NULL: 0, NULL, no strings, and
     * -1 for a FIELD_WORD. Not for a FIELD_BOOL, which starts false, nor for lists. In the
     * configuration it is for people only. */
    const char *default_text;
    /* Another option of the same table without which this one does nothing, or beside which it does
     * nothing: the line is refused then. NULL: none. */
    const char *needs;
    const char *not_with;
    /* The field of an input that the text of an OPTION_STRING, or each of OPTION_STRINGS, is for:
     * the text must be one of its values, and is kept as it is. NULL: any text. */
    const struct field *sets;

    /* What the configuration has besides (config/schema/schema.h). */
    const struct table *table;   /* of tables, lists and maps: what each holds */
    size_t count_offset;         /* of lists and maps: the member that counts them */
    const char *instead_of;      /* the key that says the same in another way: one is allowed */
    const char *const *replaces; /* keys that this one removes when it comes from a later source */
    const char *expects;         /* in place of what the kind expects */
    bool first;                  /* bound before the other keys, which may then overrule it */
    bool required;
    bool secret; /* never repeated in messages */
    bool sparse; /* a number, duration or flag that is not written while it is zero */
};

/* `max` of a text is its bytes, `max` of a list its names. */
struct field_kind {
    const char *name; /* of the type of its values, for programs */
    /* Reads the value that comes next into `to`, or fails. */
    int (*read)(struct field_reader *r, const struct field *f, void *to);
    const char *expects; /* "a time"; NULL: `describe` says it, or `read` does */
    void (*describe)(const struct field_reader *r, const struct field *f, struct buf *out);
    bool takes_null;    /* null is a value; otherwise null means absent */
    bool takes_nothing; /* an empty text is a value */
    bool is_list;       /* may be given several times */
    bool is_json;       /* no text can be one */
    bool is_plain;      /* a number or a truth value: text in quotes is none, whatever it says */
    /* Writes name and value, or nothing where there is nothing to say. NULL: it cannot be written,
     * or another row writes the same member. */
    void (*write)(const struct field *f, const void *member, struct json_writer *w);

    /* What the configuration has besides (config/schema/schema.h). */
    enum {
        FORM_SCALAR, /* one value, which may also come from a variable or a flag */
        FORM_PART,   /* a list, or names of the user's choice: only a file can hold it */
        FORM_NESTED, /* the keys of `table`, in place */
    } form;
    /* Reads a node into the member and reports what is wrong with it. NULL: the text of a scalar is
     * for `read`. That of a scalar sees no null, and no list or map unless `takes_all`. */
    void (*bind)(struct binder *b, const struct field *f, const struct node *node, void *member);
    bool takes_all; /* it has a word to say about maps and lists, too */
};

/* The type of the member is in brackets. */
extern const struct field_kind FIELD_NAME; /* [struct str] 1 to 255 bytes, no control character */
extern const struct field_kind FIELD_TEXT; /* [const char *] up to `max` bytes, or FIELD_TEXT_MAX */
extern const struct field_kind FIELD_WORDING; /* [struct str] any text without NUL */
extern const struct field_kind FIELD_QUEUE;   /* [struct str] the name of a queue */
extern const struct field_kind FIELD_NAMES;   /* [struct field_names] 1 to `max` names */
extern const struct field_kind FIELD_QUEUES;  /* [struct field_names] 1 to `max` names of queues */
extern const struct field_kind FIELD_INT;     /* [int64_t or uint64_t] from `min` to `max` */
extern const struct field_kind FIELD_UINT;    /* [uint32_t, int32_t] from `min` to `max` */
extern const struct field_kind FIELD_COUNT;   /* [size_t] from `min` to `max` */
extern const struct field_kind FIELD_DOUBLE;  /* [double] */
extern const struct field_kind FIELD_BOOL;    /* [bool] a parameter without a value is true */
extern const struct field_kind FIELD_SPAN;    /* [int64_t] ms, from `min` to `max` */
extern const struct field_kind FIELD_AGE;     /* [int64_t] ms; the time that is so long ago */
extern const struct field_kind FIELD_RATE;    /* [struct rate] "90/min", or a number a second */
extern const struct field_kind FIELD_TIME;    /* [int64_t] ms */
extern const struct field_kind FIELD_WHEN;    /* [int64_t] ms; a time, or a span from now */
extern const struct field_kind FIELD_WORD;    /* [int] the number of one of `words` */
extern const struct field_kind FIELD_TERM;  /* [int or enum] the number of a word of `vocabulary` */
extern const struct field_kind FIELD_TERMS; /* [uint32_t] bits of such words, with commas between */
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
    bool is_parameter; /* a parameter without a value is true, and so is 1 */
    bool is_option;    /* the parameters are options: `older_than` is --older-than in a place */
    struct redrive_err *err;
    char at[FIELD_PLACE_MAX / 2]; /* where the object is: "items[2].", */
    const char *list;             /* as field_at has it: the array, NULL: it is in none, */
    size_t item;                  /* and its number there */
    char place[FIELD_PLACE_MAX];  /* at fault; "": the input as a whole */
};

/* Whether the value is the one text of a parameter or option, and no JSON. */
static inline bool field_reads_text(const struct field_reader *r)
{
    return r->text.ptr != NULL;
}

/* Whether a JSON value of that type comes next. */
static inline bool field_next_is(struct field_reader *r, enum json_type type)
{
    return !field_reads_text(r) && json_peek(&r->json) == (int)type;
}

/* Reads a text of at most `max` bytes without NUL: a slice of the input, or a copy in the arena
 * where it must be decoded. */
int field_read_text(struct field_reader *r, const struct field *f, size_t max, struct str *ret);

/* Whether a reader may have the field. */
static inline bool field_is_allowed(const struct field_reader *r, const struct field *f)
{
    return f->uses == 0 || (f->uses & r->uses) != 0;
}

/* Where the object is, before the name of a field: written when it is asked for. */
const char *field_at(struct field_reader *r);

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Fails at a field of the object that was read last. */
int field_fault(struct field_reader *r, const char *name, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fails at a field that must not be there beside another one. */
int field_excludes(struct field_reader *r, const char *name, const char *other);

/* Fails because a field is not there. */
int field_missing(struct field_reader *r, const char *name, const char *expected);

/* Fails because the value "is empty", with what the kind expects as the detail. A text is repeated
 * in the message, anything else is "it". */
int field_wrong(struct field_reader *r, const struct field *f, int code, const char *what);

/* What to do about an option whose value is empty. */
#define FIELD_EMPTY_HINT "leave the option away, or look at the variable it came from"

/* Fails because the text is too long, without repeating it. */
int field_too_long(struct field_reader *r, const struct field *f, int code);

/* Fails because the next value is of another type: "it is a number". */
int field_wrong_type(struct field_reader *r, const struct field *f);

/* Fails with the error of the JSON reader. */
int field_not_json(struct field_reader *r);

/* Fails because the table has no field of that name; `what` it would be: "member". */
int field_unknown(struct field_reader *r, const struct field *fields, struct str name,
                  const char *what);

/* Fails because none of `words` is `word`: all of them are the detail, the nearest is the hint. */
int field_no_such_word(struct field_reader *r, const char *name, struct str word,
                       const char *const *words, size_t n);

/* Appends "one of a, b, c". */
void field_list_words(const char *const *words, size_t n, struct buf *out);

/* Adds the detail "expected one of …" and the hint "did you mean 'x'?" to an error. */
void field_suggest(struct redrive_err *err, struct str word, const char *const *words, size_t n);

/* Appends what a value of the field must be: "a time". */
void field_describe(const struct field_reader *r, const struct field *f, struct buf *out);

/* What `describe` of FIELD_UINT and FIELD_DOUBLE appends, for kinds that are read like them. */
void field_describe_whole(const struct field_reader *r, const struct field *f, struct buf *out);
void field_describe_double(const struct field_reader *r, const struct field *f, struct buf *out);

/* ---- Writing --------------------------------------------------------------------------------- */

/* What `write` of FIELD_TEXT does, for kinds that keep their text in the same way. */
void field_write_text(const struct field *f, const void *member, struct json_writer *w);

/* 1 true, 0 false, -1 neither: `true`, `True` and `TRUE` count, and those of false. */
int field_truth(struct str text);

/* Whether a row of the table was there. */
static inline bool field_given(uint64_t given, size_t row)
{
    return (given >> row & 1) != 0;
}

#endif
