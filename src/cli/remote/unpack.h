/* unpack.h - reads the JSON of a server's answers into structs.
 *
 *     static const struct unpack QUEUE[] = {
 *         {"queue", UNPACK_STR, offsetof(struct job_count, queue)},
 *         {"paused", UNPACK_BOOL, offsetof(struct job_count, paused)},
 *         {0},
 *     };
 *     rc = unpack_list(text, QUEUE, sizeof(struct job_count), &arena, &list, err);
 *
 * The other direction of the writers that the server and the command line share, so that what is
 * read can be printed by the functions that print what a store has. A member that is not in the
 * table is passed over, because a newer server may tell more; one that is missing or null leaves
 * what was there. Strings are copied into the arena.
 *
 * An answer that cannot be read is REDRIVE_E_PARSE.
 */
#ifndef CLI_REMOTE_UNPACK_H
#define CLI_REMOTE_UNPACK_H

#include <stdint.h>

#include "base/json/json.h"
#include "base/mem/arena.h"
#include "core/vocabulary.h"

/* The type of the member is in brackets. */
enum unpack_type {
    UNPACK_STR,  /* [struct str] */
    UNPACK_JSON, /* [struct str] any value, byte for byte */
    UNPACK_BOOL, /* [bool] */
    UNPACK_U64,  /* [uint64_t] */
    UNPACK_TIME, /* [int64_t] milliseconds since 1970, of 2026-05-01T12:00:00.000Z */
    /* [int, or an enum] the number of a word of `words`. A word that a newer server has is the
     * number after the last one, such as REDRIVE_STATE_COUNT, whose name is "unknown": one new word
     * must not hide a whole list. */
    UNPACK_WORD,
    UNPACK_OBJECT, /* the members of an object, by the table `object`, from the offset on */
};

struct unpack {
    const char *key;
    enum unpack_type type;
    size_t offset;
    enum vocabulary words;
    const struct unpack *object;
};

/* Reads the object that is next. */
int unpack_members(struct json_reader *r, const struct unpack *table, struct arena *arena,
                   void *to);

/* A whole text that is an object. */
int unpack_object(struct str text, const struct unpack *table, struct arena *arena, void *to,
                  struct redrive_err *err);

/* The items of {"items":[…],"next":…}, each by the table. */
struct unpack_list {
    void *rows; /* of `size` bytes each, in the arena */
    size_t n;
    struct str next;             /* absent: it is null */
    int64_t n_unreadable;        /* jobs that the server has left out */
    struct str unreadable_first; /* why the first of them */
};
/* Adds to what the list has. Rows begin as a copy of `blank` (NULL: zeroed). */
int unpack_list(struct str text, const struct unpack *table, size_t size, const void *blank,
                struct arena *arena, struct unpack_list *list, struct redrive_err *err);

#endif
