/* stats.c - `redrive stats` and `redrive health`: the statistics of the store, and one number for
 * how well the work goes. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/output/figures.h"
#include "cli/remote/remote.h"
#include "cli/shared/answer.h"
#include "engine/report/stats.h"

struct stats_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "only the statistics of this tenant",
           INTO_STRING(struct stats_options, tenant)),
    {0},
};

/* The figures, and the document if a server wrote it. */
struct shown_stats {
    struct stats stats;
    struct http_answer document;
};

static void stats_as_json(struct json_writer *w, const void *thing)
{
    const struct shown_stats *shown = thing;
    if (shown->document.body.len > 0)
        json_put_raw(w, str_trim(buf_str(&shown->document.body)));
    else
        stats_write_json(w, &shown->stats);
}

/* The score is about work that was done: it says nothing about work that waits. */
static void put_health(const struct stats *s, bool color, struct buf *out)
{
    uint64_t ready = 0;
    for (size_t i = 0; i < s->queues.n; i++)
        if (!s->queues.counts[i].paused)
            ready += s->queues.counts[i].by_state[REDRIVE_STATE_QUEUED];
    buf_puts(out, "health      ");
    style_add(out, color, figure_health_style(str_of(s->health.status)), str_of(s->health.status));
    buf_printf(out, " (score %.2f, errors %.1f %%)", s->health.health_score,
               100 * s->health.error_rate);
    if (s->workers.n == 0 && ready > 0) {
        buf_puts(out, ", but ");
        style_add(out, color, STYLE_YELLOW, STR("no workers"));
        buf_printf(out, ": %" PRIu64 " ready job%s wait%s", ready, ready == 1 ? "" : "s",
                   ready == 1 ? "s" : "");
    }
    buf_putc(out, '\n');
}

static void put_summary(const struct stats *s, bool color, struct buf *out)
{
    char a[FIGURE_MAX], b[FIGURE_MAX], c[FIGURE_MAX];
    const uint32_t *by = s->breakers_by_state;
    put_health(s, color, out);
    buf_printf(out, "throughput  %s tasks/s, ", figure_rate(s->tasks_per_second, a));
    if (s->workers.n == 0)
        buf_puts(out, "no workers\n");
    else
        buf_printf(out, "%zu worker%s\n", s->workers.n, s->workers.n == 1 ? "" : "s");
    buf_printf(
        out, "run time    p50 %s, p90 %s, p99 %s\n", figure_span((int64_t)s->run_time.p50_ms, a),
        figure_span((int64_t)s->run_time.p90_ms, b), figure_span((int64_t)s->run_time.p99_ms, c));
    buf_printf(out, "ready       oldest %s, next time-locked %s\n",
               figure_since(s->oldest_ready_ms, s->at_ms, a),
               figure_until(s->next_ready_ms, s->at_ms, b));
    buf_printf(out,
               "breakers    %zu: %u closed, %u open, %u half open, %u forced open, %u disabled\n",
               s->breakers.n, by[REDRIVE_BREAKER_CLOSED], by[REDRIVE_BREAKER_OPEN],
               by[REDRIVE_BREAKER_HALF_OPEN], by[REDRIVE_BREAKER_FORCED_OPEN],
               by[REDRIVE_BREAKER_DISABLED]);
    buf_printf(out, "retries     %.2f for each job that ended, %" PRIu64 " errors unclassified\n",
               s->average_retries, s->unclassified);
}

static void add_counts(struct table *t, const uint64_t *counts)
{
    static const enum engine_event_kind SHOWN[] = {
        ENGINE_EVENT_SUBMITTED, ENGINE_EVENT_STARTED, ENGINE_EVENT_COMPLETED,
        ENGINE_EVENT_RETRYING,  ENGINE_EVENT_DEAD,    ENGINE_EVENT_FAILED,
        ENGINE_EVENT_CANCELLED, ENGINE_EVENT_PARKED,  ENGINE_EVENT_RELEASED};
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++)
        table_addf(t, "%" PRIu64, counts[SHOWN[i]]);
}

static void put_counters(const struct stats *s, const struct term *term, struct buf *out)
{
    const struct stats_rows *tasks = &s->by[STATS_TASK];
    struct table t;
    table_init(&t,
               "TASK|>RECEIVED|>STARTED|>DONE|>RETRIED|>DEAD|>FAILED|>CANCELLED|>PARKED|>RELEASED");
    table_add_styled(&t, STYLE_BOLD, "all");
    add_counts(&t, s->counts);
    for (size_t i = 0; i < tasks->n; i++) {
        table_add_str(&t, tasks->rows[i].name);
        add_counts(&t, tasks->rows[i].counts);
    }
    buf_putc(out, '\n');
    table_finish(&t, 0, term->color, out);
}

static void put_queues(const struct stats *s, const struct term *term, struct buf *out)
{
    char age[FIGURE_MAX];
    struct table t;
    table_init(&t, "QUEUE|>SCHEDULED|>RETRYING|>QUEUED|>RUNNING|>PARKED|>COMPLETED|>FAILED"
                   "|>DEAD|>CANCELLED|>WAITING|>OLDEST");
    _Static_assert(REDRIVE_STATE_COUNT == 10, "every state has a column");
    for (size_t i = 0; i < s->queues.n; i++) {
        const struct job_count *q = &s->queues.counts[i];
        table_addf(&t, "%.*s%s%.*s%s", s->tenant.len ? 0 : (int)q->tenant.len, q->tenant.ptr,
                   s->tenant.len ? "" : "/", (int)q->queue.len, q->queue.ptr,
                   q->paused ? " (paused)" : "");
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            table_addf(&t, "%" PRIu64, q->by_state[state]);
        table_add(&t, figure_since(q->oldest_ready_ms, s->at_ms, age));
    }
    buf_putc(out, '\n');
    table_finish(&t, 0, term->color, out);
}

static void stats_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct stats *stats = &((const struct shown_stats *)thing)->stats;
    put_summary(stats, term->color, out);
    put_counters(stats, term, out);
    put_queues(stats, term, out);
}

static int run_stats(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct stats_options *options = invocation_options(&cli->invocation);
    struct shown_stats shown = {0};
    int rc = 0;
    http_answer_init(&shown.document);
    if (!session->remote)
        rc = stats_read(session->store, str_of(options->tenant), &session->config->health,
                        session_now_ms(session), &shown.stats, err);
    else
        rc = remote_stats(session->remote, &shown.document, &shown.stats, err);
    if (rc == 0)
        rc = cli_show(cli, &shown, stats_as_json, stats_as_text, err);
    http_answer_release(&shown.document);
    stats_release(&shown.stats);
    return rc;
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
static void put_work(struct buf *out, const struct object *health)
{
    const int64_t workers = object_int(health, "workers");
    if (workers == 0) {
        buf_puts(out, "  success rate   - (no workers)\n");
    } else {
        buf_printf(out, "  success rate   %.1f %% of about the last minute\n",
                   100 * object_double(health, "success_rate", 0));
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
        put_work(out, health);
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
