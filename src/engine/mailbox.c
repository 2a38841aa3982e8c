/* mailbox.c - operations that go from an event loop to the committer, and their answers. */
#include "engine/mailbox.h"

void mailbox_init(struct mailbox *box, struct committer *committer, void (*wake)(void *ctx),
                  void *ctx)
{
    *box = (struct mailbox){.committer = committer, .wake = wake, .wake_ctx = ctx};
    list_init(&box->outgoing);
    list_init(&box->answers);
    pthread_mutex_init(&box->mutex, NULL);
}

void mailbox_release(struct mailbox *box)
{
    pthread_mutex_destroy(&box->mutex);
}

/* On the committer's thread. The loop is woken under the mutex: it may free the mailbox as soon as
 * it has the last answer. */
static void on_answer(struct op *op, void *ctx)
{
    struct mailbox *box = ctx;
    HOLD(&box->mutex);
    list_insert(&box->answers, &op->link);
    box->wake(box->wake_ctx);
}

void mailbox_send(struct mailbox *box, struct op *op, void (*answered)(struct op *op, void *ctx),
                  void *ctx)
{
    op->done = on_answer;
    op->done_ctx = box;
    op->answered = answered;
    op->answered_ctx = ctx;
    list_insert(&box->outgoing, &op->link);
    box->n_under_way++;
}

void mailbox_flush(struct mailbox *box)
{
    if (!list_empty(&box->outgoing))
        committer_submit_all(box->committer, &box->outgoing);
}

/* The next operation that was answered, taken out; NULL: none is left, and the reasons are. */
static struct op *next_answer(struct mailbox *box, unsigned *ret_reasons)
{
    struct op *op = NULL;
    HOLD(&box->mutex);
    if (!list_empty(&box->answers)) {
        op = LIST_ENTRY(box->answers.next, struct op, link);
        list_remove(&op->link);
    } else {
        *ret_reasons = box->reasons;
        box->reasons = 0;
    }
    return op;
}

unsigned mailbox_deliver(struct mailbox *box)
{
    unsigned reasons = 0;
    struct op *op;
    while ((op = next_answer(box, &reasons))) {
        box->n_under_way--;
        op->answered(op, op->answered_ctx);
    }
    return reasons;
}

void mailbox_wake(struct mailbox *box, unsigned reason)
{
    HOLD(&box->mutex);
    if (!box->is_closed && (box->reasons & reason) != reason) {
        box->reasons |= reason;
        box->wake(box->wake_ctx);
    }
}

void mailbox_close(struct mailbox *box)
{
    HOLD(&box->mutex);
    box->is_closed = true;
}
