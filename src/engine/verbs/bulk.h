/* bulk.h - one verb over every dead letter that matches a filter: redrive or remove.
 *
 *     struct bulk bulk;
 *     bulk_init(&bulk, MOVE_REDRIVE, &filter, engine_now_ms(engine));
 *     while (!bulk.finished) {
 *         bulk_op_init(&op, &bulk, n);
 *         rc = engine_apply_one(engine, &op.op, &err);
 *         if (rc < 0) …
 *         bulk_add(&bulk, &op);
 *     }
 *
 * A bulk is made of chunks, each an operation of its own, so that no transaction is long and others
 * get their turn in between. It walks over the jobs by their number, from the oldest on, and passes
 * each number once: a job that is redriven and dies again while the bulk runs stays dead. Neither
 * does it take what died after it began. Whoever is interrupted between two chunks has lost
 * nothing, and may begin anew.
 *
 * A job whose unique key a live job now holds, or whose deadline has passed, is not redriven: it is
 * counted as refused.
 */
#ifndef ENGINE_VERBS_BULK_H
#define ENGINE_VERBS_BULK_H

#include "core/limit/limit.h"
#include "engine/verbs/change.h"

/* The most that one chunk looks at. */
#define BULK_CHUNK_MAX 500

/* How far a bulk has come. */
struct bulk {
    enum move_kind kind;      /* MOVE_REDRIVE or MOVE_REMOVE */
    struct job_filter filter; /* strings borrowed; its keyset moves on with each chunk */
    int64_t started_ms;
    uint64_t changed;
    uint64_t refused;
    bool finished;
};

/* Of the filter's states only those from which the verb is possible are looked at; no states: the
 * dead letters. Its order, keyset and limit have no say. */
void bulk_init(struct bulk *bulk, enum move_kind kind, const struct job_filter *filter,
               int64_t now_ms);

/* How many jobs the rest of the bulk would change, and how many it would refuse as of now. Changes
 * nothing. */
int bulk_count(struct store *store, const struct bulk *bulk, uint64_t *ret_changed,
               uint64_t *ret_refused, struct redrive_err *err);

/* The next chunk. */
struct bulk_op {
    struct op op;
    enum move_kind kind;
    struct job_filter filter;
    size_t limit;

    /* The answer. */
    size_t changed;
    size_t refused;
    int64_t last_seq; /* the last that was looked at */
    bool more;        /* there are others after it */
};

/* `limit` is how many jobs it looks at, 1 … BULK_CHUNK_MAX. */
void bulk_op_init(struct bulk_op *op, const struct bulk *bulk, size_t limit);

/* Enters the answer of a chunk that has been applied. */
void bulk_add(struct bulk *bulk, const struct bulk_op *op);

/* ---- At a rate ------------------------------------------------------------------------------
 *
 * Says when the next chunk is due and how large it is: about ten chunks a second, or single jobs
 * where the rate is lower. It is never faster than the rate, and what was late is not made up for:
 * whoever asks for a rate has a service to spare.
 */
struct bulk_pace {
    struct rate rate; /* count 0: as fast as it goes */
    int64_t next_ms;  /* when the next chunk is due */
};

void bulk_pace_init(struct bulk_pace *pace, const struct rate *rate, int64_t now_ms);

/* How many may go now; 0: none for so many milliseconds yet. */
size_t bulk_pace_due(const struct bulk_pace *pace, int64_t now_ms, int64_t *ret_wait_ms);

/* So many have gone. */
void bulk_pace_took(struct bulk_pace *pace, size_t n, int64_t now_ms);

#endif
