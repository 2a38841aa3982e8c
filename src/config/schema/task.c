/* task.c - the keys of `tasks`: run, limits, retry budgets, leases; a task by its name. */
#include "config/schema/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

#define DEFAULT_QUEUE       "default"
#define DEFAULT_LEASE_MS    (30 * 1000)
#define DEFAULT_TIMEOUT_MS  (5 * 60 * 1000)
#define DEFAULT_CONCURRENCY 4
#define DEFAULT_KILL_MS     (5 * 1000)
#define DEFAULT_CONNECT_MS  (10 * 1000)
#define MAX_CONCURRENCY     100000

/* ---- run ------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct config_run, member)

/* What belongs to one kind of run only is sparse, so that what is written can be read again. */
static const struct field RUN_FIELDS[] = {
    ROW("exec", TYPE_STRINGS, AT(exec), "program and arguments, a process for each job; no shell"),
    ROW("stream", TYPE_STRINGS, AT(stream),
        "program and arguments of long-lived processes: a JSON line in, a JSON line out"),
    ROW("http", TYPE_HTTP, AT(http), "where the payload is POSTed to", .secret = true),
    ROW("processes", FIELD_UINT, AT(processes), "stream: how many processes", RANGE(1, 1024),
        DEFAULT("1"), .sparse = true),
    ROW("in_flight", FIELD_UINT, AT(in_flight), "stream: jobs that each process has at one time",
        RANGE(1, 10000), DEFAULT("1"), .sparse = true),
    ROW("concurrency", FIELD_UINT, AT(concurrency), "jobs that run at one time",
        RANGE(1, MAX_CONCURRENCY), DEFAULT("4; stream: `processes` times `in_flight`"),
        .sparse = true),
    ROW("timeout", FIELD_SPAN, AT(timeout_ms), "a run is ended after this time; 0: never",
        DEFAULT("5m")),
    ROW("kill_grace", FIELD_SPAN, AT(kill_grace_ms), "exec, stream: from SIGTERM to SIGKILL",
        RANGE(1, 3600e3), DEFAULT("5s"), .sparse = true),
    ROW("pass_env", TYPE_STRINGS, AT(pass_env),
        "exec, stream: environment variables that the program is given besides the usual"),
    ROW("allow_private", FIELD_BOOL, AT(allow_private),
        "http: a host made of placeholders may have a private address", DEFAULT("false"),
        .sparse = true),
    ROW("connect_timeout", FIELD_SPAN, AT(connect_timeout_ms),
        "http: how long to wait for a connection", RANGE(1, 3600e3), DEFAULT("10s"),
        .sparse = true),
};

enum {
    IS_EXEC = 1 << CONFIG_RUN_EXEC,
    IS_STREAM = 1 << CONFIG_RUN_STREAM,
    IS_HTTP = 1 << CONFIG_RUN_HTTP,
};

/* Keys that belong to some kinds of run only. */
static const struct {
    const char *name;
    unsigned kinds;
    const char *problem;
    const char *detail;
} KIND_KEYS[] = {
    {"processes", IS_STREAM, "only a stream has processes",
     "jobs of exec and http run side by side by concurrency"},
    {"in_flight", IS_STREAM, "only a stream has jobs in flight",
     "jobs of exec and http run side by side by concurrency"},
    {"kill_grace", IS_EXEC | IS_STREAM, "only a program can be killed",
     "a request is ended at once"},
    {"pass_env", IS_EXEC | IS_STREAM, "only a program has an environment", NULL},
    {"allow_private", IS_HTTP, "only http has addresses", NULL},
    {"connect_timeout", IS_HTTP, "only http has connections", NULL},
};

static void check_kind_keys(struct binder *b, const struct node *map, enum config_run_kind kind)
{
    for (size_t i = 0; i < sizeof KIND_KEYS / sizeof KIND_KEYS[0]; i++) {
        const struct node *key = node_find(map, str_of(KIND_KEYS[i].name));
        if (!key || (KIND_KEYS[i].kinds & 1u << kind))
            continue;
        struct redrive_err *err = bind_error(b, key, "%s", KIND_KEYS[i].problem);
        if (KIND_KEYS[i].detail)
            err_detail(err, "%s", KIND_KEYS[i].detail);
    }
}

static void check_pass_env(struct binder *b, const struct node *names)
{
    if (!names)
        return;
    NODE_FOREACH (names, name) {
        if (name->text.len > 0 && !memchr(name->text.ptr, '=', name->text.len))
            continue;
        err_hint(bind_error(b, name, "is not the name of a variable"),
                 "names only: values are taken from the environment of the worker");
    }
}

static void complete_run(struct config_run *run)
{
    if (run->kind == CONFIG_RUN_STREAM) {
        run->processes = run->processes ? run->processes : 1;
        run->in_flight = run->in_flight ? run->in_flight : 1;
    }
    if ((run->kind == CONFIG_RUN_EXEC || run->kind == CONFIG_RUN_STREAM) && run->kill_grace_ms == 0)
        run->kill_grace_ms = DEFAULT_KILL_MS;
    if (run->kind == CONFIG_RUN_HTTP && run->connect_timeout_ms == 0)
        run->connect_timeout_ms = DEFAULT_CONNECT_MS;
    if (run->concurrency != 0)
        return;
    run->concurrency = DEFAULT_CONCURRENCY;
    if (run->kind == CONFIG_RUN_STREAM)
        run->concurrency = run->processes * run->in_flight;
    if (run->concurrency > MAX_CONCURRENCY)
        run->concurrency = MAX_CONCURRENCY;
}

static void finish_run(struct binder *b, const struct node *map, void *object)
{
    struct config_run *run = object;
    const struct node *exec = node_find(map, STR("exec"));
    const struct node *stream = node_find(map, STR("stream"));
    const struct node *http = node_find(map, STR("http"));
    int given = !!exec + !!stream + !!http;

    if (given != 1 && map->type == NODE_MAP) {
        struct redrive_err *err = bind_error(
            b, map, given ? "says in several ways how to run" : "does not say what to run");
        err_detail(err, "expected one of exec, stream and http");
    }
    run->kind = exec     ? CONFIG_RUN_EXEC
                : stream ? CONFIG_RUN_STREAM
                : http   ? CONFIG_RUN_HTTP
                         : CONFIG_RUN_NONE;
    check_kind_keys(b, map, run->kind);
    check_pass_env(b, node_find(map, STR("pass_env")));
    complete_run(run);
}

const struct table TABLE_RUN = {
    .name = "run", FIELDS(RUN_FIELDS), .size = sizeof(struct config_run), .finish = finish_run};

static void write_run(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_run *run = member;
    if (run->kind != CONFIG_RUN_NONE)
        type_table_write(field, member, w);
}

static const struct field_kind TYPE_RUN = {
    .form = FORM_NESTED, .bind = type_table_bind, .write = write_run, .expects = "a map"};

/* ---- retry_budget ---------------------------------------------------------------------------- */

#undef AT
#define AT(member) offsetof(struct budget_config, member)

/* They are written by write_budget: which of them depends on how the budget is reckoned. */
static const struct field BUDGET_FIELDS[] = {
    ROW("ratio", FIELD_DOUBLE, AT(ratio), "retries that are allowed for each first attempt",
        DOUBLE_RANGE(0, 1), DEFAULT("0.1")),
    ROW("window", FIELD_SPAN, AT(window_ms), "the time over which both are counted",
        RANGE(BUDGET_WINDOW_LEAST_MS, BUDGET_WINDOW_MOST_MS), DEFAULT("10s")),
    ROW("min_per_second", FIELD_DOUBLE, AT(min_per_second),
        "retries a second that are allowed besides, so that none waits for ever",
        DOUBLE_RANGE(BUDGET_LEAST_PER_SECOND, BUDGET_MOST), DEFAULT("1")),
    ROW("max_tokens", FIELD_DOUBLE, AT(max_tokens),
        "in place of `ratio`, tokens as gRPC has them: a failure takes one, and retries start "
        "while there are more than half",
        DOUBLE_RANGE(1, BUDGET_MOST)),
    ROW("token_ratio", FIELD_DOUBLE, AT(token_ratio), "tokens that a success gives back",
        DOUBLE_RANGE(0, BUDGET_MOST), DEFAULT("0.1")),
};

/* By share or by tokens: a key of the one says nothing to the other. */
static void finish_budget(struct binder *b, const struct node *map, void *object)
{
    static const char *const BY_SHARE[] = {"ratio", "window"};
    struct budget_config *budget = object;
    const struct node *tokens = node_find(map, STR("max_tokens"));
    const struct node *token_ratio = node_find(map, STR("token_ratio"));
    if (!tokens) {
        if (token_ratio)
            err_hint(bind_error(b, token_ratio, "is not used"), "add max_tokens");
        budget->token_ratio = 0;
        return;
    }
    for (size_t i = 0; i < sizeof BY_SHARE / sizeof BY_SHARE[0]; i++) {
        const struct node *key = node_find(map, str_of(BY_SHARE[i]));
        if (key)
            err_hint(bind_error(b, key, "is not used"),
                     "with max_tokens, retries are not a share of first attempts");
    }
    budget->ratio = 0;
    budget->window_ms = 0;
}

const struct table TABLE_RETRY_BUDGET = {.name = "retry_budget",
                                         FIELDS(BUDGET_FIELDS),
                                         .size = sizeof(struct budget_config),
                                         .finish = finish_budget};

/* `{}` is the usual one; null is none. */
static void bind_budget(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    struct budget_config *budget = member;
    if (node_is_null(node))
        return;
    *budget = (struct budget_config){
        .ratio = BUDGET_RATIO,
        .window_ms = BUDGET_WINDOW_MS,
        .min_per_second = BUDGET_MIN_PER_SECOND,
        .token_ratio = BUDGET_TOKEN_RATIO,
    };
    type_table_bind(b, field, node, member);
}

static void write_budget(const struct field *field, const void *member, struct json_writer *w)
{
    const struct budget_config *budget = member;
    if (!budget_is_set(budget))
        return;
    json_open_object(w, field->name);
    for (size_t i = 0; i < field->table->n_fields; i++) {
        const struct field *row = &field->table->fields[i];
        const bool is_of_tokens = row->offset == AT(max_tokens) || row->offset == AT(token_ratio);
        if (row->offset == AT(min_per_second) || is_of_tokens == (budget->max_tokens > 0))
            row->kind->write(row, (const char *)member + row->offset, w);
    }
    json_end_object(w);
}

static const struct field_kind TYPE_BUDGET = {
    .form = FORM_NESTED, .bind = bind_budget, .write = write_budget, .expects = "a map"};

/* ---- concurrency ----------------------------------------------------------------------------- */

static void bind_concurrency(struct binder *b, const struct field *field, const struct node *node,
                             void *member)
{
    int32_t fixed = 0;
    if (str_is(node->text, "adaptive")) {
        *(uint32_t *)member = CONFIG_ADAPTIVE;
        return;
    }
    bind_as(b, field, &FIELD_UINT, node, &fixed);
    if (fixed > 0)
        *(uint32_t *)member = (uint32_t)fixed;
}

static void write_concurrency(const struct field *field, const void *member, struct json_writer *w)
{
    const uint32_t concurrency = *(const uint32_t *)member;
    if (concurrency == CONFIG_ADAPTIVE)
        json_field_cstr(w, field->name, "adaptive");
    else if (concurrency > 0)
        json_field_int(w, field->name, concurrency);
}

static const struct field_kind TYPE_CONCURRENCY = {
    .form = FORM_SCALAR,
    .bind = bind_concurrency,
    .write = write_concurrency,
    .expects = "a whole number from 1 to 1000000, or adaptive"};

/* ---- limits ---------------------------------------------------------------------------------- */

static const char *const PER[] = {"task", "user", "project", "key", NULL};

#undef AT
#define AT(member) offsetof(struct config_limits, member)

static const struct field LIMITS_FIELDS[] = {
    ROW("rate", FIELD_RATE, AT(rate), "starts over time", .first = true),
    ROW("burst", FIELD_UINT, AT(rate.burst), "starts that can be saved up",
        RANGE(1, RATE_MAX_COUNT), DEFAULT("the number of `rate`"), .sparse = true),
    ROW("concurrency", TYPE_CONCURRENCY, AT(concurrency),
        "jobs that run at one time, over all processes; `adaptive`: as many as the service can "
        "take; not set: no limit",
        RANGE(1, ADAPTIVE_MOST)),
    ROW("min_concurrency", FIELD_UINT, AT(adaptive.floor),
        "with `concurrency: adaptive`: at least so many", RANGE(1, ADAPTIVE_MOST), DEFAULT("1"),
        .sparse = true),
    ROW("max_concurrency", FIELD_UINT, AT(adaptive.ceiling),
        "with `concurrency: adaptive`: at most so many", RANGE(1, ADAPTIVE_MOST), DEFAULT("1000"),
        .sparse = true),
    ROW("per", FIELD_WORD, AT(per), "what each limit is counted for", .words = PER,
        DEFAULT("task")),
    ROW("key", TYPE_TEMPLATE, AT(key), "with `per: key`: jobs with the same key share the limits"),
    ROW("retry_budget", TYPE_BUDGET, AT(budget),
        "how many retries there may be beside first attempts", .table = &TABLE_RETRY_BUDGET),
};

static void finish_adaptive(struct binder *b, const struct node *map, struct config_limits *limits)
{
    static const char *const BOUNDS[] = {"min_concurrency", "max_concurrency"};
    struct adaptive_config *adaptive = &limits->adaptive;
    for (size_t i = 0; i < 2 && limits->concurrency != CONFIG_ADAPTIVE; i++) {
        const struct node *bound = node_find(map, str_of(BOUNDS[i]));
        if (bound)
            err_hint(bind_error(b, bound, "is not used"), "add concurrency: adaptive");
    }
    if (limits->concurrency != CONFIG_ADAPTIVE) {
        *adaptive = (struct adaptive_config){0};
        return;
    }
    if (adaptive->floor == 0)
        adaptive->floor = ADAPTIVE_FLOOR;
    if (adaptive->ceiling == 0)
        adaptive->ceiling = adaptive->floor > ADAPTIVE_CEILING ? adaptive->floor : ADAPTIVE_CEILING;
    if (adaptive->floor > adaptive->ceiling)
        err_hint(bind_error(b, node_find(map, STR("min_concurrency")), "is above max_concurrency"),
                 "at least %u and at most %u: swap them, or leave one out",
                 (unsigned)adaptive->floor, (unsigned)adaptive->ceiling);
}

static void finish_limits(struct binder *b, const struct node *map, void *object)
{
    struct config_limits *limits = object;
    const struct node *key = node_find(map, STR("key"));
    const struct node *burst = node_find(map, STR("burst"));

    if (limits->per == CONFIG_PER_KEY && !key)
        err_hint(bind_error(b, map, "'per: key' needs a key"), "add key: \"{payload.NAME}\"");
    if (limits->per != CONFIG_PER_KEY && key)
        err_hint(bind_error(b, key, "is not used"), "add per: key");
    if (burst && limits->rate.count == 0)
        err_hint(bind_error(b, burst, "is not used"), "add a rate");
    finish_adaptive(b, map, limits);
}

const struct table TABLE_LIMITS = {.name = "limits",
                                   FIELDS(LIMITS_FIELDS),
                                   .size = sizeof(struct config_limits),
                                   .finish = finish_limits};

/* ---- tasks ----------------------------------------------------------------------------------- */

static const char *const PAYLOADS[] = {"optional", "required", NULL};

#undef AT
#define AT(member) offsetof(struct config_task, member)

static const struct field TASK_FIELDS[] = {
    ROW("queue", TYPE_QUEUE, AT(queue), "where its jobs wait", DEFAULT(DEFAULT_QUEUE)),
    ROW("client_retries", FIELD_BOOL, AT(client_retries),
        "whether the `retry` that a Faktory client gives with a job counts", DEFAULT("true")),
    ROW("payload", FIELD_WORD, AT(payload), "whether a job without a payload is refused",
        .words = PAYLOADS, DEFAULT("optional")),
    ROW("run", TYPE_RUN, AT(run), "how a job is carried out; not set: by remote workers",
        .table = &TABLE_RUN),
    ROW("retry", TYPE_TABLE, AT(retry), "what differs from `defaults.retry`",
        .table = &TABLE_RETRY),
    ROW("on", TYPE_CLASS_RULES, AT(retry), "what differs for a failure class"),
    ROW("breaker", TYPE_TABLE, AT(breaker), "what differs from `defaults.breaker`",
        .table = &TABLE_BREAKER),
    ROW("limits", TYPE_TABLE, AT(limits), "how much of it may run", .table = &TABLE_LIMITS),
    ROW("lease", FIELD_SPAN, AT(lease_ms),
        "a worker that does not report for this long loses the job", RANGE(1000, 7 * 24 * 3600e3),
        DEFAULT("30s")),
    ROW("heartbeat", FIELD_SPAN, AT(heartbeat_ms), "how often a worker extends its lease",
        RANGE(100, 24 * 3600e3), DEFAULT("a third of `lease`")),
    ROW("experiment", TYPE_PUBLISHED_EXPERIMENT, AT(experiment), "the arms of its new jobs"),
};
#define N_IN_FILE (sizeof TASK_FIELDS / sizeof TASK_FIELDS[0] - 1)

void task_init_built_in(struct config_task *task)
{
    *task = (struct config_task){
        .name = "",
        .queue = DEFAULT_QUEUE,
        .client_retries = true,
        .lease_ms = DEFAULT_LEASE_MS,
    };
    policy_init_queue(&task->retry);
    breaker_init_built_in(&task->breaker);
}

void task_init(struct binder *b, void *object)
{
    struct config_task *task = object;
    task_init_built_in(task);
    task->run.timeout_ms = DEFAULT_TIMEOUT_MS;
    task->retry = b->config->defaults.retry;
    task->breaker = b->config->defaults.breaker;
    /* They are made anew from the backoff that this task will have. */
    memset(task->retry.on, 0, sizeof task->retry.on);
}

static void finish_task(struct binder *b, const struct node *map, void *object)
{
    struct config_task *task = object;

    const struct policy_scope own = {node_find(map, STR("retry")), node_find(map, STR("on"))};

    policy_bind_rules(b, &own, &b->defaults, &task->retry, task->retries_from);
    if (task->heartbeat_ms == 0) {
        task->heartbeat_ms = task->lease_ms / 3;
    } else if (task->heartbeat_ms >= task->lease_ms) {
        struct redrive_err *err =
            bind_error(b, node_find(map, STR("heartbeat")), "is not shorter than the lease");
        err_hint(err, "a third of the lease leaves time for two lost heartbeats");
    }
}

const struct table TABLE_TASK = {.name = "tasks",
                                 .fields = TASK_FIELDS,
                                 .n_fields = N_IN_FILE,
                                 .size = sizeof(struct config_task),
                                 .init = task_init,
                                 .finish = finish_task};

const struct table TABLE_TASK_JSON = {
    .name = "task", FIELDS(TASK_FIELDS), .size = sizeof(struct config_task), .finish = finish_task};

/* ---- Asking ---------------------------------------------------------------------------------- */

static int compare_name(const void *key, const void *element)
{
    const struct str *name = key;
    const struct config_task *task = *(const struct config_task *const *)element;
    return str_compare(*name, str_of(task->name));
}

const struct config_task *config_task(const struct config *config, struct str name)
{
    if (!name.ptr || config->n_tasks == 0)
        return &config->undeclared;
    const struct config_task *const *found = bsearch(&name, config->tasks_by_name, config->n_tasks,
                                                     sizeof(struct config_task *), compare_name);
    return found ? *found : &config->undeclared;
}

const char *config_task_nearest(const struct config *config, struct str name)
{
    const char **names = calloc(config->n_tasks + 1, sizeof *names);
    for (size_t i = 0; names && i < config->n_tasks; i++)
        names[i] = config->tasks[i].name;
    const char *nearest = names ? suggest(name, names, config->n_tasks) : NULL;
    free(names);
    return nearest;
}
