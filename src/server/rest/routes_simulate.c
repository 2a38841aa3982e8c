/* routes_simulate.c - experiments with the figures of their arms; and the simulator for a client:
 * several ways of retrying through an outage, or the arms of an experiment.
 *
 * A simulation reads nothing but the configuration, and runs on a reader thread, so that requests
 * of the server's thread do not wait for it. There is one at a time, so that the other readers are
 * free; and its work is bounded by jobs, by events and by virtual time before and while it runs.
 */
#include "server/rest/private.h"

#include <string.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/time/duration.h"
#include "engine/report/experiments.h"
#include "server/rest/body/body.h"
#include "server/rest/body/job_query.h"
#include "server/rest/resource.h"
#include "sim/compare.h"

/* About a second of work, and some ten megabytes. */
#define JOBS_MAX     100000 /* of each strategy */
#define EVENTS_MAX   6000000
#define DURATION_MAX (INT64_C(24) * 3600 * 1000)
#define OUTAGE_MAX   (INT64_C(6) * 3600 * 1000)
#define TEXT_MAX     2000

/* ---- Parameters ------------------------------------------------------------------------------ */

struct simulation {
    struct compare_options options;
    struct str strategies; /* absent: the usual ones */
    struct str task;       /* absent: no configured one, unless `strategies` names it */
    struct str experiment; /* absent: none */
    const char *field;
    struct redrive_err err;
    int rc;
    struct classifier *classifier;
    struct strategy_config parts;
    struct strategy own;
    struct compare_arms arms;
};

enum value_kind {
    SPAN,
    NUMBER,
    WHOLE,
    FLAG,
    TEXT
};

#define INTO(member) offsetof(struct simulation, member)

/* Numbers have the bounds of compare_options_check, or narrower ones. */
static const struct parameter {
    const char *name;
    enum value_kind kind;
    size_t offset;
    int64_t max; /* of spans, in ms, and of whole numbers */
} PARAMETERS[] = {
    {"outage", SPAN, INTO(options.outage_ms), OUTAGE_MAX},
    {"duration", SPAN, INTO(options.duration_ms), DURATION_MAX},
    {"latency", SPAN, INTO(options.latency_ms), DURATION_MAX},
    {"timeout", SPAN, INTO(options.timeout_ms), DURATION_MAX},
    {"rate", NUMBER, INTO(options.jobs_per_s), 0},
    {"capacity", NUMBER, INTO(options.capacity_per_s), 0},
    {"rate_limit", NUMBER, INTO(options.rate_limit_per_s), 0},
    {"error_rate", NUMBER, INTO(options.error_rate), 0},
    {"brownout", NUMBER, INTO(options.brownout), 0},
    {"overload_waits", FLAG, INTO(options.overload_waits), 0},
    {"attempts", WHOLE, INTO(options.attempts), 100},
    {"workers", WHOLE, INTO(options.workers), 100000},
    {"seed", WHOLE, INTO(options.seed), INT64_MAX},
    {"strategies", TEXT, INTO(strategies), 0},
    {"task", TEXT, INTO(task), 0},
    {"experiment", TEXT, INTO(experiment), 0},
};
#define N_PARAMETERS (sizeof PARAMETERS / sizeof PARAMETERS[0])

static int read_span(const struct parameter *p, struct str value, int64_t *ret,
                     struct redrive_err *err)
{
    int64_t ms;
    if (duration_parse(value, &ms, NULL) == 0 && ms <= p->max) {
        *ret = ms;
        return 0;
    }
    (void)err_set(err, REDRIVE_E_INVALID, "%s: it is not a duration of this range", p->name);
    err_detail(err, "expected a duration such as 500ms, 3m or 1h, at most %d min",
               (int)(p->max / 60000));
    return REDRIVE_E_INVALID;
}

static int read_number(const struct parameter *p, struct str value, double *ret,
                       struct redrive_err *err)
{
    RELEASED_BY(json_reader_release) struct json_reader reader;
    json_reader_init(&reader, value, NULL);
    int rc = json_read_double(&reader, ret);
    if (rc == 0)
        rc = json_end(&reader);
    if (rc == 0)
        return 0;
    (void)err_set(err, REDRIVE_E_INVALID, "%s: it is not a number", p->name);
    err_detail(err, "expected a number such as 20 or 0.5");
    return REDRIVE_E_INVALID;
}

static int read_whole(const struct parameter *p, struct str value, void *member,
                      struct redrive_err *err)
{
    int64_t number;
    const bool is_seed = p->max == INT64_MAX;
    const int rc = query_int(p->name, value, is_seed ? 0 : 1, p->max, &number, err);
    if (rc == 0 && is_seed)
        *(uint64_t *)member = (uint64_t)number;
    else if (rc == 0)
        *(uint32_t *)member = (uint32_t)number;
    return rc;
}

static int read_value(const struct parameter *p, struct str value, void *member,
                      struct redrive_err *err)
{
    switch (p->kind) {
    case SPAN: return read_span(p, value, member, err);
    case NUMBER: return read_number(p, value, member, err);
    case WHOLE: return read_whole(p, value, member, err);
    case FLAG: return query_bool(p->name, value, member, err);
    case TEXT: break;
    }
    *(struct str *)member = value;
    return 0;
}

static bool add_param(struct str name, struct str value, void *ctx)
{
    struct simulation *s = ctx;
    const char *names[N_PARAMETERS];
    for (size_t i = 0; i < N_PARAMETERS; i++) {
        const struct parameter *p = &PARAMETERS[i];
        names[i] = p->name;
        if (!str_is(name, p->name))
            continue;
        s->field = p->name;
        s->rc = read_value(p, value, (char *)s + p->offset, &s->err);
        return s->rc == 0;
    }
    s->rc = err_set(&s->err, REDRIVE_E_UNKNOWN, "there is no parameter '%.*s'",
                    (int)(name.len < 60 ? name.len : 60), name.ptr);
    body_suggest(&s->err, name, names, N_PARAMETERS);
    return false;
}

/* ---- Strategies ------------------------------------------------------------------------------ */

static int choose(struct simulation *s)
{
    const char *names[STRATEGY_NAMES_MAX];
    struct str unknown;
    if (compare_choose_list(&s->options, s->strategies, &s->own, &unknown))
        return 0;
    s->field = "strategies";
    (void)err_set(&s->err, REDRIVE_E_INVALID, "strategies: there is no '%.*s'",
                  (int)(unknown.len < 60 ? unknown.len : 60), unknown.ptr);
    body_suggest(&s->err, unknown, names, strategy_names(names));
    return REDRIVE_E_INVALID;
}

/* What a task is configured with, or the defaults. */
static void read_parts(struct simulation *s, const struct config_task *task)
{
    s->parts = (struct strategy_config){
        .policy = &task->retry,
        .breaker = &task->breaker.config,
        .budget = budget_is_set(&task->limits.budget) ? &task->limits.budget : NULL,
        .adaptive = adaptive_is_set(&task->limits.adaptive) ? &task->limits.adaptive : NULL,
        .names = {.task = task->name, .queue = task->queue},
    };
    s->own = strategy_of_config(&s->parts);
}

static int read_classifier(struct simulation *s, const struct config *config)
{
    const int rc = classifier_new(config->classify, config->n_classify, &s->classifier, &s->err);
    s->parts.classifier = s->classifier;
    return rc;
}

static int add_configured(struct simulation *s, const struct config *config)
{
    read_parts(s, config_task(config, s->task));
    if (s->task.ptr)
        compare_choose(&s->options, &s->own);
    return compare_is_chosen(&s->options, &s->own) ? read_classifier(s, config) : 0;
}

/* ---- Experiments ----------------------------------------------------------------------------- */

#define NAMES_MAX 32 /* to suggest one of */

static int unknown_experiment(struct simulation *s, const struct config *config)
{
    const char *names[NAMES_MAX];
    size_t n = 0;
    for (; n < NAMES_MAX && n < config->n_experiments; n++)
        names[n] = config->experiments[n].name;
    (void)err_set(&s->err, REDRIVE_E_INVALID, "experiment: there is no '%.*s'",
                  (int)(s->experiment.len < 60 ? s->experiment.len : 60), s->experiment.ptr);
    if (n > 0)
        body_suggest(&s->err, s->experiment, names, n);
    else
        err_hint(&s->err, "the configuration of this server has no experiments");
    return REDRIVE_E_INVALID;
}

/* The arms of an experiment that the server's configuration has, in place of strategies. */
static int choose_experiment(struct simulation *s, const struct config *config)
{
    const struct experiment *found = NULL;
    s->field = "experiment";
    if (s->strategies.ptr || s->task.ptr)
        return err_set(&s->err, REDRIVE_E_INVALID, "experiment: it has arms in place of '%s'",
                       s->task.ptr ? "task" : "strategies");
    for (size_t i = 0; i < config->n_experiments; i++)
        if (str_is(s->experiment, config->experiments[i].name))
            found = &config->experiments[i];
    if (!found)
        return unknown_experiment(s, config);
    read_parts(s, config_task(config, str_of(found->task)));
    const int rc = read_classifier(s, config);
    compare_choose_arms(&s->options, found, &s->parts, &s->arms);
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int check_size(struct simulation *s)
{
    const struct compare_options *o = &s->options;
    const int64_t duration_ms =
        o->duration_ms > 0 ? o->duration_ms : COMPARE_OUTAGE_START_MS + 4 * o->outage_ms;
    const double jobs = o->jobs_per_s * (double)duration_ms / 1000;
    int rc = compare_options_check(o, &s->err);
    if (rc == 0 && jobs > JOBS_MAX) {
        rc = err_set(&s->err, REDRIVE_E_RANGE, "too many jobs to simulate here");
        err_detail(&s->err, "%.0f jobs, at most %d", jobs, JOBS_MAX);
        err_hint(&s->err,
                 "lower the rate, the outage or the duration; redrive simulate takes more");
    }
    return rc;
}

static int prepare(struct rest_call *call, struct simulation *s)
{
    compare_options_init(&s->options);
    s->options.brownout = 1; /* all calls fail, as on the command line */
    s->options.max_events = EVENTS_MAX;
    http_each_query(call->request, add_param, s);
    if (s->rc == 0 && s->experiment.ptr)
        s->rc = choose_experiment(s, call->config);
    else if (s->rc == 0 && s->strategies.ptr)
        s->rc = choose(s);
    if (s->rc < 0)
        return s->rc;
    s->field = NULL;
    s->rc = check_size(s);
    return s->rc == 0 && !s->experiment.ptr ? add_configured(s, call->config) : s->rc;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void write_sentence(struct json_writer *w, const char *key, const struct comparison *c,
                           void (*write)(const struct comparison *c, struct buf *out))
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(TEXT_MAX);
    write(c, &text);
    json_field_string(w, key, buf_str(&text));
}

/* The report that `redrive experiment report` would give of these jobs. */
static void write_report(struct json_writer *w, const struct comparison *c)
{
    struct arm_row arms[EXPERIMENT_ARMS_MAX];
    const struct experiment_row row = experiment_defined(c->options.experiment, arms);
    for (size_t i = 0; i < row.n_arms; i++)
        arms[i].figures = c->rows[i].arm;
    json_key(w, "experiment");
    experiment_write_json(w, &row);
}

static void write_answer(struct rest_call *call, const struct comparison *c)
{
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    write_sentence(w, "description", c, comparison_describe);
    if (!c->options.experiment)
        write_sentence(w, "reading", c, comparison_read);
    comparison_write_members(c, w);
    comparison_write_series(c, w);
    if (c->options.experiment)
        write_report(w, c);
    json_end_object(w);
}

static void get_simulation(struct rest_call *call)
{
    struct comparison comparison;
    struct simulation *s = kit_alloc(call, sizeof *s);
    if (!s)
        return;
    if (atomic_exchange(&call->rest->simulates, true)) {
        rest_header(call, "Retry-After", "1");
        kit_refuse_as(call, 503, REDRIVE_E_IO, "another simulation is under way",
                      "repeat it in a second; redrive simulate runs on any machine");
        return;
    }
    atomic_bool *simulates = &call->rest->simulates;
    int rc = prepare(call, s);
    if (rc == 0)
        rc = compare_run(&s->options, &comparison, &s->err);
    if (rc == 0) {
        write_answer(call, &comparison);
        comparison_release(&comparison);
    }
    classifier_free(s->classifier);
    atomic_store(simulates, false);
    if (rc < 0)
        kit_fail(call, &s->err, s->field);
    else
        rest_send(call, 200);
}

/* ---- Experiments that are under way ---------------------------------------------------------- */

static void write_experiment(struct json_writer *w, const void *page, size_t i)
{
    experiment_write_json(w, &((const struct experiment_page *)page)->rows[i]);
}

static void get_experiments(struct rest_call *call)
{
    RELEASED_BY(experiment_page_release) struct experiment_page page = {0};
    struct redrive_err err = {0};
    int rc = experiments_read(rest_store(call), call->principal.tenant, call->config, &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_experiment);
}

static void get_experiment(struct rest_call *call)
{
    const struct str name = call->params[0];
    RELEASED_BY(experiment_page_release) struct experiment_page page = {0};
    struct redrive_err err = {0};
    int rc = experiments_read(rest_store(call), call->principal.tenant, call->config, &page, &err);
    const struct experiment_row *row = rc == 0 ? experiment_find(&page, name) : NULL;
    if (rc == 0 && !row)
        rc = err_set(&err, REDRIVE_E_NOT_FOUND, "there is no experiment '%.*s'",
                     (int)(name.len < 100 ? name.len : 100), name.ptr);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        experiment_write_json(rest_json(call), row);
        rest_send(call, 200);
    }
}

const struct rest_route REST_SIMULATE[] = {
    {HTTP_GET, "/simulate", CONFIG_SCOPE_READ, true, get_simulation, .outlives_store = true},
    {HTTP_GET, "/experiments", CONFIG_SCOPE_READ, true, get_experiments, false},
    {HTTP_GET, "/experiments/{name}", CONFIG_SCOPE_READ, true, get_experiment, false},
    {0},
};
