/* batch.c - `redrive batch`: submits records once, works off what is due, and stops. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/commands/batch/feed.h"
#include "cli/commands/batch/tally.h"
#include "cli/jobs/export.h"
#include "cli/output/progress.h"
#include "cli/shared/session.h"
#include "cli/shared/working.h"

#define REPORTS_MAX   20
#define PATH_TEXT_MAX 4096

struct batch_options {
    int format;
    const char *id_field;
    const char *payload_field;
    bool strict;
    const char *results;
    const char *dead;
};

struct batch {
    struct cli *cli;
    const struct batch_options *options;
    struct str task;
    const char *input; /* NULL: none */
    char worker[WORKER_NAME_MAX];
    struct session session;
    struct log pool_log;
    struct committer *committer;
    struct store *keys; /* the feed's handle */
    struct batch_tally tally;
    struct feed feed;
    int64_t started_ms;

    struct working working;
    uv_async_t notification; /* of the feed */
    uv_timer_t redraw;
    struct progress progress;
    int n_signals; /* that have come */
    bool is_fed;   /* the input has ended */

    pthread_mutex_t mutex; /* guards what follows, which other threads use too */
    bool feed_ended;
    struct redrive_err reports[REPORTS_MAX];
    size_t n_reports;
    size_t n_reported;
};

/* ---- What other threads report -----------------------------------------------------------------
 */

static void on_report(const struct redrive_err *err, void *ctx)
{
    struct batch *b = ctx;
    pthread_mutex_lock(&b->mutex);
    if (b->n_reports < REPORTS_MAX)
        b->reports[b->n_reports++] = *err;
    pthread_mutex_unlock(&b->mutex);
    uv_async_send(&b->notification);
}

static void on_feed_ended(void *ctx)
{
    struct batch *b = ctx;
    pthread_mutex_lock(&b->mutex);
    b->feed_ended = true;
    pthread_mutex_unlock(&b->mutex);
    uv_async_send(&b->notification);
}

/* The first bad records, each once. */
static void tell_reports(struct batch *b)
{
    pthread_mutex_lock(&b->mutex);
    size_t n = b->n_reports;
    pthread_mutex_unlock(&b->mutex);
    if (b->n_reported < n)
        progress_clear(&b->progress);
    for (; b->n_reported < n; b->n_reported++)
        cli_warn(b->cli, &b->reports[b->n_reported]);
}

static void on_notification(uv_async_t *async)
{
    struct batch *b = async->data;
    tell_reports(b);
    pthread_mutex_lock(&b->mutex);
    bool has_ended = b->feed_ended;
    pthread_mutex_unlock(&b->mutex);
    if (!has_ended || b->is_fed)
        return;
    b->is_fed = true;
    pool_until_idle(b->working.pool);
}

static void on_redraw(uv_timer_t *timer)
{
    struct batch *b = timer->data;
    uint64_t added = atomic_load(&b->feed.added), ended = batch_tally_ended(&b->tally);
    /* While records are still read, their number is not known. */
    b->progress.total = !b->is_fed || added < ended ? 0 : added;
    progress_update(&b->progress, ended);
}

/* The first signal lets running jobs end, the second one gives them back. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct batch *b = handle->data;
    (void)number;
    feed_stop(&b->feed);
    pool_stop(b->working.pool, b->n_signals++ == 0 ? POOL_GRACE_MS : 0);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void close_handles(struct batch *b)
{
    working_close_signals(&b->working);
    uv_close((uv_handle_t *)&b->notification, NULL);
    uv_close((uv_handle_t *)&b->redraw, NULL);
}

static int open_handles(struct batch *b, struct redrive_err *err)
{
    int rc = uv_async_init(&b->working.loop, &b->notification, on_notification);
    if (rc < 0)
        return err_set(err, REDRIVE_E_IO, "cannot start working: %s", uv_strerror(rc));
    uv_timer_init(&b->working.loop, &b->redraw);
    b->notification.data = b->redraw.data = b;
    if (b->cli->err.is_tty)
        uv_timer_start(&b->redraw, on_redraw, PROGRESS_REDRAW_MS, PROGRESS_REDRAW_MS);
    rc = working_watch_signals(&b->working, on_signal, b, err);
    if (rc < 0)
        close_handles(b);
    return rc;
}

/* No thread may send messages any more when the handles are closed. */
static void on_stopped(void *ctx)
{
    struct batch *b = ctx;
    feed_stop(&b->feed);
    (void)feed_join(&b->feed, NULL);
    tell_reports(b);
    progress_clear(&b->progress);
    working_look_at_alerts(&b->working, b->cli, b->committer);
    working_end_alerts(&b->working, b->n_signals == 0);
    close_handles(b);
}

static int start_working(struct batch *b, struct redrive_err *err)
{
    const struct pool_options options = {
        .loop = &b->working.loop,
        .committer = b->committer,
        .config = b->session.config,
        .log = &b->pool_log,
        .environ = environ,
        .worker = str_of(b->worker),
        .tenant = STR(ENGINE_TENANT_DEFAULT),
        .tasks = &b->task,
        .n_tasks = 1,
        .until_idle = b->input == NULL,
        .stopped = on_stopped,
        .stopped_ctx = b,
    };
    struct pool *pool = NULL;
    int rc = pool_new(&options, &pool, err);
    if (rc < 0) {
        close_handles(b);
        return rc;
    }
    working_set_pool(&b->working, pool);
    b->is_fed = b->input == NULL;
    rc = b->is_fed ? 0 : feed_start(&b->feed, err);
    if (rc < 0)
        pool_stop(pool, 0);
    return rc;
}

/* ---- Exports --------------------------------------------------------------------------------- */

static int write_export(struct batch *b, struct store *store, const char *path, uint32_t states,
                        struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = STR(ENGINE_TENANT_DEFAULT),
        .task = b->task,
        .states = states,
        .order = ORDER_OLDEST,
    };
    struct export_file file;
    uint64_t n;
    int rc = export_file_open(&file, "export", path, true, err);
    if (rc < 0)
        return rc;
    rc = export_jobs(store, &filter, export_format_of(path), file.file, NULL, &n, err);
    if (rc == 0)
        return export_file_finish(&file, err);
    export_file_abandon(&file);
    return rc;
}

static int make_directory(const char *path, struct redrive_err *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    int rc = err_set(err, REDRIVE_E_IO, "cannot make a directory: %s", strerror(errno));
    err_detail(err, "directory %s", path);
    return rc;
}

/* DIRECTORY/TASK.jsonl; the directory is made if it is not there. */
static int write_into(struct batch *b, struct store *store, const char *directory, uint32_t states,
                      struct redrive_err *err)
{
    char path[PATH_TEXT_MAX];
    int len =
        snprintf(path, sizeof path, "%s/%.*s.jsonl", directory, (int)b->task.len, b->task.ptr);
    if (len < 0 || (size_t)len >= sizeof path)
        return err_set(err, REDRIVE_E_TOO_BIG, "the name of a directory is too long");
    for (char *c = path + strlen(directory) + 1; *c; c++)
        if (*c == '/')
            *c = '_';
    int rc = make_directory(directory, err);
    return rc < 0 ? rc : write_export(b, store, path, states, err);
}

static int write_exports(struct batch *b, struct redrive_err *err)
{
    const struct config *config = b->session.config;
    const uint32_t done = 1u << REDRIVE_STATE_COMPLETED;
    const uint32_t dead = 1u << REDRIVE_STATE_DEAD_LETTER | 1u << REDRIVE_STATE_FAILED;
    struct store *store = NULL;
    if (!b->options->results && !b->options->dead && !config->paths.final_results &&
        !config->paths.dead_letter_queue)
        return 0;
    int rc = session_another_store(&b->session, &store, err);
    if (rc == 0 && b->options->results)
        rc = write_export(b, store, b->options->results, done, err);
    if (rc == 0 && b->options->dead)
        rc = write_export(b, store, b->options->dead, dead, err);
    if (rc == 0 && config->paths.final_results)
        rc = write_into(b, store, config->paths.final_results, done, err);
    if (rc == 0 && config->paths.dead_letter_queue)
        rc = write_into(b, store, config->paths.dead_letter_queue, dead, err);
    store_close(store);
    return rc;
}

/* Before hours of work rather than after them. */
static int check_export(const struct batch *b, const char *path, struct redrive_err *err)
{
    struct export_file file;
    if (!path)
        return 0;
    if (strcmp(path, "-") == 0) {
        (void)err_set(err, REDRIVE_E_USAGE, "--results and --dead need a file");
        err_detail(err, "standard output has the summary");
        err_hint(err, "`redrive jobs export --task %s` writes there", b->task.ptr);
        return REDRIVE_E_USAGE;
    }
    int rc = export_file_open(&file, "export", path, true, err);
    if (rc == 0)
        export_file_abandon(&file);
    return rc;
}

/* ---- The end --------------------------------------------------------------------------------- */

static int print_summary(struct batch *b, struct batch_summary *ret, struct redrive_err *err)
{
    struct redrive_err why;
    struct batch_left left;
    struct store *store = NULL;
    *ret = (struct batch_summary){
        .task = b->task.ptr,
        .has_input = b->input != NULL,
        .feed = feed_counts(&b->feed),
        .successful = atomic_load(&b->tally.successful),
        .retried = atomic_load(&b->tally.retried),
        .dead = atomic_load(&b->tally.dead),
        .left = &left,
        .took_ms = clock_monotonic_ms() - b->started_ms,
    };
    if (session_another_store(&b->session, &store, &why) < 0 ||
        batch_left(store, b->task, &left, &why) < 0) {
        cli_warn(b->cli, &why);
        ret->left = NULL;
    }
    store_close(store);
    int rc = cli_show(b->cli, ret, batch_summary_json, batch_summary_text, err);
    ret->left = NULL;
    return rc;
}

/* The result of the whole run: the gravest of what went wrong. */
static int judge(struct batch *b, const struct batch_summary *s, struct redrive_err *err)
{
    int rc = feed_join(&b->feed, err);
    if (rc < 0)
        return rc;
    if (b->n_signals > 0) {
        rc = err_set(err, REDRIVE_E_STOPPING, "stopped by a signal");
        err_hint(err, "run it again to go on: nothing is lost, and nothing is done twice");
        return rc;
    }
    rc = working_judge(&b->working, err);
    if (rc < 0)
        return rc;
    if (s->feed.invalid > 0) {
        rc = err_set(err, REDRIVE_E_IO, "%" PRIu64 " record%s of the input %s refused",
                     s->feed.invalid, s->feed.invalid == 1 ? "" : "s",
                     s->feed.invalid == 1 ? "was" : "were");
        if (s->feed.invalid > REPORTS_MAX)
            err_detail(err, "the first %d are shown above", REPORTS_MAX);
        return rc;
    }
    return s->dead == 0 ? 0
                        : err_set(err, REDRIVE_E_JOB_FAILED, "%" PRIu64 " record%s died", s->dead,
                                  s->dead == 1 ? "" : "s");
}

static int finish(struct batch *b, struct redrive_err *err)
{
    struct batch_summary summary;
    int printed = print_summary(b, &summary, err);
    int exported = write_exports(b, printed < 0 ? NULL : err);
    if (printed < 0)
        return printed;
    return exported < 0 ? exported : judge(b, &summary, err);
}

static int work(struct batch *b, struct redrive_err *err)
{
    int rc = open_handles(b, err);
    if (rc == 0)
        rc = start_working(b, err);
    if (!b->working.pool)
        working_end_alerts(&b->working, false);
    /* After a failure too: what was begun has to be closed. */
    while (uv_run(&b->working.loop, UV_RUN_DEFAULT) != 0)
        ;
    return rc < 0 ? rc : finish(b, err);
}

/* ---- The beginning --------------------------------------------------------------------------- */

/* What waits in a store that forgets would be lost with the end of this run. */
static int check_store(const struct batch *b, struct redrive_err *err)
{
    if (store_base(b->session.store)->durability != STORE_FORGETS)
        return 0;
    int rc = err_set(err, REDRIVE_E_CONFIG, "a batch needs a store that outlives it");
    err_detail(err, "the store is %s", b->session.config->store_shown);
    err_hint(err, "use --store sqlite:FILE");
    return rc;
}

static int open_input(struct batch *b, struct redrive_err *err)
{
    const struct batch_options *o = b->options;
    if (!b->input)
        return 0;
    const struct feed_options options = {
        .task = b->task.ptr,
        .path = b->input,
        .format = o->format < 0 ? records_format_of(b->input) : (enum records_format)o->format,
        .id_field = o->id_field,
        .payload_field = o->payload_field,
        .strict = o->strict,
        .report = on_report,
        .ended = on_feed_ended,
        .ctx = b,
    };
    return feed_open(&b->feed, &options, err);
}

/* Events of single records are in the store; they are logged only if --log-level asks for it. */
static void choose_logs(struct batch *b)
{
    session_hush(b->cli, &b->session);
    b->pool_log = b->session.log;
    if (b->cli->globals->log_level < 0)
        b->session.log.level = LOG_LEVEL_OFF;
}

/* Before the store is opened: a process that cannot run the task must not set one up. */
static int check_task(const struct batch *b, struct redrive_err *err)
{
    const struct config_task *task;
    const struct pool_options wanted = {
        .config = b->session.config, .environ = environ, .tasks = &b->task, .n_tasks = 1};
    int rc = load_config_task(b->session.config, b->task.ptr, &task, err);
    return rc < 0 ? rc : pool_check(&wanted, err);
}

static int open_all(struct batch *b, struct redrive_err *err)
{
    const struct engine_options options = {
        .on_event = batch_tally_event,
        .event_ctx = &b->tally,
        .on_alert = working_on_alert,
        .alert_ctx = &b->working,
        .alert_log = &b->pool_log,
    };
    int rc = session_load(b->cli, &b->session, err);
    if (rc == 0)
        rc = check_task(b, err);
    if (rc == 0)
        rc = open_input(b, err);
    if (rc == 0)
        rc = check_export(b, b->options->results, err);
    if (rc == 0)
        rc = check_export(b, b->options->dead, err);
    if (rc == 0 && b->session.config->paths.retry_queue)
        rc = make_directory(b->session.config->paths.retry_queue, err);
    if (rc < 0)
        return rc;
    choose_logs(b);
    session_log_config(&b->session);
    rc = session_connect(&b->session, &options, err);
    if (rc == 0)
        rc = check_store(b, err);
    /* Before the engine first looks: an alert is sent once. */
    if (rc == 0)
        rc = working_start_alerts(&b->working, b->session.config, &b->pool_log, err);
    if (rc == 0)
        rc = session_committer(&b->session, working_on_ready, &b->working, &b->committer, err);
    if (rc == 0 && b->input)
        rc = session_another_store(&b->session, &b->keys, err);
    b->feed.options.committer = b->committer;
    b->feed.options.store = b->keys;
    return rc;
}

static void close_all(struct batch *b)
{
    committer_stop(b->committer);
    working_close(&b->working, false);
    feed_release(&b->feed);
    store_close(b->keys);
    session_close(&b->session);
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

static int run_batch(struct cli *cli, struct redrive_err *err)
{
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return err_nomem(err);
    int rc = working_init(&b->working, err);
    if (rc < 0) {
        free(b);
        return rc;
    }
    b->cli = cli;
    b->options = invocation_options(&cli->invocation);
    b->task = str_of(cli->invocation.args[0]);
    b->input = cli->invocation.n_args > 1 ? cli->invocation.args[1] : NULL;
    b->started_ms = clock_monotonic_ms();
    b->tally.task = b->task;
    b->feed.fd = b->feed.wake[0] = b->feed.wake[1] = -1;
    pthread_mutex_init(&b->mutex, NULL);
    progress_init(&b->progress, &cli->err, "batch", 0, NULL);
    worker_name(NULL, b->worker);
    rc = open_all(b, err);
    if (rc == 0)
        rc = work(b, err);
    close_all(b);
    return rc;
}

static const char *const FORMATS[] = {"jsonl", "csv", NULL};

static const struct field OPTIONS[] = {
    OPTION("format", 0, "FORMAT",
           "what the input is, unless the ending of FILE or else its first byte is to tell",
           INTO_CHOICE(struct batch_options, format), .words = FORMATS),
    OPTION("id-field", 0, "NAME",
           "the field of the record's id; sample_id, or else id, unless given",
           INTO_STRING(struct batch_options, id_field)),
    OPTION("payload-field", 0, "NAME",
           "the field that is the payload; the whole record unless given",
           INTO_STRING(struct batch_options, payload_field)),
    OPTION("strict", 0, NULL, "stop reading at the first record that is refused",
           INTO_FLAG(struct batch_options, strict)),
    OPTION("results", 0, "FILE",
           "write all completed records of the task there: as CSV if FILE ends in .csv, else as "
           "JSON lines",
           INTO_STRING(struct batch_options, results)),
    OPTION("dead", 0, "FILE", "write all records of the task that died, likewise",
           INTO_STRING(struct batch_options, dead)),
    {0},
};

const struct command cmd_batch = {
    .name = "batch",
    .summary = "process records of a file, each once, and what is due",
    .arguments = "TASK [FILE]",
    .description =
        "Reads records from a file of JSON lines or CSV, or from standard input for -, and submits "
        "each of them once: a record whose id the store knows for this task is never taken again. "
        "Then runs all new records, and those of earlier runs whose time has come, and stops. "
        "Without FILE it runs only those of earlier runs. It does not wait for records that are "
        "due later or parked: run it again, from cron for instance.\n"
        "\n"
        "It may be killed at any time: the next run neither loses a record nor repeats one that is "
        "finished. SIGINT or SIGTERM lets running records end; the second one gives them back, and "
        "no attempt is used.\n"
        "\n"
        "Records that are refused, because they cannot be read, are counted and the first 20 are "
        "reported with their line; the others go on. The exit code is 0 when none died in this "
        "run, 3 when one did, and 1 when the input had records that were refused, or the run could "
        "not be finished. A handler that cannot run at all (a missing program or module) ends the "
        "run with 1, and every record still waits.",
    OPTIONS_INTO(OPTIONS, struct batch_options),
    .examples = EXAMPLES(
        {"redrive batch enrich samples.jsonl", "each record once, and what is due again"},
        {"redrive batch enrich", "only what is due"},
        {"redrive batch enrich - --format csv --json", "from a pipe, with a summary as JSON"},
        {"redrive batch enrich samples.csv --results done.csv --dead dead.jsonl",
         "and what came out of it"}),
    .run = run_batch,
    .settings = SETTINGS_RUN | SETTINGS_EXPORTS,
};
