/* A rates service that stumbles, goes down and comes back, seen through a Redrive handler.
 *
 *     cc -o handler handler.c $(pkg-config --cflags --libs redrive) && ./handler
 */
#include <errno.h>
#include <redrive.h>
#include <stdio.h>

/* Stands for the network. Each call uses up one letter: 'x' refuses the connection, '5' answers
 * 503. After the last letter all is well. */
static int get_rate(struct redrive_run *run, void *arg)
{
    const char **weather = arg;
    char now = **weather ? *(*weather)++ : '.';
    if (now == 'x')
        return -ECONNREFUSED;
    if (now == '5')
        return redrive_run_fail(run, &(struct redrive_failure){
                                         .http_status = 503, .message = "rates are being updated"});
    return redrive_run_result(run, "1.0842", 6);
}

/* Fails for good when the payload is not a currency. */
static int convert(struct redrive_run *run, void *arg)
{
    size_t len;
    const char *currency = redrive_run_payload(run, &len);
    char message[80];
    (void)arg;
    if (len == 3)
        return 0;
    snprintf(message, sizeof message, "no currency \"%.*s\"", (int)len, currency);
    return redrive_run_fail(run, &(struct redrive_failure){.http_status = 422, .message = message});
}

struct screen {
    int64_t start_ms;
    bool is_quiet;
};

static void print_event(const struct redrive_event *e, void *ctx)
{
    struct screen *screen = ctx;
    if (screen->is_quiet || e->type == REDRIVE_EVENT_RECEIVED)
        return;
    if (screen->start_ms == 0)
        screen->start_ms = e->at_ms;
    printf("  %5.2f s  ", (double)(e->at_ms - screen->start_ms) / 1000);
    switch (e->type) {
    case REDRIVE_EVENT_STARTED:
        printf("%s: attempt %u of %u\n", e->task, e->attempt, e->max_attempts);
        break;
    case REDRIVE_EVENT_RETRYING:
        printf("%s: %s, %s; again in %d ms\n", e->task, redrive_class_name(e->class_), e->message,
               (int)e->delay_ms);
        break;
    case REDRIVE_EVENT_DEAD_LETTER:
        printf("%s: dead letter (%s): %s\n", e->task, redrive_reason_name(e->reason), e->message);
        break;
    case REDRIVE_EVENT_BREAKER:
        printf("  breaker %s is now %s, health %.2f\n", e->service,
               redrive_breaker_state_name(e->breaker), e->health_score);
        break;
    default: printf("%s: %s\n", e->task, redrive_event_name(e->type));
    }
}

static void fetch(struct redrive_handler *h, const char *weather)
{
    struct redrive_result result;
    if (redrive_call(h, "fetch-rates", get_rate, &weather, &result) != 0)
        printf("           %s\n", result.error.message);
    redrive_result_release(&result);
}

static void good_weather(struct redrive_handler *h, struct screen *screen, int calls)
{
    struct redrive_health health;
    screen->is_quiet = true;
    for (int i = 0; i < calls; i++)
        fetch(h, "");
    screen->is_quiet = false;
    redrive_health_get(h, &health);
    printf("           %d good calls: health %.2f, %s\n", calls, health.health_score,
           health.status);
}

int main(void)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.backoff.initial_delay_ms = 100;
    struct redrive_breaker_config breaker;
    redrive_breaker_config_init(&breaker);
    breaker.failure_threshold = 3;
    breaker.recovery_timeout_ms = 2000;
    struct screen screen = {0};
    struct redrive_handler_options options = {
        .policy = &policy, .breaker = &breaker, .monitor = print_event, .monitor_ctx = &screen};
    struct redrive_handler *h = redrive_handler_new(&options, NULL);
    if (!h)
        return 1;

    good_weather(h, &screen, 10);
    printf("\nThe service stumbles: the job is retried.\n");
    fetch(h, "5x");
    printf("\nIt goes down: the breaker opens, and the job waits without using attempts.\n");
    fetch(h, "xxx");
    printf("\nSome input is wrong: no retry can mend that.\n");
    struct redrive_job job = {
        .id = "invoice-7", .task = "convert", .payload = "EURO", .payload_len = 4};
    redrive_submit(h, &job, convert, NULL, NULL);
    printf("\nThe dead letter is corrected and redriven.\n");
    redrive_dlq_edit(h, "invoice-7", "EUR", 3);
    int rc = redrive_dlq_retry(h, "invoice-7", convert, NULL, NULL);
    good_weather(h, &screen, 40);
    redrive_handler_free(h);
    return redrive_err_exit_code(rc);
}
