/* workers.c - pools that run jobs and notifiers that send alerts, one for each configuration; rows
 * of workers in the store. */
#include "cli/commands/serve/private.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/worker/claim_pace.h"
#include "run/from_config.h"

/* ---- Is there work? -------------------------------------------------------------------------- */

bool serve_has_work(const struct serve *serve, const struct config *config)
{
    for (size_t i = 0; i < config->n_tasks && !serve->options->no_work; i++)
        if (config->tasks[i].run.kind != CONFIG_RUN_NONE)
            return true;
    return false;
}

int serve_check_work(const struct serve *serve, const struct config *config,
                     struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < config->n_tasks && rc == 0 && !serve->options->no_work; i++)
        if (config->tasks[i].run.kind != CONFIG_RUN_NONE)
            rc = from_config_check(&config->tasks[i], environ, err);
    return rc;
}

static bool same_strings(const struct config_strings *a, const struct config_strings *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = str_eq(str_of(a->items[i]), str_of(b->items[i]));
    return same;
}

static bool same_http(const struct config_http *a, const struct config_http *b)
{
    bool same = str_eq(str_of(a->url), str_of(b->url)) && a->n_secrets == b->n_secrets &&
                a->n_headers == b->n_headers;
    for (size_t i = 0; i < a->n_secrets && same; i++)
        same = a->secrets[i].len == b->secrets[i].len &&
               memcmp(a->secrets[i].bytes, b->secrets[i].bytes, a->secrets[i].len) == 0;
    for (size_t i = 0; i < a->n_headers && same; i++)
        same = strcmp(a->headers[i].name, b->headers[i].name) == 0 &&
               strcmp(a->headers[i].value, b->headers[i].value) == 0;
    return same;
}

static bool same_run(const struct config_task *a, const struct config_task *b)
{
    const struct config_run *x = &a->run, *y = &b->run;
    return x->kind == y->kind && same_strings(&x->exec, &y->exec) &&
           same_strings(&x->stream, &y->stream) && same_http(&x->http, &y->http) &&
           x->processes == y->processes && x->in_flight == y->in_flight &&
           x->concurrency == y->concurrency && x->timeout_ms == y->timeout_ms &&
           x->kill_grace_ms == y->kill_grace_ms && same_strings(&x->pass_env, &y->pass_env) &&
           x->allow_private == y->allow_private && x->connect_timeout_ms == y->connect_timeout_ms &&
           a->lease_ms == b->lease_ms && a->heartbeat_ms == b->heartbeat_ms &&
           claim_ahead_is_allowed(a) == claim_ahead_is_allowed(b);
}

static bool runs_all_of(const struct config *a, const struct config *b)
{
    for (size_t i = 0; i < b->n_tasks; i++)
        if (b->tasks[i].run.kind != CONFIG_RUN_NONE &&
            !same_run(config_task(a, str_of(b->tasks[i].name)), &b->tasks[i]))
            return false;
    return true;
}

bool serve_same_work(const struct config *a, const struct config *b)
{
    return runs_all_of(a, b) && runs_all_of(b, a);
}

/* ---- Configurations of what has failed ------------------------------------------------------- */

/* Holds the configuration of a pool that failed to start, and that closes itself on the loop
 * meanwhile, until the loop has ended. */
static void keep_config(struct serve *serve, struct config *config)
{
    struct serve_kept *one = calloc(1, sizeof *one);
    if (!one)
        return; /* it stays for good, which does no harm but to memory */
    one->config = config_hold(config);
    list_insert(&serve->kept, &one->link);
}

void serve_release_kept(struct serve *serve)
{
    LIST_FOREACH (&serve->kept, link) {
        struct serve_kept *one = LIST_ENTRY(link, struct serve_kept, link);
        list_remove(link);
        config_free(one->config);
        free(one);
    }
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static void take_out(struct serve *serve, struct list *link)
{
    HOLD(&serve->mutex);
    list_remove(link);
}

static void put_in(struct serve *serve, struct list *where, struct list *link)
{
    HOLD(&serve->mutex);
    list_insert(where, link);
}

static void on_pool_stopped(void *ctx)
{
    struct serve_pool *one = ctx;
    struct serve *serve = one->serve;
    take_out(serve, &one->link);
    if (serve->pool == one)
        serve->pool = NULL;
    pool_free(one->pool);
    config_free(one->config);
    free(one);
    serve_part_ended(serve);
}

/* In a pool of a former configuration, which ends its runs. */
static bool runs_in_former_pool(int64_t seq, void *ctx)
{
    const struct serve_pool *own = ctx;
    LIST_FOREACH (&own->serve->pools, link) {
        const struct serve_pool *one = LIST_ENTRY(link, struct serve_pool, link);
        if (one != own && pool_runs(one->pool, seq))
            return true;
    }
    return false;
}

int serve_start_pool(struct serve *serve, struct config *config, struct redrive_err *err)
{
    struct serve_pool *one = calloc(1, sizeof *one);
    if (!one)
        return err_nomem(err);
    const struct pool_options options = {
        .loop = &serve->loop,
        .committer = serve->committer,
        .config = config,
        .log = &serve->session.log,
        .environ = environ,
        .tracing = otlp_exporter_tracing(serve->exporter),
        .worker = str_of(serve->name),
        .max_jobs = (uint32_t)serve->options->worker.concurrency,
        .stopped = on_pool_stopped,
        .stopped_ctx = one,
        .runs_elsewhere = runs_in_former_pool,
        .elsewhere_ctx = one,
    };
    int rc = pool_new(&options, &one->pool, err);
    if (rc < 0) {
        /* What had been begun closes itself on the loop, and may look at the configuration. */
        keep_config(serve, config);
        free(one);
        return rc;
    }
    one->serve = serve;
    one->config = config_hold(config);
    put_in(serve, &serve->pools, &one->link);
    serve->pool = one;
    log_event(&serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "worker_started",
              LOG_S("worker", serve->name), LOG_I("slots", (int64_t)pool_status(one->pool).slots));
    return 0;
}

void serve_retire_pool(struct serve *serve)
{
    if (serve->pool)
        pool_retire(serve->pool->pool, SERVE_RETIRED_GRACE_MS);
    serve->pool = NULL;
}

void serve_stop_pools(struct serve *serve, int64_t grace_ms)
{
    /* The list is changed by this thread only, and not from inside pool_stop. */
    LIST_FOREACH (&serve->pools, link)
        pool_stop(LIST_ENTRY(link, struct serve_pool, link)->pool, grace_ms);
}

/* ---- Notifiers ------------------------------------------------------------------------------- */

static void on_notifier_stopped(void *ctx)
{
    struct serve_notifier *one = ctx;
    take_out(one->serve, &one->link);
    notifier_free(one->notifier);
    config_free(one->config);
    free(one);
}

int serve_start_notifier(struct serve *serve, struct config *config, struct redrive_err *err)
{
    struct serve_notifier *one = calloc(1, sizeof *one);
    if (!one)
        return err_nomem(err);
    const struct notifier_options options = {
        .loop = &serve->loop,
        .config = config,
        .log = &serve->session.log,
        .environ = environ,
    };
    int rc = notifier_new(&options, &one->notifier, err);
    if (rc < 0) {
        free(one);
        return rc;
    }
    one->serve = serve;
    one->config = config_hold(config);
    put_in(serve, &serve->notifiers, &one->link);
    return 0;
}

/* The list is changed by this thread only, and not from inside notifier_finish or notifier_stop. */
void serve_retire_notifiers(struct serve *serve, const struct config *but)
{
    LIST_FOREACH (&serve->notifiers, link) {
        struct serve_notifier *one = LIST_ENTRY(link, struct serve_notifier, link);
        if (one->config == but || one->is_retired)
            continue;
        one->is_retired = true;
        notifier_finish(one->notifier, SERVE_NOTIFY_PATIENCE_MS, on_notifier_stopped, one);
    }
}

void serve_stop_notifiers(struct serve *serve)
{
    LIST_FOREACH (&serve->notifiers, link) {
        struct serve_notifier *one = LIST_ENTRY(link, struct serve_notifier, link);
        notifier_stop(one->notifier, SERVE_NOTIFY_GRACE_MS, on_notifier_stopped, one);
    }
}

/* ---- Rows of workers ---------------------------------------------------------------------------
 *
 * A server that runs no jobs itself writes its own row, because it settles jobs of remote workers;
 * where it has a pool, the pool does. It also writes the rows of remote workers, which have no
 * access to the store.
 */

/* A row that could not be written is no reason to stop: the next one will do. */
static void on_own_row_written(struct op *op, void *ctx)
{
    struct serve *serve = ctx;
    (void)op;
    serve->row.is_under_way = false;
}

static void write_own_row(struct serve *serve)
{
    if (serve->row.is_under_way || serve->row.has_left)
        return;
    worker_op_init(&serve->row.op, str_of(serve->name), (struct str){0});
    serve->row.op.leaving = serve->row.has_left = serve->row.is_leaving;
    serve->row.is_under_way = true;
    mailbox_send(&serve->mailbox, &serve->row.op.op, on_own_row_written, serve);
    mailbox_flush(&serve->mailbox);
}

static void on_remote_rows_written(struct op *op, void *ctx)
{
    struct serve *serve = ctx;
    (void)op;
    arena_release(&serve->row.remote_arena);
    serve->row.is_remote_under_way = false;
}

/* One batch at a time; true when there was nothing to write. */
static bool write_remote_rows(struct serve *serve)
{
    struct remote_worker *workers;
    if (serve->row.is_remote_under_way)
        return false;
    arena_init(&serve->row.remote_arena);
    const size_t n =
        remote_workers_collect(serve->remote, engine_now_ms(committer_engine(serve->committer)),
                               serve->row.is_leaving, &serve->row.remote_arena, &workers);
    if (n == 0) {
        arena_release(&serve->row.remote_arena);
        return true;
    }
    remote_workers_op_init(&serve->row.remote_op, workers, n);
    serve->row.is_remote_under_way = true;
    mailbox_send(&serve->mailbox, &serve->row.remote_op.op, on_remote_rows_written, serve);
    mailbox_flush(&serve->mailbox);
    return false;
}

static void on_timer(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    if (!serve->pool)
        write_own_row(serve);
    (void)write_remote_rows(serve);
}

void serve_row_init(struct serve *serve)
{
    uv_timer_init(&serve->loop, &serve->row.timer);
    serve->row.timer.data = serve;
    uv_timer_start(&serve->row.timer, on_timer, 0, WORKER_EVERY_MS);
}

bool serve_row_leave(struct serve *serve)
{
    serve->row.is_leaving = true;
    write_own_row(serve);
    return write_remote_rows(serve) && serve->row.has_left && !serve->row.is_under_way;
}
