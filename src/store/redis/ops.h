/* ops.h - what a commit does and relies upon: lists of operations for the server. */
#ifndef STORE_REDIS_OPS_H
#define STORE_REDIS_OPS_H

#include "base/text/buf.h"
#include "base/mem/map.h"
#include "store/redis/row.h"

/* A list of operations, in the making: lua/1-ops.lua. */
struct op_group;
struct ops {
    struct op_group **groups;
    size_t n;
    size_t capacity;
    struct map by_key;
    struct buf id; /* scratch */
    bool failed;
};

/* ---- ops.c, places.c ------------------------------------------------------------------------- */

void rd_ops_init(struct ops *ops);
void rd_ops_release(struct ops *ops);
void rd_ops_reset(struct ops *ops);
/* Adds arguments to the operation of this letter on this key; `head` (may be absent) is said once
 * before them. */
void rd_ops_add(struct ops *ops, char letter, struct str key, const struct str *head, size_t n_head,
                const struct str *words, size_t n);
/* Adds to a sum. */
void rd_ops_sum(struct ops *ops, struct str key, struct str field, int64_t delta);
/* How many words they are, and the words themselves as arguments of a request. */
size_t rd_ops_count(const struct ops *ops);
void rd_ops_ask(struct store *store, const struct ops *ops);

/* The operations that lead from one image of a job to another, whose bytes are given; NULL: there
 * is none. */
void rd_places_diff(struct ops *ops, const struct row *old, const struct row *new_,
                    struct str bytes);
void rd_gate_key(const struct row *row, struct buf *ret);

#endif
