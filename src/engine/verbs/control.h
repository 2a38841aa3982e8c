/* control.h - breakers and queues by hand. */
#ifndef ENGINE_VERBS_CONTROL_H
#define ENGINE_VERBS_CONTROL_H

#include "base/text/str.h"
#include "engine/op.h"
#include "store/store.h"

enum breaker_verb {
    BREAKER_LOOK,
    BREAKER_RESET,   /* closes it and forgets everything; parked jobs are let go */
    BREAKER_TRIP,    /* nothing passes until a reset */
    BREAKER_DISABLE, /* everything passes until a reset */
    BREAKER_SIMULATE_FAILURE,
};

/* A look at a breaker that nothing has been recorded for is REDRIVE_E_NOT_FOUND; the other verbs
 * make it. With `known_only` they make only one that a task of the configuration, or one that
 * another process has published, declares by its name or its key. A name that is none (name_check)
 * is refused, unless there is such a breaker.
 */
struct breaker_op {
    struct op op;
    struct str tenant; /* absent: the default one */
    struct str key;
    enum breaker_verb verb;
    bool known_only;
    struct redrive_breaker_status status; /* the answer; its name and `parked` are not filled in */
};
void breaker_op_init(struct breaker_op *op, struct str tenant, struct str key,
                     enum breaker_verb verb);

/* How far the time of a pause has been given back. */
struct pause_progress {
    struct pause_time pause;
    struct scan_place at;
    bool more; /* there are jobs left */
};

/* While a queue is paused none of its jobs starts. Pausing twice is no error; a name that no queue
 * can have (name_check_queue) is refused, unless it is that of a paused one. The time that a job
 * stands in a paused queue between two attempts does not count towards its total time-out: when the
 * queue is resumed, its queued jobs that have started before are held to have been parked since the
 * pause began or they came into the queue, whichever was later, until the first transaction of the
 * resumption. They are gone through some at a time, a transaction each, and the queue stays paused
 * until all are done, so that none starts before its time is put right. A process that stops on the
 * way leaves a paused queue, which can be resumed again:
 *
 *     do
 *         rc = engine_apply_one(engine, &op.op, err);
 *     while (rc == 0 && pause_op_goes_on(&op));
 */
struct pause_op {
    struct op op;
    struct str tenant;
    struct str queue;
    bool pause;                  /* false: resume */
    struct pause_progress done;  /* what former transactions have done */
    struct pause_progress after; /* the answer: what is done now */
};
void pause_op_init(struct pause_op *op, struct str tenant, struct str queue, bool pause);

/* Whether it must be applied once more; gets it ready for that. */
bool pause_op_goes_on(struct pause_op *op);

#endif
