/* wait.c - time, and threads that wait for it.
 *
 * With the system's clock each waiting thread sleeps on its own condition until it is woken or
 * its time has come.
 *
 * With an injected clock time is virtual, and moves as in a discrete simulation: only when all
 * threads inside are waiting. Then one of them leads: it calls clock.wait_ms for the shortest of
 * all waits, wakes those whose time has come, and goes on waiting or leaves. A thread that is woken
 * counts as busy from the moment of the call, before it has run: so time cannot pass it by.
 *
 * A detached caller is woken by a function of the program. That is called once the lock is free: it
 * may run code that calls the handler, as the garbage collector of Python does. While it runs, the
 * caller does not leave, so that the caller's context and the handler stay valid.
 */
#include "lib/handler/private.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "base/os/thread.h"
#include "base/time/clock.h"

#define NS_PER_MS INT64_C(1000000)

/* A call of `wake`, on the stack of the thread that makes it. */
struct wake_call {
    struct list link;            /* in handler.wakes */
    const struct caller *caller; /* may be gone if this thread has ended it in the call */
    pthread_t thread;
    bool is_awaited; /* by caller_end_wakes */
};

/* The callers of this thread, the innermost first. */
static _Thread_local struct caller *innermost;

int64_t handler_ns(const struct redrive_handler *h)
{
    int64_t ns;
    if (!h->is_virtual)
        return clock_monotonic_ns() - h->origin_ns;
    /* Virtual centuries fit in milliseconds only; spans of a run are all that ns are for. */
    if (__builtin_mul_overflow(h->clock.now_ms(h->clock.ctx) - h->origin_ms, NS_PER_MS, &ns))
        ns = INT64_MAX;
    return ns;
}

int64_t handler_ms(int64_t ns)
{
    return ns / NS_PER_MS + 1;
}

int64_t handler_now(const struct redrive_handler *h)
{
    if (h->is_virtual)
        return h->clock.now_ms(h->clock.ctx) - h->origin_ms + 1;
    return handler_ms(handler_ns(h));
}

int64_t handler_wall_now(const struct redrive_handler *h)
{
    return h->is_virtual ? h->clock.now_ms(h->clock.ctx) : clock_wall_ms();
}

int64_t handler_wall(const struct redrive_handler *h, int64_t at_ms)
{
    if (h->is_virtual)
        return h->origin_ms + at_ms - 1;
    return clock_wall_ms() - (handler_now(h) - at_ms);
}

bool caller_is_inside(const struct redrive_handler *h)
{
    for (const struct caller *c = innermost; c; c = c->outer)
        if (c->handler == h)
            return true;
    return false;
}

bool caller_has_slot(const struct caller *caller)
{
    if (caller->is_nested)
        return true;
    for (const struct caller *c = caller; c; c = c->outer)
        if (c->handler == caller->handler && c->has_slot)
            return true;
    return false;
}

void caller_enter(struct caller *c, struct redrive_handler *h)
{
    *c = (struct caller){.handler = h, .outer = innermost, .is_outermost = !caller_is_inside(h)};
    innermost = c;
    h->inside += c->is_outermost;
}

void caller_enter_detached(struct caller *c, struct redrive_handler *h,
                           const struct redrive_step_options *options)
{
    *c = (struct caller){
        .handler = h,
        .is_outermost = true,
        .is_detached = true,
        .is_nested = options->is_nested,
        .wake = options->wake,
        .wake_ctx = options->wake_ctx,
    };
    list_init(&c->wake_link);
    h->inside++;
}

/* One of the waiting threads has to move the clock once the last busy thread is gone. */
static void pass_the_lead(struct redrive_handler *h)
{
    if (!h->is_virtual || h->leads || h->inside != h->waiting)
        return;
    struct caller *nearest = NULL;
    LIST_FOREACH (&h->waiters, link) {
        struct caller *c = LIST_ENTRY(link, struct caller, link);
        if (c->wake_ms != NEVER && (!nearest || c->wake_ms < nearest->wake_ms))
            nearest = c;
    }
    if (nearest)
        caller_wake(nearest);
}

void caller_leave(struct caller *c)
{
    struct redrive_handler *h = c->handler;
    if (!c->is_detached) {
        assert(innermost == c);
        innermost = c->outer;
    }
    if (!c->is_outermost)
        return;
    h->inside--;
    pass_the_lead(h);
    pthread_cond_broadcast(&h->left);
}

void caller_wake(struct caller *c)
{
    if (!c->waits || c->woken)
        return;
    c->woken = true;
    c->handler->waiting--;
    if (!c->is_detached)
        pthread_cond_signal(&c->cond);
    else if (c->wake && list_empty(&c->wake_link))
        list_insert(&c->handler->to_wake, &c->wake_link);
}

void handler_make_wakes(struct redrive_handler *h)
{
    while (!list_empty(&h->to_wake)) {
        struct caller *c = LIST_ENTRY(h->to_wake.next, struct caller, wake_link);
        struct wake_call call = {.caller = c, .thread = pthread_self()};
        void (*wake)(void *ctx) = c->wake;
        void *ctx = c->wake_ctx;
        list_remove(&c->wake_link);
        list_insert(&h->wakes, &call.link);
        pthread_mutex_unlock(&h->lock);
        wake(ctx);
        pthread_mutex_lock(&h->lock);
        list_remove(&call.link);
        if (call.is_awaited)
            pthread_cond_broadcast(&h->left);
    }
}

static struct wake_call *wake_of_other_thread(const struct caller *c)
{
    LIST_FOREACH (&c->handler->wakes, link) {
        struct wake_call *call = LIST_ENTRY(link, struct wake_call, link);
        if (call->caller == c && !pthread_equal(call->thread, pthread_self()))
            return call;
    }
    return NULL;
}

void caller_end_wakes(struct caller *c)
{
    struct wake_call *call;
    list_remove(&c->wake_link);
    while ((call = wake_of_other_thread(c))) {
        call->is_awaited = true;
        pthread_cond_wait(&c->handler->left, &c->handler->lock);
    }
}

static void wait_for_system(struct caller *c)
{
    struct redrive_handler *h = c->handler;
    int64_t after_ms = c->wake_ms - 1;
    int64_t ns = h->origin_ns % 1000000000 + after_ms % 1000 * NS_PER_MS;
    struct timespec until = {
        .tv_sec = (time_t)(h->origin_ns / 1000000000 + after_ms / 1000 + ns / 1000000000),
        .tv_nsec = (long)(ns % 1000000000),
    };
    int rc = 0;
    while (!c->woken && rc != ETIMEDOUT)
        rc = c->wake_ms == NEVER ? pthread_cond_wait(&c->cond, &h->lock)
                                 : pthread_cond_timedwait(&c->cond, &h->lock, &until);
}

static int64_t nearest_wake_ms(const struct redrive_handler *h)
{
    int64_t nearest = NEVER;
    LIST_FOREACH (&h->waiters, link) {
        const struct caller *c = LIST_ENTRY(link, struct caller, link);
        if (c->wake_ms < nearest)
            nearest = c->wake_ms;
    }
    return nearest;
}

/* Moves the clock on behalf of all. */
static void lead(struct caller *self, int64_t until_ms)
{
    struct redrive_handler *h = self->handler;
    int64_t ms = until_ms - handler_now(h);
    if (ms > 0) {
        h->leads = true;
        handler_unlock(h);
        h->clock.wait_ms(ms, h->clock.ctx);
        handler_lock(h);
        h->leads = false;
    }
    int64_t now_ms = handler_now(h);
    LIST_FOREACH (&h->waiters, link) {
        struct caller *c = LIST_ENTRY(link, struct caller, link);
        if (c != self && c->wake_ms <= now_ms)
            caller_wake(c);
    }
    handler_make_wakes(h);
}

static void wait_for_virtual(struct caller *c)
{
    struct redrive_handler *h = c->handler;
    while (!c->woken && handler_now(h) < c->wake_ms) {
        bool may_lead = h->inside == h->waiting && !h->leads;
        int64_t nearest_ms = may_lead ? nearest_wake_ms(h) : NEVER;
        if (nearest_ms == NEVER)
            pthread_cond_wait(&c->cond, &h->lock);
        else
            lead(c, nearest_ms);
    }
}

void caller_begin_wait(struct caller *c, int64_t wake_ms)
{
    struct redrive_handler *h = c->handler;
    c->wake_ms = wake_ms;
    c->woken = false;
    c->waits = true;
    h->waiting++;
    list_insert(&h->waiters, &c->link);
}

void caller_end_wait(struct caller *c)
{
    if (!c->woken)
        c->handler->waiting--;
    c->waits = false;
    list_remove(&c->link);
}

void caller_wait(struct caller *c, int64_t wake_ms)
{
    thread_cond_init(&c->cond);
    caller_begin_wait(c, wake_ms);
    handler_make_wakes(c->handler);
    if (c->handler->is_virtual)
        wait_for_virtual(c);
    else
        wait_for_system(c);
    caller_end_wait(c);
    pthread_cond_destroy(&c->cond);
}
