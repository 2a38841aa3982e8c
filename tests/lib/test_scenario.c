/* The handler's whole story in one test: a rates service goes down and comes back. */
#include "fixture.h"

struct rates_service {
    int hiccups; /* fails that many calls, then answers */
};

static int fetch_rates(struct redrive_run *run, void *arg)
{
    struct rates_service *service = arg;
    if (service->hiccups > 0) {
        service->hiccups--;
        return redrive_run_fail(run, &(struct redrive_failure){.http_status = 503});
    }
    return redrive_run_result(run, "1.08", 4);
}

static int reject_currency(struct redrive_run *run, void *arg)
{
    bool *is_fixed = arg;
    if (*is_fixed)
        return 0;
    return redrive_run_fail(
        run, &(struct redrive_failure){.http_status = 400, .message = "no currency 'EURO'"});
}

/* What an operator would see. */
struct watcher {
    double score_when_open;
    int opened;
    int closed;
};

static void watch(const struct redrive_event *event, void *ctx)
{
    struct watcher *watcher = ctx;
    if (event->type != REDRIVE_EVENT_BREAKER)
        return;
    watcher->opened += event->breaker == REDRIVE_BREAKER_OPEN;
    watcher->closed += event->breaker == REDRIVE_BREAKER_CLOSED;
    if (event->breaker == REDRIVE_BREAKER_OPEN)
        watcher->score_when_open = event->health_score;
}

OPTIONS_TEST(a_service_fails_recovers_and_its_dead_letter_is_redriven)
{
    struct watcher watcher = {0};
    f->options.monitor = watch;
    f->options.monitor_ctx = &watcher;
    fixture_new_handler(f);
    struct redrive_handler *h = f->handler;
    struct rates_service service = {.hiccups = 2};
    struct redrive_result result;

    /* It is retried until it succeeds: after 1 s and after 2 s. */
    assert_int_equal(redrive_call(h, "fetch-rates", fetch_rates, &service, &result), 0);
    assert_int_equal(result.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(result.attempts, 3);
    assert_int_equal(result.elapsed_ms, 3 * SECOND);
    assert_int_equal(result.len, 4);
    assert_memory_equal(result.data, "1.08", 4);
    redrive_result_release(&result);

    /* A failure that no retry can mend becomes a dead letter at once. */
    bool is_fixed = false;
    struct redrive_job order = {
        .id = "order-1", .task = "convert", .payload = "EURO", .payload_len = 4};
    assert_int_equal(redrive_submit(h, &order, reject_currency, &is_fixed, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(result.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(result.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(result.attempts, 1);
    assert_int_equal(dlq_of(h).total_jobs, 1);

    /* The service goes down. Five failures in a row open its breaker. The sixth attempt waits,
     * parked, until the recovery time is over, and goes out as the probe that closes it. */
    f->policy.max_retries = 10;
    struct redrive_job patient = {.task = "fetch-rates", .policy = &f->policy};
    struct script outage = {.failures = 5, .code = -ECONNREFUSED};
    assert_int_equal(redrive_submit(h, &patient, run_script, &outage, &result), 0);
    assert_int_equal(result.attempts, 6);
    assert_int_equal(result.elapsed_ms, (1 + 2 + 4 + 8 + 30) * SECOND);
    assert_int_equal(result.parked_ms, (30 - 16) * SECOND);
    assert_int_equal(breaker_of(h, "fetch-rates").state, REDRIVE_BREAKER_CLOSED);
    assert_int_equal(watcher.opened, 1);
    assert_int_equal(watcher.closed, 1);
    assert_true(watcher.score_when_open < 0.5);

    /* The dead letter, once its cause is mended, is redriven and gone. */
    is_fixed = true;
    assert_int_equal(redrive_dlq_retry(h, "order-1", reject_currency, &is_fixed, &result), 0);
    assert_string_equal(result.id, "order-1");
    assert_int_equal(result.attempts, 1);
    assert_int_equal(dlq_of(h).total_jobs, 0);

    /* Calm returns, and with it health. */
    for (int i = 0; i < 100; i++) {
        atomic_fetch_add(&f->clock.now_ms, SECOND);
        assert_int_equal(redrive_call(h, "fetch-rates", fetch_rates, &service, NULL), 0);
    }
    struct redrive_health health = health_of(h);
    assert_true(health.health_score > 0.9);
    assert_string_equal(health.status, "healthy");
    check_balance(h);
}
