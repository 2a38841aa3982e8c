/* stats.c - `redrive stats` and `redrive health`: the statistics of the store, and one number for
 * how well the work goes. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/output/figures.h"
#include "cli/shared/answer.h"

struct stats_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "only the statistics of this tenant",
           INTO_STRING(struct stats_options, tenant)),
    {0},
};

/* The score is about work that was done: it says nothing about work that waits. */
static void put_health(const struct object *stats, bool color, struct buf *out)
{
    const struct object health = object_object(stats, "health");
    const struct str status = object_text(&health, "status");
    struct object *queues = NULL;
    const size_t n = object_objects(stats, "queues", &queues);
    /* Through a server also workers without a name run jobs, and nothing else tells of those. */
    const bool is_busy = object_double(stats, "tasks_per_second", 0) >= 0.005;
    int64_t ready = 0;
    for (size_t i = 0; i < n; i++) {
        const struct object sizes = object_object(&queues[i], "sizes");
        if (!object_bool(&queues[i], "paused"))
            ready += object_int(&sizes, "queued");
    }
    buf_puts(out, "health      ");
    style_add_clean(out, color, figure_health_style(status), status);
    buf_printf(out, " (score %.2f, errors %.1f %%)", object_double(&health, "health_score", 0),
               100 * object_double(&health, "error_rate", 0));
    if (object_int(&health, "workers") == 0 && ready > 0 && !is_busy) {
        buf_puts(out, ", but ");
        style_add(out, color, STYLE_YELLOW, STR("no workers"));
        buf_printf(out, ": %" PRId64 " ready job%s wait%s", ready, ready == 1 ? "" : "s",
                   ready == 1 ? "s" : "");
    }
    buf_putc(out, '\n');
}

/* Of what waits in a queue, or in all. */
static const char *oldest_text(const struct object *o, char out[FIGURE_MAX])
{
    const bool is_there = object_json(o, "oldest_ready_age").ptr != NULL;
    return is_there ? figure_span(object_span(o, "oldest_ready_age"), out) : "-";
}

static void put_work(const struct object *stats, struct buf *out)
{
    const struct object run_time = object_object(stats, "run_time");
    const struct object health = object_object(stats, "health");
    const int64_t workers = object_int(&health, "workers");
    char a[FIGURE_MAX], b[FIGURE_MAX], c[FIGURE_MAX];
    buf_printf(out, "throughput  %s tasks/s, ",
               figure_rate(object_double(stats, "tasks_per_second", 0), a));
    if (workers == 0)
        buf_puts(out, "no workers\n");
    else
        buf_printf(out, "%" PRId64 " worker%s\n", workers, workers == 1 ? "" : "s");
    buf_printf(out, "run time    p50 %s, p90 %s, p99 %s\n",
               figure_span(object_span(&run_time, "p50"), a),
               figure_span(object_span(&run_time, "p90"), b),
               figure_span(object_span(&run_time, "p99"), c));
    buf_printf(out, "ready       oldest %s, next time-locked %s\n", oldest_text(stats, a),
               figure_until(object_time(stats, "next_ready_time"), object_time(stats, "at"), b));
}

static void put_summary(const struct object *stats, bool color, struct buf *out)
{
    const struct object breakers = object_object(stats, "breakers");
    const struct object counters = object_object(stats, "counters");
    put_health(stats, color, out);
    put_work(stats, out);
    buf_printf(out,
               "breakers    %" PRId64 ": %" PRId64 " closed, %" PRId64 " open, %" PRId64
               " half open, %" PRId64 " forced open, %" PRId64 " disabled\n",
               object_int(&breakers, "total"), object_int(&breakers, "closed"),
               object_int(&breakers, "open"), object_int(&breakers, "half_open"),
               object_int(&breakers, "forced_open"), object_int(&breakers, "disabled"));
    buf_printf(out, "retries     %.2f for each job that ended, %" PRId64 " errors unclassified\n",
               object_double(stats, "average_retries", 0), object_int(&counters, "unclassified"));
}

static void add_counts(struct table *t, const struct object *counts)
{
    static const char *const SHOWN[] = {"jobs_received",  "jobs_started", "jobs_completed",
                                        "jobs_retried",   "jobs_dlq",     "jobs_failed",
                                        "jobs_cancelled", "jobs_parked",  "jobs_released"};
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++)
        table_addf(t, "%" PRId64, object_int(counts, SHOWN[i]));
}

static void put_counters(const struct object *stats, const struct term *term, struct buf *out)
{
    const struct object all = object_object(stats, "counters");
    const struct object tasks = object_object(stats, "by_task");
    struct table t;
    table_init(&t,
               "TASK|>RECEIVED|>STARTED|>DONE|>RETRIED|>DEAD|>FAILED|>CANCELLED|>PARKED|>RELEASED");
    table_add_styled(&t, STYLE_BOLD, "all");
    add_counts(&t, &all);
    for (size_t i = 0; i < tasks.n; i++) {
        const struct object counts = object_of(tasks.members[i].value, stats->arena);
        table_add_str(&t, tasks.members[i].name);
        add_counts(&t, &counts);
    }
    buf_putc(out, '\n');
    table_finish(&t, 0, term->color, out);
}

static void put_queues(const struct object *stats, const struct term *term, struct buf *out)
{
    const bool is_one_tenant = object_text(stats, "tenant").len > 0;
    struct object *queues = NULL;
    const size_t n = object_objects(stats, "queues", &queues);
    char age[FIGURE_MAX];
    struct table t;
    table_init(&t, "QUEUE|>SCHEDULED|>RETRYING|>QUEUED|>RUNNING|>PARKED|>COMPLETED|>FAILED"
                   "|>DEAD|>CANCELLED|>WAITING|>OLDEST");
    _Static_assert(REDRIVE_STATE_COUNT == 10, "every state has a column");
    for (size_t i = 0; i < n; i++) {
        const struct object sizes = object_object(&queues[i], "sizes");
        const struct str tenant = object_text(&queues[i], "tenant");
        const struct str queue = object_text(&queues[i], "queue");
        table_addf(&t, "%.*s%s%.*s%s", is_one_tenant ? 0 : (int)tenant.len, tenant.ptr,
                   is_one_tenant ? "" : "/", (int)queue.len, queue.ptr,
                   object_bool(&queues[i], "paused") ? " (paused)" : "");
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            table_addf(&t, "%" PRId64,
                       object_int(&sizes, redrive_state_name((enum redrive_state)state)));
        table_add(&t, oldest_text(&queues[i], age));
    }
    buf_putc(out, '\n');
    table_finish(&t, 0, term->color, out);
}

static void stats_as_text(struct buf *out, const struct term *term, const void *thing)
{
    put_summary(thing, term->color, out);
    put_counters(thing, term, out);
    put_queues(thing, term, out);
}

static int run_stats(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct stats_options *options = invocation_options(&cli->invocation);
    const struct ask ask = {.operation = &API_STATS, .tenant = str_of(options->tenant)};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_ask(session, &ask, &answer, err);
    return rc == 0 ? answer_show(cli, &answer, stats_as_text, err) : rc;
}

const struct command cmd_stats = {
    .name = "stats",
    .summary = "print the statistics of the store",
    .description = "Counters since the store was made, by task; how many jobs are in each state, "
                   "by queue; breakers, and the workers that are alive. "
                   "With --json also by queue, class and worker.",
    OPTIONS_INTO(OPTIONS, struct stats_options),
    .examples =
        EXAMPLES({"redrive stats", "how is it going?"},
                 {"redrive stats --json --tenant acme", "those of one tenant, for a program"}),
    .run_on_store = run_stats,
    .settings = SETTINGS_HEALTH,
};

/* ---- health ---------------------------------------------------------------------------------- */

/* Figures of a store that cannot be read are not there. */
static void put_figures(struct buf *out, const struct object *health)
{
    const int64_t workers = object_int(health, "workers");
    const double success_rate = object_double(health, "success_rate", 1);
    if (workers == 0 && success_rate == 1) {
        buf_puts(out, "  success rate   - (no workers)\n");
    } else {
        buf_printf(out, "  success rate   %.1f %% of about the last minute\n", 100 * success_rate);
        buf_printf(out, "  latency        %.2f of what is usual\n",
                   object_double(health, "latency_factor", 1));
    }
    buf_printf(out, "  breakers open  %" PRId64 " of %" PRId64 "\n",
               object_int(health, "breakers_open"), object_int(health, "breakers"));
    buf_printf(out, "  workers        %" PRId64 "\n", workers);
}

static void health_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct object *health = thing, store = object_object(health, "store");
    const struct str status = object_text(health, "status"),
                     of_store = object_text(&store, "status");
    style_add_clean(out, term->color, figure_health_style(status), status);
    buf_printf(out, "\n  score          %.3f\n", object_double(health, "health_score", 0));
    if (object_json(health, "success_rate").ptr)
        put_figures(out, health);
    if (of_store.len > 0 && !str_is(of_store, "ok")) {
        buf_puts(out, "  store          ");
        text_add_clean(out, of_store);
        buf_puts(out, ": ");
        text_add_clean(out, object_text(&store, "error"));
        buf_putc(out, '\n');
    }
}

static int refuse_unhealthy(const struct object *health, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_STATE, "the queue is unhealthy");
    err_detail(err, "health_score is %.3f", object_double(health, "health_score", 0));
    if (object_json(health, "success_rate").ptr)
        err_hint(err, object_int(health, "breakers_open") > 0 ? "see which: redrive breakers list"
                                                              : "see what fails: redrive stats");
    return rc;
}

static int run_health(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct ask ask = {.operation = &API_HEALTH};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_ask(session, &ask, &answer, err);
    if (rc == 0)
        rc = answer_show(cli, &answer, health_as_text, err);
    return rc == 0 && str_is(object_text(&answer.object, "status"), "unhealthy")
               ? refuse_unhealthy(&answer.object, err)
               : rc;
}

const struct command cmd_health = {
    .name = "health",
    .summary = "print how well the work goes",
    .description = "The health score is the success rate of about the last minute, times the share "
                   "of breakers that are not open, times how usual the run times are. The exit "
                   "code is 0 when healthy (from 0.8) or degraded (from 0.5), and 1 when "
                   "unhealthy; `health` in the configuration has the bounds. Without workers "
                   "and without breakers all is well.",
    .examples = EXAMPLES({"redrive health", "for people"},
                         {"redrive health --json", "for a monitoring system"}),
    .run_on_store = run_health,
    .settings = SETTINGS_HEALTH,
};
