/* Whatever callers do to each other, somebody can always go on. */
#include "fixture.h"

static void open_maps(struct fixture *f, enum redrive_on_open on_open, uint32_t concurrency)
{
    f->options.concurrency = concurrency;
    fixture_new_handler(f);
    f->breaker.failure_threshold = 1;
    f->breaker.recovery_timeout_ms = 100;
    f->breaker.probe_lease_ms = 100;
    f->breaker.on_open = on_open;
    assert_int_equal(redrive_breaker_configure(f->handler, "maps", &f->breaker, NULL), 0);
    redrive_breaker_simulate_failure(f->handler, "maps");
}

static int submit_to_maps(struct redrive_run *run, void *arg)
{
    (void)run;
    struct redrive_job inner = {.task = "inner", .service = "maps"};
    return redrive_submit(arg, &inner, succeed, NULL, NULL);
}

/* One waits for the only slot, to go as a probe; the other has the slot, and waits for the probe.
 */
OPTIONS_TEST(a_nested_job_does_not_wait_for_one_that_wants_its_slot)
{
    open_maps(f, REDRIVE_ON_OPEN_PARK, 1);
    struct job_thread older = {f->handler, {.task = "inner", .service = "maps"}, succeed};
    struct job_thread outer = {
        f->handler, {.task = "outer", .service = "other"}, submit_to_maps, f->handler};
    atomic_store(&f->clock.held, true);
    job_thread_start(&older);
    WAIT_FOR(metrics_of(f->handler).parked == 1);
    job_thread_start(&outer);
    WAIT_FOR(metrics_of(f->handler).parked == 2);
    atomic_store(&f->clock.held, false);
    assert_int_equal(job_thread_join(&outer), 0);
    assert_int_equal(job_thread_join(&older), 0);
    assert_int_equal(metrics_of(f->handler).jobs_completed, 3);
}

static int hang(struct redrive_run *run, void *arg)
{
    (void)run;
    HOLD_UNTIL(atomic_load((atomic_bool *)arg));
    return 0;
}

OPTIONS_TEST(a_probe_that_hangs_blocks_nobody_after_its_lease)
{
    atomic_bool may_return = false;
    open_maps(f, REDRIVE_ON_OPEN_REJECT, 0);
    struct job_thread probe = {f->handler, {.task = "hangs", .service = "maps"}, hang, &may_return};
    struct redrive_job job = {.task = "next", .service = "maps"};
    atomic_fetch_add(&f->clock.now_ms, 100);
    job_thread_start(&probe);
    WAIT_FOR(metrics_of(f->handler).running == 1);
    atomic_fetch_add(&f->clock.now_ms, 99);
    assert_int_equal(redrive_submit(f->handler, &job, succeed, NULL, NULL), REDRIVE_E_BREAKER_OPEN);
    /* The probe has failed when its lease is over, and so the breaker is open once more. */
    int rc = REDRIVE_E_BREAKER_OPEN;
    for (int ms = 0; rc == REDRIVE_E_BREAKER_OPEN && ms < 500; ms++) {
        atomic_fetch_add(&f->clock.now_ms, 1);
        rc = redrive_submit(f->handler, &job, succeed, NULL, NULL);
    }
    assert_int_equal(rc, 0);
    atomic_store(&may_return, true);
    (void)job_thread_join(&probe);
}

static int die(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){.status = "PERMANENT_FAIL"});
}

struct walk {
    struct redrive_handler *handler;
    int seen;
};

static int retry_in_vain(const struct redrive_dead_letter *entry, void *ctx)
{
    struct walk *walk = ctx;
    assert_true(++walk->seen < 10);
    assert_int_equal(redrive_dlq_retry(walk->handler, entry->id, die, NULL, NULL),
                     REDRIVE_E_JOB_FAILED);
    return 0;
}

TEST(a_walk_over_dead_letters_ends_even_if_they_die_again)
{
    struct walk walk = {.handler = redrive_handler_new(NULL, NULL)};
    for (int i = 0; i < 3; i++)
        redrive_call(walk.handler, "convert", die, NULL, NULL);
    assert_int_equal(redrive_dlq_list(walk.handler, NULL, retry_in_vain, &walk), 0);
    assert_int_equal(walk.seen, 3);
    redrive_handler_free(walk.handler);
}

static int64_t virtual_ms;

static int64_t virtual_now(void *ctx)
{
    (void)ctx;
    return virtual_ms;
}

static void virtual_wait(int64_t ms, void *ctx)
{
    (void)ctx;
    virtual_ms += ms;
}

static int fail_for_a_while(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){.http_status = 503});
}

TEST(four_centuries_of_virtual_time_pass)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.total_timeout_ms = 0;
    policy.max_retries = 4;
    policy.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    policy.backoff.initial_delay_ms = policy.backoff.max_delay_ms =
        INT64_C(36500) * 24 * 3600 * 1000;
    struct redrive_handler_options options = {
        .policy = &policy, .clock = {.now_ms = virtual_now, .wait_ms = virtual_wait}};
    struct redrive_handler *h = redrive_handler_new(&options, NULL);
    assert_non_null(h);
    struct redrive_result result;
    struct redrive_job job = {.task = "patient"};
    int64_t start_ms = virtual_ms;
    assert_int_equal(redrive_submit(h, &job, fail_for_a_while, NULL, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.attempts, 5);
    assert_int_equal(virtual_ms - start_ms, 4 * policy.backoff.max_delay_ms);
    redrive_result_release(&result);
    redrive_handler_free(h);
}

TEST(purging_all_means_all_whatever_the_clock_says)
{
    struct redrive_handler_options options = {
        .clock = {.now_ms = virtual_now, .wait_ms = virtual_wait}};
    struct redrive_handler *h = redrive_handler_new(&options, NULL);
    size_t removed = 0;
    redrive_call(h, "convert", die, NULL, NULL);
    virtual_ms -= 5000;
    assert_int_equal(redrive_dlq_purge(h, 0, &removed), 0);
    assert_int_equal(removed, 1);
    redrive_handler_free(h);
}

static int be_refused(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){.status = "authentication"});
}

TEST(health_is_called_what_the_options_say)
{
    struct redrive_handler_options options = {.healthy_from = 1, .degraded_from = 0.999};
    struct redrive_handler *h = redrive_handler_new(&options, NULL);
    struct redrive_health health;
    redrive_health_get(h, &health);
    assert_string_equal(health.status, "healthy");
    redrive_call(h, "convert", succeed, NULL, NULL);
    redrive_call(h, "convert", be_refused, NULL, NULL);
    redrive_health_get(h, &health);
    assert_string_equal(health.status, "unhealthy");
    redrive_handler_free(h);
    options.degraded_from = 1.5;
    struct redrive_err err;
    assert_null(redrive_handler_new(&options, &err));
    assert_int_equal(err.code, REDRIVE_E_RANGE);
}
