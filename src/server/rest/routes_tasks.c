/* routes_tasks.c - tasks: how each is configured, what its policy does, its jobs; cron entries. */
#include "server/rest/private.h"

#include <stdio.h>

#include "base/err.h"
#include "core/check.h"
#include "core/explain.h"
#include "core/vocabulary.h"
#include "engine/report/stats.h"
#include "engine/tasks.h"
#include "server/dashboard/samples.h"
#include "fields/field.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

/* Of tasks that no configuration names, at most so many are listed: a client that may submit jobs
 * can make any number of them. */
#define UNDECLARED_MAX 500

/* Retries of a schedule that are listed; a policy may allow a hundred thousand. */
#define ROWS_IN_LIST 20
#define ROWS_OF_ONE  200

/* ---- One task -------------------------------------------------------------------------------- */

static const char *run_name(enum config_run_kind kind)
{
    switch (kind) {
    case CONFIG_RUN_EXEC: return "exec";
    case CONFIG_RUN_STREAM: return "stream";
    case CONFIG_RUN_HTTP: return "http";
    case CONFIG_RUN_NONE: break;
    }
    return NULL;
}

static void write_limits(struct json_writer *w, const struct config_limits *limits)
{
    char rate[32];
    (void)snprintf(rate, sizeof rate, "%u/%s", (unsigned)limits->rate.count,
                   limits->rate.count > 0 ? rate_unit(&limits->rate) : "");
    json_open_object(w, "limits");
    json_field_cstr(w, "rate", limits->rate.count > 0 ? rate : NULL);
    json_key(w, "concurrency");
    if (limits->concurrency == CONFIG_ADAPTIVE)
        json_put_cstr(w, "adaptive");
    else if (limits->concurrency > 0)
        json_put_int(w, limits->concurrency);
    else
        json_put_null(w);
    json_end_object(w);
}

static void write_definition(struct json_writer *w, const struct config_task *task)
{
    const bool is_declared = task->name[0] != '\0';
    json_field_bool(w, "declared", is_declared);
    json_field_cstr(w, "queue", is_declared ? task->queue : NULL);
    json_field_cstr(w, "run", run_name(task->run.kind));
    json_field_double(w, "lease", (double)task->lease_ms / 1000);
    write_limits(w, &task->limits);
}

static void write_schedule(struct json_writer *w, const struct config_task *task,
                           enum redrive_class class_, uint32_t rows)
{
    struct explain e;
    explain_init(&e, &task->retry, class_);
    json_open_object(w, "schedule");
    explain_write_members(&e, rows, w);
    json_field_int(w, "attempts", e.row.n + 1);
    json_end_object(w);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static const uint64_t NO_SIZES[REDRIVE_STATE_COUNT];
static const uint64_t NO_COUNTS[ENGINE_EVENT_COUNT];

static const uint64_t *sizes_of(const struct stats *stats, struct str task)
{
    for (size_t i = 0; i < stats->n_tasks; i++)
        if (str_eq(stats->tasks[i].task, task))
            return stats->tasks[i].by_state;
    return NO_SIZES;
}

static const uint64_t *counters_of(const struct stats *stats, struct str task)
{
    for (size_t i = 0; i < stats->by[STATS_TASK].n; i++)
        if (str_eq(stats->by[STATS_TASK].rows[i].name, task))
            return stats->by[STATS_TASK].rows[i].counts;
    return NO_COUNTS;
}

static void write_figures(struct json_writer *w, const uint64_t *sizes, const uint64_t *counts)
{
    json_open_object(w, "sizes");
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        json_field_int(w, redrive_state_name((enum redrive_state)state), (int64_t)sizes[state]);
    json_end_object(w);
    json_open_object(w, "counters");
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++) {
        const char *name = engine_event_counter((enum engine_event_kind)kind);
        if (*name)
            json_field_int(w, name, (int64_t)counts[kind]);
    }
    json_end_object(w);
}

/* How long its attempts ran, over all queues and outcomes; null: none has ended here. */
static void write_run_time(struct json_writer *w, struct str task, const struct run_time *times,
                           size_t n)
{
    uint64_t counts[RUN_TIMES_N_BOUNDS + 1] = {0};
    int64_t all = 0;
    double sum_s = 0;
    for (size_t i = 0; i < n; i++) {
        if (times[i].kind == ENGINE_EVENT_STARTED || !str_eq(times[i].task, task))
            continue;
        sum_s += (double)times[i].sum_ms / 1000;
        for (size_t j = 0; j <= RUN_TIMES_N_BOUNDS; j++) {
            counts[j] += times[i].counts[j];
            all += (int64_t)times[i].counts[j];
        }
    }
    json_key(w, "run_time");
    if (all == 0) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    json_field_int(w, "attempts", all);
    json_field_double(w, "mean", sum_s / (double)all);
    latency_write_percentiles(w, counts);
    json_end_object(w);
}

/* ---- Resources ------------------------------------------------------------------------------- */

/* What the list is made of. */
struct task_list {
    const struct config *config;
    struct stats stats;
    struct run_time *times; /* of this process */
    size_t n_times;
};

static void write_task(struct json_writer *w, const struct task_list *list, struct str name)
{
    const struct config_task *task = config_task(list->config, name);
    json_begin_object(w);
    json_field_string(w, "task", name);
    write_definition(w, task);
    write_figures(w, sizes_of(&list->stats, name), counters_of(&list->stats, name));
    write_run_time(w, name, list->times, list->n_times);
    write_schedule(w, task, REDRIVE_CLASS_TRANSIENT, ROWS_IN_LIST);
    json_end_object(w);
}

/* Those of the configuration in its order, then others that have or had jobs. A task without a
 * counter has never had one. */
static void get_tasks(struct rest_call *call)
{
    const struct config *config = call->config;
    struct task_list list = {.config = config};
    struct redrive_err err = {0};
    if (stats_read(rest_store(call), call->principal.tenant, &config->health, rest_now_ms(call),
                   &list.stats, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    if (call->rest->run_times)
        list.n_times = run_times_read(call->rest->run_times, call->principal.tenant,
                                      http_arena(call->request), &list.times);
    struct json_writer *w = rest_json(call);
    api_begin_items(w);
    for (size_t i = 0; i < config->n_tasks; i++)
        write_task(w, &list, str_of(config->tasks[i].name));
    const struct stats_rows *rows = &list.stats.by[STATS_TASK];
    size_t n_undeclared = 0;
    for (size_t i = 0; i < rows->n && n_undeclared < UNDECLARED_MAX; i++) {
        if (config_task(config, rows->rows[i].name)->name[0] != '\0')
            continue;
        write_task(w, &list, rows->rows[i].name);
        n_undeclared++;
    }
    api_end_items(w, NULL);
    stats_release(&list.stats);
    rest_send(call, 200);
}

/* Without statistics: it reads nothing of the store. */
static void get_task(struct rest_call *call)
{
    const struct config_task *task = config_task(call->config, call->params[0]);
    static const struct field CLASS = {"class", &FIELD_TERM, 0, .vocabulary = VOCABULARY_CLASS,
                                       .skip = 1};
    int class_ = REDRIVE_CLASS_TRANSIENT;
    struct redrive_err err = {0};
    if (name_check("task", call->params[0], &err) < 0) {
        rest_fail(call, &err, "task");
        return;
    }
    if (!kit_parameter(call, &CLASS, &class_))
        return;
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_string(w, "task", call->params[0]);
    job_write_time(w, "at", rest_now_ms(call));
    write_definition(w, task);
    json_field_cstr(w, "breaker", task->breaker.key);
    write_schedule(w, task, (enum redrive_class)class_, ROWS_OF_ONE);
    json_end_object(w);
    rest_send(call, 200);
}

static void were_declared(struct rest_call *call, struct op *op)
{
    struct declare_op kept = *(struct declare_op *)op;
    if (!rest_refused(call, op)) {
        struct json_writer *w = rest_json(call);
        json_begin_object(w);
        json_field_int(w, "declared", (int64_t)kept.n);
        json_field_int(w, "changed", (int64_t)kept.n_changed);
        json_end_object(w);
        rest_send(call, 200);
    }
    declare_op_release(&kept);
}

/* Tasks are the same for all tenants: a tenant must not change the policies of others. */
static void put_tasks(struct rest_call *call)
{
    struct declare_op *op = NULL;
    struct redrive_err err = {0};
    if (!str_is(call->principal.tenant, ENGINE_TENANT_DEFAULT)) {
        kit_refuse_as(call, 403, REDRIVE_E_DENIED, "tasks are declared for all tenants",
                      "use a token without a tenant, or declare them in the configuration");
        return;
    }
    op = kit_alloc(call, sizeof *op);
    if (!op)
        return;
    if (declare_op_init(op, committer_engine(call->rest->committer), http_body(call->request),
                        &err) == 0) {
        rest_commit(call, &op->op, were_declared);
        return;
    }
    declare_op_release(op);
    kit_fail(call, &err, NULL);
}

const struct rest_route REST_TASKS[] = {
    {HTTP_GET, "/tasks", CONFIG_SCOPE_READ, true, get_tasks},
    {HTTP_PUT, "/tasks", CONFIG_SCOPE_ADMIN, true, put_tasks},
    {HTTP_GET, "/tasks/{task}", CONFIG_SCOPE_READ, true, get_task},
    {.operation = &API_CRON},
    {.operation = &API_CRON_DECLARE},
    {.operation = &API_CRON_PUT},
    {.operation = &API_CRON_REMOVE},
    {.operation = &API_CRON_RUN},
    {0},
};
