/* row.h - rows of jobs, names of keys, and the operations of a commit. */
#ifndef STORE_REDIS_ROW_H
#define STORE_REDIS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/mem/map.h"
#include "base/text/buf.h"
#include "store/job.h"
#include "store/page.h"
#include "store/redis/link.h"

struct store;

#define IN(state)        (1u << REDRIVE_STATE_##state)
#define STATES_UNSTARTED (IN(SCHEDULED) | IN(RETRYING) | IN(QUEUED) | IN(PARKED) | IN(WAITING))
#define STATES_ENDED     (IN(COMPLETED) | IN(FAILED) | IN(DEAD_LETTER) | IN(CANCELLED))
#define STATES_ALL       ((1u << REDRIVE_STATE_COUNT) - 1)

/* Jobs of the same tenant, queue and task. */
struct partition {
    uint32_t id;
    uint32_t tenant_id;
    struct str tenant;
    struct str queue;
    struct str task;
    char *name; /* owns them */
};

/* The parts of a job that are kept outside of its row when they are long. */
enum big_part {
    BIG_PAYLOAD,
    BIG_RESULT,
    BIG_STACKTRACE,
    BIG_COUNT
};
#define BIG_MIN ((size_t)512)

#define RD_VERSION_BYTES 3
#define RD_VERSION_END   (1u << 8 * RD_VERSION_BYTES)

/* A job as it is in its row. */
struct row {
    struct job job;
    const struct partition *partition;
    uint32_t version;   /* how often it was written, modulo RD_VERSION_END */
    uint32_t n_history; /* rows of the history */
    unsigned big;       /* bit mask: these parts are outside, and their strings are absent */
};

/* ---- names.c and protocol.c: what keys and members are made of ------------------------------- */

#define DIGEST_BYTES 16
#define MEMBER_BYTES 6

struct digest {
    char bytes[DIGEST_BYTES];
};
struct digest rd_digest_of(struct str tenant, struct str name);
static inline struct str digest_str(const struct digest *digest)
{
    return (struct str){digest->bytes, DIGEST_BYTES};
}

/* Where an id is kept: a key, and the field that is returned. */
#define RD_ID_KEY_MAX (RD_DIGITS_MAX + 2)
struct str rd_id_place(const struct digest *digest, char ret_key[RD_ID_KEY_MAX]);
/* In read.c: the seq of the job that has the id in the open transaction, if the server has
 * `member`; 0: none.
 */
int64_t rd_id_seq(struct store *store, const struct digest *digest, struct str member);
/* Adds it to a request for cells or holders. */
void rd_ask_id(struct store *store, const struct digest *digest);

struct member {
    char bytes[MEMBER_BYTES];
};
struct member rd_member_of(int64_t seq);
int64_t rd_member_seq(struct str bytes);
static inline struct str member_str(const struct member *member)
{
    return (struct str){member->bytes, MEMBER_BYTES};
}

/* The score of a time, which is exact as a double. */
int64_t rd_score_of(int64_t ms);

/* Adds a part of a name that sorts as its parts do, each by its bytes. */
void rd_add_part(struct buf *buf, struct str part);
/* Cuts off the next part, which lives in the arena; false: there is none. */
bool rd_take_part(struct str *name, struct arena *arena, struct str *ret);

/* ---- partitions.c ---------------------------------------------------------------------------- */

/* The partition of a job, which is given a number if it has none. */
int rd_partition_find(struct store *store, const struct job_spec *specs, size_t n,
                      const struct partition **ret, struct redrive_err *err);
int rd_partition_numbered(struct store *store, uint32_t id, const struct partition **ret,
                          struct redrive_err *err);
/* A partition of a tenant; NULL: it has none. */
int rd_tenant_find(struct store *store, struct str tenant, const struct partition **ret,
                   struct redrive_err *err);
/* Learns all partitions that there are. */
int rd_partitions_refresh(struct store *store, struct redrive_err *err);

/* ---- row.c: jobs and attempts as bytes ------------------------------------------------------- */

/* Packs a row; the big parts are only marked. */
int rd_row_pack(const struct row *row, struct buf *ret);
/* Strings are slices of `bytes`. */
int rd_row_unpack(struct store *store, int64_t seq, struct str bytes, struct row *ret,
                  struct redrive_err *err);
/* REDRIVE_E_CORRUPT: the row of a job cannot be read. */
int rd_row_damaged(int64_t seq, struct redrive_err *err);
bool rd_row_has_big(struct str bytes);
/* Of a row that was read. */
struct str rd_row_version(struct str bytes);
struct str *rd_row_big_part(struct row *row, enum big_part part);
int rd_attempt_pack(const struct job_attempt *attempt, struct buf *ret);
bool rd_attempt_unpack(struct str bytes, struct job_attempt *ret);

/* ---- Operations ------------------------------------------------------------------------------ */

/* A list of operations or checks for a commit, see lua/1-ops.lua. */
struct op_group;
struct ops {
    struct op_group **groups;
    size_t n;
    size_t capacity;
    struct map by_key;
    struct buf id; /* scratch */
    bool failed;
};

void rd_ops_init(struct ops *ops);
void rd_ops_release(struct ops *ops);
void rd_ops_reset(struct ops *ops);
/* Adds arguments to the operation of this letter on this key; `head` (may be absent) comes once
 * before them. */
void rd_ops_add(struct ops *ops, char letter, struct str key, const struct str *head, size_t n_head,
                const struct str *words, size_t n);
/* Adds to a sum. */
void rd_ops_sum(struct ops *ops, struct str key, struct str field, int64_t delta);
/* How many words they are, and the words themselves as arguments of a request. */
size_t rd_ops_count(const struct ops *ops);
void rd_ops_ask(struct store *store, const struct ops *ops);

/* The operations that lead from one image of a job to another, whose bytes are given; NULL: no such
 * job before, or after. */
void rd_places_diff(struct ops *ops, const struct row *old, const struct row *new_,
                    struct str bytes);

#endif
