/* work.c - `redrive work`: claims jobs and runs them, and says what was done and what is left. */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/shared/session.h"
#include "cli/shared/working.h"
#include "engine/event.h"
#include "engine/report/spans.h"
#include "run/otlp/exporter.h"
#include "server/metrics/metrics.h"
#include "store/job_json.h"
#include "store/store.h"

/* ---- What was done --------------------------------------------------------------------------- */

struct work_counts {
    uint64_t ran; /* runs that have ended; released ones have not */
    uint64_t completed;
    uint64_t retried;
    uint64_t dead;
    uint64_t failed;
    uint64_t released;
};

struct work_tally {
    struct str worker; /* whose runs count; borrowed */
    pthread_mutex_t mutex;
    struct work_counts counts;
};

static void work_tally_init(struct work_tally *tally, struct str worker)
{
    *tally = (struct work_tally){.worker = worker};
    pthread_mutex_init(&tally->mutex, NULL);
}

static void work_tally_release(struct work_tally *tally)
{
    pthread_mutex_destroy(&tally->mutex);
}

static void count(struct work_counts *counts, const struct engine_event *event, bool is_own)
{
    counts->ran += is_own && event->ran && event->kind != ENGINE_EVENT_RELEASED;
    counts->completed += event->kind == ENGINE_EVENT_COMPLETED;
    counts->retried += event->kind == ENGINE_EVENT_RETRYING;
    counts->dead += event->kind == ENGINE_EVENT_DEAD;
    counts->failed += event->kind == ENGINE_EVENT_FAILED;
    counts->released += event->kind == ENGINE_EVENT_RELEASED;
}

/* A run that another worker has lost counts as retried or dead, but not as one of ours. */
static void work_tally_event(const struct engine_event *event, void *ctx)
{
    struct work_tally *tally = ctx;
    HOLD(&tally->mutex);
    count(&tally->counts, event, str_eq(event->worker, tally->worker));
}

static struct work_counts work_tally_counts(struct work_tally *tally)
{
    HOLD(&tally->mutex);
    return tally->counts;
}

/* ---- What is left ---------------------------------------------------------------------------- */

struct work_left {
    uint64_t waiting;          /* for their time */
    uint64_t waiting_for_jobs; /* that have not ended as they must */
    uint64_t parked;
    uint64_t ready;        /* that this worker does not take: no task of its own runs them */
    int64_t next_ready_ms; /* when the first of those waiting is due; 0: none is */
};

static bool is_meant(const struct job_count *queue, const struct str *queues, size_t n_queues)
{
    for (size_t i = 0; i < n_queues; i++)
        if (str_eq(queue->queue, queues[i]))
            return true;
    return n_queues == 0;
}

/* Reads outside of a transaction, so that it delays no other process: the store is a handle of its
 * own. An absent tenant means all, no queues mean all. */
static int read_left(struct store *store, struct str tenant, const struct str *queues,
                     size_t n_queues, struct work_left *ret, struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page page = {0};
    *ret = (struct work_left){0};
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, tenant, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct job_count *queue = &page.counts[i];
        if (!is_meant(queue, queues, n_queues))
            continue;
        ret->waiting += queue->by_state[REDRIVE_STATE_SCHEDULED];
        ret->waiting += queue->by_state[REDRIVE_STATE_RETRYING];
        ret->waiting_for_jobs += queue->by_state[REDRIVE_STATE_WAITING];
        ret->parked += queue->by_state[REDRIVE_STATE_PARKED];
        ret->ready += queue->by_state[REDRIVE_STATE_QUEUED];
        if (queue->next_due_ms != 0 &&
            (ret->next_ready_ms == 0 || queue->next_due_ms < ret->next_ready_ms))
            ret->next_ready_ms = queue->next_due_ms;
    }
    return rc;
}

/* ---- The summary ----------------------------------------------------------------------------- */

struct work_summary {
    struct work_counts counts;
    const struct work_left *left; /* NULL: it could not be read */
    int64_t took_ms;
};

static void summary_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct work_summary *s = thing;
    const struct work_counts *c = &s->counts;
    const struct work_left *left = s->left;
    char took[DURATION_TEXT_MAX], at[CLOCK_TEXT_MAX];
    (void)term;
    buf_printf(out,
               "ran %" PRIu64 " in %s: %" PRIu64 " completed, %" PRIu64 " retried, %" PRIu64
               " dead, %" PRIu64 " failed, %" PRIu64 " released\n",
               c->ran, duration_format(s->took_ms, took), c->completed, c->retried, c->dead,
               c->failed, c->released);
    if (!left)
        return;
    buf_printf(out, "left: %" PRIu64 " waiting for their time, %" PRIu64 " parked", left->waiting,
               left->parked);
    if (left->waiting_for_jobs > 0)
        buf_printf(out, ", %" PRIu64 " waiting for other jobs", left->waiting_for_jobs);
    if (left->ready > 0)
        buf_printf(out, ", %" PRIu64 " ready that nothing here takes", left->ready);
    buf_putc(out, '\n');
    if (left->next_ready_ms != 0)
        buf_printf(out, "the next one is ready at %s\n", clock_format(left->next_ready_ms, at));
}

static void summary_as_json(struct json_writer *w, const void *thing)
{
    const struct work_summary *s = thing;
    const struct work_counts *c = &s->counts;
    const struct work_left *left = s->left;
    json_begin_object(w);
    json_field_int(w, "ran", (int64_t)c->ran);
    json_field_int(w, "completed", (int64_t)c->completed);
    json_field_int(w, "retried", (int64_t)c->retried);
    json_field_int(w, "dead", (int64_t)c->dead);
    json_field_int(w, "failed", (int64_t)c->failed);
    json_field_int(w, "released", (int64_t)c->released);
    if (left) {
        json_field_int(w, "waiting", (int64_t)left->waiting);
        json_field_int(w, "waiting_for_jobs", (int64_t)left->waiting_for_jobs);
        json_field_int(w, "parked", (int64_t)left->parked);
        json_field_int(w, "ready", (int64_t)left->ready);
        job_write_time(w, "next_ready_time", left->next_ready_ms);
    }
    json_field_double(w, "seconds", (double)s->took_ms / 1000);
    json_end_object(w);
}

/* ---- The worker ------------------------------------------------------------------------------ */

struct work_options {
    bool until_idle;
    struct option_strings queues;
    struct option_strings tasks;
    struct worker_options worker;
    const char *tenant;
    const char *metrics;
};

struct work {
    const struct work_options *options;
    char name[WORKER_NAME_MAX];
    struct str *queues;
    struct str *tasks;
    struct session session;
    struct committer *committer;
    struct work_tally tally;
    struct run_times *times;        /* NULL: without metrics */
    struct metrics_server *metrics; /* NULL: none */
    struct otlp_exporter *exporter; /* NULL: without tracing */
    struct working working;
    int n_signals; /* that have come */
    int64_t started_ms;
    bool is_over; /* nothing runs any more */
};

static void on_event(const struct engine_event *event, void *ctx)
{
    struct work *work = ctx;
    work_tally_event(event, &work->tally);
    if (work->times)
        run_times_event(work->times, event);
    spans_event(otlp_exporter_tracing(work->exporter), event);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct work *work = handle->data;
    int64_t grace_ms = work->n_signals++ == 0 ? work->options->worker.grace_ms : 0;
    struct pool_status status = pool_status(work->working.pool);
    log_event(&work->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "worker_stopping",
              LOG_S("worker", work->name), LOG_S("signal", number == SIGINT ? "SIGINT" : "SIGTERM"),
              LOG_I("running", (int64_t)status.running), LOG_I("grace_ms", grace_ms));
    pool_stop(work->working.pool, grace_ms);
}

/* ---- Working --------------------------------------------------------------------------------- */

static void on_stopped(void *ctx)
{
    struct work *work = ctx;
    work->is_over = true;
    uv_stop(&work->working.loop);
}

static struct pool_options describe_pool(struct work *work)
{
    const struct work_options *o = work->options;
    return (struct pool_options){
        .loop = &work->working.loop,
        .committer = work->committer,
        .config = work->session.config,
        .log = &work->session.log,
        .environ = environ,
        .tracing = otlp_exporter_tracing(work->exporter),
        .worker = str_of(work->name),
        .tenant = str_of(o->tenant),
        .queues = work->queues,
        .n_queues = o->queues.n,
        .tasks = work->tasks,
        .n_tasks = o->tasks.n,
        .max_jobs = (uint32_t)o->worker.concurrency,
        .until_idle = o->until_idle,
        .stopped = on_stopped,
        .stopped_ctx = work,
    };
}

static int start_pool(struct work *work, struct redrive_err *err)
{
    const struct pool_options options = describe_pool(work);
    struct pool *pool;
    int rc = pool_new(&options, &pool, err);
    if (rc < 0)
        return rc;
    working_set_pool(&work->working, pool);
    log_event(&work->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "worker_started",
              LOG_S("worker", work->name), LOG_S("store", work->session.config->store_shown),
              LOG_I("slots", (int64_t)pool_status(pool).slots));
    return 0;
}

static int summarize(struct cli *cli, struct work *work, struct redrive_err *err)
{
    struct work_left left;
    struct work_summary summary = {
        .counts = work_tally_counts(&work->tally),
        .left = &left,
        .took_ms = clock_monotonic_ms() - work->started_ms,
    };
    struct redrive_err why;
    struct store *store = NULL;
    int rc = session_another_store(&work->session, &store, &why);
    if (rc == 0)
        rc = read_left(store, str_of(work->options->tenant), work->queues, work->options->queues.n,
                       &left, &why);
    store_close(store);
    if (rc < 0) {
        cli_warn(cli, &why);
        summary.left = NULL;
    }
    rc = cli_show(cli, &summary, summary_as_json, summary_as_text, err);
    uint64_t lost = summary.counts.dead + summary.counts.failed;
    if (rc == 0)
        rc = working_judge(&work->working, err);
    if (rc < 0 || lost == 0)
        return rc;
    return err_set(err, REDRIVE_E_JOB_FAILED, "%" PRIu64 " job%s failed for good", lost,
                   lost == 1 ? "" : "s");
}

static int work_on(struct cli *cli, struct work *work, struct redrive_err *err)
{
    int rc = working_watch_signals(&work->working, on_signal, work, err);
    if (rc == 0)
        rc = start_pool(work, err);
    while (rc == 0 && !work->is_over)
        (void)uv_run(&work->working.loop, UV_RUN_DEFAULT);
    if (rc == 0) {
        const struct pool_status status = pool_status(work->working.pool);
        log_event(&work->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "worker_stopped",
                  LOG_S("worker", work->name), LOG_I("runs", (int64_t)status.ended));
    }
    if (rc == 0 && work->options->until_idle) {
        working_look_at_alerts(&work->working, cli, work->committer);
        rc = summarize(cli, work, err);
    }
    return rc;
}

/* ---- The command ----------------------------------------------------------------------------- */

static struct str *as_strs(const struct option_strings *strings)
{
    struct str *strs = calloc(strings->n + 1, sizeof *strs);
    for (size_t i = 0; i < strings->n && strs; i++)
        strs[i] = str_of(strings->items[i]);
    return strs;
}

static int load(struct cli *cli, struct work *work, struct redrive_err *err)
{
    int rc = 0;
    if (work->options->metrics)
        rc = load_config_flag("listen-metrics", work->options->metrics, err);
    if (rc == 0)
        rc = session_load(cli, &work->session, err);
    if (rc == 0 && work->session.config->listen.metrics && !(work->times = run_times_new()))
        rc = err_nomem(err);
    return rc;
}

static int start_metrics(struct work *work, struct redrive_err *err)
{
    const struct metrics_server_options options = {
        .config = work->session.config,
        .times = work->times,
        .store_status = committer_store_status(work->committer),
        .tracing = otlp_exporter_tracing(work->exporter),
        .log = &work->session.log,
    };
    if (!work->times)
        return 0;
    int rc = metrics_server_start(&options, &work->metrics, err);
    if (rc == 0)
        session_log_listening(&work->session, "metrics", options.config->listen.metrics,
                              metrics_server_port(work->metrics));
    return rc;
}

static int open_all(struct cli *cli, struct work *work, struct redrive_err *err)
{
    const struct engine_options options = {
        .starts_at_info = true,
        .on_event = on_event,
        .event_ctx = work,
        .on_alert = working_on_alert,
        .alert_ctx = &work->working,
    };
    work->queues = as_strs(&work->options->queues);
    work->tasks = as_strs(&work->options->tasks);
    if (!work->queues || !work->tasks)
        return err_nomem(err);
    int rc = load(cli, work, err);
    /* Before the store is opened: a process that does not start to work must not set one up. */
    if (rc == 0) {
        const struct pool_options wanted = describe_pool(work);
        rc = pool_check(&wanted, err);
    }
    if (rc == 0) {
        session_log_config(&work->session);
        session_log_exposed(&work->session, work->session.config, NULL);
    }
    if (rc == 0)
        rc = session_start_tracing(&work->session, &work->exporter, err);
    if (rc == 0)
        rc = session_connect(&work->session, &options, err);
    /* Before the engine first looks: an alert is sent once. */
    if (rc == 0)
        rc = working_start_alerts(&work->working, work->session.config, &work->session.log, err);
    if (rc == 0)
        rc = session_committer(&work->session, working_on_ready, &work->working, &work->committer,
                               err);
    return rc == 0 ? start_metrics(work, err) : rc;
}

/* The notifier stops last, because the others may still send alerts. */
static void close_all(struct work *work)
{
    metrics_server_stop(work->metrics);
    committer_stop(work->committer);
    working_close(&work->working, work->n_signals == 0);
}

static int run_work(struct cli *cli, struct redrive_err *err)
{
    struct work work = {
        .options = invocation_options(&cli->invocation),
        .started_ms = clock_monotonic_ms(),
    };
    /* A closed pipe of the log must not end the worker. */
    signal(SIGPIPE, SIG_IGN);
    worker_name(work.options->worker.name, work.name);
    work_tally_init(&work.tally, str_of(work.name));
    int rc = working_init(&work.working, err);
    if (rc == 0) {
        rc = open_all(cli, &work, err);
        if (rc == 0)
            rc = work_on(cli, &work, err);
        close_all(&work);
    }
    otlp_exporter_stop(work.exporter, SESSION_TRACING_GRACE_MS);
    session_close(&work.session);
    run_times_free(work.times);
    work_tally_release(&work.tally);
    free(work.queues);
    free(work.tasks);
    return rc;
}

static const struct field OPTIONS[] = {
    OPTION("until-idle", 0, NULL, "stop when nothing is ready any more, and say what was done",
           INTO_FLAG(struct work_options, until_idle)),
    OPTION("queue", 'q', "NAME", "take jobs of this queue only; the first one named goes first",
           INTO_STRINGS(struct work_options, queues)),
    OPTION("task", 't', "NAME", "run this task only", INTO_STRINGS(struct work_options, tasks)),
    WORKER_ROWS(struct work_options, worker),
    OPTION("tenant", 0, "NAME", "take jobs of this tenant only",
           INTO_STRING(struct work_options, tenant)),
    OPTION("metrics", 0, "ADDRESS",
           "where Prometheus finds GET /metrics of this worker: HOST:PORT; as listen.metrics; "
           "without tokens a loopback address",
           INTO_STRING(struct work_options, metrics)),
    {0},
};

const struct command cmd_work = {
    .name = "work",
    .summary = "run the jobs of a store, as the configuration says",
    .description =
        "Takes ready jobs of every task whose configuration says how it is run, runs them, and "
        "settles how they ended: done, to be tried again later, or dead. Several workers may share "
        "a store. The log, on standard error, says how each run ended. When the store cannot be "
        "written to, outcomes are kept and tried again.\n"
        "\n"
        "Jobs of all tasks start in one order: by the queues as they are named, then the highest "
        "priority, then the oldest. A task that runs as many as its run.concurrency says is passed "
        "over until one of them ends.\n"
        "\n"
        "SIGINT or SIGTERM lets running jobs end, for as long as --grace says; the second one "
        "stops them at once. A job that was stopped is released, and has not used an attempt.\n"
        "\n"
        "With OTEL_EXPORTER_OTLP_ENDPOINT in the environment each attempt is a span that is sent "
        "to that collector, as the OTEL_ variables say (docs/tracing.md).\n"
        "\n"
        "With --until-idle the worker stops by itself when nothing is ready and nothing runs. Jobs "
        "that wait for their time or are parked are left. The exit code is 3 when a job died or "
        "failed for good meanwhile, and 1 when a shard was away, so that its jobs were not looked "
        "at.",
    OPTIONS_INTO(OPTIONS, struct work_options),
    .examples = EXAMPLES(
        {"redrive work -c redrive.yaml", "run jobs until a signal comes"},
        {"redrive work --until-idle --json", "run what is ready, and say what became of it"},
        {"redrive work --task mail --concurrency 2", "one task, at most two jobs at one time"}),
    .run = run_work,
    .settings = SETTINGS_RUN | SETTINGS_METRICS,
};
