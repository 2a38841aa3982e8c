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
#include "engine/report/experiments.h"
#include "fields/query.h"
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
    struct field_reader reader;
    uint64_t given;
    struct redrive_err err;
    int rc;
    struct classifier *classifier;
    struct strategy_config parts;
    struct strategy own;
    struct compare_arms arms;
};

#define INTO(m)    offsetof(struct simulation, m)
#define COMPARE(m) offsetof(struct simulation, options.m)

/* Bounds are those of compare_options_check, or closer. */
static const struct field PARAMETERS[] = {
    {"outage", &FIELD_SPAN, COMPARE(outage_ms), .max = OUTAGE_MAX},
    {"duration", &FIELD_SPAN, COMPARE(duration_ms), .max = DURATION_MAX},
    {"latency", &FIELD_SPAN, COMPARE(latency_ms), .max = DURATION_MAX},
    {"timeout", &FIELD_SPAN, COMPARE(timeout_ms), .max = DURATION_MAX},
    {"rate", &FIELD_DOUBLE, COMPARE(jobs_per_s), .min_double = 0.001, .max_double = 100000},
    {"capacity", &FIELD_DOUBLE, COMPARE(capacity_per_s), .max_double = 1e9},
    {"rate_limit", &FIELD_DOUBLE, COMPARE(rate_limit_per_s), .max_double = 1e9},
    {"error_rate", &FIELD_DOUBLE, COMPARE(error_rate), .max_double = 1},
    {"brownout", &FIELD_DOUBLE, COMPARE(brownout), .max_double = 1},
    {"overload_waits", &FIELD_BOOL, COMPARE(overload_waits)},
    {"attempts", &FIELD_UINT, COMPARE(attempts), .min = 1, .max = 100},
    {"workers", &FIELD_UINT, COMPARE(workers), .min = 1, .max = 100000},
    {"seed", &FIELD_INT, COMPARE(seed), .max = INT64_MAX},
    {"strategies", &FIELD_WORDING, INTO(strategies)},
    {"task", &FIELD_WORDING, INTO(task)},
    {"experiment", &FIELD_WORDING, INTO(experiment)},
    {0},
};

static bool add_param(struct str name, struct str value, void *ctx)
{
    struct simulation *s = ctx;
    s->rc = fields_query_add(&s->reader, PARAMETERS, name, value, s, &s->given);
    return s->rc == 0;
}

/* ---- Strategies ------------------------------------------------------------------------------ */

static int choose(struct simulation *s)
{
    const char *names[STRATEGY_NAMES_MAX];
    struct str unknown;
    if (compare_choose_list(&s->options, s->strategies, &s->own, &unknown))
        return 0;
    return field_no_such_word(&s->reader, "strategies", unknown, names, strategy_names(names));
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
    if (n > 0)
        return field_no_such_word(&s->reader, "experiment", s->experiment, names, n);
    int rc = field_no_such_word(&s->reader, "experiment", s->experiment, NULL, 0);
    err_hint(&s->err, "the configuration of this server has no experiments");
    return rc;
}

/* The arms of an experiment that the server's configuration has, in place of strategies. */
static int choose_experiment(struct simulation *s, const struct config *config)
{
    const struct experiment *found = NULL;
    if (s->strategies.ptr || s->task.ptr)
        return field_fault(&s->reader, "experiment", REDRIVE_E_INVALID,
                           "it has arms in place of '%s'", s->task.ptr ? "task" : "strategies");
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
    fields_query_open(&s->reader, 0, http_arena(call->request), 0, &s->err);
    http_each_query(call->request, add_param, s);
    if (s->rc == 0 && s->experiment.ptr)
        s->rc = choose_experiment(s, call->config);
    else if (s->rc == 0 && s->strategies.ptr)
        s->rc = choose(s);
    if (s->rc < 0)
        return s->rc;
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
        kit_fail(call, &s->err, s->reader.place);
    else
        rest_send(call, 200);
}

const struct rest_route REST_SIMULATE[] = {
    {HTTP_GET, "/simulate", CONFIG_SCOPE_READ, true, get_simulation, .outlives_store = true,
     .own_summary = "What an outage would cost, by way of retrying",
     .own_parameters = {PARAMETERS, 0}},
    {.operation = &API_EXPERIMENTS},
    {.operation = &API_EXPERIMENT},
    {0},
};
