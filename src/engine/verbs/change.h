/* change.h - what people do to jobs: cancel, run now, redrive, kill, edit, remove. */
#ifndef ENGINE_VERBS_CHANGE_H
#define ENGINE_VERBS_CHANGE_H

#include "engine/transaction.h"
#include "store/store.h"

/* One job, by its number or, when that is 0, by tenant and id. With both a tenant and a number, a
 * job of another tenant is not found. */
struct change_item {
    struct str tenant;
    struct str id;
    int64_t seq;
    struct str payload; /* MOVE_EDIT: JSON */
    struct move_result ret;
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
};
void change_op_init(struct change_op *op, enum move_kind kind, struct change_item *items, size_t n);

/* ---- Within the engine ----------------------------------------------------------------------- */

/* Changes a job whose row has been read in this transaction, and tells of it. A refusal goes into
 * item->ret. */
int change_job(struct engine *e, enum move_kind kind, const struct job *job,
               struct change_item *item, struct redrive_err *err);

#endif
