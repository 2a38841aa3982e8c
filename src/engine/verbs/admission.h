/* admission.h - which of a page of ready jobs may start, and what becomes of the others.
 *
 * The jobs of a page are looked at one after the other, because each changes what the next one
 * meets: a probe is gone, a limit is full. What was found is then told to the store all at once:
 * these start, those are parked.
 */
#ifndef ENGINE_VERBS_ADMISSION_H
#define ENGINE_VERBS_ADMISSION_H

#include "engine/gates/gate.h"
#include "store/store.h"

struct engine;

/* For which worker a job would start. */
struct admission_request {
    struct str worker;
    int64_t lease_ms;                           /* 0: as the task says */
    int64_t (*lease_of)(const struct job *job); /* as claim_op.lease_of; NULL: none */
    void *owner;                                /* the caller's own */
};

struct admitted {
    void *owner; /* the request's */
    struct job *job;
    struct gate *limit;
    struct gate *breaker;
    bool has_started; /* the store has not refused it */
};

struct parking {
    const struct job *job;
    struct gate *gate;
};

struct admission {
    struct engine *e;
    struct start_move *moves;
    struct admitted *starts;
    size_t n_starts;
    struct parking *parks[2]; /* by a breaker; by a limit */
    size_t n_parks[2];
    struct move_result *results;
};

/* For up to `n` jobs; its memory is the transaction's. */
int admission_init(struct admission *a, struct engine *e, size_t n, struct redrive_err *err);

/* Decides about a job: n_starts has grown if it is to start for this request. */
int admission_consider(struct admission *a, const struct admission_request *request,
                       struct job *job, struct redrive_err *err);

/* Carries everything out. Jobs that have started are then as the store has them. */
int admission_finish(struct admission *a, struct redrive_err *err);

#endif
