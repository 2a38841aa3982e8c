/* walk.h - jobs by seq, some at a time. */
#ifndef STORE_REDIS_WALK_H
#define STORE_REDIS_WALK_H

#include <hiredis/hiredis.h>

#include "base/text/buf.h"
#include "store/page.h"

/* Walks over the jobs in these states and partitions (4 bytes each; none: all) by seq, some at a
 * time.
 */
struct walk {
    bool is_back;
    int64_t after; /* seq; moved */
    uint32_t states;
    unsigned flags; /* of rows; 0: any */
    struct str partitions;
    bool is_over;

    char own[24];            /* the index of the one tenant whose jobs are met; "": of all */
    int64_t n_own;           /* how many jobs it has, */
    int64_t n_own_in_states; /* and in the states of the walk */

    int64_t *seqs; /* NULL: all; else only these, which are sorted as the walk goes */
    size_t n_seqs;
    size_t at;
};
#define WALK_FINGERPRINT 2
/* Makes it a walk over the jobs of the filter's tenant, if it has one; after rd_walk_partitions. */
int rd_walk_tenant(struct store *store, const struct job_filter *filter, struct walk *walk,
                   struct redrive_err *err);
/* How many jobs are in these states, which are ends or running. */
int rd_walk_count(struct store *store, uint32_t states, int64_t *ret, struct redrive_err *err);
/* Finds out whether the states have so few jobs that it is better to look at these alone. */
int rd_walk_plan(struct store *store, struct walk *walk, struct redrive_err *err);
void rd_walk_release(struct walk *walk);
int rd_walk_read(struct store *store, struct walk *walk, size_t limit, bool wants_big,
                 redisReply **ret, struct redrive_err *err);
/* The partitions of a filter for a walk; *ret_none: there are none. */
int rd_walk_partitions(struct store *store, const struct job_filter *filter, struct buf *ret,
                       bool *ret_none, struct redrive_err *err);

#endif
