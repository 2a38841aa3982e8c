/* The handler itself: options, events, counters, health, the one that the process shares. */
#include "fixture.h"

/* ---- Options --------------------------------------------------------------------------------- */

TEST(all_defaults_make_a_handler)
{
    struct redrive_handler *h = redrive_handler_new(NULL, NULL);
    assert_non_null(h);
    assert_string_equal(redrive_handler_name(h), "redrive");
    assert_int_equal(redrive_call(h, "t", succeed, NULL, NULL), 0);
    redrive_handler_free(h);
    redrive_handler_free(NULL);
    assert_string_equal(redrive_version(), REDRIVE_VERSION);
}

OPTIONS_TEST(options_are_copied)
{
    char name[] = "billing";
    f->options.name = name;
    f->policy.max_retries = 1;
    f->breaker.failure_threshold = 9;
    fixture_new_handler(f);
    name[0] = 'x';
    f->policy.max_retries = 50;
    f->breaker.failure_threshold = 1;
    assert_string_equal(redrive_handler_name(f->handler), "billing");
    struct redrive_result result;
    redrive_call(f->handler, "t", refuse_connection, NULL, &result);
    assert_int_equal(result.attempts, 2);
    assert_int_equal(breaker_of(f->handler, "t").config.failure_threshold, 9);
}

static void check_refused(const struct redrive_handler_options *options, int code,
                          const char *message)
{
    struct redrive_err err = {0};
    assert_null(redrive_handler_new(options, &err));
    assert_int_equal(err.code, code);
    if (message)
        assert_string_equal(err.message, message);
    assert_null(redrive_handler_new(options, NULL));
}

TEST(wrong_options_are_refused)
{
    struct fixture f;
    fixture_options(&f);
    struct redrive_handler_options options = f.options;
    options.clock.wait_ms = NULL;
    check_refused(&options, REDRIVE_E_INVALID, "clock has one function, but not the other");
    options.clock.wait_ms = test_clock_wait;
    options.clock.now_ms = NULL;
    check_refused(&options, REDRIVE_E_INVALID, "clock has one function, but not the other");

    options = f.options;
    options.n_classify = 1;
    check_refused(&options, REDRIVE_E_INVALID, "classify is NULL, but n_classify is not 0");
    const struct redrive_classify_row bad = {.source = REDRIVE_SOURCE_MESSAGE, .pattern = "("};
    options.classify = &bad;
    struct redrive_err err = {0};
    assert_null(redrive_handler_new(&options, &err));
    assert_int_not_equal(err.code, 0);

    options = f.options;
    f.policy.max_retries = REDRIVE_MAX_RETRIES + 1;
    check_refused(&options, REDRIVE_E_RANGE, NULL);
    f.policy.max_retries = 1;
    f.breaker.half_open_max = 0;
    check_refused(&options, REDRIVE_E_RANGE, NULL);
}

TEST(the_process_shares_one_handler)
{
    struct redrive_result result;
    assert_int_equal(redrive_call(NULL, "t", succeed, NULL, &result), 0);
    struct redrive_handler *h = redrive_handler_default();
    assert_ptr_equal(h, redrive_handler_default());
    assert_int_equal(metrics_of(h).jobs_completed, 1);
    assert_int_equal(redrive_call(NULL, "t", find_input_malformed, NULL, NULL),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(dlq_of(h).total_jobs, 1);
    assert_int_equal(redrive_dlq_purge(h, 0, NULL), 0);
}

/* A wall clock that says 1970 would make ids and dates useless. */
TEST(timestamps_are_wall_time)
{
    struct redrive_handler *h = redrive_handler_new(NULL, NULL);
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    redrive_call(h, "t", succeed, NULL, NULL);
    redrive_breaker_trip(h, "t");
    struct redrive_breaker_status status = breaker_of(h, "t");
    assert_true(status.opened_at_ms > now_ms - MINUTE && status.opened_at_ms < now_ms + MINUTE);
    redrive_handler_free(h);
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct diary {
    char text[512];
    struct redrive_event last;
    char last_message[64];
    struct redrive_handler *handler;
};

static void write_diary(const struct redrive_event *event, void *ctx)
{
    struct diary *diary = ctx;
    assert_true(event->health_score >= 0 && event->health_score <= 1);
    assert_true(event->error_rate >= 0 && event->error_rate <= 1);
    assert_int_equal(metrics_of(diary->handler).jobs_failed, 0); /* the handler is not locked */
    strcat(diary->text, redrive_event_name(event->type));
    if (event->type == REDRIVE_EVENT_BREAKER) {
        assert_null(event->job_id);
        strcat(diary->text, "=");
        strcat(diary->text, redrive_breaker_state_name(event->breaker));
    }
    strcat(diary->text, " ");
    diary->last = *event;
    if (event->message)
        strcpy(diary->last_message, event->message);
}

static void diary_fixture(struct fixture *f, struct diary *diary)
{
    *diary = (struct diary){0};
    fixture_options(f);
    f->options.monitor = write_diary;
    f->options.monitor_ctx = diary;
    f->breaker.failure_threshold = 2;
    fixture_new_handler(f);
    diary->handler = f->handler;
}

TEST(the_monitor_hears_everything_in_order)
{
    struct fixture f;
    struct diary diary;
    diary_fixture(&f, &diary);
    struct script script = {.failures = 2, .code = -ECONNREFUSED};
    redrive_call(f.handler, "t", run_script, &script, NULL);
    assert_string_equal(diary.text, "received started retrying started breaker=open retrying "
                                    "parked breaker=half_open started breaker=closed completed ");
    assert_int_equal(diary.last.at_ms, START + 31 * SECOND);
    assert_int_equal(diary.last.attempt, 3);
    assert_int_equal(diary.last.max_attempts, 6);
    assert_int_equal(diary.last.breaker, REDRIVE_BREAKER_CLOSED);
    assert_int_equal(diary.last.severity, REDRIVE_SEVERITY_INFO);

    diary.text[0] = '\0';
    struct redrive_job job = {.id = "a", .task = "t", .service = "s"};
    redrive_submit(f.handler, &job, find_input_malformed, NULL, NULL);
    assert_string_equal(diary.text, "received started dead_letter ");
    assert_int_equal(diary.last.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(diary.last.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(diary.last.severity, REDRIVE_SEVERITY_ERROR);
    assert_string_equal(diary.last_message, "order 4711 has no customer");

    diary.text[0] = '\0';
    redrive_dlq_retry(f.handler, "a", succeed, NULL, NULL);
    assert_string_equal(diary.text, "redriven started completed ");

    diary.text[0] = '\0';
    redrive_breaker_trip(f.handler, "s");
    redrive_breaker_reset(f.handler, "s");
    assert_string_equal(diary.text, "breaker=forced_open breaker=closed ");
    assert_string_equal(diary.last.service, "s");
    fixture_release(&f);
}

TEST(an_end_while_waiting_speaks_of_the_last_failure)
{
    struct fixture f;
    struct diary diary;
    diary_fixture(&f, &diary);
    struct redrive_job job = {.task = "t", .deadline_ms = 10 * SECOND};
    redrive_submit(f.handler, &job, refuse_connection, NULL, NULL);
    assert_int_equal(diary.last.type, REDRIVE_EVENT_DEAD_LETTER);
    assert_int_equal(diary.last.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(diary.last.class_, REDRIVE_CLASS_NETWORK);
    assert_int_equal(diary.last.severity, REDRIVE_SEVERITY_WARNING);
    assert_string_equal(diary.last_message, "Connection refused");
    fixture_release(&f);
}

static void cancel_when_retrying(const struct redrive_event *event, void *ctx)
{
    struct diary *diary = ctx;
    write_diary(event, ctx);
    if (event->type == REDRIVE_EVENT_RETRYING) {
        assert_int_equal(event->delay_ms, SECOND);
        assert_int_equal(redrive_cancel(diary->handler, event->job_id), 0);
    }
}

OPTIONS_TEST(a_monitor_may_cancel_the_job_it_hears_of)
{
    struct diary diary = {0};
    f->options.monitor = cancel_when_retrying;
    f->options.monitor_ctx = &diary;
    fixture_new_handler(f);
    diary.handler = f->handler;
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", refuse_connection, NULL, &result),
                     REDRIVE_E_CANCELLED);
    assert_int_equal(result.attempts, 1);
    assert_int_equal(result.elapsed_ms, 0);
    assert_string_equal(diary.text, "received started retrying cancelled ");
}

TEST(events_have_names)
{
    assert_string_equal(redrive_event_name(REDRIVE_EVENT_RECEIVED), "received");
    assert_string_equal(redrive_event_name(REDRIVE_EVENT_FAILED), "failed");
    assert_string_equal(redrive_event_name((enum redrive_event_type)99), "unknown");
}

/* ---- Counters and health --------------------------------------------------------------------- */

static int take_a_while(struct redrive_run *run, void *arg)
{
    struct fixture *f = arg;
    (void)run;
    atomic_fetch_add(&f->clock.now_ms, 100);
    return 0;
}

HANDLER_TEST(counters_count)
{
    struct script script = {.failures = 2, .code = -ECONNREFUSED};
    redrive_call(f->handler, "t", run_script, &script, NULL);
    redrive_call(f->handler, "t", find_input_malformed, NULL, NULL);
    for (int i = 0; i < 98; i++)
        redrive_call(f->handler, "t", take_a_while, f, NULL);
    struct redrive_metrics m = metrics_of(f->handler);
    assert_int_equal(m.jobs_received, 100);
    assert_int_equal(m.jobs_completed, 99);
    assert_int_equal(m.jobs_dlq, 1);
    assert_int_equal(m.jobs_retried, 2);
    assert_int_equal(m.attempts, 102);
    assert_int_equal(m.failures_by_class[REDRIVE_CLASS_NETWORK], 2);
    assert_int_equal(m.failures_by_class[REDRIVE_CLASS_VALIDATION], 1);
    assert_int_equal(m.unclassified, 0);
    assert_true(m.average_retries == 0.02);
    assert_true(m.p50_ms > 95 && m.p50_ms < 105);
    assert_true(m.p99_ms > 95 && m.p99_ms < 105);
    assert_int_equal(m.running + m.waiting + m.parked + m.queued, 0);
    check_balance(f->handler);
    redrive_metrics_get(f->handler, NULL);
    redrive_metrics_get(NULL, &m);
}

HANDLER_TEST(an_idle_handler_is_healthy_and_averages_nothing)
{
    struct redrive_health health = health_of(f->handler);
    assert_string_equal(health.status, "healthy");
    assert_true(health.health_score == 1);
    assert_true(metrics_of(f->handler).average_retries == 0);
    redrive_health_get(f->handler, NULL);
    redrive_health_get(NULL, &health);
}

static int run_out_of_space(struct redrive_run *run, void *arg)
{
    (void)run, (void)arg;
    return -ENOSPC;
}

OPTIONS_TEST(health_falls_with_failures_and_rises_with_time)
{
    f->policy.max_retries = 0;
    fixture_new_handler(f);
    for (int i = 0; i < 10; i++)
        redrive_call(f->handler, "t", find_input_malformed, NULL, NULL);
    assert_string_equal(health_of(f->handler).status, "healthy"); /* the jobs' own fault */
    for (int i = 0; i < 200; i++)
        redrive_call(f->handler, "t", run_out_of_space, NULL, NULL);
    struct redrive_health health = health_of(f->handler);
    assert_string_equal(health.status, "unhealthy");
    assert_true(health.success_rate < 0.1);
    assert_true(health.error_rate > 0.9);
    for (int i = 0; i < 300; i++) {
        atomic_fetch_add(&f->clock.now_ms, SECOND);
        redrive_call(f->handler, "t", succeed, NULL, NULL);
    }
    assert_string_equal(health_of(f->handler).status, "healthy");
}
