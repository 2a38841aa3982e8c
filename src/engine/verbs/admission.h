/* admission.h - what a claim makes of a page of ready jobs, for verbs/claim.c only.
 *
 * The jobs of a page are looked at one after the other, because each changes what the next one
 * meets: a probe is gone, a limit is full. What was found is then told to the store all at once:
 * these start, those are parked.
 */
#ifndef ENGINE_VERBS_ADMISSION_H
#define ENGINE_VERBS_ADMISSION_H

#include <stdatomic.h>

#include "engine/gates/gates.h"
#include "engine/verbs/claim.h"

/* A page of ready jobs, which lives as long as one of its holders. */
struct claim_page {
    struct job_page page;
    atomic_uint holders;
};

/* Held once, by the caller; NULL without memory. */
struct claim_page *claim_page_new(void);
/* One holder less. Any thread may do that. */
void claim_page_drop(struct claim_page *page);

struct starting {
    struct claim_op *op; /* whose job it will be */
    struct job *job;
    struct gate *limit;
    struct gate *breaker;
};

struct parking {
    const struct job *job;
    struct gate *gate;
};

struct admission {
    struct engine *e;
    struct start_move *moves;
    struct starting *starts;
    size_t n_starts;
    struct parking *parks[2]; /* by a breaker; by a limit */
    size_t n_parks[2];
    struct move_result *results;
};

/* For up to `n` jobs; its memory is the transaction's. */
int admission_init(struct admission *admission, struct engine *e, size_t n,
                   struct redrive_err *err);

/* Decides about a job: n_starts has grown if it is to start, for this claim. */
int admission_consider(struct admission *admission, struct claim_op *op, struct job *job,
                       struct redrive_err *err);

/* Carries everything out. Jobs that have started are in the answers of their claims, which hold
 * the page. */
int admission_finish(struct admission *admission, struct claim_page *page, struct redrive_err *err);

#endif
