/* request.h - the JSON arguments of the commands other than PUSH.
 *
 * Pure. Strings are slices of the text, or of the arena where they had escapes; those that are
 * `const char *` are the arena's. Unknown members are ignored, null counts as absent. A reader that
 * fails returns a negative code and says why in `err`, if it is given one.
 */
#ifndef SERVER_FAKTORY_FORMAT_REQUEST_H
#define SERVER_FAKTORY_FORMAT_REQUEST_H

#include "base/mem/arena.h"
#include "base/text/str.h"
#include "redrive.h"
#include "server/faktory/format/pattern.h"

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
    bool has_filter;
    const struct str *jids; /* if there are any, nothing else counts */
    size_t n_jids;
    struct str jobtype;
    const struct faktory_pattern *pattern; /* of the job's text; NULL: any */
};
int faktory_mutation_read(struct str json, struct arena *arena, struct faktory_mutation *ret,
                          struct redrive_err *err);

#endif
