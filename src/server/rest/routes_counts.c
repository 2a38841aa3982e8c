/* routes_counts.c - how many jobs there are by state, task and queue, for a filter over these. */
#include "server/rest/routes.h"

#include "base/err.h"
#include "server/rest/body/body.h"
#include "server/rest/body/name_counts.h"
#include "server/rest/resource.h"

#define NAMES_MAX 100 /* of tasks and of queues, the largest ones */

/* ---- The filter ------------------------------------------------------------------------------ */

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
    json_key(w, key);
    json_begin_array(w);
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
    json_key(w, "by_state");
    json_begin_object(w);
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
    name_counts_init(&c.tasks, arena);
    name_counts_init(&c.queues, arena);
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

const struct rest_route REST_COUNTS[] = {
    {HTTP_GET, "/counts", CONFIG_SCOPE_READ, true, get_counts},
    {0},
};
