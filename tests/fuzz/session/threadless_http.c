/* threadless_http.c - what the threads behind an HTTP server do, on the thread of a fuzz target. */
#include "threadless_http.h"

#include <pthread.h>

#include "server/health_check.h"
#include "server/http/private.h"
#include "server/rest/private.h"
#include "session.h"

/* ---- Threads that are not there -------------------------------------------------------------- */

int __wrap_http_loop_start(struct http_server *of, struct redrive_err *err);
void __wrap_http_loop_stop(struct http_server *of);
void *__wrap_http_sweep(void *ctx);
void *__real_http_sweep(void *ctx);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_rest_readers_start(struct rest *of, const char *url, struct redrive_err *err);
void __wrap_rest_readers_take(struct rest *of, struct rest_call *call);

/* libmicrohttpd is run by the target. */
int __wrap_http_loop_start(struct http_server *of, struct redrive_err *err)
{
    (void)of, (void)err;
    return 0;
}

void __wrap_http_loop_stop(struct http_server *of)
{
    (void)of;
}

/* The thread ends at once; threadless_http_sweep does its work. */
void *__wrap_http_sweep(void *ctx)
{
    (void)ctx;
    return NULL;
}

static struct http_server *swept; /* NULL: it is not being looked at */

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    if (!swept)
        return __real_pthread_cond_timedwait(cond, mutex, until);
    swept->sweep_ended = true; /* after this look */
    return 0;
}

void threadless_http_sweep(struct http_server *server)
{
    swept = server;
    (void)__real_http_sweep(server);
    swept = NULL;
    server->sweep_ended = false;
}

int __wrap_rest_readers_start(struct rest *of, const char *url, struct redrive_err *err)
{
    const struct store_options options = {.create = true};
    of->readers = calloc(of->n_readers, sizeof *of->readers);
    FUZZ_CHECK(of->readers);
    return store_open(url, &options, &of->readers[0].store, err);
}

void __wrap_rest_readers_take(struct rest *of, struct rest_call *call)
{
    call->store = of->readers[0].store;
    rest_route_run(call);
}

/* ---- Timers, by the session's clock ---------------------------------------------------------- */

int __wrap_timers_new(struct timers **ret, struct redrive_err *err);
void __wrap_timers_free(struct timers *of);
void __wrap_timer_set(struct timers *of, struct timer *timer, int64_t at_ms);
void __wrap_timer_unset(struct timers *of, struct timer *timer);

static struct list timers; /* that are set */

int __wrap_timers_new(struct timers **ret, struct redrive_err *err)
{
    (void)err;
    list_init(&timers);
    *ret = (struct timers *)(void *)&timers;
    return 0;
}

void __wrap_timers_free(struct timers *of)
{
    (void)of;
}

void __wrap_timer_set(struct timers *of, struct timer *timer, int64_t at_ms)
{
    (void)of;
    list_remove(&timer->link);
    timer->at_ms = at_ms;
    list_insert(&timers, &timer->link);
}

void __wrap_timer_unset(struct timers *of, struct timer *timer)
{
    (void)of;
    list_remove(&timer->link);
}

/* The timer may be gone afterwards, and others as well. */
bool threadless_http_fire(void)
{
    LIST_FOREACH (&timers, link) {
        struct timer *timer = LIST_ENTRY(link, struct timer, link);
        if (timer->at_ms > session_now_ms())
            continue;
        list_remove(link);
        timer->fire(timer);
        return true;
    }
    return false;
}

/* ---- Health, whose thread is there while it is asked ----------------------------------------- */

int __wrap_health_check_new(const char *url, struct timers *of, struct store_status *status,
                            int64_t (*now_ms)(void *ctx), void *ctx, struct health_check **ret,
                            struct redrive_err *err);
int __real_health_check_new(const char *url, struct timers *of, struct store_status *status,
                            int64_t (*now_ms)(void *ctx), void *ctx, struct health_check **ret,
                            struct redrive_err *err);
void __wrap_health_check_ask(struct health_check *check, struct health_check_wait *wait);
void __real_health_check_ask(struct health_check *check, struct health_check_wait *wait);
void __wrap_health_check_free(struct health_check *check);
void __real_health_check_free(struct health_check *check);

static struct {
    struct store_status *status;
    int64_t (*now_ms)(void *ctx);
    void *ctx;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_answered;
    struct health_check_facts facts;
} health = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __wrap_health_check_new(const char *url, struct timers *of, struct store_status *status,
                            int64_t (*now_ms)(void *ctx), void *ctx, struct health_check **ret,
                            struct redrive_err *err)
{
    (void)url, (void)of, (void)err;
    health.status = status;
    health.now_ms = now_ms;
    health.ctx = ctx;
    *ret = (struct health_check *)(void *)&health;
    return 0;
}

void __wrap_health_check_free(struct health_check *check)
{
    (void)check;
}

static void note_facts(struct health_check_wait *wait, const struct health_check_facts *facts)
{
    (void)wait;
    pthread_mutex_lock(&health.mutex);
    health.facts = *facts;
    health.is_answered = true;
    pthread_cond_signal(&health.changed);
    pthread_mutex_unlock(&health.mutex);
}

void __wrap_health_check_ask(struct health_check *check, struct health_check_wait *wait)
{
    void (*done)(struct health_check_wait *, const struct health_check_facts *) = wait->done;
    struct health_check *real;
    (void)check;
    FUZZ_CHECK(__real_health_check_new(SESSION_STORE, (struct timers *)(void *)&timers,
                                       health.status, health.now_ms, health.ctx, &real, NULL) == 0);
    health.is_answered = false;
    wait->done = note_facts;
    __real_health_check_ask(real, wait);
    pthread_mutex_lock(&health.mutex);
    while (!health.is_answered)
        pthread_cond_wait(&health.changed, &health.mutex);
    pthread_mutex_unlock(&health.mutex);
    __real_health_check_free(real);
    done(wait, &health.facts);
}
