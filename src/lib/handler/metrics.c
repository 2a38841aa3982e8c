/* metrics.c - a handler's counters and health, and the events for its monitor. */
#include "lib/handler/private.h"

#include <assert.h>

#define NS_PER_MS 1e6
/* How far back the quantiles look: half of the weight lies within this. */
#define DURATIONS_HALF_LIFE_MS (INT64_C(60) * 1000)

const char *redrive_event_name(enum redrive_event_type type)
{
    static const char *const NAMES[] = {
        [REDRIVE_EVENT_RECEIVED] = "received",   [REDRIVE_EVENT_STARTED] = "started",
        [REDRIVE_EVENT_COMPLETED] = "completed", [REDRIVE_EVENT_RETRYING] = "retrying",
        [REDRIVE_EVENT_PARKED] = "parked",       [REDRIVE_EVENT_DEAD_LETTER] = "dead_letter",
        [REDRIVE_EVENT_FAILED] = "failed",       [REDRIVE_EVENT_CANCELLED] = "cancelled",
        [REDRIVE_EVENT_REDRIVEN] = "redriven",   [REDRIVE_EVENT_BREAKER] = "breaker",
    };
    return (unsigned)type < sizeof NAMES / sizeof NAMES[0] ? NAMES[type] : "unknown";
}

void metrics_init(struct redrive_handler *h)
{
    int64_t now_ms = handler_now(h);
    health_init(&h->health, now_ms);
    quantile_init(&h->durations, DURATIONS_HALF_LIFE_MS, now_ms);
}

void metrics_attempt(struct redrive_handler *h, const struct decision *d, int64_t now_ms,
                     int64_t took_ns)
{
    double took_ms = (double)took_ns / NS_PER_MS;
    quantile_add(&h->durations, took_ms, now_ms);
    if (d->state == REDRIVE_STATE_CANCELLED)
        return;
    bool succeeded = d->class_ == REDRIVE_CLASS_SUCCESS;
    health_record(&h->health, d->class_, took_ms, now_ms);
    h->counts.failures_by_class[d->class_] += !succeeded;
    h->counts.unclassified += d->unclassified;
}

enum redrive_event_type metrics_ended(struct redrive_handler *h, enum redrive_state state,
                                      uint32_t attempts)
{
    struct redrive_metrics *counts = &h->counts;
    h->retries_of_ended += attempts > 0 ? attempts - 1 : 0;
    switch (state) {
    case REDRIVE_STATE_COMPLETED: counts->jobs_completed++; return REDRIVE_EVENT_COMPLETED;
    case REDRIVE_STATE_DEAD_LETTER: counts->jobs_dlq++; return REDRIVE_EVENT_DEAD_LETTER;
    case REDRIVE_STATE_CANCELLED: counts->jobs_cancelled++; return REDRIVE_EVENT_CANCELLED;
    default: counts->jobs_failed++; return REDRIVE_EVENT_FAILED;
    }
}

void redrive_metrics_get(struct redrive_handler *h, struct redrive_metrics *ret)
{
    if (!h || !ret)
        return;
    HOLD(&h->lock);
    *ret = h->counts;
    uint64_t ended = ret->jobs_completed + ret->jobs_dlq + ret->jobs_failed + ret->jobs_cancelled;
    ret->average_retries = ended > 0 ? (double)h->retries_of_ended / (double)ended : 0;
    ret->p50_ms = quantile_get(&h->durations, 0.5);
    ret->p90_ms = quantile_get(&h->durations, 0.9);
    ret->p99_ms = quantile_get(&h->durations, 0.99);
    ret->running = h->n_in_state[REDRIVE_STATE_RUNNING];
    ret->waiting = h->n_in_state[REDRIVE_STATE_RETRYING];
    ret->parked = h->n_in_state[REDRIVE_STATE_PARKED];
    ret->queued = h->n_in_state[REDRIVE_STATE_QUEUED];
}

/* Lock held. */
static void read_health(struct redrive_handler *h, int64_t now_ms, struct redrive_health *ret)
{
    health_read(&h->health, &h->thresholds, h->n_services, h->n_open, now_ms, ret);
}

void redrive_health_get(struct redrive_handler *h, struct redrive_health *ret)
{
    if (!h || !ret)
        return;
    HOLD(&h->lock);
    read_health(h, handler_now(h), ret);
}

void events_add(struct redrive_handler *h, struct events *events, struct redrive_event event)
{
    if (!h->monitor)
        return;
    assert(events->n < EVENTS_MAX);
    struct redrive_health health;
    read_health(h, handler_now(h), &health);
    event.health_score = health.health_score;
    event.error_rate = health.error_rate;
    event.at_ms = handler_wall_now(h);
    events->items[events->n++] = event;
}

void events_tell(struct redrive_handler *h, struct events *events)
{
    unsigned n = events->n;
    events->n = 0;
    for (unsigned i = 0; i < n; i++)
        h->monitor(&events->items[i], h->monitor_ctx);
}

void run_add_event(struct redrive_run *run, enum redrive_event_type type, const struct decision *d)
{
    if (!run->handler->monitor)
        return;
    struct redrive_event event = {
        .type = type,
        .job_id = run->job.id,
        .task = run->job.task,
        .service = run->service->name,
        .attempt = run->attempts,
        .max_attempts = run->max_attempts,
        .severity = REDRIVE_SEVERITY_INFO,
        .breaker = run->service->breaker.state,
    };
    if (d) {
        if (d->max_attempts > 0)
            event.max_attempts = d->max_attempts;
        event.class_ = d->class_;
        event.severity = d->severity;
        event.reason = d->reason;
        event.delay_ms = d->delay_ms;
        event.message = run_message(run);
    }
    events_add(run->handler, &run->events, event);
}

void run_tell(struct redrive_run *run)
{
    if (run->events.n == 0)
        return;
    handler_unlock(run->handler);
    events_tell(run->handler, &run->events);
    handler_lock(run->handler);
    run_look_at_clock(run);
}
