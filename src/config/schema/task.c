/* task.c - the keys of `tasks`: run, limits, leases. */
#include "config/schema/task.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "config/schema/bind.h"
#include "config/schema/http.h"
#include "config/schema/retry.h"
#include "config/schema/types.h"

#define DEFAULT_QUEUE       "default"
#define DEFAULT_LEASE_MS    (30 * 1000)
#define DEFAULT_TIMEOUT_MS  (5 * 60 * 1000)
#define DEFAULT_CONCURRENCY 4
#define DEFAULT_KILL_MS     (5 * 1000)
#define DEFAULT_CONNECT_MS  (10 * 1000)
#define MAX_CONCURRENCY     100000

/* ---- run ------------------------------------------------------------------------------------- */

/* Durations and flags that belong to one kind of run only: what is not set is not written, so that
 * what is written can be read again. */
static void bind_span(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    TYPE_DURATION.bind(b, field, node, member);
}

static void write_span(const struct field *field, const void *member, struct json_writer *w)
{
    if (*(const int64_t *)member != 0)
        TYPE_DURATION.write(field, member, w);
}

static const char *expects_span(const struct field *field, char out[EXPECTS_MAX])
{
    return TYPE_DURATION.expects(field, out);
}

static const struct field_type TYPE_SPAN = {FIELD_SCALAR, bind_span, write_span, expects_span};

static void bind_flag(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    TYPE_BOOL.bind(b, field, node, member);
}

static void write_flag(const struct field *field, const void *member, struct json_writer *w)
{
    if (*(const bool *)member)
        TYPE_BOOL.write(field, member, w);
}

static const char *expects_flag(const struct field *field, char out[EXPECTS_MAX])
{
    return TYPE_BOOL.expects(field, out);
}

static const struct field_type TYPE_FLAG = {FIELD_SCALAR, bind_flag, write_flag, expects_flag};

#define AT(member) .offset = offsetof(struct config_run, member)

static const struct field RUN_FIELDS[] = {
    {.name = "exec",
     .type = &TYPE_STRINGS,
     AT(exec),
     .help = "program and arguments, a process for each job; no shell"},
    {.name = "stream",
     .type = &TYPE_STRINGS,
     AT(stream),
     .help = "program and arguments of long-lived processes: a JSON line in, a JSON line out"},
    {.name = "http",
     .type = &TYPE_HTTP,
     AT(http),
     .secret = true,
     .help = "where the payload is POSTed to"},
    {.name = "processes",
     .type = &TYPE_COUNT,
     AT(processes),
     .min = 1,
     .max = 1024,
     .default_text = "1",
     .help = "stream: how many processes"},
    {.name = "in_flight",
     .type = &TYPE_COUNT,
     AT(in_flight),
     .min = 1,
     .max = 10000,
     .default_text = "1",
     .help = "stream: jobs that each process has at one time"},
    {.name = "concurrency",
     .type = &TYPE_COUNT,
     AT(concurrency),
     .min = 1,
     .max = MAX_CONCURRENCY,
     .default_text = "4; stream: `processes` times `in_flight`",
     .help = "jobs that run at one time"},
    {.name = "timeout",
     .type = &TYPE_DURATION,
     AT(timeout_ms),
     .default_text = "5m",
     .help = "a run is ended after this time; 0: never"},
    {.name = "kill_grace",
     .type = &TYPE_SPAN,
     AT(kill_grace_ms),
     .min = 1,
     .max = 3600e3,
     .default_text = "5s",
     .help = "exec, stream: from SIGTERM to SIGKILL"},
    {.name = "pass_env",
     .type = &TYPE_STRINGS,
     AT(pass_env),
     .help = "exec, stream: environment variables that the program is given besides the usual"},
    {.name = "allow_private",
     .type = &TYPE_FLAG,
     AT(allow_private),
     .default_text = "false",
     .help = "http: a host made of placeholders may have a private address"},
    {.name = "connect_timeout",
     .type = &TYPE_SPAN,
     AT(connect_timeout_ms),
     .min = 1,
     .max = 3600e3,
     .default_text = "10s",
     .help = "http: how long to wait for a connection"},
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

    if (given != 1 && map->n_children > 0) {
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

static const struct field_type TYPE_RUN = {FIELD_NESTED, type_table_bind, write_run,
                                           type_table_expects};

/* ---- limits ---------------------------------------------------------------------------------- */

static void bind_rate(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    struct rate rate;
    struct redrive_err why;
    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
    } else if (rate_parse(node->text, &rate, &why) < 0) {
        struct redrive_err *err = bind_expected(b, field, node);
        if (*why.hint)
            err_hint(err, "%s", why.hint);
    } else {
        *(struct rate *)member = rate;
    }
}

static void write_rate(const struct field *field, const void *member, struct json_writer *w)
{
    const struct rate *rate = member;
    char text[32];
    if (rate->count == 0)
        return;
    snprintf(text, sizeof text, "%u/%s", (unsigned)rate->count, rate_unit(rate));
    json_field_cstr(w, field->name, text);
}

static const char *expects_rate(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "a rate such as 10/s, 60/min, 1000/h or 5000/d";
}

static const struct field_type TYPE_RATE = {FIELD_SCALAR, bind_rate, write_rate, expects_rate};

static const char *const PER[] = {"task", "user", "project", "key", NULL};

#undef AT
#define AT(member) .offset = offsetof(struct config_limits, member)

static const struct field LIMITS_FIELDS[] = {
    {.name = "rate", .type = &TYPE_RATE, AT(rate), .first = true, .help = "starts over time"},
    {.name = "burst",
     .type = &TYPE_COUNT,
     AT(rate.burst),
     .min = 1,
     .max = RATE_MAX_COUNT,
     .default_text = "the number of `rate`",
     .help = "starts that can be saved up"},
    {.name = "concurrency",
     .type = &TYPE_COUNT,
     AT(concurrency),
     .min = 1,
     .max = 1e6,
     .help = "jobs that run at one time, over all processes; not set: no limit"},
    {.name = "per",
     .type = &TYPE_WORD,
     AT(per),
     .words = PER,
     .default_text = "task",
     .help = "what each limit is counted for"},
    {.name = "key",
     .type = &TYPE_TEMPLATE,
     AT(key),
     .help = "with `per: key`: jobs with the same key share the limits"},
};

static void finish_limits(struct binder *b, const struct node *map, void *object)
{
    const struct config_limits *limits = object;
    const struct node *key = node_find(map, STR("key"));
    const struct node *burst = node_find(map, STR("burst"));

    if (limits->per == CONFIG_PER_KEY && !key)
        err_hint(bind_error(b, map, "'per: key' needs a key"), "add key: \"{payload.NAME}\"");
    if (limits->per != CONFIG_PER_KEY && key)
        err_hint(bind_error(b, key, "is not used"), "add per: key");
    if (burst && limits->rate.count == 0)
        err_hint(bind_error(b, burst, "is not used"), "add a rate");
}

const struct table TABLE_LIMITS = {.name = "limits",
                                   FIELDS(LIMITS_FIELDS),
                                   .size = sizeof(struct config_limits),
                                   .finish = finish_limits};

/* ---- tasks ----------------------------------------------------------------------------------- */

static const char *const PAYLOADS[] = {"optional", "required", NULL};

#undef AT
#define AT(member) .offset = offsetof(struct config_task, member)

static const struct field TASK_FIELDS[] = {
    {.name = "queue",
     .type = &TYPE_QUEUE,
     AT(queue),
     .default_text = DEFAULT_QUEUE,
     .help = "where its jobs wait"},
    {.name = "client_retries",
     .type = &TYPE_BOOL,
     AT(client_retries),
     .default_text = "true",
     .help = "whether the `retry` that a Faktory client gives with a job counts"},
    {.name = "payload",
     .type = &TYPE_WORD,
     AT(payload),
     .words = PAYLOADS,
     .default_text = "optional",
     .help = "whether a job without a payload is refused"},
    {.name = "run",
     .type = &TYPE_RUN,
     AT(run),
     .table = &TABLE_RUN,
     .help = "how a job is carried out; not set: by remote workers"},
    {.name = "retry",
     .type = &TYPE_TABLE,
     AT(retry),
     .table = &TABLE_RETRY,
     .help = "what differs from `defaults.retry`"},
    {.name = "on",
     .type = &TYPE_CLASS_RULES,
     AT(retry),
     .help = "what differs for a failure class"},
    {.name = "breaker",
     .type = &TYPE_TABLE,
     AT(breaker),
     .table = &TABLE_BREAKER,
     .help = "what differs from `defaults.breaker`"},
    {.name = "limits",
     .type = &TYPE_TABLE,
     AT(limits),
     .table = &TABLE_LIMITS,
     .help = "how much of it may run"},
    {.name = "lease",
     .type = &TYPE_DURATION,
     AT(lease_ms),
     .min = 1000,
     .max = 7 * 24 * 3600e3,
     .default_text = "30s",
     .help = "a worker that does not report for this long loses the job"},
    {.name = "heartbeat",
     .type = &TYPE_DURATION,
     AT(heartbeat_ms),
     .min = 100,
     .max = 24 * 3600e3,
     .default_text = "a third of `lease`",
     .help = "how often a worker extends its lease"},
};

void task_init(struct binder *b, void *object)
{
    struct config_task *task = object;
    *task = (struct config_task){
        .name = "",
        .queue = DEFAULT_QUEUE,
        .run = {.timeout_ms = DEFAULT_TIMEOUT_MS, .concurrency = 0},
        .retry = b->config->defaults.retry,
        .breaker = b->config->defaults.breaker,
        .client_retries = true,
        .lease_ms = DEFAULT_LEASE_MS,
    };
    /* They are made anew from the backoff that this task will have. */
    memset(task->retry.on, 0, sizeof task->retry.on);
}

static void finish_task(struct binder *b, const struct node *map, void *object)
{
    struct config_task *task = object;

    policy_bind_rules(b, b->default_rules, node_find(map, STR("on")), &task->retry);
    if (task->heartbeat_ms == 0) {
        task->heartbeat_ms = task->lease_ms / 3;
    } else if (task->heartbeat_ms >= task->lease_ms) {
        struct redrive_err *err =
            bind_error(b, node_find(map, STR("heartbeat")), "is not shorter than the lease");
        err_hint(err, "a third of the lease leaves time for two lost heartbeats");
    }
}

const struct table TABLE_TASK = {.name = "tasks",
                                 FIELDS(TASK_FIELDS),
                                 .size = sizeof(struct config_task),
                                 .init = task_init,
                                 .finish = finish_task};
