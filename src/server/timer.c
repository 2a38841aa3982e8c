/* timer.c - the thread that fires timers. */
#include "server/timer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
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

static void wait_until_ms(struct timers *b, int64_t at_ms)
{
    struct timespec at = {.tv_sec = at_ms / 1000, .tv_nsec = (long)(at_ms % 1000) * 1000000};
    (void)pthread_cond_timedwait(&b->changed, &b->mutex, &at);
}

static void *run(void *arg)
{
    struct timers *b = arg;
    pthread_mutex_lock(&b->mutex);
    while (!b->ending) {
        if (list_empty(&b->set)) {
            pthread_cond_wait(&b->changed, &b->mutex);
            continue;
        }
        struct timer *first = LIST_ENTRY(b->set.next, struct timer, link);
        if (first->at_ms > clock_monotonic_ms()) {
            wait_until_ms(b, first->at_ms);
            continue;
        }
        list_remove(&first->link);
        b->firing = first;
        pthread_mutex_unlock(&b->mutex);
        /* It may be gone afterwards. */
        first->fire(first);
        pthread_mutex_lock(&b->mutex);
        b->firing = NULL;
        pthread_cond_broadcast(&b->idle);
    }
    pthread_mutex_unlock(&b->mutex);
    return NULL;
}

void timer_set(struct timers *b, struct timer *timer, int64_t at_ms)
{
    pthread_mutex_lock(&b->mutex);
    list_remove(&timer->link);
    timer->at_ms = at_ms;
    struct list *after = b->set.prev;
    while (after != &b->set && LIST_ENTRY(after, struct timer, link)->at_ms > at_ms)
        after = after->prev;
    list_insert(after->next, &timer->link);
    if (b->set.next == &timer->link)
        pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

void timer_unset(struct timers *b, struct timer *timer)
{
    pthread_mutex_lock(&b->mutex);
    while (b->firing == timer && !pthread_equal(pthread_self(), b->thread))
        pthread_cond_wait(&b->idle, &b->mutex);
    list_remove(&timer->link);
    pthread_mutex_unlock(&b->mutex);
}

static void destroy(struct timers *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_cond_destroy(&b->idle);
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

int timers_new(struct timers **ret, struct redrive_err *err)
{
    pthread_condattr_t monotonic;
    struct timers *b = calloc(1, sizeof *b);
    *ret = NULL;
    if (!b)
        return err_nomem(err);
    list_init(&b->set);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&b->idle, NULL);
    if (pthread_create(&b->thread, NULL, run, b) != 0) {
        destroy(b);
        return err_set(err, REDRIVE_E_NOMEM, "cannot start the thread of timers");
    }
    *ret = b;
    return 0;
}

void timers_free(struct timers *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->mutex);
    b->ending = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    pthread_join(b->thread, NULL);
    destroy(b);
}
