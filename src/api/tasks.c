/* tasks.c - tasks: how each is configured, what its policy does, its jobs; declares them. */
#include <stdio.h>

#include "api/api.h"
#include "base/err.h"
#include "core/check.h"
#include "core/explain.h"
#include "core/vocabulary.h"
#include "engine/engine.h"
#include "engine/report/stats.h"
#include "engine/rows.h"
#include "fields/query.h"
#include "store/job_json.h"

/* Of tasks that are not declared, at most so many are listed: a client that may submit jobs can
 * make any number of them. */
#define UNDECLARED_MAX 500
/* Of tasks that processes have published; nothing removes them from a store. */
#define PUBLISHED_MAX 2000

/* Retries of a schedule that are listed; a policy may allow a hundred thousand. */
#define ROWS_IN_LIST 20
#define ROWS_OF_ONE  200

/* ---- Definitions ----------------------------------------------------------------------------- */

static bool is_configured(const struct config *config, struct str name)
{
    return config_task(config, name)->name[0] != '\0';
}

static int read_published(const struct api_context *c, struct shared_page *ret,
                          struct redrive_err *err)
{
    return store_ops(c->store)->shared_list(c->store, SHARED_TASK, STR(ENGINE_TENANT_DEFAULT), ret,
                                            err);
}

/* The definition that is in force, of a task whose row is `published` (NULL: it has none).
 * `ret_box` holds a published one, for the caller to free. A row that cannot be read was written by
 * a version that knows more: the defaults hold then. */
static int find_definition(const struct api_context *c, struct str name,
                           const struct shared_row *published, struct config_part **ret_box,
                           const struct config_task **ret, struct redrive_err *err)
{
    *ret = config_task(c->config, name);
    if (!published || is_configured(c->config, name))
        return 0;
    const int rc = task_parse_json(name, published->value, ret_box, NULL);
    if (rc == 0)
        *ret = &(*ret_box)->task;
    return rc == REDRIVE_E_NOMEM ? err_nomem(err) : 0;
}

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

/* ---- All of them ----------------------------------------------------------------------------- */

/* What the list is made of. */
struct task_list {
    const struct api_context *context;
    struct shared_page published;
    struct stats stats;
};

static int write_task(struct json_writer *w, const struct task_list *list, struct str name,
                      const struct shared_row *published, struct redrive_err *err)
{
    const struct api_context *c = list->context;
    const struct config_task *task;
    struct config_part *box = NULL;
    int rc = find_definition(c, name, published, &box, &task, err);
    if (rc < 0)
        return rc;
    json_begin_object(w);
    json_field_string(w, "task", name);
    write_definition(w, task);
    write_figures(w, sizes_of(&list->stats, name), counters_of(&list->stats, name));
    json_key(w, "run_time");
    if (c->write_run_time)
        c->write_run_time(c->run_times, c->tenant, name, w);
    else
        json_put_null(w);
    write_schedule(w, task, REDRIVE_CLASS_TRANSIENT, ROWS_IN_LIST);
    json_end_object(w);
    config_part_free(box);
    return 0;
}

static int write_published(struct json_writer *w, const struct task_list *list,
                           struct redrive_err *err)
{
    const struct shared_page *page = &list->published;
    int rc = 0;
    for (size_t i = 0, n = 0; i < page->n && n < PUBLISHED_MAX && rc == 0; i++) {
        if (is_configured(list->context->config, page->rows[i].key))
            continue;
        rc = write_task(w, list, page->rows[i].key, &page->rows[i], err);
        n++;
    }
    return rc;
}

/* A task without a counter has never had a job. */
static int write_undeclared(struct json_writer *w, const struct task_list *list,
                            struct redrive_err *err)
{
    const struct stats_rows *rows = &list->stats.by[STATS_TASK];
    int rc = 0;
    for (size_t i = 0, n = 0; i < rows->n && n < UNDECLARED_MAX && rc == 0; i++) {
        const struct str name = rows->rows[i].name;
        if (is_configured(list->context->config, name) || shared_row_find(&list->published, name))
            continue;
        rc = write_task(w, list, name, NULL, err);
        n++;
    }
    return rc;
}

/* Those of the configuration in its order, then those that processes have published, then others
 * that have or had jobs. */
static int read_tasks(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    struct task_list list = {.context = c};
    int rc = read_published(c, &list.published, err);
    if (rc == 0)
        rc = stats_read_all(c->store, c->tenant, &c->config->health, c->now_ms, &list.stats, err);
    if (rc == 0)
        api_begin_items(w);
    for (size_t i = 0; i < c->config->n_tasks && rc == 0; i++)
        rc = write_task(w, &list, str_of(c->config->tasks[i].name), NULL, err);
    if (rc == 0)
        rc = write_published(w, &list, err);
    if (rc == 0)
        rc = write_undeclared(w, &list, err);
    if (rc == 0)
        api_end_items(w, NULL);
    stats_release(&list.stats);
    shared_page_release(&list.published);
    return rc;
}

/* ---- One task -------------------------------------------------------------------------------- */

struct class_query {
    struct field_reader reader;
    uint64_t given;
    int rc;
    int class_;
};

static const struct field CLASS_FIELDS[] = {
    {"class", &FIELD_TERM, offsetof(struct class_query, class_), .vocabulary = VOCABULARY_CLASS,
     .skip = 1, .default_text = "transient"},
    {0},
};

static bool take_class(struct str name, struct str value, void *ctx)
{
    struct class_query *query = ctx;
    if (str_is(name, "class"))
        query->rc =
            fields_query_add(&query->reader, CLASS_FIELDS, name, value, query, &query->given);
    return query->rc == 0;
}

/* Checks the name, and reads as what every attempt fails. */
static int read_question(const struct api_context *c, int *ret_class, struct redrive_err *err)
{
    struct class_query query = {.class_ = REDRIVE_CLASS_TRANSIENT};
    fields_query_open(&query.reader, 0, c->arena, c->now_ms, err);
    query.rc = name_check("task", c->name, err);
    if (query.rc < 0)
        (void)str_copy(query.reader.place, sizeof query.reader.place, STR("task"));
    else
        api_each(c, take_class, &query);
    *ret_class = query.class_;
    return api_note_fault(c, query.rc, query.reader.place);
}

/* Without statistics, which cost more. */
static int read_task(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page published = {0};
    const struct config_task *task;
    struct config_part *box = NULL;
    int class_;
    int rc = read_question(c, &class_, err);
    if (rc == 0)
        rc = read_published(c, &published, err);
    if (rc == 0)
        rc = find_definition(c, c->name, shared_row_find(&published, c->name), &box, &task, err);
    if (rc != 0)
        return rc;
    json_begin_object(w);
    json_field_string(w, "task", c->name);
    job_write_time(w, "at", c->now_ms);
    write_definition(w, task);
    json_field_cstr(w, "breaker", task->breaker.key);
    write_schedule(w, task, (enum redrive_class)class_, ROWS_OF_ONE);
    json_end_object(w);
    config_part_free(box);
    return 0;
}

/* ---- Declaring ------------------------------------------------------------------------------- */

/* Tasks are the same for all tenants: a tenant must not change the policies of others. */
static int begin_declare(const struct api_context *c, struct api_change *change,
                         struct redrive_err *err)
{
    change->declare = (struct declare_op){0};
    if (c->tenant.ptr && !str_is(c->tenant, ENGINE_TENANT_DEFAULT)) {
        (void)err_set(err, REDRIVE_E_DENIED, "tasks are declared for all tenants");
        err_hint(err, "use a token without a tenant, or declare them in the configuration");
        return REDRIVE_E_DENIED;
    }
    return declare_op_init(&change->declare, c->engine, api_body(c), err);
}

static int end_declare(struct api_change *change, struct json_writer *w, const char **ret_field,
                       struct redrive_err *err)
{
    const struct declare_op *op = &change->declare;
    if (op->op.code < 0)
        return api_refuse_op(&op->op, NULL, ret_field, err);
    json_begin_object(w);
    json_field_int(w, "declared", (int64_t)op->n);
    json_field_int(w, "changed", (int64_t)op->n_changed);
    json_end_object(w);
    return API_ANSWERED;
}

static void release_declare(struct api_change *change)
{
    declare_op_release(&change->declare);
}

#define TASKS "/tasks"

const struct operation API_TASKS = {
    .path = TASKS,
    .summary = "Tasks: configuration, statistics, and what their retry policies will do",
    .scope = CONFIG_SCOPE_READ,
    .read = read_tasks};
const struct operation API_TASK = {
    .path = TASKS "/{task}",
    .summary = "How a task is configured, and what its retry policy will do",
    .scope = CONFIG_SCOPE_READ,
    .read = read_task,
    .parameters = {CLASS_FIELDS, 0}};
const struct operation API_TASKS_DECLARE = {.method = API_PUT,
                                            .path = TASKS,
                                            .summary =
                                                "Declare tasks for all processes on the store, as "
                                                "an application's workers do when they start",
                                            .scope = CONFIG_SCOPE_ADMIN,
                                            .begin = begin_declare,
                                            .begin_waits = true,
                                            .end = end_declare,
                                            .release = release_declare};
