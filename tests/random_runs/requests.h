/* requests.h - what clients, workers and operators ask an engine for.
 *
 *     struct request r;
 *     if (request_init(&r, kind, world, process, NULL)) {
 *         … engine_apply_batch, with request_op(&r) among its operations …
 *         request_end(&r, world, process, is_alone);
 *     }
 *
 * A request is drawn from the step's random numbers. Its end tells the judge and gives back what it
 * holds. Ends follow the order in which the engine has made the requests.
 */
#ifndef TESTS_SIMULATION_REQUESTS_H
#define TESTS_SIMULATION_REQUESTS_H

#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/control.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"
#include "world.h"

#define ITEMS_MAX 3 /* jobs of one request */

struct submission {
    struct submit_op op;
    struct job_spec specs[ITEMS_MAX];
    char ids[ITEMS_MAX][JUDGE_ID_MAX], keys[ITEMS_MAX][JUDGE_ID_MAX], payloads[ITEMS_MAX][80];
    struct job_after after[ITEMS_MAX][JUDGE_AFTER];
    char parents[ITEMS_MAX][JUDGE_AFTER][JUDGE_ID_MAX];
    bool is_wrong[ITEMS_MAX]; /* it waits for what it must not wait for */
    size_t n;
    bool is_alone; /* no job that is there can be removed before it is served */
};

struct settling {
    struct settle_op op;
    struct settlement items[ITEMS_MAX];
    struct run runs[ITEMS_MAX];
    size_t n;
    bool is_stale; /* of a run that was settled before */
};

struct extending {
    struct extend_op op;
    struct extension item;
};

struct changing {
    struct change_op op;
    struct change_item item;
    size_t kind; /* index in CHANGES_BY_HAND */
    unsigned long faults;
};

enum request_kind {
    REQUEST_SUBMIT,
    REQUEST_CLAIM,
    REQUEST_SETTLE,
    REQUEST_SETTLE_AGAIN,
    REQUEST_EXTEND,
    REQUEST_CHANGE,
    REQUEST_BREAKER,
    REQUEST_PAUSE,
    REQUEST_KINDS
};

struct request {
    enum request_kind kind;
    union {
        struct submission submission;
        struct claim_op claim;
        struct settling settling;
        struct extending extending;
        struct changing changing;
        struct breaker_op breaker;
        struct pause_op pause;
    } as;
};

/* False: there is nothing to ask for, and no end must follow. `earlier` (may be NULL) is of the
 * same transaction: of what it submits, something may be changed. */
bool request_init(struct request *r, enum request_kind kind, struct world *w,
                  const struct process *p, const struct request *earlier);
struct op *request_op(struct request *r);
/* `is_alone`: nothing else was in the transaction, whose own jobs a claim need not see. */
void request_end(struct request *r, struct world *w, const struct process *p, bool is_alone);

/* For draining: requests that are not drawn. */
void request_claim(struct request *r, size_t n);
void request_success(struct request *r, struct world *w); /* of some runs that workers hold */
void request_breaker(struct request *r, bool trip);
void request_pause(struct request *r, int queue, bool pause);

#endif
