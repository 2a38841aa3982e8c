/* routes_stats.c - statistics, counts, rates, and workers. */
#include "server/rest/private.h"

#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"
#include "engine/report/stats.h"
#include "server/dashboard/rate_samples.h"
#include "server/rest/body/body.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

/* ---- Statistics ------------------------------------------------------------------------------ */

static void send_stats(struct rest_call *call,
                       void (*write)(struct json_writer *w, const struct stats *stats))
{
    struct stats stats = {0};
    struct redrive_err err = {0};
    int rc = stats_read(rest_store(call), call->principal.tenant, &call->config->health,
                        rest_now_ms(call), &stats, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        write(rest_json(call), &stats);
        rest_send(call, 200);
    }
    stats_release(&stats);
}

static void get_stats(struct rest_call *call)
{
    send_stats(call, stats_write_json);
}

static void get_retry_stats(struct rest_call *call)
{
    send_stats(call, stats_write_retry_json);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void write_worker(struct json_writer *w, const void *page, size_t i)
{
    worker_write_json(w, &((const struct worker_page *)page)->workers[i]);
}

static void get_workers(struct rest_call *call)
{
    struct worker_page page = {0};
    struct redrive_err err = {0};
    int rc = workers_read(rest_store(call), call->principal.tenant, rest_now_ms(call), &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_worker);
    worker_page_release(&page);
}

/* ---- Counts by state, task and queue --------------------------------------------------------- */

/* How many jobs there are by state, task and queue, for a filter over these. */
#define NAMES_MAX 100 /* of tasks and of queues, the largest ones */

struct counts_query {
    struct job_query query;
    struct redrive_err err;
    const char *field;
    int rc;
};

/* The store keeps counts of these, and of nothing else. */
static bool add_param(struct str name, struct str value, void *ctx)
{
    static const char *const NAMES[] = {"task", "queue", "state"};
    struct counts_query *q = ctx;
    for (size_t i = 0; i < 3; i++) {
        if (!str_is(name, NAMES[i]))
            continue;
        q->rc = job_query_add(&q->query, name, value, &q->err);
        q->field = q->query.field;
        return q->rc == 0;
    }
    q->rc = err_set(&q->err, REDRIVE_E_UNKNOWN, "there is no parameter '%.*s'",
                    (int)(name.len < 60 ? name.len : 60), name.ptr);
    body_suggest(&q->err, name, NAMES, 3);
    return false;
}

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
    struct counts_query q = {0};
    struct counts c = {0};
    struct count_page page = {0};
    job_query_init(&q.query, call->principal.tenant, JOB_QUERY_STATE, ORDER_NEWEST,
                   rest_now_ms(call), arena);
    http_each_query(call->request, add_param, &q);
    if (q.rc < 0) {
        kit_fail(call, &q.err, q.field);
        return;
    }
    int rc =
        store_ops(store)->counts(store, COUNT_PARTITIONS, call->principal.tenant, &page, &q.err);
    const uint64_t seed = (uint64_t)clock_monotonic_ns();
    name_counts_init(&c.tasks, arena, seed);
    name_counts_init(&c.queues, arena, seed);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        count_line(&c, &q.query.filter, &page.counts[i]);
    count_page_release(&page);
    if (rc == 0)
        send_counts(call, &c);
    if (rc == 0 && (c.tasks.failed || c.queues.failed || arena->failed))
        rc = err_nomem(&q.err);
    name_counts_release(&c.tasks);
    name_counts_release(&c.queues);
    if (rc < 0)
        rest_fail(call, &q.err, NULL);
    else
        rest_send(call, 200);
}

/* ---- Summary and rates, for the dashboard ---------------------------------------------------- */

/* Statistics for the dashboard: a summary, and rates over the last hour. */
#define MINUTES_MAX 60
#define QUEUES_MAX  1000

/* A whole number of the query, or what it is without. False: it has been answered. */
static bool number_of(struct rest_call *call, const char *name, int64_t max, int64_t otherwise,
                      int64_t *ret)
{
    const struct str value = http_query(call->request, name);
    struct redrive_err err = {0};
    *ret = otherwise;
    if (!value.ptr || query_int(name, value, 1, max, ret, &err) == 0)
        return true;
    rest_fail(call, &err, name);
    return false;
}

static void get_summary(struct rest_call *call)
{
    struct stats stats = {0};
    struct redrive_err err = {0};
    int64_t queues;
    if (!number_of(call, "queues", QUEUES_MAX, 10, &queues))
        return;
    if (stats_read(rest_store(call), call->principal.tenant, &call->config->health,
                   rest_now_ms(call), &stats, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    stats_write_summary_json(rest_json(call), &stats, (size_t)queues);
    stats_release(&stats);
    rest_send(call, 200);
}

static void get_rates(struct rest_call *call)
{
    int64_t minutes;
    if (!number_of(call, "minutes", MINUTES_MAX, 15, &minutes))
        return;
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    job_write_time(w, "at", rest_now_ms(call));
    json_field_double(w, "step", RATE_STEP_MS / 1000.0);
    json_open_array(w, "items");
    rate_samples_write(call->rest->rates, call->principal.tenant, minutes * 60 * 1000, w);
    json_end_array(w);
    json_end_object(w);
    rest_send(call, 200);
}

const struct rest_route REST_STATS[] = {
    {HTTP_GET, "/stats", CONFIG_SCOPE_READ, true, get_stats},
    {HTTP_GET, "/retry/stats", CONFIG_SCOPE_READ, true, get_retry_stats},
    {HTTP_GET, "/workers", CONFIG_SCOPE_READ, true, get_workers},
    {HTTP_GET, "/counts", CONFIG_SCOPE_READ, true, get_counts},
    {HTTP_GET, "/summary", CONFIG_SCOPE_READ, true, get_summary},
    {HTTP_GET, "/rates", CONFIG_SCOPE_READ, false, get_rates},
    {0},
};
