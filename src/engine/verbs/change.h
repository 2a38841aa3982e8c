/* change.h - what people do to jobs: cancel, run now, redrive, kill, edit, remove; to single ones,
 * or to all that match a filter. */
#ifndef ENGINE_VERBS_CHANGE_H
#define ENGINE_VERBS_CHANGE_H

#include "core/limit/limit.h"
#include "engine/op.h"
#include "store/store.h"

/* One job, by its number or, when that is 0, by tenant and id. With both a tenant and a number, a
 * job of another tenant is not found. */
struct change_item {
    struct str tenant;
    struct str id;
    int64_t seq;
    struct str payload; /* MOVE_EDIT: JSON */
    struct move_result ret;
    struct arena *arena;   /* where `unique_key` is copied to; NULL: nowhere */
    struct str unique_key; /* of REDRIVE_E_EXISTS: the key that a live job holds */
};

/* MOVE_CANCEL   any live job; a running one's worker learns of it by the event, if it is in
 *               this process, else at its next heartbeat, or when it settles
 * MOVE_RUN_NOW  a time-locked job goes back to the queue
 * MOVE_REDRIVE  a dead or failed job starts anew, with fresh attempts; REDRIVE_E_DEADLINE when
 *               its deadline has passed
 * MOVE_END      a waiting job goes to the dead letters by hand
 * MOVE_REMOVE   an ended job and its history are gone
 * MOVE_EDIT     a dead letter gets another payload */
struct change_op {
    struct op op;
    enum move_kind kind;
    struct change_item *items; /* borrowed */
    size_t n;
    /* Mask of the states that a job may be in; REDRIVE_E_STATE in another. 0: all from which the
     * move is possible. */
    uint32_t from;
};
void change_op_init(struct change_op *op, enum move_kind kind, struct change_item *items, size_t n);

/* ---- Bulk ------------------------------------------------------------------------------------ */

/* One verb over every job that matches a filter: redrive or remove those that have ended, cancel or
 * run now those that have not.
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
 * A bulk is made of chunks, each an operation of its own, so that no transaction is long and other
 * operations run in between. It walks over the jobs by their number, from the oldest on, and passes
 * each number once: a job that is redriven and dies again while the bulk runs stays dead. Jobs that
 * died, or for the verbs over live ones were submitted, after it began are left alone. A bulk that
 * is interrupted between two chunks has lost nothing, and may be begun anew.
 *
 * A job whose unique key a live job now holds, or whose deadline has passed, is not redriven: it is
 * counted as refused.
 */

/* The most that one chunk looks at. */
#define BULK_CHUNK_MAX 500

/* How far a bulk has come. */
struct bulk {
    enum move_kind kind;      /* MOVE_REDRIVE, MOVE_REMOVE, MOVE_CANCEL or MOVE_RUN_NOW */
    struct job_filter filter; /* strings borrowed; its keyset moves on with each chunk */
    int64_t created_until_ms; /* jobs that came later are left alone; 0: there is no bound */
    int64_t started_ms;
    uint64_t changed;
    uint64_t refused;
    bool finished;
};

/* Of the filter's states only those from which the verb is possible are looked at; no states: the
 * dead letters. Its order, keyset and limit have no say. */
void bulk_init(struct bulk *bulk, enum move_kind kind, const struct job_filter *filter,
               int64_t now_ms);

/* How many jobs the rest of a bulk would change, and how many it would refuse, as of now. */
struct bulk_forecast {
    uint64_t changed;
    uint64_t refused;
    bool is_at_least; /* there are more than were looked at */
};

/* Looks at `max` jobs at the most. Changes nothing. */
int bulk_count(struct store *store, const struct bulk *bulk, uint64_t max,
               struct bulk_forecast *ret, struct redrive_err *err);

/* The next chunk. */
struct bulk_op {
    struct op op;
    enum move_kind kind;
    struct job_filter filter;
    int64_t created_until_ms;
    size_t limit;

    /* The answer. */
    size_t changed;
    size_t refused;
    int64_t last_seq; /* the last that was looked at */
    bool more;        /* there are further jobs after it */
};

/* `limit` is how many jobs it looks at, 1 … BULK_CHUNK_MAX. */
void bulk_op_init(struct bulk_op *op, const struct bulk *bulk, size_t limit);

/* Enters the answer of a chunk that has been applied. */
void bulk_add(struct bulk *bulk, const struct bulk_op *op);

/* ---- At a rate ------------------------------------------------------------------------------
 *
 * Says when the next chunk is due and how large it is: about ten chunks a second, or single jobs
 * where the rate is lower. It is never faster than the rate, and does not catch up after a delay: a
 * rate is there to spare a service.
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

/* ---- Within the engine ----------------------------------------------------------------------- */

/* Carries out cancels that were left in the store: looks for them every 100 ms at the most, and
 * carries some hundred of them out.
 *
 * A program that has the store and no engine, such as an application in its own transaction, cannot
 * give back what a running job holds of a limit and of a breaker. It leaves a row of SHARED_CANCEL:
 * its tenant is that of the job, its key the job's id, its value the life of the job that is meant,
 *
 *     {"created_ms":…,"epoch":…}
 *
 * so that a job that was redriven since, or another one of the same id, is left alone. A tick
 * carries it out as any other cancel and removes the row in the same transaction. The row is also
 * removed when the job has ended before, or is gone.
 *
 * Engines leave rows of another form there, for jobs that wait for skipped ones: after_later.c. */
int cancels_carry_out(struct engine *e, struct redrive_err *err);
/* Whether it would look for them now: not more often than ten times a second. */
bool cancels_are_due(const struct engine *e);

#endif
