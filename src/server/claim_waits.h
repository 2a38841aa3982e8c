/* claim_waits.h - claims that wait until there is work.
 *
 * A claim that finds nothing goes into the line of those that ask for the same (tenant, queues,
 * tasks; server/claim_lines.h), and sleeps: it holds no thread. When its time is over it is
 * answered with nothing, and so is one that may not wait any more.
 *
 * A claim belongs to these from claim_waits_add on until its `done` is called, which happens once,
 * on any thread.
 */
#ifndef SERVER_CLAIM_WAITS_H
#define SERVER_CLAIM_WAITS_H

#include "engine/committer.h"
#include "engine/verbs/claim.h"
#include "server/claim_lines.h"
#include "server/timer.h"

struct claim_waits;

struct claim_wait {
    struct claim_op claim; /* filled in by the caller; the answer is here */
    struct str key;        /* claims with the same key ask for the same; valid as long as this */
    int64_t until_ms;      /* clock_monotonic_ms; how long it may wait */
    void (*done)(struct claim_wait *wait);
    /* False: it may not wait any more. NULL: it may. Called with a lock held: must not call back.
     */
    bool (*may_wait)(const struct claim_wait *wait);

    /* Of claim_waits.c. */
    struct claim_waits *all;
    struct claim_turn turn; /* in a line: it sleeps, unless it asks */
    struct timer timer;
    bool is_late; /* its time was over while it asked */
};

int claim_waits_new(struct committer *committer, struct timers *timers, struct claim_waits **ret,
                    struct redrive_err *err);

/* Of a claim whose public members are set. */
void claim_wait_init(struct claim_waits *all, struct claim_wait *wait);
/* Asks at once. */
void claim_waits_add(struct claim_wait *wait);

/* Its time is over: it is answered with nothing, or with what it is just being given. From its init
 * on; it may have been answered before, as long as its memory is still there. */
void claim_waits_end(struct claim_wait *wait);

/* For the committer's on_ready: the first of each line asks again. */
void claim_waits_ready(struct claim_waits *all);

/* Those that sleep may have lost the right to wait: each is asked, and such a one is answered. */
void claim_waits_recheck(struct claim_waits *all);

/* Answers all that sleep; from now on none waits, but claims are still answered. */
void claim_waits_close(struct claim_waits *all);

/* After a close, when everything has been answered. NULL does nothing. */
void claim_waits_free(struct claim_waits *all);

#endif
