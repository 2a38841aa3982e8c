/* mailbox.h - operations handed to the committer from an event loop, and answered on that loop.
 *
 *     the loop's thread                                   the committer's thread
 *     mailbox_send ──► collected in this turn
 *     mailbox_flush ─────────────────────────────────────► one transaction, if they fit
 *     mailbox_deliver: answered(op, ctx) ◄── wake(ctx) ◄── answers, in their order
 *
 * Everything is for the loop's thread, but for mailbox_wake. A mailbox knows no event library: the
 * loop gives it a function that has mailbox_deliver called soon.
 */
#ifndef ENGINE_MAILBOX_H
#define ENGINE_MAILBOX_H

#include <pthread.h>

#include "engine/committer.h"

struct mailbox {
    struct committer *committer; /* borrowed */
    void (*wake)(void *ctx);
    void *wake_ctx;
    struct list outgoing; /* operations, by op.link */
    size_t n_under_way;   /* sent, and not delivered yet */

    pthread_mutex_t mutex; /* guards what follows */
    struct list answers;   /* operations, by op.link */
    unsigned reasons;      /* of mailbox_wake, since the last delivery */
    bool is_closed;
};

/* `wake` is called on any thread, and must neither wait nor call back. */
void mailbox_init(struct mailbox *box, struct committer *committer, void (*wake)(void *ctx),
                  void *ctx);
/* When the committer has answered all that was handed in. */
void mailbox_release(struct mailbox *box);

/* Has the operation handed in by the next flush. Its answer is delivered by
 * op->answered(op, op->answered_ctx), which are set here. */
void mailbox_send(struct mailbox *box, struct op *op, void (*answered)(struct op *op, void *ctx),
                  void *ctx);
/* Hands in what was sent, at one moment. */
void mailbox_flush(struct mailbox *box);

/* Delivers the answers that have come, then returns the reasons for which mailbox_wake was called:
 * what an answer has begun is there before the loop looks at a reason. */
unsigned mailbox_deliver(struct mailbox *box);

/* Any thread, as long as the mailbox is there: wakes the loop for a reason, of which there may be
 * several (bits). Does nothing once it is closed. */
void mailbox_wake(struct mailbox *box, unsigned reason);
/* `wake` is not called any more. Nothing is under way. */
void mailbox_close(struct mailbox *box);

#endif
