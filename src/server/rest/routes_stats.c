/* routes_stats.c - statistics, counts, rates, workers; metrics, and a stream of events. */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"
#include "engine/report/stats.h"
#include "server/dashboard/samples.h"
#include "server/events.h"
#include "server/metrics/metrics.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

/* ---- Counts by state, task and queue --------------------------------------------------------- */

#define NAMES_MAX 100 /* of tasks and of queues, the largest ones */

/* ---- Counting -------------------------------------------------------------------------------- */

struct counts {
    uint64_t total;
    uint64_t by_state[REDRIVE_STATE_COUNT];
    struct name_counts tasks;
    struct name_counts queues;
};

/* Each part leaves its own member of the filter aside, so that it shows what choosing another value
 * would give. */
static void count_line(struct counts *c, const struct job_filter *f, const struct job_count *line)
{
    const bool of_task = f->task.len == 0 || str_eq(f->task, line->task);
    const bool of_queue = f->queue.len == 0 || str_eq(f->queue, line->queue);
    uint64_t n = 0;
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        if (f->states == 0 || f->states & 1u << state)
            n += line->by_state[state];
        if (of_task && of_queue)
            c->by_state[state] += line->by_state[state];
    }
    if (of_task && of_queue)
        c->total += n;
    if (of_queue && n > 0)
        name_counts_add(&c->tasks, line->task, n);
    if (of_task && n > 0)
        name_counts_add(&c->queues, line->queue, n);
}

static void write_names(struct json_writer *w, const char *key, const char *name,
                        struct name_counts *counts)
{
    size_t n;
    const struct name_count *sorted = name_counts_sorted(counts, &n);
    json_open_array(w, key);
    for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
        json_begin_object(w);
        json_field_string(w, name, sorted[i].name);
        json_field_int(w, "count", (int64_t)sorted[i].n);
        json_end_object(w);
    }
    json_end_array(w);
}

static void send_counts(struct rest_call *call, struct counts *c)
{
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_int(w, "total", (int64_t)c->total);
    json_open_object(w, "by_state");
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        json_field_int(w, redrive_state_name((enum redrive_state)state),
                       (int64_t)c->by_state[state]);
    json_end_object(w);
    write_names(w, "by_task", "task", &c->tasks);
    write_names(w, "by_queue", "queue", &c->queues);
    json_end_object(w);
}

/* The maps are gone before the answer: with it goes the request, and its arena. */
static void get_counts(struct rest_call *call)
{
    struct store *store = rest_store(call);
    struct arena *arena = http_arena(call->request);
    struct redrive_err err = {0};
    struct job_query query;
    struct counts c = {0};
    RELEASED_BY(count_page_release) struct count_page page = {0};
    struct api_input input;
    const struct api_context context = rest_context(call, &input);
    if (api_query(&context, JOB_QUERY_COUNTS, ORDER_NEWEST, &query, &err) < 0) {
        kit_fail(call, &err, input.at_fault);
        return;
    }
    int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, call->principal.tenant, &page, &err);
    const uint64_t seed = (uint64_t)clock_monotonic_ns();
    name_counts_init(&c.tasks, arena, seed);
    name_counts_init(&c.queues, arena, seed);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        count_line(&c, &query.filter, &page.counts[i]);
    if (rc == 0)
        send_counts(call, &c);
    if (rc == 0 && (c.tasks.failed || c.queues.failed || arena->failed))
        rc = err_nomem(&err);
    name_counts_release(&c.tasks);
    name_counts_release(&c.queues);
    if (rc < 0)
        rest_fail(call, &err, NULL);
    else
        rest_send(call, 200);
}

/* ---- Summary and rates, for the dashboard ---------------------------------------------------- */

#define MINUTES_MAX 60
#define QUEUES_MAX  1000

static const struct field SUMMARY_FIELDS[] = {
    {"queues", &FIELD_INT, 0, .min = 1, .max = QUEUES_MAX, .default_text = "10"}, {0}};
static const struct field SAMPLE_FIELDS[] = {
    {"minutes", &FIELD_INT, 0, .min = 1, .max = MINUTES_MAX, .default_text = "15"}, {0}};

static void get_summary(struct rest_call *call)
{
    RELEASED_BY(stats_release) struct stats stats = {0};
    struct redrive_err err = {0};
    int64_t queues;
    if (!kit_parameter(call, SUMMARY_FIELDS, &queues))
        return;
    if (stats_read(rest_store(call), call->principal.tenant, &call->config->health,
                   rest_now_ms(call), &stats, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    stats_write_summary_json(rest_json(call), &stats, (size_t)queues);
    rest_send(call, 200);
}

/* {"at":…,"step":10,"items":[…]}: those of the last `minutes` of the query. */
static void send_samples(struct rest_call *call, struct samples *samples)
{
    int64_t minutes;
    if (!kit_parameter(call, SAMPLE_FIELDS, &minutes))
        return;
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    job_write_time(w, "at", rest_now_ms(call));
    json_field_double(w, "step", SAMPLES_STEP_MS / 1000.0);
    json_open_array(w, "items");
    samples_write(samples, call->principal.tenant, minutes * 60 * 1000, w);
    json_end_array(w);
    json_end_object(w);
    rest_send(call, 200);
}

static void get_rates(struct rest_call *call)
{
    send_samples(call, call->rest->rates);
}

static void get_latency(struct rest_call *call)
{
    send_samples(call, call->rest->latencies);
}

/* ---- /metrics -------------------------------------------------------------------------------- */

#define METRICS_MAX_BYTES (32u * 1024 * 1024)

/* The series of the store are left out when it cannot be read; those of this process are needed
 * most then. */
static int write_metrics(struct rest_call *call, struct buf *out, struct redrive_err *err)
{
    struct run_times *times = call->rest->run_times;
    struct arena *arena = http_arena(call->request);
    struct store_status *store_status = committer_store_status(call->rest->committer);
    RELEASED_BY(stats_release) struct stats stats = {0};
    struct run_time *rows = NULL;
    struct store_status_view state;
    int rc = 0;
    const bool is_read = !store_status_is_away(store_status, NULL) &&
                         stats_read_all(rest_store(call), call->principal.tenant,
                                        &call->config->health, rest_now_ms(call), &stats, err) == 0;
    store_status_read(store_status, &state);
    if (is_read)
        rc = metrics_write_store(&stats, out);
    const size_t n = times ? run_times_read(times, call->principal.tenant, arena, &rows) : 0;
    const struct metrics_process process = {
        .store_status = &state,
        .store_is_read = is_read,
        .run_times = rows,
        .n_run_times = n,
        .facts = process_facts(times ? run_times_since_ms(times) : rest_now_ms(call)),
        .certificate_end_ms = call->rest->certificate_end_ms,
        .spans = call->rest->tracing ? call->rest->tracing->counts : NULL,
    };
    metrics_write_process(&process, out);
    if (rc < 0 || arena->failed)
        return err_nomem(err);
    return buf_failed(out) ? err_full(err, buf_failed(out), "there are too many metrics") : 0;
}

static void get_metrics(struct rest_call *call)
{
    struct redrive_err err = {0};
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(METRICS_MAX_BYTES);
    if (write_metrics(call, &text, &err) < 0)
        rest_fail(call, &err, NULL);
    else
        http_reply(call->request, 200, METRICS_CONTENT_TYPE, buf_str(&text), NULL, 0);
}

/* ---- /events --------------------------------------------------------------------------------- */

/* A client of /events. It outlives its request, and so holds the configuration that accepted it. */
struct listener {
    struct rest *rest;
    struct http_stream *stream;
    struct config *config;
    struct principal principal;
    bool hides_errors;
};

static bool write_stream(struct str bytes, void *ctx)
{
    const struct listener *listener = ctx;
    return http_stream_write(listener->stream, bytes);
}

/* A token that may do less than when the stream began has to begin anew: the page behind it learns
 * of its scopes then. */
static bool may_listen(void *ctx)
{
    const struct listener *listener = ctx;
    return rest_keeps_scopes(listener->rest, &listener->principal) &&
           rest_redacts(listener->rest, &listener->principal) == listener->hides_errors;
}

static void close_stream(void *ctx)
{
    struct listener *listener = ctx;
    http_stream_close(listener->stream);
    config_free(listener->config);
    free(listener);
}

static void listen_to(struct event_hub *hub, struct rest_call *call,
                      const struct event_filter *filter)
{
    const struct str last_id = http_header(call->request, "Last-Event-ID");
    struct listener *listener = malloc(sizeof *listener);
    const struct event_sink sink = {
        .write = write_stream,
        .close = close_stream,
        .may_listen = may_listen,
        .ctx = listener,
    };
    if (!listener) {
        kit_nomem(call);
        return;
    }
    *listener = (struct listener){
        .rest = call->rest,
        .config = config_hold(call->config),
        .principal = call->principal,
        .hides_errors = filter->hides_errors,
    };
    listener->stream = http_stream_open(call->request, 200, "text/event-stream");
    /* The answer has begun: one too many can only be ended. */
    if (event_hub_join(hub, filter, last_id, &sink, NULL) < 0)
        close_stream(listener);
}

enum {
    DIGEST,
    TASK,
    TYPE
};
static const struct field EVENT_FIELDS[] = {
    [DIGEST] = {"digest", &FIELD_SPAN, 0, .min = 100, .max = 60000},
    [TASK] = {"task", &FIELD_WORDING, 0},
    [TYPE] = {"type", &FIELD_WORDING, 0},
    {0},
};

static void get_events(struct rest_call *call)
{
    struct event_hub *hub = call->rest->hub;
    const struct str task = http_query(call->request, EVENT_FIELDS[TASK].name);
    struct event_filter filter = {.tenant = call->principal.tenant,
                                  .hides_errors = kit_redacts(call)};
    struct redrive_err err = {0};
    if (!kit_parameter(call, &EVENT_FIELDS[DIGEST], &filter.digest_ms))
        return;
    if (task.len > 0)
        filter.task = task;
    if (!hub) {
        kit_refuse(call, REDRIVE_E_NOT_FOUND, "this server sends no events");
    } else if (event_kinds_parse(http_query(call->request, EVENT_FIELDS[TYPE].name), &filter.kinds,
                                 &err) < 0) {
        rest_fail(call, &err, EVENT_FIELDS[TYPE].name);
    } else if (event_hub_check_room(hub, &err) < 0) {
        rest_fail(call, &err, NULL);
    } else if (http_method(call->request) == HTTP_HEAD) {
        http_reply(call->request, 200, "text/event-stream", STR(""), NULL, 0);
    } else {
        listen_to(hub, call, &filter);
    }
}

const struct rest_route REST_STATS[] = {
    {.operation = &API_STATS},
    {.operation = &API_RETRY_STATS},
    {.operation = &API_WORKERS},
    {.operation = &API_TOP},
    {HTTP_GET, "/counts", CONFIG_SCOPE_READ, true, get_counts,
     .own_summary = "How many jobs there are by state, task and queue",
     .own_parameters = {JOB_QUERY_FIELDS, JOB_QUERY_COUNTS}},
    {HTTP_GET, "/summary", CONFIG_SCOPE_READ, true, get_summary,
     .own_summary =
         "The statistics of /stats without what grows with the number of tasks, queues and workers",
     .own_parameters = {SUMMARY_FIELDS, 0}},
    {HTTP_GET, "/rates", CONFIG_SCOPE_READ, false, get_rates,
     .own_summary = "How many jobs came, ran and ended, span by span",
     .own_parameters = {SAMPLE_FIELDS, 0}},
    {HTTP_GET, "/latency", CONFIG_SCOPE_READ, false, get_latency,
     .own_summary = "How long jobs waited before they started and how long they ran, span by span",
     .own_parameters = {SAMPLE_FIELDS, 0}},
    {HTTP_GET, "/metrics", CONFIG_SCOPE_READ, true, get_metrics, .outlives_store = true,
     .own_summary = "The metrics of the token's tenant, for Prometheus"},
    {HTTP_GET, "/events", CONFIG_SCOPE_READ, false, get_events,
     .own_summary = "What happens to the jobs of the token's tenant, as it happens",
     .own_parameters = {EVENT_FIELDS, 0}},
    {0},
};
