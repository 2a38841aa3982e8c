/* exporter.c - the queue of spans, and the thread that sends them. */
#include "run/otlp/exporter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/text/url_mask.h"
#include "base/time/clock.h"

#define SPAN_MAX_BYTES  (64u * 1024)
#define BATCH_MAX_BYTES (64u * 1024 * 1024)
#define WHY_MAX         160

struct queued_span {
    char *json;
    size_t len;
};

struct otlp_exporter {
    struct otlp_settings settings;
    const struct log *log;
    struct tracing tracing;
    struct trace_counts counts;
    pthread_t thread;

    /* Of the thread. */
    struct http_client *client;
    struct http_answer answer;
    struct queued_span *batch; /* batch_max */
    struct buf body;
    struct log_pace pace;
    uint64_t logged; /* how many dropped ones the log has told of */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    struct queued_span *ring; /* queue_max */
    size_t first;
    size_t n;
    int64_t since_ms; /* monotonic: when the first of them came */
    bool is_stopping;
    int64_t stop_by_ms; /* monotonic */
};

/* ---- Taking spans ---------------------------------------------------------------------------- */

static void drop(struct otlp_exporter *x, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&x->counts.dropped, n, memory_order_relaxed);
}

/* False: the queue is full. */
static bool push(struct otlp_exporter *x, struct queued_span span)
{
    const size_t max = (size_t)x->settings.queue_max;
    HOLD(&x->mutex);
    const bool has_room = x->n < max;
    if (has_room) {
        if (x->n == 0)
            x->since_ms = clock_monotonic_ms();
        x->ring[(x->first + x->n++) % max] = span;
        if (x->n == 1 || x->n == (size_t)x->settings.batch_max)
            pthread_cond_signal(&x->changed);
    }
    return has_room;
}

static bool is_full(struct otlp_exporter *x)
{
    HOLD(&x->mutex);
    return x->n >= (size_t)x->settings.queue_max;
}

static void add_span(const struct trace_span *span, void *ctx)
{
    struct otlp_exporter *x = ctx;
    struct queued_span queued;
    struct buf json;
    if (is_full(x)) { /* while the collector is away nothing is written */
        drop(x, 1);
        return;
    }
    buf_init(&json, SPAN_MAX_BYTES);
    trace_span_write(span, &json);
    queued.json = buf_detach(&json, &queued.len);
    buf_release(&json);
    if (!queued.json || !push(x, queued)) {
        free(queued.json);
        drop(x, 1);
    }
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Asked by the client while a request is under way. */
static bool is_over(void *ctx)
{
    struct otlp_exporter *x = ctx;
    HOLD(&x->mutex);
    return x->is_stopping && clock_monotonic_ms() >= x->stop_by_ms;
}

/* Until `at_ms`, or until a stop, of which it returns false. */
static bool pause_until(struct otlp_exporter *x, int64_t at_ms)
{
    HOLD(&x->mutex);
    while (!x->is_stopping && clock_monotonic_ms() < at_ms)
        (void)thread_cond_wait_until(&x->changed, &x->mutex, at_ms);
    return !x->is_stopping;
}

/* Waits for a batch and takes it; 0: nothing is left, and none will come. */
static size_t take_batch(struct otlp_exporter *x)
{
    const size_t most = (size_t)x->settings.batch_max, max = (size_t)x->settings.queue_max;
    size_t n = 0;
    HOLD(&x->mutex);
    while (!x->is_stopping && x->n < most) {
        const int64_t due_ms = x->since_ms + x->settings.delay_ms;
        if (x->n == 0)
            pthread_cond_wait(&x->changed, &x->mutex);
        else if (!thread_cond_wait_until(&x->changed, &x->mutex, due_ms) ||
                 clock_monotonic_ms() >= due_ms)
            break;
    }
    for (; n < most && x->n > 0; x->n--) {
        x->batch[n++] = x->ring[x->first];
        x->first = (x->first + 1) % max;
    }
    x->since_ms = clock_monotonic_ms();
    return n;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Makes the body of the batch and frees its spans. False: there is no memory for it. */
static bool make_body(struct otlp_exporter *x, size_t n)
{
    buf_reset(&x->body);
    trace_batch_begin(x->settings.resource, x->settings.n_resource, &x->body);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            (void)buf_putc(&x->body, ',');
        (void)buf_add(&x->body, x->batch[i].json, x->batch[i].len);
        free(x->batch[i].json);
    }
    trace_batch_end(&x->body);
    return buf_failed(&x->body) == 0;
}

static bool may_be_tried_again(int status)
{
    return status == 429 || (status >= 502 && status <= 504);
}

enum verdict {
    VERDICT_TAKEN,
    VERDICT_AGAIN,
    VERDICT_REFUSED,
};

static enum verdict send_once(struct otlp_exporter *x, int64_t timeout_ms, char why[WHY_MAX])
{
    struct redrive_err err = {0};
    const int rc = http_client_call(x->client, "POST", x->settings.path, buf_str(&x->body),
                                    timeout_ms, &x->answer, &err);
    const int status = x->answer.status;
    if (rc < 0) {
        (void)str_copy(why, WHY_MAX, str_of(err.message));
        x->answer.retry_after_ms = 0;
        return rc == REDRIVE_E_IO ? VERDICT_AGAIN : VERDICT_REFUSED;
    }
    if (status >= 200 && status <= 299)
        return VERDICT_TAKEN;
    (void)snprintf(why, WHY_MAX, "the collector answered with status %d", status);
    return may_be_tried_again(status) ? VERDICT_AGAIN : VERDICT_REFUSED;
}

/* Whether the collector has taken the body, after one try or several. A stop ends a pause, and then
 * there is one more try. */
static bool send_body(struct otlp_exporter *x, char why[WHY_MAX])
{
    const int64_t until_ms = clock_monotonic_ms() + x->settings.export_timeout_ms;
    int64_t pause_ms = OTLP_PAUSE_MS;
    bool is_last = false;
    for (;;) {
        if (is_over(x)) {
            (void)snprintf(why, WHY_MAX, "the process has stopped");
            return false;
        }
        const int64_t now_ms = clock_monotonic_ms();
        const int64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 1;
        const int64_t timeout_ms =
            x->settings.timeout_ms < left_ms ? x->settings.timeout_ms : left_ms;
        const enum verdict verdict = send_once(x, timeout_ms, why);
        if (verdict != VERDICT_AGAIN)
            return verdict == VERDICT_TAKEN;
        const int64_t asked_ms = x->answer.retry_after_ms;
        const int64_t at_ms = clock_monotonic_ms() + (asked_ms > 0 ? asked_ms : pause_ms);
        pause_ms *= 2;
        if (is_last || at_ms >= until_ms)
            return false;
        is_last = !pause_until(x, at_ms);
    }
}

static void log_dropped(struct otlp_exporter *x, const char *why, bool is_last)
{
    const uint64_t dropped = atomic_load_explicit(&x->counts.dropped, memory_order_relaxed);
    int64_t held_back;
    if (dropped == x->logged ||
        (!log_pace_allows(&x->pace, clock_monotonic_ms(), OTLP_LOG_EVERY_MS, &held_back) &&
         !is_last))
        return;
    log_event(x->log, LOG_LEVEL_WARNING, clock_wall_ms(), "trace_spans_dropped",
              LOG_I("spans", (int64_t)(dropped - x->logged)), LOG_S("error", why));
    x->logged = dropped;
}

static void send_batch(struct otlp_exporter *x, size_t n, char why[WHY_MAX])
{
    int64_t refused = (int64_t)n;
    const bool is_made = make_body(x, n);
    (void)snprintf(why, WHY_MAX, "%s", is_made ? "the queue was full" : "out of memory");
    if (is_made && send_body(x, why)) {
        refused = trace_refused_spans(buf_str(&x->answer.body));
        refused = refused < (int64_t)n ? refused : (int64_t)n;
        if (refused > 0)
            (void)snprintf(why, WHY_MAX, "the collector has refused some spans");
    }
    drop(x, (uint64_t)refused);
    (void)atomic_fetch_add_explicit(&x->counts.sent, n - (uint64_t)refused, memory_order_relaxed);
    log_dropped(x, why, false);
}

static void *export_spans(void *arg)
{
    struct otlp_exporter *x = arg;
    char why[WHY_MAX] = "the queue was full";
    size_t n;
    while ((n = take_batch(x)) > 0)
        send_batch(x, n, why);
    log_dropped(x, why, true);
    return NULL;
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static void exporter_free(struct otlp_exporter *x)
{
    http_client_free(x->client);
    http_answer_release(&x->answer);
    buf_release(&x->body);
    free(x->batch);
    free(x->ring);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->mutex);
    otlp_settings_release(&x->settings);
    free(x);
}

static int start(struct otlp_exporter *x, struct redrive_err *err)
{
    const struct otlp_settings *s = &x->settings;
    const struct http_client_options options = {
        .base = s->base,
        .ca_file = s->ca_file,
        .headers = s->headers,
        .n_headers = s->n_headers,
        .gives_up = is_over,
        .gives_up_ctx = x,
    };
    x->batch = calloc((size_t)s->batch_max, sizeof *x->batch);
    x->ring = calloc((size_t)s->queue_max, sizeof *x->ring);
    if (!x->batch || !x->ring)
        return err_nomem(err);
    int rc = http_client_new(&options, &x->client, err);
    if (rc < 0)
        return rc;
    x->tracing = (struct tracing){s->sampler, add_span, x, &x->counts};
    if (!thread_start(&x->thread, export_spans, x))
        return err_set(err, REDRIVE_E_IO, "cannot start the thread that sends spans");
    return 0;
}

static void log_start(const struct otlp_exporter *x)
{
    RELEASED_BY(buf_release) struct buf address = BUF_MAX(4096);
    url_mask(&address, str_of(x->settings.base));
    log_event(x->log, LOG_LEVEL_INFO, clock_wall_ms(), "tracing",
              LOG_S("address", buf_cstr(&address)));
}

int otlp_exporter_start(otlp_env_fn env, const struct log *log, struct otlp_exporter **ret,
                        struct redrive_err *err)
{
    struct otlp_exporter *x = calloc(1, sizeof *x);
    *ret = NULL;
    if (!x)
        return err_nomem(err);
    x->log = log;
    pthread_mutex_init(&x->mutex, NULL);
    thread_cond_init(&x->changed);
    http_answer_init(&x->answer);
    buf_init(&x->body, BATCH_MAX_BYTES);
    int rc = otlp_settings_read(&x->settings, env, err);
    const bool is_on = rc == 0 && x->settings.base;
    if (is_on)
        rc = start(x, err);
    if (!is_on || rc < 0) {
        exporter_free(x);
        return rc;
    }
    log_start(x);
    *ret = x;
    return 0;
}

const struct tracing *otlp_exporter_tracing(const struct otlp_exporter *exporter)
{
    return exporter ? &exporter->tracing : NULL;
}

void otlp_exporter_stop(struct otlp_exporter *exporter, int64_t grace_ms)
{
    struct otlp_exporter *x = exporter;
    if (!x)
        return;
    pthread_mutex_lock(&x->mutex);
    x->is_stopping = true;
    x->stop_by_ms = clock_monotonic_ms() + grace_ms;
    pthread_cond_signal(&x->changed);
    pthread_mutex_unlock(&x->mutex);
    (void)pthread_join(x->thread, NULL);
    exporter_free(x);
}
