/* A mailbox: answers are delivered on the thread that asked, in order, before the loop is told why
 * it was woken.
 */
#include "check.h"

#include <pthread.h>

#include "engine/mailbox.h"

#define N 3

/* A loop: it waits until it is woken, and then has the mailbox deliver. */
struct loop {
    struct committer *committer;
    struct mailbox box;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    unsigned n_wakes;
    pthread_t thread;
    struct op ops[N];
    struct op *order[N];
    size_t n_answered;
};

static int apply_nothing(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine;
    (void)op;
    (void)err;
    return 0;
}

static void wake(void *ctx)
{
    struct loop *loop = ctx;
    pthread_mutex_lock(&loop->mutex);
    loop->n_wakes++;
    pthread_cond_signal(&loop->woken);
    pthread_mutex_unlock(&loop->mutex);
}

static void on_answered(struct op *op, void *ctx)
{
    struct loop *loop = ctx;
    assert_true(pthread_equal(pthread_self(), loop->thread));
    loop->order[loop->n_answered++] = op;
}

static void setup_loop(struct loop *loop)
{
    const struct store_options store = {.create = true};
    struct engine_options engine = {.seed = 3};
    struct committer_options committer = {0};
    *loop = (struct loop){.thread = pthread_self()};
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_cond_init(&loop->woken, NULL);
    assert_int_equal(store_open("memory:", &store, &engine.store, NULL), 0);
    assert_int_equal(engine_open(&engine, &committer.engine, NULL), 0);
    assert_int_equal(committer_start(&committer, &loop->committer, NULL), 0);
    mailbox_init(&loop->box, loop->committer, wake, loop);
}

static void send_all(struct loop *loop)
{
    for (size_t i = 0; i < N; i++) {
        loop->ops[i] = (struct op){.apply = apply_nothing, .weight = 1};
        mailbox_send(&loop->box, &loop->ops[i], on_answered, loop);
    }
}

static void turn(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    while (loop->n_wakes == 0)
        pthread_cond_wait(&loop->woken, &loop->mutex);
    loop->n_wakes = 0;
    pthread_mutex_unlock(&loop->mutex);
    assert_int_equal(mailbox_deliver(&loop->box), 0);
}

static void end_loop(struct loop *loop)
{
    committer_stop(loop->committer);
    mailbox_release(&loop->box);
    pthread_cond_destroy(&loop->woken);
    pthread_mutex_destroy(&loop->mutex);
}

TEST(answers_come_in_order_on_the_loop)
{
    struct loop loop;
    setup_loop(&loop);
    send_all(&loop);
    assert_int_equal(loop.box.n_under_way, N);
    mailbox_flush(&loop.box);
    while (loop.n_answered < N)
        turn(&loop);
    for (size_t i = 0; i < N; i++)
        assert_ptr_equal(loop.order[i], &loop.ops[i]);
    assert_int_equal(loop.box.n_under_way, 0);
    end_loop(&loop);
}

/* What was sent is not handed in before the flush: the committer ends, and has not had it. */
TEST(nothing_is_handed_in_before_the_flush)
{
    struct loop loop;
    setup_loop(&loop);
    send_all(&loop);
    committer_stop(loop.committer);
    loop.committer = NULL;
    assert_int_equal(mailbox_deliver(&loop.box), 0);
    assert_int_equal(loop.n_answered, 0);
    end_loop(&loop);
}

TEST(reasons_are_told_once_and_wake_once)
{
    struct loop loop;
    setup_loop(&loop);
    mailbox_wake(&loop.box, 1);
    mailbox_wake(&loop.box, 1);
    mailbox_wake(&loop.box, 2);
    assert_int_equal(loop.n_wakes, 2);
    assert_int_equal(mailbox_deliver(&loop.box), 3);
    assert_int_equal(mailbox_deliver(&loop.box), 0);
    end_loop(&loop);
}

TEST(closed_mailbox_does_not_wake)
{
    struct loop loop;
    setup_loop(&loop);
    mailbox_close(&loop.box);
    mailbox_wake(&loop.box, 1);
    assert_int_equal(loop.n_wakes, 0);
    assert_int_equal(mailbox_deliver(&loop.box), 0);
    end_loop(&loop);
}
