/* row.h - jobs as their rows say them, and what keys and members are made of. */
#ifndef STORE_REDIS_ROW_H
#define STORE_REDIS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "store/job.h"
#include "store/page.h"

struct store;

#define IN(state)      (1u << REDRIVE_STATE_##state)
#define STATES_WAITING (IN(SCHEDULED) | IN(RETRYING) | IN(QUEUED) | IN(PARKED))
#define STATES_ENDED   (IN(COMPLETED) | IN(FAILED) | IN(DEAD_LETTER) | IN(CANCELLED))
#define STATES_ALL     ((1u << REDRIVE_STATE_COUNT) - 1)

/* Jobs of the same tenant, queue and task. */
struct partition {
    uint32_t id;
    uint32_t tenant_id;
    struct str tenant;
    struct str queue;
    struct str task;
    char *name; /* owns them */
};

/* The parts of a job that stand outside of its row when they are long. */
enum big_part {
    BIG_PAYLOAD,
    BIG_RESULT,
    BIG_STACKTRACE,
    BIG_COUNT
};
#define BIG_MIN ((size_t)512)

#define RD_VERSION_BYTES 3
#define RD_VERSION_END   (1u << 8 * RD_VERSION_BYTES)

/* A job as its row says it. */
struct row {
    struct job job;
    const struct partition *partition;
    uint32_t
        version; /* how often it was written, up to RD_VERSION_END, from which it starts anew */
    uint32_t n_history; /* rows of the history */
    unsigned big;       /* bit mask: these parts stand outside, and their strings are absent */
};

/* ---- names.c: what keys and members are made of ---------------------------------------------- */

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

/* The place of an id: a key, and the field that it gives. */
#define RD_ID_KEY_MAX 16
struct str rd_id_place(const struct digest *digest, char ret_key[RD_ID_KEY_MAX]);
/* The job that has it in the open transaction, if the server says `member`; 0: none has. */
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

/* A score that is exact, whatever the time. */
int64_t rd_score_of(int64_t ms);

/* Adds a part of a name that sorts as its parts do, each by its bytes. */
void rd_add_part(struct buf *buf, struct str part);
/* Takes the next part off; false: there is none. The part lives in the arena. */
bool rd_take_part(struct str *name, struct arena *arena, struct str *ret);

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
/* Starts anew with none: no row may be known any more, for rows point to partitions. */
void rd_partitions_forget(struct store *store);
void rd_partitions_release(struct store *store);

/* ---- row.c: jobs and attempts as bytes ------------------------------------------------------- */

/* Packs a row; the big parts are only marked. */
int rd_row_pack(const struct row *row, struct buf *ret);
/* Strings are slices of `bytes`. */
int rd_row_unpack(struct store *store, int64_t seq, struct str bytes, struct row *ret,
                  struct redrive_err *err);
bool rd_row_has_big(struct str bytes);
/* Of a row that was read. */
struct str rd_row_version(struct str bytes);
struct str *rd_row_big_part(struct row *row, enum big_part part);
/* Whether a job is what a filter asks for, but for the keyset. */
bool rd_row_matches(const struct job_filter *filter, const struct row *row);
int rd_attempt_pack(const struct job_attempt *attempt, struct buf *ret);
bool rd_attempt_unpack(struct str bytes, struct job_attempt *ret);

#endif
