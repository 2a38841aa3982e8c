#include "server/timer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"

struct bells {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for the thread: another first bell, or the end */
    pthread_cond_t silent;  /* for those who wait until a bell has rung */
    struct list set;        /* the earliest first */
    struct bell *ringing;
    bool ending;
};

static void wait_until_ms(struct bells *b, int64_t at_ms)
{
    struct timespec at = {.tv_sec = at_ms / 1000, .tv_nsec = (long)(at_ms % 1000) * 1000000};
    (void)pthread_cond_timedwait(&b->changed, &b->mutex, &at);
}

static void *run(void *arg)
{
    struct bells *b = arg;
    pthread_mutex_lock(&b->mutex);
    while (!b->ending) {
        if (list_empty(&b->set)) {
            pthread_cond_wait(&b->changed, &b->mutex);
            continue;
        }
        struct bell *first = LIST_ENTRY(b->set.next, struct bell, link);
        if (first->at_ms > clock_monotonic_ms()) {
            wait_until_ms(b, first->at_ms);
            continue;
        }
        list_remove(&first->link);
        b->ringing = first;
        pthread_mutex_unlock(&b->mutex);
        /* It may be gone afterwards. */
        first->ring(first);
        pthread_mutex_lock(&b->mutex);
        b->ringing = NULL;
        pthread_cond_broadcast(&b->silent);
    }
    pthread_mutex_unlock(&b->mutex);
    return NULL;
}

void bell_set(struct bells *b, struct bell *bell, int64_t at_ms)
{
    pthread_mutex_lock(&b->mutex);
    list_remove(&bell->link);
    bell->at_ms = at_ms;
    struct list *after = b->set.prev;
    while (after != &b->set && LIST_ENTRY(after, struct bell, link)->at_ms > at_ms)
        after = after->prev;
    list_insert(after->next, &bell->link);
    if (b->set.next == &bell->link)
        pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

void bell_unset(struct bells *b, struct bell *bell)
{
    pthread_mutex_lock(&b->mutex);
    while (b->ringing == bell && !pthread_equal(pthread_self(), b->thread))
        pthread_cond_wait(&b->silent, &b->mutex);
    list_remove(&bell->link);
    pthread_mutex_unlock(&b->mutex);
}

static void destroy(struct bells *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_cond_destroy(&b->silent);
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

int bells_new(struct bells **ret, struct redrive_err *err)
{
    pthread_condattr_t monotonic;
    struct bells *b = calloc(1, sizeof *b);
    *ret = NULL;
    if (!b)
        return err_nomem(err);
    list_init(&b->set);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&b->silent, NULL);
    if (pthread_create(&b->thread, NULL, run, b) != 0) {
        destroy(b);
        return err_set(err, REDRIVE_E_NOMEM, "cannot start the thread of timers");
    }
    *ret = b;
    return 0;
}

void bells_free(struct bells *b)
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
