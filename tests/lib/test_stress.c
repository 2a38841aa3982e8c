/* Many threads, one handler: what the functions counted must be what the handler counted. */
#include "fixture.h"

#include "base/rng.h"

#define THREADS  8
#define SERVICES 4

/* Everything that the functions and the callers have seen, counted without the handler. */
struct tally {
    atomic_uint_fast64_t calls;
    atomic_uint_fast64_t failures;
    atomic_uint_fast64_t completed;
    atomic_uint_fast64_t dead;
    atomic_uint_fast64_t cancelled;
    atomic_uint_fast64_t attempts;
    atomic_uint_fast64_t over_limit;
    atomic_uint_fast64_t too_many_at_once;
    atomic_int running;
    int concurrency;
};

struct stress {
    struct redrive_handler *handler;
    struct tally tally;
    int jobs_per_thread;
    atomic_bool is_over;
};

struct stress_job {
    struct tally *tally;
    struct rng rng;
    uint32_t calls;
    double p_fail;
};

static int do_work(struct redrive_run *run, void *arg)
{
    struct stress_job *job = arg;
    struct tally *tally = job->tally;
    atomic_fetch_add(&tally->calls, 1);
    int running = atomic_fetch_add(&tally->running, 1) + 1;
    if (tally->concurrency > 0 && running > tally->concurrency)
        atomic_fetch_add(&tally->too_many_at_once, 1);
    if (++job->calls > redrive_run_max_attempts(run) || job->calls != redrive_run_attempt(run))
        atomic_fetch_add(&tally->over_limit, 1);
    int code = 0;
    if (rng_double(&job->rng) < job->p_fail)
        code = rng_below(&job->rng, 8) == 0 ? find_input_malformed(run, NULL) : -ECONNREFUSED;
    if (code != 0)
        atomic_fetch_add(&tally->failures, 1);
    atomic_fetch_sub(&tally->running, 1);
    return code;
}

static void count_end(struct tally *tally, int rc, uint32_t attempts)
{
    atomic_fetch_add(&tally->attempts, attempts);
    if (rc == 0)
        atomic_fetch_add(&tally->completed, 1);
    else if (rc == REDRIVE_E_CANCELLED)
        atomic_fetch_add(&tally->cancelled, 1);
    else
        atomic_fetch_add(&tally->dead, 1);
}

struct stress_thread {
    struct stress *stress;
    unsigned number;
};

static void *submit_many(void *arg)
{
    static const char *const NAMES[SERVICES] = {"calm", "shaky", "rough", "dire"};
    struct stress_thread *self = arg;
    struct stress *stress = self->stress;
    for (int i = 0; i < stress->jobs_per_thread; i++) {
        unsigned service = (unsigned)i % SERVICES;
        struct stress_job work = {.tally = &stress->tally, .p_fail = 0.25 * service};
        rng_seed(&work.rng, self->number * 1000003u + (unsigned)i);
        char id[32];
        snprintf(id, sizeof id, "%u-%d", self->number, i);
        struct redrive_job job = {
            .id = id, .task = NAMES[service], .priority = (int)(self->number % 5)};
        struct redrive_result result;
        int rc = redrive_submit(stress->handler, &job, do_work, &work, &result);
        count_end(&stress->tally, rc, result.attempts);
    }
    return NULL;
}

/* Cancels at random, looks at everything, plays with the levers. */
static void *meddle(void *arg)
{
    struct stress *stress = arg;
    struct rng rng;
    rng_seed(&rng, 99);
    while (!atomic_load(&stress->is_over)) {
        char id[32];
        snprintf(id, sizeof id, "%u-%u", (unsigned)rng_below(&rng, THREADS),
                 (unsigned)rng_below(&rng, (uint64_t)stress->jobs_per_thread));
        redrive_cancel(stress->handler, id);
        struct redrive_breaker_status list[SERVICES];
        redrive_breaker_list(stress->handler, list, SERVICES);
        health_of(stress->handler);
        check_balance(stress->handler);
        if (rng_below(&rng, 50) == 0)
            redrive_breaker_reset(stress->handler, "dire");
        if (rng_below(&rng, 20) == 0)
            redrive_dlq_purge(stress->handler, 0, NULL);
    }
    return NULL;
}

static void run_stress(struct stress *stress)
{
    pthread_t threads[THREADS];
    pthread_t meddler;
    struct stress_thread args[THREADS];
    assert_int_equal(pthread_create(&meddler, NULL, meddle, stress), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        args[i] = (struct stress_thread){stress, i};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &args[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stress->is_over, true);
    pthread_join(meddler, NULL);
}

static void check_tally(struct stress *stress)
{
    struct tally *tally = &stress->tally;
    struct redrive_metrics m = metrics_of(stress->handler);
    uint64_t failures = 0;
    for (int c = 0; c < REDRIVE_CLASS_COUNT; c++)
        failures += m.failures_by_class[c];
    assert_int_equal(m.jobs_received, THREADS * stress->jobs_per_thread);
    assert_int_equal(m.attempts, tally->calls);
    assert_int_equal(tally->attempts, tally->calls);
    assert_int_equal(m.jobs_completed, tally->completed);
    assert_int_equal(m.jobs_dlq, tally->dead);
    assert_int_equal(m.jobs_cancelled, tally->cancelled);
    assert_in_range(tally->failures - failures, 0, tally->cancelled); /* of cancelled runs */
    assert_int_equal(tally->over_limit, 0);
    assert_int_equal(tally->too_many_at_once, 0);
    assert_int_equal(m.running + m.waiting + m.parked + m.queued, 0);
    assert_true(m.jobs_parked > 0);
    assert_true(m.jobs_retried > 0);
    assert_true(tally->dead > 0);
    check_balance(stress->handler);
}

OPTIONS_TEST(virtual_time_and_a_limit_on_concurrency)
{
    f->options.concurrency = 3;
    f->options.max_dead_letters = 100;
    f->policy.backoff.jitter.mode = REDRIVE_JITTER_FULL;
    fixture_new_handler(f);
    struct stress stress = {.handler = f->handler, .jobs_per_thread = 3000, .tally.concurrency = 3};
    run_stress(&stress);
    check_tally(&stress);
}

TEST(real_time_without_a_limit)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.backoff.strategy = REDRIVE_STRATEGY_IMMEDIATE;
    policy.max_retries = 3;
    struct redrive_breaker_config breaker;
    redrive_breaker_config_init(&breaker);
    breaker.recovery_timeout_ms = 2;
    breaker.release_rate = 10000;
    struct redrive_handler_options options = {.policy = &policy, .breaker = &breaker, .seed = 1};
    struct stress stress = {.handler = redrive_handler_new(&options, NULL),
                            .jobs_per_thread = 3000};
    run_stress(&stress);
    check_tally(&stress);
    redrive_handler_free(stress.handler);
}
