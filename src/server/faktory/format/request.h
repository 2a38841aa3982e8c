/* request.h - the JSON arguments of the commands other than PUSH.
 *
 * Pure. Strings are slices of the text, or of the arena where they had escapes; those that are
 * `const char *` are the arena's. Unknown members are ignored, null counts as absent. A reader that
 * fails returns a negative code and says why in `err`, if it is given one.
 */
#ifndef SERVER_FAKTORY_FORMAT_REQUEST_H
#define SERVER_FAKTORY_FORMAT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

/* HELLO: the client about itself. */
struct faktory_hello {
    struct str wid;     /* absent: a producer */
    struct str pwdhash; /* lower-case hexadecimal */
    int64_t version;
};
int faktory_hello_read(struct str json, struct arena *arena, struct faktory_hello *ret,
                       struct redrive_err *err);

/* What a client has to answer to a greeting with this salt: SHA-256 of password and salt, and of
 * that again until there have been so many, as hexadecimal text. */
#define FAKTORY_HASH_TEXT 65
void faktory_password_hash(struct str password, struct str salt, int iterations,
                           char out[FAKTORY_HASH_TEXT]);

/* ACK; absent when it is not there. */
int faktory_ack_read(struct str json, struct arena *arena, struct str *ret_jid,
                     struct redrive_err *err);

/* FAIL. Texts are trimmed and cut; where there is none they say "unknown". */
struct faktory_fail {
    struct str jid;
    const char *error_type;
    const char *const *error_types; /* `errtypes`, the most derived first */
    size_t n_error_types;
    const char *message;
    const char *backtrace; /* one line a frame; NULL: none */
};
int faktory_fail_read(struct str json, struct arena *arena, struct faktory_fail *ret,
                      struct redrive_err *err);

/* BEAT. */
struct faktory_beat {
    struct str wid;
    struct str state; /* as the worker sees itself; may be absent */
};
int faktory_beat_read(struct str json, struct arena *arena, struct faktory_beat *ret,
                      struct redrive_err *err);

/* MUTATE. */
struct faktory_mutation {
    struct str command;
    struct str target;
    const struct str *jids; /* if there are any, nothing else counts */
    size_t n_jids;
    struct str jobtype;
    const struct faktory_pattern *pattern; /* of the job's text; NULL: any */
};
int faktory_mutation_read(struct str json, struct arena *arena, struct faktory_mutation *ret,
                          struct redrive_err *err);

/* ---- Lines and replies ----------------------------------------------------------------------- */

/* The Faktory protocol as bytes: lines in, RESP out.
 *
 * A client sends lines `VERB arguments`, which end with CR LF (a lone LF is understood as well).
 * The server answers each, in order, with a status (+OK), an error (-ERR text), a bulk ($5, five
 * bytes) or nil ($-1). Pure: no socket, no job.
 */

struct faktory_line {
    struct str verb; /* up to the first blank; may be empty */
    struct str args; /* all behind that blank */
};

/* Looks for a whole line at the start of `bytes`, of which the first `*scanned` are known to have
 * no end of line. 1: there is one, it takes `*ret_used` bytes with its end, and `*scanned` is 0
 * again. 0: not yet, and `*scanned` remembers how far it has looked. REDRIVE_E_TOO_BIG: it is, or
 * will be, longer than `max` without its end. */
int faktory_line_next(struct str bytes, size_t max, size_t *scanned, struct faktory_line *ret,
                      size_t *ret_used);

/* The next of the words between blanks, taken off the front of `rest`; false after the last. */
bool faktory_word_next(struct str *rest, struct str *ret);

/* Whether a word can name a worker: 1 to 255 bytes of UTF-8 without control characters. */
bool faktory_is_name(struct str word);

/* What a client has said, for a %.*s of an error. */
#define FAKTORY_QUOTE(s) ((s).len < 400 ? (int)(s).len : 400), ((s).ptr ? (s).ptr : "")

void faktory_put_ok(struct buf *out);
/* `-ERR text`, made fit for one line whatever is quoted in it, and cut at 512 bytes. */
void faktory_put_error(struct buf *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void faktory_put_bulk(struct buf *out, struct str bytes);
void faktory_put_nil(struct buf *out);

/* ---- Patterns -------------------------------------------------------------------------------- */

/* A pattern with `*` and `?` over the text of a job.
 *
 * A client chooses both the pattern and the texts, and the committer's thread compares them. So a
 * pattern has a maximum, and the time to compare depends on the length of the text alone. All ways
 * in which the pattern may fit are followed through the text together, a bit for each.
 */

#define FAKTORY_PATTERN_MAX   255
#define FAKTORY_PATTERN_WORDS 4

struct faktory_pattern {
    uint64_t accepts[256][FAKTORY_PATTERN_WORDS]; /* bit i: the i-th sign may be this byte */
    uint64_t stays[FAKTORY_PATTERN_WORDS];        /* bit i: there is a `*` before the i-th sign */
    unsigned n;                                   /* signs, not counting `*` */
    unsigned n_words;                             /* that the bits 0 … n need */
};

/* As Redis has it: `*` is any run of bytes, `?` any byte, `[a-z]` one of these and `[^a-z]` none of
 * them, and a byte behind `\` stands for itself. False: it is longer than FAKTORY_PATTERN_MAX. */
bool faktory_pattern_init(struct faktory_pattern *pattern, struct str text);

/* Whether it fits the whole of the text. */
bool faktory_pattern_fits(const struct faktory_pattern *pattern, struct str text);

#endif
