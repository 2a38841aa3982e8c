/* simulate.c - `redrive simulate`. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/str.h"
#include "cli/frame/cli.h"
#include "cli/frame/command.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/shared/experiment_text.h"
#include "cli/shared/session.h"
#include "engine/report/experiments.h"
#include "sim/compare.h"

#define MAX_BYTES (16u << 20)
#define DAY_MS    (INT64_C(24) * 3600 * 1000)

struct simulate_options {
    struct compare_options compare;
    int64_t attempts;
    int64_t workers;
    int64_t seed;
    const char *strategies;
    const char *task;
    const char *experiment;
    const char *svg;
};

static const struct field OPTIONS[] = {
    OPTION("outage", 0, "SPAN", "how long the service is down, up to 1d; 0 for no outage",
           INTO_DURATION(struct simulate_options, compare.outage_ms), .max = DAY_MS,
           .default_text = "180s"),
    OPTION("rate", 0, "JOBS/S", "how many jobs arrive a second, from 0.001 to 100000",
           INTO_DOUBLE(struct simulate_options, compare.jobs_per_s), .min_double = 0.001,
           .max_double = 100000, .default_text = "20"),
    OPTION("capacity", 0, "CALLS/S", "how many calls a second the service can take; 0 for no limit",
           INTO_DOUBLE(struct simulate_options, compare.capacity_per_s), .max_double = 1e9,
           .default_text = "80"),
    OPTION("rate-limit", 0, "CALLS/S",
           "the service answers 429 to calls beyond so many a second; 0 for no limit",
           INTO_DOUBLE(struct simulate_options, compare.rate_limit_per_s), .max_double = 1e9,
           .default_text = "0"),
    OPTION("attempts", 0, "N", "how often a job is run at most; your policy has its own number",
           INTO_INT(struct simulate_options, attempts), .min = 1, .max = 1000, .default_text = "8"),
    OPTION("workers", 0, "N", "how many jobs run at a time",
           INTO_INT(struct simulate_options, workers), .min = 1, .max = 1000000,
           .default_text = "100"),
    OPTION("latency", 0, "SPAN", "how long a call takes on average, up to 1d",
           INTO_DURATION(struct simulate_options, compare.latency_ms), .max = DAY_MS,
           .default_text = "50ms"),
    OPTION("error-rate", 0, "SHARE", "the share of calls that fail while the service is up",
           INTO_DOUBLE(struct simulate_options, compare.error_rate), .min_double = 0,
           .max_double = 1, .default_text = "0"),
    OPTION("brownout", 0, "SHARE", "the share of calls that fail during the outage",
           INTO_DOUBLE(struct simulate_options, compare.brownout), .min_double = 0.001,
           .max_double = 1, .default_text = "1"),
    OPTION("timeout", 0, "SPAN",
           "calls of the outage hang for this long, and slower ones fail; 0 for no time-out: they "
           "fail at once",
           INTO_DURATION(struct simulate_options, compare.timeout_ms), .max = DAY_MS,
           .default_text = "0"),
    OPTION("overload-waits", 0, NULL,
           "calls beyond the capacity wait for their turn instead of failing at once",
           INTO_FLAG(struct simulate_options, compare.overload_waits)),
    OPTION("duration", 0, "SPAN",
           "how long jobs arrive, up to 7d; one minute and four times the outage if it is 0 or not "
           "given",
           INTO_DURATION(struct simulate_options, compare.duration_ms), .max = 7 * DAY_MS),
    OPTION("strategies", 0, "LIST",
           "which to compare, separated by commas; all but retry-budget, adaptive and "
           "configured unless given",
           INTO_STRING(struct simulate_options, strategies)),
    OPTION("task", 0, "NAME", "compare the policy, the breaker and the limits of this task, too",
           INTO_STRING(struct simulate_options, task)),
    OPTION("experiment", 0, "NAME",
           "run this experiment of the configuration instead, in which each job has the policy of "
           "its arm, and report on its arms as `redrive experiment report` does",
           INTO_STRING(struct simulate_options, experiment)),
    OPTION("seed", 0, "N", "the seed of the random numbers; the same seed gives the same run",
           INTO_INT(struct simulate_options, seed), .min = 0, .max = INT64_MAX,
           .default_text = "1"),
    OPTION(
        "svg", 0, "FILE",
        "draw calls per second over time; - for standard output, with the table on standard error",
        INTO_STRING(struct simulate_options, svg)),
    {0},
};

/* ---- Your own policy ------------------------------------------------------------------------- */

/* The strategy that the configuration describes, and what it borrows from. */
struct own {
    struct config *config;
    struct classifier *classifier;
    struct strategy_config parts;
    struct strategy strategy;
    struct compare_arms arms; /* of an experiment */
};

static void own_release(struct own *own)
{
    classifier_free(own->classifier);
    config_free(own->config);
}

/* What the loaded configuration says of a task. */
static int own_parts(struct own *own, const struct config_task *task, struct redrive_err *err)
{
    int r = classifier_new(own->config->classify, own->config->n_classify, &own->classifier, err);
    if (r != 0)
        return r;
    own->parts = (struct strategy_config){
        .policy = &task->retry,
        .breaker = &task->breaker.config,
        .budget = budget_is_set(&task->limits.budget) ? &task->limits.budget : NULL,
        .adaptive = adaptive_is_set(&task->limits.adaptive) ? &task->limits.adaptive : NULL,
        .classifier = own->classifier,
        .names = {.task = task->name, .queue = task->queue},
    };
    own->strategy = strategy_of_config(&own->parts);
    return 0;
}

/* `task` NULL: the defaults. On failure `own` is to be released as well. */
static int own_load(struct cli *cli, const char *task_name, struct own *own,
                    struct redrive_err *err)
{
    const struct config_task *task = NULL;
    int r = load_config(cli, &own->config, err);
    if (r == 0)
        r = load_config_task(own->config, task_name, &task, err);
    return r == 0 ? own_parts(own, task, err) : r;
}

/* ---- An experiment --------------------------------------------------------------------------- */

static int unknown_experiment(const struct config *config, const char *name,
                              struct redrive_err *err)
{
    struct words words = WORDS_INIT;
    int rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is no experiment '%s'", name);
    for (size_t i = 0; i < config->n_experiments; i++)
        words_add(&words, "", str_of(config->experiments[i].name));
    words_hint(&words, name, "add it under `experiments:`, and name the file with -c", err);
    return rc;
}

static int load_experiment(struct cli *cli, const char *name, struct own *own,
                           struct compare_options *ret, struct redrive_err *err)
{
    const struct experiment *experiment = NULL;
    int rc = load_config(cli, &own->config, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < own->config->n_experiments; i++)
        if (strcmp(own->config->experiments[i].name, name) == 0)
            experiment = &own->config->experiments[i];
    if (!experiment)
        return unknown_experiment(own->config, name, err);
    rc = own_parts(own, config_task(own->config, str_of(experiment->task)), err);
    if (rc == 0)
        compare_choose_arms(ret, experiment, &own->parts, &own->arms);
    return rc;
}

/* ---- Options --------------------------------------------------------------------------------- */

static int unknown_strategy(struct str name, struct redrive_err *err)
{
    const char *names[STRATEGY_NAMES_MAX];
    const size_t n = strategy_names(names);

    RELEASED_BY(buf_release) struct buf list = BUF_MAX(200);
    for (size_t i = 0; i < n; i++)
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    const char *near = suggest(name, names, n);
    if (name.len == 0)
        err_set(err, REDRIVE_E_USAGE, "no strategy to compare");
    else
        err_set(err, REDRIVE_E_USAGE, "unknown strategy %.*s", (int)name.len, name.ptr);
    err_detail(err, "there are %s", buf_cstr(&list));
    if (near)
        err_hint(err, "did you mean %s?", near);
    return REDRIVE_E_USAGE;
}

/* Your own policy joins when it is named, and whenever something is said about it. */
static int read_options(struct cli *cli, const struct simulate_options *given, struct own *own,
                        struct compare_options *ret, struct redrive_err *err)
{
    struct compare_options usual;
    struct str unknown;
    int r = 0;
    compare_options_init(&usual);
    *ret = given->compare;
    memcpy(ret->strategies, usual.strategies, sizeof ret->strategies);
    ret->n_strategies = usual.n_strategies;
    ret->attempts = (uint32_t)given->attempts;
    ret->workers = (uint32_t)given->workers;
    ret->seed = (uint64_t)given->seed;
    if (given->strategies &&
        !compare_choose_list(ret, str_of(given->strategies), &own->strategy, &unknown))
        r = unknown_strategy(unknown, err);
    if (r == 0)
        r = compare_options_check(ret, err);
    if (r == 0 && given->svg && strcmp(given->svg, "-") == 0 && cli->globals->json)
        r = err_set(err, REDRIVE_E_USAGE, "--json and --svg - both want standard output");
    if (r == 0 && given->experiment && (given->strategies || given->task))
        r = err_set(err, REDRIVE_E_USAGE, "--experiment has arms in place of --%s",
                    given->task ? "task" : "strategies");
    if (r < 0)
        return r;
    if (given->experiment)
        return load_experiment(cli, given->experiment, own, ret, err);
    if (given->task || cli->globals->config || load_config_has_flags())
        compare_choose(ret, &own->strategy);
    return compare_is_chosen(ret, &own->strategy) ? own_load(cli, given->task, own, err) : 0;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void add_span(struct table *t, int64_t ms)
{
    if (ms < 0)
        table_add(t, "-");
    else if (ms < 1000)
        table_addf(t, "%lld ms", (long long)ms);
    else
        table_addf(t, ms < 100 * 1000 ? "%.1f s" : "%.0f s", (double)ms / 1000);
}

/* A backlog that outlived the run is known to have lasted longer than that. */
static void add_drain(struct table *t, const struct comparison *c, const struct figures *f)
{
    if (f->drain_ms < 0 && f->submitted > 0 && c->options.outage_ms > 0)
        table_addf(t, "> %.0f s", (double)(c->options.duration_ms - c->outage_end_ms) / 1000);
    else
        add_span(t, f->drain_ms);
}

static int put_table(const struct comparison *c, const struct term *term, struct buf *out)
{
    RELEASED_BY(table_release) struct table t;
    table_init(&t, "STRATEGY|>CALLS|>WASTED|>DEAD|>DRAINED|>PEAK/S|>P50|>P99");
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        const struct figures *f = &c->rows[i].figures;
        table_add(&t, c->options.strategies[i]->title);
        table_addf(&t, "%llu", (unsigned long long)f->calls);
        table_addf(&t, "%llu", (unsigned long long)f->wasted);
        table_addf(&t, "%llu", (unsigned long long)f->dead);
        add_drain(&t, c, f);
        table_addf(&t, "%u", f->peak_per_s);
        add_span(&t, f->p50_ms);
        add_span(&t, f->p99_ms);
    }
    return table_render(&t, term->width, term->color, out);
}

/* What `redrive experiment report` would show of these jobs. */
static void write_report(const struct comparison *c, struct json_writer *w)
{
    struct arm_row arms[EXPERIMENT_ARMS_MAX];
    const struct experiment_row row = experiment_defined(c->options.experiment, arms);
    for (size_t i = 0; i < row.n_arms; i++)
        arms[i].figures = c->rows[i].arm;
    experiment_write_json(w, &row);
}

static int put_report(const struct comparison *c, const struct term *term, struct buf *out)
{
    struct json_writer w;
    RELEASED_BY(arena_release) struct arena arena = {0};
    RELEASED_BY(buf_release) struct buf json = BUF_MAX(MAX_BYTES);
    json_writer_init(&w, &json);
    write_report(c, &w);
    const struct object experiment = object_of(buf_str(&json), &arena);
    comparison_describe(c, out);
    buf_puts(out, "\n\n");
    experiment_text(out, term, &experiment);
    return buf_failed(&json) || arena.failed ? REDRIVE_E_NOMEM : 0;
}

/* The comparison with its arms for strategies, and the report. */
static void put_report_json(const struct comparison *c, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    comparison_write_members(c, &w);
    json_key(&w, "experiment");
    write_report(c, &w);
    json_end_object(&w);
}

static int put_text(const struct comparison *c, const struct term *term, struct buf *out)
{
    comparison_describe(c, out);
    buf_puts(out, "\n\n");
    int r = put_table(c, term, out);
    buf_putc(out, '\n');
    comparison_read(c, out);
    buf_putc(out, '\n');
    return r;
}

/* When the picture goes to standard output, the table goes to standard error. */
static int print_comparison(struct cli *cli, const struct comparison *c, bool to_err,
                            struct redrive_err *err)
{
    int r = 0;
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(MAX_BYTES);
    const bool is_experiment = c->options.experiment != NULL;
    if (cli->globals->json) {
        (is_experiment ? put_report_json : comparison_json)(c, &out);
        buf_putc(&out, '\n');
    } else if (is_experiment) {
        r = put_report(c, to_err ? &cli->err : &cli->out, &out);
    } else {
        r = put_text(c, to_err ? &cli->err : &cli->out, &out);
    }
    if (r == 0 && !to_err)
        return cli_print(cli, &out, err);
    if (r == 0)
        r = buf_failed(&out);
    if (r == 0)
        term_write(&cli->err, &out);
    return r < 0 ? err_set(err, r, "cannot print the comparison") : 0;
}

/* `file` NULL: standard output. */
static int draw(struct cli *cli, const struct comparison *c, FILE *file, const char *path,
                struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf svg = BUF_MAX(MAX_BYTES);
    int r = chart_svg(c, &svg);
    if (r < 0) {
        err_set(err, r, "cannot draw the comparison");
        if (file)
            fclose(file);
    } else if (file) {
        r = picture_write(&svg, file, path, err);
    } else {
        term_write(&cli->out, &svg);
    }
    return r;
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Takes the bar away and lets the signal do what it does. */
static void clean_up(int number)
{
    static const char CLEAR[] = "\r\033[K";
    ssize_t ignored = write(STDERR_FILENO, CLEAR, sizeof CLEAR - 1);
    (void)ignored;
    raise(number);
}

static void show_progress(uint64_t done, uint64_t total, void *ctx)
{
    struct progress *p = ctx;
    p->total = total;
    progress_update(p, done);
}

static int run_visibly(struct cli *cli, const struct compare_options *options,
                       struct comparison *ret, struct redrive_err *err)
{
    struct sigaction action = {.sa_handler = clean_up, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    struct progress progress;

    if (!cli->err.is_tty)
        return compare_run(options, ret, err);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler == SIG_DFL)
        sigaction(SIGINT, &action, NULL);
    progress_init(&progress, &cli->err, "simulate", 0, NULL);
    struct compare_options watched = *options;
    watched.progress = show_progress;
    watched.progress_ctx = &progress;
    int r = compare_run(&watched, ret, err);
    progress_clear(&progress);
    sigaction(SIGINT, &before, NULL);
    return r;
}

static int simulate(struct cli *cli, struct compare_options *options, const char *svg,
                    struct redrive_err *err)
{
    struct comparison comparison;
    FILE *file = NULL;
    bool to_stdout = svg && strcmp(svg, "-") == 0;

    int r = svg && !to_stdout ? picture_open(svg, &file, err) : 0;
    if (r < 0)
        return r;
    r = run_visibly(cli, options, &comparison, err);
    if (r < 0) {
        if (file)
            fclose(file);
        return r;
    }
    /* The table first: it is not lost when the disk is full. */
    r = print_comparison(cli, &comparison, to_stdout, err);
    if (svg) {
        int drawn = draw(cli, &comparison, file, svg, r < 0 ? NULL : err);
        r = r < 0 ? r : drawn;
    }
    comparison_release(&comparison);
    return r;
}

static int run_simulate(struct cli *cli, struct redrive_err *err)
{
    const struct simulate_options *given = invocation_options(&cli->invocation);
    struct compare_options options;
    struct own own = {0};

    int r = read_options(cli, given, &own, &options, err);
    if (r == 0)
        r = simulate(cli, &options, given->svg, err);
    own_release(&own);
    return r;
}

const struct command cmd_simulate = {
    .name = "simulate",
    .summary = "compare ways of retrying through an outage",
    .description =
        "Simulates jobs that call a service which goes down and comes back, once for each "
        "strategy, with the same arrivals, in virtual time. The decisions are made by the code "
        "that makes them in production.\n"
        "\n"
        "Strategies: none, exponential, full-jitter, sidekiq, breaker-burns, breaker-parks; "
        "retry-budget, if --strategies names it: full-jitter, with retries at most a tenth of "
        "first attempts; adaptive, likewise: full-jitter, with as many calls at a time as the "
        "service is found to take; and configured: your policy, which is the retry policy, the "
        "breaker, the retry budget and the adaptive concurrency of the configuration. It joins "
        "when --task, --config or a flag of the "
        "configuration is given, or when --strategies names it.\n"
        "\n"
        "WASTED are calls that failed. DRAINED is how long after the outage the backlog is back "
        "to normal. P50 and P99 are the time from submit to completion of the jobs that were "
        "submitted during the outage and completed; jobs that died have none.",
    OPTIONS_INTO(OPTIONS, struct simulate_options),
    .examples = EXAMPLES(
        {"redrive simulate --outage 15m", "a quarter of an hour without the service"},
        {"redrive simulate --strategies full-jitter,breaker-parks --svg outage.svg",
         "two strategies and a picture"},
        {"redrive simulate -c redrive.yaml --task thumbnail", "your policy beside the others"},
        {"redrive simulate -c redrive.yaml --experiment patience", "what an experiment would show"},
        {"redrive simulate --strategies full-jitter,retry-budget --brownout 0.5",
         "a service that fails in part"},
        {"redrive simulate --strategies full-jitter,adaptive --rate-limit 30",
         "a service that refuses more than 30 calls a second"},
        {"redrive simulate --strategies breaker-parks --retry-max-retries 3",
         "a setting tried out"}),
    .run = run_simulate,
    .settings = SETTINGS_POLICY | SETTINGS_BREAKER,
    .needs_no_store = true,
};
