/* cmd_simulate.c - `redrive simulate`. */
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "sim/chart.h"
#include "sim/report.h"

#define MAX_BYTES (16u << 20)

struct simulate_options {
    int64_t outage_ms;
    int64_t duration_ms;
    int64_t latency_ms;
    double rate;
    double capacity;
    double error_rate;
    int64_t attempts;
    int64_t workers;
    int64_t seed;
    const char *strategies;
    const char *svg;
};

static const struct option OPTIONS[] = {
    {.name = "outage",
     INTO_DURATION(struct simulate_options, outage_ms),
     .placeholder = "SPAN",
     .default_text = "180s",
     .help = "how long the service is down; 0 for no outage"},
    {.name = "rate",
     INTO_DOUBLE(struct simulate_options, rate),
     .placeholder = "JOBS/S",
     .default_text = "20",
     .help = "how many jobs arrive a second"},
    {.name = "capacity",
     INTO_DOUBLE(struct simulate_options, capacity),
     .placeholder = "CALLS/S",
     .default_text = "80",
     .help = "how many calls a second the service can take; 0 for no limit"},
    {.name = "attempts",
     INTO_INT(struct simulate_options, attempts),
     .min = 1,
     .max = 1000,
     .placeholder = "N",
     .default_text = "8",
     .help = "how often a job is run at most"},
    {.name = "workers",
     INTO_INT(struct simulate_options, workers),
     .min = 1,
     .max = 1000000,
     .placeholder = "N",
     .default_text = "100",
     .help = "how many jobs run at a time"},
    {.name = "latency",
     INTO_DURATION(struct simulate_options, latency_ms),
     .placeholder = "SPAN",
     .default_text = "50ms",
     .help = "how long a call takes on average"},
    {.name = "error-rate",
     INTO_DOUBLE(struct simulate_options, error_rate),
     .min_double = 0,
     .max_double = 1,
     .placeholder = "SHARE",
     .default_text = "0",
     .help = "the share of calls that fail while the service is up"},
    {.name = "duration",
     INTO_DURATION(struct simulate_options, duration_ms),
     .placeholder = "SPAN",
     .help = "how long jobs arrive; one minute and four outages unless given"},
    {.name = "strategies",
     INTO_STRING(struct simulate_options, strategies),
     .placeholder = "LIST",
     .help = "which to compare, separated by commas; all unless given"},
    {.name = "seed",
     INTO_INT(struct simulate_options, seed),
     .min = 0,
     .max = INT64_MAX,
     .placeholder = "N",
     .default_text = "1",
     .help = "another seed is another run; the same is the same"},
    {.name = "svg",
     INTO_STRING(struct simulate_options, svg),
     .placeholder = "FILE",
     .help = "draw calls per second over time"},
    {0},
};

static int unknown_strategy(struct str name, struct redrive_err *err)
{
    const char *names[COMPARE_MAX_STRATEGIES];
    size_t n;
    const struct strategy *all = strategies(&n);
    struct buf list;

    buf_init(&list, 200);
    for (size_t i = 0; i < n; i++) {
        names[i] = all[i].name;
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", all[i].name);
    }
    const char *near = suggest(name, names, n);
    if (name.len == 0)
        err_set(err, REDRIVE_E_USAGE, "no strategy to compare");
    else
        err_set(err, REDRIVE_E_USAGE, "unknown strategy %.*s", (int)name.len, name.ptr);
    err_detail(err, "there are %s", buf_cstr(&list));
    if (near)
        err_hint(err, "did you mean %s?", near);
    buf_release(&list);
    return REDRIVE_E_USAGE;
}

static bool is_chosen(const struct compare_options *options, const struct strategy *strategy)
{
    for (size_t i = 0; i < options->n_strategies; i++)
        if (options->strategies[i] == strategy)
            return true;
    return false;
}

static int choose_strategies(const char *list, struct compare_options *ret, struct redrive_err *err)
{
    struct str rest = str_of(list);
    ret->n_strategies = 0;
    while (rest.len > 0) {
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma ? (size_t)(comma - rest.ptr) : rest.len;
        struct str name = str_trim((struct str){rest.ptr, len});
        const struct strategy *strategy = strategy_find(name);
        if (!strategy)
            return unknown_strategy(name, err);
        if (!is_chosen(ret, strategy))
            ret->strategies[ret->n_strategies++] = strategy;
        size_t skip = len + (comma != NULL);
        rest = (struct str){rest.ptr + skip, rest.len - skip};
    }
    if (ret->n_strategies == 0)
        return unknown_strategy(STR(""), err);
    return 0;
}

static int read_options(const struct simulate_options *given, struct compare_options *ret,
                        struct redrive_err *err)
{
    compare_options_init(ret);
    ret->outage_ms = given->outage_ms;
    ret->duration_ms = given->duration_ms;
    ret->latency_ms = given->latency_ms;
    ret->jobs_per_s = given->rate;
    ret->capacity_per_s = given->capacity;
    ret->error_rate = given->error_rate;
    ret->attempts = (uint32_t)given->attempts;
    ret->workers = (uint32_t)given->workers;
    ret->seed = (uint64_t)given->seed;
    if (given->strategies) {
        int r = choose_strategies(given->strategies, ret, err);
        if (r < 0)
            return r;
    }
    return compare_options_check(ret, err);
}

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
static void add_drain(struct table *t, const struct comparison *c, int64_t drain_ms)
{
    if (drain_ms < 0 && c->options.outage_ms > 0)
        table_addf(t, "> %.0f s", (double)(c->options.duration_ms - c->outage_end_ms) / 1000);
    else
        add_span(t, drain_ms);
}

static int put_table(const struct comparison *c, const struct term *term, struct buf *out)
{
    static const struct table_column COLUMNS[] = {
        {"STRATEGY", ALIGN_LEFT}, {"CALLS", ALIGN_RIGHT},   {"WASTED", ALIGN_RIGHT},
        {"DEAD", ALIGN_RIGHT},    {"DRAINED", ALIGN_RIGHT}, {"PEAK/S", ALIGN_RIGHT},
        {"P50", ALIGN_RIGHT},     {"P99", ALIGN_RIGHT},
    };
    struct table t;
    table_init(&t, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        const struct figures *f = &c->rows[i].figures;
        table_add(&t, c->options.strategies[i]->title);
        table_addf(&t, "%llu", (unsigned long long)f->calls);
        table_addf(&t, "%llu", (unsigned long long)f->wasted);
        table_addf(&t, "%llu", (unsigned long long)f->dead);
        add_drain(&t, c, f->drain_ms);
        table_addf(&t, "%u", f->peak_per_s);
        add_span(&t, f->p50_ms);
        add_span(&t, f->p99_ms);
    }
    int r = table_render(&t, term->width, term->color, out);
    table_release(&t);
    return r;
}

static int print_comparison(struct cli *cli, const struct comparison *c, struct redrive_err *err)
{
    struct buf out;
    int r = 0;
    buf_init(&out, MAX_BYTES);
    if (cli->globals->json) {
        comparison_json(c, &out);
        buf_putc(&out, '\n');
    } else {
        comparison_describe(c, &out);
        buf_puts(&out, "\n\n");
        r = put_table(c, &cli->out, &out);
        buf_putc(&out, '\n');
        comparison_read(c, &out);
        buf_putc(&out, '\n');
    }
    if (r < 0) {
        buf_release(&out);
        return err_set(err, r, "cannot print the comparison");
    }
    return cli_print(cli, &out, err);
}

static int write_chart(const struct comparison *c, const char *path, struct redrive_err *err)
{
    struct buf svg;
    buf_init(&svg, MAX_BYTES);
    int r = chart_svg(c, &svg);
    if (r < 0) {
        buf_release(&svg);
        return err_set(err, r, "cannot draw the comparison");
    }
    FILE *file = fopen(path, "w");
    bool written = file && fwrite(svg.data, 1, svg.len, file) == svg.len;
    int error = errno;
    if (file && fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    buf_release(&svg);
    if (written)
        return 0;
    err_set(err, REDRIVE_E_IO, "cannot write the chart: %s", strerror(error));
    err_detail(err, "file %s", path);
    return REDRIVE_E_IO;
}

static int run_simulate(struct cli *cli, struct redrive_err *err)
{
    const struct simulate_options *given = invocation_options(&cli->invocation);
    struct compare_options options;
    struct comparison comparison;

    int r = read_options(given, &options, err);
    if (r < 0)
        return r;
    r = compare_run(&options, &comparison, err);
    if (r < 0)
        return r;
    if (given->svg)
        r = write_chart(&comparison, given->svg, err);
    if (r == 0)
        r = print_comparison(cli, &comparison, err);
    comparison_release(&comparison);
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
        "Strategies: none, exponential, full-jitter, sidekiq, breaker-burns, breaker-parks.\n"
        "\n"
        "WASTED are calls that failed. DRAINED is how long after the outage the backlog is back "
        "to normal. P50 and P99 are the time from submit to completion of the jobs that were "
        "submitted during the outage and completed; jobs that died have none.",
    .options = OPTIONS,
    .options_size = sizeof(struct simulate_options),
    .examples =
        (const struct example[]){
            {"redrive simulate --outage 15m", "a quarter of an hour without the service"},
            {"redrive simulate --strategies full-jitter,breaker-parks --svg outage.svg",
             "two strategies and a picture"},
            {0},
        },
    .run = run_simulate,
};
