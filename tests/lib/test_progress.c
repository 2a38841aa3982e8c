/* Whatever callers do to each other, somebody can always go on. */
#include "check.h"

#include <pthread.h>
#include <time.h>

#include "redrive.h"

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static struct redrive_handler *handler_with(enum redrive_on_open on_open, uint32_t concurrency)
{
    struct redrive_breaker_config breaker;
    redrive_breaker_config_init(&breaker);
    breaker.failure_threshold = 1;
    breaker.recovery_timeout_ms = 100;
    breaker.recovery_jitter = 0;
    breaker.probe_lease_ms = 100;
    breaker.on_open = on_open;
    struct redrive_handler_options options = {.breaker = &breaker, .concurrency = concurrency};
    struct redrive_handler *h = redrive_handler_new(&options, NULL);
    assert_non_null(h);
    assert_int_equal(redrive_breaker_configure(h, "maps", &breaker, NULL), 0);
    return h;
}

static int succeed(struct redrive_run *run, void *arg)
{
    (void)run;
    (void)arg;
    return 0;
}

static int submit_to_maps(struct redrive_run *run, void *arg)
{
    (void)run;
    struct redrive_job inner = {.task = "inner", .service = "maps"};
    return redrive_submit(arg, &inner, succeed, NULL, NULL);
}

static void *wait_for_maps(void *arg)
{
    submit_to_maps(NULL, arg);
    return NULL;
}

/* One waits for the only slot, to go as a probe; the other has the slot, and waits for the probe.
 */
TEST(a_nested_job_does_not_wait_for_one_that_wants_its_slot)
{
    struct redrive_handler *h = handler_with(REDRIVE_ON_OPEN_PARK, 1);
    pthread_t older;
    redrive_breaker_simulate_failure(h, "maps");
    pthread_create(&older, NULL, wait_for_maps, h);
    sleep_ms(30);
    struct redrive_job outer = {.task = "outer", .service = "other"};
    assert_int_equal(redrive_submit(h, &outer, submit_to_maps, h, NULL), 0);
    pthread_join(older, NULL);
    struct redrive_metrics metrics;
    redrive_metrics_get(h, &metrics);
    assert_int_equal(metrics.jobs_completed, 3);
    redrive_handler_free(h);
}

static int hang(struct redrive_run *run, void *arg)
{
    (void)run;
    (void)arg;
    sleep_ms(800);
    return 0;
}

static void *hang_in_maps(void *arg)
{
    struct redrive_job job = {.task = "hangs", .service = "maps"};
    redrive_submit(arg, &job, hang, NULL, NULL);
    return NULL;
}

TEST(a_probe_that_hangs_blocks_nobody_after_its_lease)
{
    struct redrive_handler *h = handler_with(REDRIVE_ON_OPEN_REJECT, 0);
    pthread_t probe;
    redrive_breaker_simulate_failure(h, "maps");
    sleep_ms(120);
    pthread_create(&probe, NULL, hang_in_maps, h);
    int rc = REDRIVE_E_BREAKER_OPEN;
    int64_t waited_ms = 0;
    struct redrive_job job = {.task = "next", .service = "maps"};
    sleep_ms(20);
    for (; rc == REDRIVE_E_BREAKER_OPEN && waited_ms < 650; waited_ms += 25) {
        sleep_ms(25);
        rc = redrive_submit(h, &job, succeed, NULL, NULL);
    }
    assert_int_equal(rc, 0);
    pthread_join(probe, NULL);
    redrive_handler_free(h);
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
