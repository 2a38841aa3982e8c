/* fixture.h - a clock that tests move, and functions that fail as they are told. */
#ifndef TESTS_LIB_FIXTURE_H
#define TESTS_LIB_FIXTURE_H

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "redrive.h"
#include "waiting.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define DAY    (24 * 60 * MINUTE)
#define START  INT64_C(1700000000000)

/* ---- Time ------------------------------------------------------------------------------------ */

/* While it is held nobody's wait ends, so that a test can bring threads into position. */
struct test_clock {
    _Atomic int64_t now_ms;
    atomic_bool held;
};

static inline int64_t test_clock_now(void *ctx)
{
    return atomic_load(&((struct test_clock *)ctx)->now_ms);
}

static inline void test_clock_wait(int64_t ms, void *ctx)
{
    struct test_clock *clock = ctx;
    HOLD_UNTIL(!atomic_load(&clock->held));
    atomic_fetch_add(&clock->now_ms, ms);
}

/* ---- A handler under that clock ---------------------------------------------------------------
 *
 * Retries after 1, 2, 4 … s without jitter, breakers without jitter: all times can be told in
 * advance.
 */
struct fixture {
    struct test_clock clock;
    struct redrive_policy policy;
    struct redrive_breaker_config breaker;
    struct redrive_handler_options options;
    struct redrive_handler *handler;
};

static inline void fixture_options(struct fixture *f)
{
    *f = (struct fixture){.clock.now_ms = START};
    redrive_policy_init(&f->policy);
    f->policy.backoff.multiplier = 2;
    f->policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    redrive_breaker_config_init(&f->breaker);
    f->breaker.recovery_jitter = 0;
    f->options = (struct redrive_handler_options){
        .policy = &f->policy,
        .breaker = &f->breaker,
        .seed = 1,
        .clock = {.now_ms = test_clock_now, .wait_ms = test_clock_wait, .ctx = &f->clock},
    };
}

static inline void fixture_new_handler(struct fixture *f)
{
    struct redrive_err err = {0};
    f->handler = redrive_handler_new(&f->options, &err);
    if (!f->handler)
        fail_msg("%s", err.message);
}

static inline void fixture_init(struct fixture *f)
{
    fixture_options(f);
    fixture_new_handler(f);
}

static inline void fixture_release(struct fixture *f)
{
    redrive_handler_free(f->handler);
}

#define OPTIONS_TEST(test) TEST_OF(test, struct fixture, f, fixture_options(f), fixture_release(f))

#define HANDLER_TEST(test) TEST_OF(test, struct fixture, f, fixture_init(f), fixture_release(f))

static inline int64_t fixture_elapsed_ms(struct fixture *f)
{
    return atomic_load(&f->clock.now_ms) - START;
}

static inline struct redrive_metrics metrics_of(struct redrive_handler *h)
{
    struct redrive_metrics m;
    redrive_metrics_get(h, &m);
    return m;
}

static inline struct redrive_health health_of(struct redrive_handler *h)
{
    struct redrive_health health;
    redrive_health_get(h, &health);
    return health;
}

static inline struct redrive_dlq_stats dlq_of(struct redrive_handler *h)
{
    struct redrive_dlq_stats stats;
    redrive_dlq_stats_get(h, &stats);
    return stats;
}

static inline struct redrive_breaker_status breaker_of(struct redrive_handler *h,
                                                       const char *service)
{
    struct redrive_breaker_status status = {0};
    assert_int_equal(redrive_breaker_get(h, service, &status), 0);
    return status;
}

/* What has come in has ended or is inside. */
static inline void check_balance(struct redrive_handler *h)
{
    struct redrive_metrics m = metrics_of(h);
    assert_int_equal(m.jobs_received + m.jobs_redriven,
                     m.jobs_completed + m.jobs_dlq + m.jobs_failed + m.jobs_cancelled + m.running +
                         m.waiting + m.parked + m.queued);
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* Fails with `code` for its first `failures` calls. */
struct script {
    int failures;
    int code;
    atomic_int calls;
};

static inline int run_script(struct redrive_run *run, void *arg)
{
    struct script *script = arg;
    (void)run;
    return atomic_fetch_add(&script->calls, 1) < script->failures ? script->code : 0;
}

#define ALWAYS 1000000

static inline int succeed(struct redrive_run *run, void *arg)
{
    (void)run;
    (void)arg;
    return 0;
}

static inline int refuse_connection(struct redrive_run *run, void *arg)
{
    (void)run;
    (void)arg;
    return -ECONNREFUSED;
}

/* A failure of class validation. */
static inline int find_input_malformed(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){
                                     .http_status = 422,
                                     .error_type = "shop.OrderError",
                                     .message = "order 4711 has no customer",
                                     .stacktrace = "at order.c:12\nat main.c:3",
                                 });
}

/* Not retried, and not the job's own fault. */
static inline int refuse_login(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){.http_status = 401});
}

/* ---- Dead letters ---------------------------------------------------------------------------- */

/* What a walk has seen. */
struct ids {
    size_t n;
    uint64_t last_seq;
    char text[256];
};

static inline int collect(const struct redrive_dead_letter *entry, void *ctx)
{
    struct ids *ids = ctx;
    ids->n++;
    ids->last_seq = entry->seq;
    strcat(ids->text, entry->id);
    return 0;
}

/* Makes n dead letters of class validation. */
static inline void bury(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++)
        redrive_call(f->handler, "t", find_input_malformed, NULL, NULL);
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* A job in a thread of its own. */
struct job_thread {
    struct redrive_handler *handler;
    struct redrive_job job;
    redrive_fn fn;
    void *arg;
    int rc;
    struct redrive_result result;
    pthread_t thread;
};

static inline void *job_thread_main(void *arg)
{
    struct job_thread *t = arg;
    t->rc = redrive_submit(t->handler, &t->job, t->fn, t->arg, &t->result);
    return NULL;
}

static inline void job_thread_start(struct job_thread *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, job_thread_main, t), 0);
}

static inline int job_thread_join(struct job_thread *t)
{
    assert_int_equal(pthread_join(t->thread, NULL), 0);
    redrive_result_release(&t->result);
    return t->rc;
}

#endif
