/* Breakers: what opens them, who waits for them, who goes first, and the hand on the lever. */
#include "fixture.h"

/* ---- Parking --------------------------------------------------------------------------------- */

HANDLER_TEST(a_parked_job_uses_no_attempt)
{
    assert_int_equal(redrive_breaker_configure(f->handler, "t", &f->breaker, NULL), 0);
    assert_int_equal(redrive_breaker_trip(f->handler, "t"), 0);
    struct job_thread t = {.handler = f->handler, .job = {.task = "t"}, .fn = succeed};
    job_thread_start(&t);
    WAIT_FOR(metrics_of(f->handler).parked == 1);
    assert_int_equal(breaker_of(f->handler, "t").parked, 1);
    assert_int_equal(metrics_of(f->handler).attempts, 0);
    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    assert_int_equal(redrive_breaker_reset(f->handler, "t"), 0);
    assert_int_equal(job_thread_join(&t), 0);
    assert_int_equal(t.result.attempts, 1);
    assert_int_equal(t.result.parked_ms, MINUTE);
    assert_int_equal(t.result.elapsed_ms, MINUTE);
    assert_int_equal(breaker_of(f->handler, "t").parked, 0);
    assert_int_equal(metrics_of(f->handler).jobs_parked, 1);
}

OPTIONS_TEST(parked_time_does_not_count_for_the_total_timeout)
{
    f->breaker.failure_threshold = 2;
    f->policy.total_timeout_ms = 10 * SECOND;
    fixture_new_handler(f);
    struct script script = {.failures = 2, .code = -ECONNRESET};
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, &result), 0);
    assert_int_equal(result.elapsed_ms, 31 * SECOND);
    assert_int_equal(result.parked_ms, 28 * SECOND);
}

OPTIONS_TEST(parked_time_counts_for_the_deadline)
{
    f->breaker.failure_threshold = 2;
    fixture_new_handler(f);
    struct redrive_job job = {.task = "t", .deadline_ms = 10 * SECOND};
    struct redrive_result result;
    assert_int_equal(redrive_submit(f->handler, &job, refuse_connection, NULL, &result),
                     REDRIVE_E_DEADLINE);
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(result.class_, REDRIVE_CLASS_NETWORK);
    assert_int_equal(result.attempts, 2);
    assert_int_equal(result.elapsed_ms, 10 * SECOND);
    assert_int_equal(breaker_of(f->handler, "t").parked, 0);
}

/* Writes down in which order the jobs run. */
struct order {
    atomic_int n;
    char names[64];
    int64_t at_ms[64];
    struct fixture *fixture;
    int failures;
};

static int note_down(struct redrive_run *run, void *arg)
{
    struct order *order = arg;
    int n = atomic_fetch_add(&order->n, 1);
    order->names[n] = redrive_run_job_id(run)[0];
    order->at_ms[n] = fixture_elapsed_ms(order->fixture);
    return n < order->failures ? -ECONNREFUSED : 0;
}

OPTIONS_TEST(the_probe_has_most_attempts_left_and_is_the_oldest_and_the_newest_in_turn)
{
    f->breaker.failure_threshold = 1;
    f->policy.total_timeout_ms = 0;
    fixture_new_handler(f);
    struct order order = {.fixture = f, .failures = 4};
    struct job_thread t[3];
    atomic_store(&f->clock.held, true);
    for (int i = 0; i < 3; i++) {
        static const char *const IDS[] = {"a", "b", "c"};
        t[i] = (struct job_thread){f->handler, {.id = IDS[i], .task = "t"}, note_down, &order};
        job_thread_start(&t[i]);
        WAIT_FOR(metrics_of(f->handler).jobs_received == (unsigned)i + 1);
        WAIT_FOR(metrics_of(f->handler).running == 0);
        if (i == 0)
            WAIT_FOR(metrics_of(f->handler).waiting ==
                     1); /* a has failed once and opened the breaker */
        else
            WAIT_FOR(metrics_of(f->handler).parked == (unsigned)i);
    }
    atomic_store(&f->clock.held, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(job_thread_join(&t[i]), 0);
    /* a opens it; the probes b and c have spent nothing; then a is the oldest of equals, and after
     * it c the newest of those left. The fifth run succeeds, and the rest may go. */
    assert_memory_equal(order.names, "abcac", 5);
}

HANDLER_TEST(a_newcomer_does_not_overtake_the_parked)
{
    redrive_breaker_configure(f->handler, "t", &f->breaker, NULL);
    for (int i = 0; i < 5; i++)
        redrive_breaker_simulate_failure(f->handler, "t");
    struct order order = {.fixture = f};
    struct job_thread a = {f->handler, {.id = "a", .task = "t"}, note_down, &order};
    struct job_thread b = {f->handler, {.id = "b", .task = "t"}, note_down, &order};
    atomic_store(&f->clock.held, true);
    job_thread_start(&a);
    WAIT_FOR(metrics_of(f->handler).parked == 1);
    atomic_fetch_add(&f->clock.now_ms, MINUTE); /* a probe is due, but a has not noticed yet */
    job_thread_start(&b);
    WAIT_FOR(metrics_of(f->handler).jobs_parked == 2);
    atomic_store(&f->clock.held, false);
    assert_int_equal(job_thread_join(&a), 0);
    assert_int_equal(job_thread_join(&b), 0);
    assert_memory_equal(order.names, "ab", 2);
}

OPTIONS_TEST(parked_jobs_are_let_go_at_a_growing_pace)
{
    enum {
        JOBS = 40
    };
    f->breaker.release_rate = 10;
    f->breaker.release_growth = 10;
    fixture_new_handler(f);
    redrive_breaker_configure(f->handler, "t", &f->breaker, NULL);
    redrive_breaker_trip(f->handler, "t");
    struct order order = {.fixture = f};
    static struct job_thread t[JOBS];
    char ids[JOBS][8];
    for (int i = 0; i < JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        t[i] = (struct job_thread){f->handler,
                                   {.id = ids[i], .task = "t", .priority = i == 39 ? 9 : 0},
                                   note_down,
                                   &order};
        job_thread_start(&t[i]);
        WAIT_FOR(metrics_of(f->handler).parked == (unsigned)i + 1);
    }
    redrive_breaker_reset(f->handler, "t");
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(job_thread_join(&t[i]), 0);
    int in_second[4] = {0};
    for (int i = 0; i < JOBS; i++)
        in_second[order.at_ms[i] / SECOND]++;
    assert_in_range(in_second[0], 10, 12);
    assert_in_range(in_second[1], 19, 21);
    assert_int_equal(in_second[0] + in_second[1] + in_second[2], JOBS);
    assert_int_equal(order.at_ms[0], 0);
    assert_int_equal(order.names[0], '3'); /* 39 has priority */
}

OPTIONS_TEST(a_failure_slows_the_release_down)
{
    enum {
        JOBS = 12
    };
    f->breaker.failure_threshold = 0;
    f->breaker.failure_rate = 0;
    f->policy.backoff.initial_delay_ms = MINUTE;
    fixture_new_handler(f);
    redrive_breaker_configure(f->handler, "t", &f->breaker, NULL);
    redrive_breaker_trip(f->handler, "t");
    struct order order = {.fixture = f, .failures = 4};
    static struct job_thread t[JOBS];
    for (int i = 0; i < JOBS; i++) {
        t[i] = (struct job_thread){f->handler, {.task = "t"}, note_down, &order};
        job_thread_start(&t[i]);
        WAIT_FOR(metrics_of(f->handler).parked == (unsigned)i + 1);
    }
    redrive_breaker_reset(f->handler, "t");
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(job_thread_join(&t[i]), 0);
    /* Undisturbed, all twelve would have started within 1.2 s. */
    assert_true(order.at_ms[JOBS - 1] > 2 * SECOND);
}

/* ---- Probes ---------------------------------------------------------------------------------- */

static int hang_as_probe(struct redrive_run *run, void *arg)
{
    struct fixture *f = arg;
    if (redrive_run_attempt(run) == 1)
        return -ECONNREFUSED;
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_HALF_OPEN);
    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_OPEN);
    return 0;
}

OPTIONS_TEST(a_probe_that_hangs_opens_the_breaker_again)
{
    f->breaker.failure_threshold = 1;
    fixture_new_handler(f);
    assert_int_equal(redrive_call(f->handler, "t", hang_as_probe, f, NULL), 0);
    struct redrive_breaker_status status = breaker_of(f->handler, "t");
    assert_int_equal(status.state, REDRIVE_BREAKER_OPEN);
    assert_int_equal(status.opened_at_ms, START + 30 * SECOND + 30 * SECOND);
    assert_int_equal(status.next_probe_ms, START + 90 * SECOND);
}

OPTIONS_TEST(several_successes_may_be_needed_to_close_it)
{
    f->breaker.failure_threshold = 1;
    f->breaker.success_threshold = 2;
    f->breaker.half_open_max = 2;
    fixture_new_handler(f);
    struct script script = {.failures = 1, .code = -ECONNREFUSED};
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, NULL), 0);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(breaker_of(f->handler, "t").success_count, 1);
    assert_int_equal(health_of(f->handler).breakers_open, 1);
    assert_int_equal(redrive_call(f->handler, "t", succeed, NULL, NULL), 0);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_CLOSED);
}

struct slow_calls {
    struct fixture *fixture;
    int64_t took_ms;
};

static int take_time(struct redrive_run *run, void *arg)
{
    const struct slow_calls *calls = arg;
    (void)run;
    atomic_fetch_add(&calls->fixture->clock.now_ms, calls->took_ms);
    return 0;
}

OPTIONS_TEST(slow_calls_open_it)
{
    static const int64_t TOOK_S[] = {5, 5, 5, 1};
    f->breaker.window_calls = 4;
    f->breaker.slow_call_ms = 4 * SECOND;
    fixture_new_handler(f);
    for (int i = 0; i < 4; i++) {
        struct slow_calls calls = {f, TOOK_S[i] * SECOND};
        assert_int_equal(redrive_call(f->handler, "t", take_time, &calls, NULL), 0);
        assert_int_equal(breaker_of(f->handler, "t").state,
                         i < 3 ? REDRIVE_BREAKER_CLOSED : REDRIVE_BREAKER_OPEN);
    }
    assert_true(breaker_of(f->handler, "t").slow_rate == 0.75);
    assert_true(breaker_of(f->handler, "t").rate == 0);
}

OPTIONS_TEST(probes_may_be_judged_together)
{
    f->breaker.failure_threshold = 1;
    f->breaker.half_open_max = 3;
    f->breaker.half_open_rate = 0.5;
    fixture_new_handler(f);
    /* It fails once more as the first probe, and succeeds as the second. */
    struct script script = {.failures = 2, .code = -ECONNREFUSED};
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, NULL), 0);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(redrive_call(f->handler, "t", succeed, NULL, NULL), 0);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_CLOSED);
}

/* A probe that waits until it is cancelled. */
struct cancelled_probe {
    struct redrive_handler *handler;
    atomic_bool is_probing;
};

static int probe_until_cancelled(struct redrive_run *run, void *arg)
{
    struct cancelled_probe *p = arg;
    if (redrive_run_attempt(run) == 1)
        return -ECONNREFUSED;
    atomic_store(&p->is_probing, true);
    WAIT_FOR(redrive_run_cancelled(run));
    return -ECONNREFUSED;
}

OPTIONS_TEST(a_cancelled_probe_gives_its_permit_to_the_next)
{
    f->breaker.failure_threshold = 1;
    fixture_new_handler(f);
    struct cancelled_probe p = {.handler = f->handler};
    struct job_thread a = {f->handler, {.id = "a", .task = "t"}, probe_until_cancelled, &p};
    struct job_thread b = {f->handler, {.id = "b", .task = "t"}, succeed};
    job_thread_start(&a);
    WAIT_FOR(atomic_load(&p.is_probing));
    job_thread_start(&b);
    WAIT_FOR(metrics_of(f->handler).parked == 1);
    int64_t before_ms = fixture_elapsed_ms(f);
    assert_int_equal(redrive_cancel(f->handler, "a"), 0);
    assert_int_equal(job_thread_join(&a), REDRIVE_E_CANCELLED);
    assert_int_equal(job_thread_join(&b), 0);
    assert_int_equal(fixture_elapsed_ms(f), before_ms);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_CLOSED);
}

/* ---- on_open --------------------------------------------------------------------------------- */

OPTIONS_TEST(with_dead_letter_an_open_breaker_ends_jobs)
{
    f->breaker.failure_threshold = 1;
    f->breaker.on_open = REDRIVE_ON_OPEN_DEAD_LETTER;
    fixture_new_handler(f);
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", refuse_connection, NULL, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(result.reason, REDRIVE_REASON_BREAKER_OPEN);
    assert_int_equal(result.class_, REDRIVE_CLASS_NETWORK);
    assert_int_equal(result.attempts, 1);

    struct script script = {0};
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(script.calls, 0);
    assert_int_equal(result.attempts, 0);
    assert_int_equal(result.class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(dlq_of(f->handler).by_reason[REDRIVE_REASON_BREAKER_OPEN], 2);

    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    assert_int_equal(redrive_call(f->handler, "t", succeed, NULL, NULL), 0);
}

struct rejection {
    struct redrive_handler *handler;
    int rc;
    struct redrive_result result;
};

static void submit_when_parked(const struct redrive_event *event, void *ctx)
{
    struct rejection *r = ctx;
    if (event->type == REDRIVE_EVENT_PARKED)
        r->rc = redrive_call(r->handler, "t", succeed, NULL, &r->result);
}

OPTIONS_TEST(with_reject_new_jobs_are_refused_and_started_ones_park)
{
    struct rejection r = {0};
    f->breaker.failure_threshold = 1;
    f->breaker.on_open = REDRIVE_ON_OPEN_REJECT;
    f->options.monitor = submit_when_parked;
    f->options.monitor_ctx = &r;
    fixture_new_handler(f);
    r.handler = f->handler;
    struct script script = {.failures = 1, .code = -ECONNREFUSED};
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, &result), 0);
    assert_int_equal(result.parked_ms, 29 * SECOND);
    assert_int_equal(r.rc, REDRIVE_E_BREAKER_OPEN);
    assert_int_equal(r.result.reason, REDRIVE_REASON_BREAKER_OPEN);
    assert_string_equal(r.result.error.message, "breaker t is open");
    assert_int_equal(metrics_of(f->handler).jobs_received, 1);

    /* Once the recovery time is over a new job may be the probe. */
    struct redrive_policy once = f->policy;
    once.max_retries = 0;
    struct redrive_job job = {.task = "t", .policy = &once};
    assert_int_equal(redrive_submit(f->handler, &job, refuse_connection, NULL, NULL),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(redrive_submit(f->handler, &job, succeed, NULL, NULL), REDRIVE_E_BREAKER_OPEN);
    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    assert_int_equal(redrive_submit(f->handler, &job, succeed, NULL, NULL), 0);
}

HANDLER_TEST(what_does_not_count_leaves_the_breaker_closed)
{
    for (int i = 0; i < 10; i++)
        redrive_call(f->handler, "t", find_input_malformed, NULL, NULL);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_CLOSED);
    assert_int_equal(breaker_of(f->handler, "t").failure_count, 0);
}

OPTIONS_TEST(services_are_isolated_and_tasks_may_share_one)
{
    f->breaker.failure_threshold = 1;
    f->policy.max_retries = 0;
    fixture_new_handler(f);
    struct redrive_job a = {.task = "a", .service = "db"};
    struct redrive_job b = {.task = "b", .service = "db", .deadline_ms = 1};
    struct redrive_job c = {.task = "c"};
    redrive_submit(f->handler, &a, refuse_connection, NULL, NULL);
    assert_int_equal(redrive_submit(f->handler, &b, succeed, NULL, NULL), REDRIVE_E_DEADLINE);
    assert_int_equal(redrive_submit(f->handler, &c, succeed, NULL, NULL), 0);
}

/* ---- By hand --------------------------------------------------------------------------------- */

HANDLER_TEST(breakers_are_listed_in_the_order_of_their_making)
{
    struct redrive_breaker_status list[3];
    assert_int_equal(redrive_breaker_list(f->handler, list, 3), 0);
    assert_int_equal(redrive_breaker_list(NULL, list, 3), 0);
    for (char name[] = "a"; name[0] <= 'e'; name[0]++)
        redrive_call(f->handler, name, succeed, NULL, NULL);
    assert_int_equal(redrive_breaker_list(f->handler, list, 3), 5);
    assert_string_equal(list[0].name, "a");
    assert_string_equal(list[2].name, "c");
    assert_int_equal(list[2].config.failure_threshold, 5);
    assert_int_equal(redrive_breaker_list(f->handler, NULL, 0), 5);
}

HANDLER_TEST(an_unknown_breaker_is_not_found)
{
    struct redrive_breaker_status status;
    assert_int_equal(redrive_breaker_get(f->handler, "x", &status), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_breaker_reset(f->handler, "x"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_breaker_trip(f->handler, "x"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_breaker_disable(f->handler, "x"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_breaker_simulate_failure(f->handler, "x"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_breaker_get(f->handler, NULL, &status), REDRIVE_E_INVALID);
    assert_int_equal(redrive_breaker_get(f->handler, "x", NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_breaker_reset(NULL, "x"), REDRIVE_E_INVALID);
}

HANDLER_TEST(a_service_is_configured_before_its_first_job)
{
    struct redrive_err err = {0};
    struct redrive_breaker_config config = f->breaker;
    config.failure_threshold = 3;
    assert_int_equal(redrive_breaker_configure(f->handler, "t", &f->breaker, &err), 0);
    assert_int_equal(redrive_breaker_configure(f->handler, "t", &config, &err), 0);
    assert_int_equal(breaker_of(f->handler, "t").config.failure_threshold, 3);
    redrive_call(f->handler, "t", succeed, NULL, NULL);
    assert_int_equal(redrive_breaker_configure(f->handler, "t", &config, &err), REDRIVE_E_STATE);
    assert_string_equal(err.message, "breaker t is in use");
    config.half_open_max = 0;
    assert_int_equal(redrive_breaker_configure(f->handler, "u", &config, &err), REDRIVE_E_RANGE);
    assert_int_equal(redrive_breaker_configure(f->handler, "", &f->breaker, &err),
                     REDRIVE_E_INVALID);
    assert_int_equal(redrive_breaker_configure(f->handler, "u", NULL, NULL), REDRIVE_E_INVALID);
}

HANDLER_TEST(simulated_failures_open_it_and_health_says_so)
{
    redrive_call(f->handler, "t", succeed, NULL, NULL);
    redrive_call(f->handler, "u", succeed, NULL, NULL);
    assert_int_equal(health_of(f->handler).breakers, 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(redrive_breaker_simulate_failure(f->handler, "t"), 0);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_OPEN);
    assert_int_equal(breaker_of(f->handler, "t").opened_at_ms, START);
    assert_int_equal(health_of(f->handler).breakers_open, 1);
    assert_true(health_of(f->handler).health_score == 0.5);
    assert_int_equal(redrive_breaker_disable(f->handler, "t"), 0);
    assert_int_equal(health_of(f->handler).breakers_open, 0);
    assert_int_equal(redrive_breaker_simulate_failure(f->handler, "t"), 0);
    assert_int_equal(redrive_call(f->handler, "t", succeed, NULL, NULL), 0);
    assert_int_equal(redrive_breaker_trip(f->handler, "t"), 0);
    assert_int_equal(health_of(f->handler).breakers_open, 1);
}

HANDLER_TEST(disabling_lets_parked_jobs_go)
{
    redrive_call(f->handler, "t", succeed, NULL, NULL);
    redrive_breaker_trip(f->handler, "t");
    struct job_thread t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = (struct job_thread){f->handler, {.task = "t"}, succeed};
        job_thread_start(&t[i]);
    }
    WAIT_FOR(metrics_of(f->handler).parked == 2);
    redrive_breaker_disable(f->handler, "t");
    assert_int_equal(job_thread_join(&t[0]), 0);
    assert_int_equal(job_thread_join(&t[1]), 0);
}
