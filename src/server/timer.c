/* timer.c - the thread that fires timers. */
#include "server/timer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/scope.h"
#include "base/time/clock.h"

struct timers {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for the thread: another first timer, or the end */
    pthread_cond_t idle;    /* for threads that wait until a timer has fired */
    struct list set;        /* the earliest first */
    struct timer *firing;
    bool ending;
};

static void *run(void *arg)
{
    struct timers *t = arg;
    pthread_mutex_lock(&t->mutex);
    while (!t->ending) {
        if (list_empty(&t->set)) {
            pthread_cond_wait(&t->changed, &t->mutex);
            continue;
        }
        struct timer *first = LIST_ENTRY(t->set.next, struct timer, link);
        if (first->at_ms > clock_monotonic_ms()) {
            (void)thread_cond_wait_until(&t->changed, &t->mutex, first->at_ms);
            continue;
        }
        list_remove(&first->link);
        t->firing = first;
        pthread_mutex_unlock(&t->mutex);
        /* It may be gone afterwards. */
        first->fire(first);
        pthread_mutex_lock(&t->mutex);
        t->firing = NULL;
        pthread_cond_broadcast(&t->idle);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

void timer_set(struct timers *t, struct timer *timer, int64_t at_ms)
{
    HOLD(&t->mutex);
    list_remove(&timer->link);
    timer->at_ms = at_ms;
    struct list *after = t->set.prev;
    while (after != &t->set && LIST_ENTRY(after, struct timer, link)->at_ms > at_ms)
        after = after->prev;
    list_insert(after->next, &timer->link);
    if (t->set.next == &timer->link)
        pthread_cond_signal(&t->changed);
}

void timer_unset(struct timers *t, struct timer *timer)
{
    HOLD(&t->mutex);
    while (t->firing == timer && !pthread_equal(pthread_self(), t->thread))
        pthread_cond_wait(&t->idle, &t->mutex);
    list_remove(&timer->link);
}

static void destroy(struct timers *t)
{
    pthread_cond_destroy(&t->changed);
    pthread_cond_destroy(&t->idle);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

int timers_new(struct timers **ret, struct redrive_err *err)
{
    struct timers *t = calloc(1, sizeof *t);
    *ret = NULL;
    if (!t)
        return err_nomem(err);
    list_init(&t->set);
    pthread_mutex_init(&t->mutex, NULL);
    thread_cond_init(&t->changed);
    pthread_cond_init(&t->idle, NULL);
    if (pthread_create(&t->thread, NULL, run, t) != 0) {
        destroy(t);
        return err_set(err, REDRIVE_E_NOMEM, "cannot start the thread of timers");
    }
    *ret = t;
    return 0;
}

void timers_free(struct timers *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    t->ending = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    destroy(t);
}
