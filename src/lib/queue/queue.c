/* queue.c - opens and closes a queue, and registers functions. */
#include "lib/queue/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/rng.h"
#include "engine/shards/router.h"
#include "store/shards/record.h"

#define TASK_MAX_LEN 255

/* ---- For all --------------------------------------------------------------------------------- */

int queue_is_missing(struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_INVALID, "there is no queue");
}

void queue_wake(struct redrive_queue *q)
{
    const uint64_t one = 1;
    const int saved = errno;
    ssize_t n = write(q->wake_fd, &one, sizeof one);
    (void)n; /* it fails only when it has been woken very often already */
    errno = saved;
}

void queue_submit(struct redrive_queue *q, struct op *op, void (*done)(struct op *op, void *ctx),
                  void *ctx)
{
    op->done = done;
    op->done_ctx = ctx;
    pthread_mutex_lock(&q->mutex);
    q->n_under_way++;
    pthread_mutex_unlock(&q->mutex);
    committer_submit(q->committer, op);
}

void queue_answered(struct redrive_queue *q)
{
    q->n_under_way--;
    if (q->n_alive == 0) /* the thread that called work waits for the last one */
        queue_wake(q);
}

void queue_wake_slot(struct queue_handler *h)
{
    if (h->n_asleep == 0 || h->is_waking)
        return;
    h->is_waking = true;
    pthread_cond_signal(&h->wake);
}

void queue_watch(struct redrive_queue *q)
{
    if (!q->is_watching)
        queue_wake(q);
    q->is_watching = true;
}

void queue_want_all(struct redrive_queue *q)
{
    for (struct queue_handler *h = q->handlers; h; h = h->next) {
        h->wants = true;
        queue_wake_slot(h);
    }
}

void queue_give_back(struct queue_handler *h, size_t n_left)
{
    while (h->n_claimed > n_left) {
        struct list *last = h->claimed.prev;
        LIST_ENTRY(last, struct redrive_task_run, link)->outcome.ending = ENDING_RELEASED;
        list_remove(last);
        list_insert(&h->ended, last);
        h->n_claimed--;
    }
}

void queue_begin_stop(struct redrive_queue *q)
{
    q->is_stopping = true;
    for (struct queue_handler *h = q->handlers; h; h = h->next) {
        queue_give_back(h, 0);
        pthread_cond_broadcast(&h->wake);
    }
}

/* On the committer's thread. */
static void on_ready(void *ctx)
{
    struct redrive_queue *q = ctx;
    HOLD(&q->mutex);
    if (q->is_working)
        queue_want_all(q);
}

/* ---- The log --------------------------------------------------------------------------------- */

void redrive_queue_log_to_stderr(const char *line, size_t len, void *ctx)
{
    char newline = '\n';
    const struct iovec parts[] = {{(void *)line, len}, {&newline, 1}};
    (void)ctx;
    ssize_t n = writev(STDERR_FILENO, parts, 2);
    (void)n; /* a failed write cannot be reported */
}

static void to_callback(struct str line, void *ctx)
{
    const struct redrive_queue *q = ctx;
    if (line.len > 0 && line.ptr[line.len - 1] == '\n')
        line.len--;
    q->log_fn(line.ptr, line.len, q->log_ctx);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

static void handler_free(struct queue_handler *h)
{
    pthread_cond_destroy(&h->wake);
    free(h->extended);
    free(h->extensions);
    free(h->runs);
    free(h->slots);
    free(h);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int load(struct redrive_queue *q, const struct redrive_queue_options *o,
                struct redrive_err *err)
{
    struct config_setting flags[2];
    struct config_sources sources = {
        .path = o->config,
        .path_required = o->config != NULL,
        .environ = environ,
        .flags = flags,
    };
    if (o->store)
        flags[sources.n_flags++] = (struct config_setting){"store", o->store};
    if (o->log_level)
        flags[sources.n_flags++] = (struct config_setting){"log-level", o->log_level};
    struct config_report *report = malloc(sizeof *report);
    if (!report)
        return err_nomem(err);
    int rc = config_load(&sources, &q->config, report);
    if (rc < 0 && err) {
        *err = report->errors[0];
        if (report->n_errors > 1 && !*err->hint)
            err_hint(err, "and %zu more: see redrive config check",
                     report->n_errors - 1 + report->n_omitted);
    }
    free(report);
    return rc;
}

static bool name_worker(struct redrive_queue *q, const char *name)
{
    char host[256] = "";
    if (name && *name) {
        q->worker = str_dup(str_of(name));
        return q->worker != NULL;
    }
    bool is_known = gethostname(host, sizeof host - 1) == 0 && *host != '\0';
    return asprintf(&q->worker, "%s:%ld", is_known ? host : "localhost", (long)getpid()) >= 0;
}

static int copy_options(struct redrive_queue *q, const struct redrive_queue_options *o,
                        struct redrive_err *err)
{
    q->log_fn = o->log;
    q->log_ctx = o->log_ctx;
    q->log = (struct log){
        .level = q->config->log.level,
        .format = q->config->log.format,
        .sink = o->log ? to_callback : NULL,
        .ctx = q,
    };
    if (!name_worker(q, o->worker)) {
        q->worker = NULL;
        return err_nomem(err);
    }
    if (o->tenant && !(q->tenant = str_dup(str_of(o->tenant))))
        return err_nomem(err);
    return 0;
}

static int connect_shards(struct redrive_queue *q, const struct engine_options *engine,
                          struct redrive_err *err)
{
    const struct router_options options = {.url = q->config->store,
                                           .create = !q->config->store_is_borrowed,
                                           .origin = rng_system_seed(),
                                           .engine = *engine};
    const struct router_start start = {.watches = true, .on_ready = on_ready, .ready_ctx = q};
    struct router *router;
    int rc = router_open(&options, &router, err);
    return rc < 0 ? rc : router_start(router, &start, &q->committer, err);
}

static int connect_store(struct redrive_queue *q, struct redrive_err *err)
{
    const struct store_options store_options = {.create = !q->config->store_is_borrowed,
                                                .origin = rng_system_seed()};
    struct engine_options engine_options = {.config = q->config, .log = &q->log};
    struct committer_options options = {.on_ready = on_ready, .ready_ctx = q};
    if (shards_is(q->config->store))
        return connect_shards(q, &engine_options, err);
    int rc = store_open(q->config->store, &store_options, &engine_options.store, err);
    if (rc == 0 && (rc = shard_record_refuse(engine_options.store, err)) < 0)
        store_close(engine_options.store);
    if (rc == 0)
        rc = engine_open(&engine_options, &options.engine, err);
    if (rc == 0)
        rc = store_open(q->config->store, &store_options, &options.watch, err);
    if (rc < 0) {
        engine_close(options.engine);
        return rc;
    }
    return committer_start(&options, &q->committer, err);
}

int redrive_queue_open(const struct redrive_queue_options *options, struct redrive_queue **ret,
                       struct redrive_err *err)
{
    static const struct redrive_queue_options defaults = {0};
    const struct redrive_queue_options *o = options ? options : &defaults;
    if (!ret)
        return err_set(err, REDRIVE_E_INVALID, "there is no memory for the queue");
    *ret = NULL;
    struct redrive_queue *q = calloc(1, sizeof *q);
    if (!q)
        return err_nomem(err);
    pthread_mutex_init(&q->mutex, NULL);
    atomic_init(&q->stop_at_ms, QUEUE_NEVER);
    atomic_init(&q->give_up_at_ms, QUEUE_NEVER);
    q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = q->wake_fd < 0 ? err_set(err, REDRIVE_E_IO, "cannot open a queue: %s", strerror(errno))
                            : load(q, o, err);
    if (rc == 0)
        rc = copy_options(q, o, err);
    if (rc == 0)
        rc = config_store_missing(q->config, connect_store(q, err), err);
    if (rc < 0) {
        redrive_queue_close(q);
        return rc;
    }
    *ret = q;
    return 0;
}

void redrive_queue_close(struct redrive_queue *q)
{
    if (!q)
        return;
    committer_stop(q->committer);
    while (q->handlers) {
        struct queue_handler *h = q->handlers;
        q->handlers = h->next;
        handler_free(h);
    }
    config_free(q->config);
    free(q->worker);
    free(q->tenant);
    if (q->wake_fd >= 0)
        close(q->wake_fd);
    pthread_mutex_destroy(&q->mutex);
    free(q);
}

/* ---- Functions ------------------------------------------------------------------------------- */

static int refuse_unknown(const struct config *config, const char *task, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_UNKNOWN, "there is no task '%s'", task);
    err_detail(err, "strict_tasks allows declared tasks only");
    err_suggest(err, config_task_nearest(config, str_of(task)));
    return REDRIVE_E_UNKNOWN;
}

static int check_handler(const struct redrive_queue *q, const char *task, redrive_task_fn fn,
                         uint32_t concurrency, int64_t timeout_ms, struct redrive_err *err)
{
    if (!q)
        return queue_is_missing(err);
    if (!task || !*task || !fn)
        return err_set(err, REDRIVE_E_INVALID, "a task needs a name and a function");
    if (strlen(task) > TASK_MAX_LEN)
        return err_set(err, REDRIVE_E_TOO_BIG, "the task's name is over %d bytes", TASK_MAX_LEN);
    if (concurrency > REDRIVE_CONCURRENCY_MAX)
        return err_set(err, REDRIVE_E_RANGE, "a concurrency of %u is over %d", concurrency,
                       REDRIVE_CONCURRENCY_MAX);
    if (timeout_ms < 0)
        return err_set(err, REDRIVE_E_RANGE, "the time-out is negative");
    if (q->config->strict_tasks && !*config_task(q->config, str_of(task))->name)
        return refuse_unknown(q->config, task, err);
    return 0;
}

/* As many as may be claimed and run at a time. They may all be of a shard that goes away and keeps
 * them until it is back, and then of the next one: there are as many for each shard, and for the
 * claims meanwhile. */
static bool make_runs(struct queue_handler *h)
{
    const size_t n_at_a_time = h->n_slots + claim_ahead_max((uint32_t)h->n_slots);
    h->n_runs = (committer_n_shards(h->queue->committer) + 1) * n_at_a_time;
    h->runs = calloc(h->n_runs, sizeof *h->runs);
    h->extensions = calloc(h->n_runs, sizeof *h->extensions);
    h->extended = calloc(h->n_runs, sizeof(struct redrive_task_run *));
    if (!h->runs || !h->extensions || !h->extended)
        return false;
    for (size_t i = 0; i < h->n_runs; i++) {
        h->runs[i].handler = h;
        list_insert(&h->unused, &h->runs[i].link);
    }
    return true;
}

static bool make_slots(struct queue_handler *h, uint32_t n_slots)
{
    h->slots = calloc(n_slots, sizeof *h->slots);
    if (!h->slots)
        return false;
    h->n_slots = n_slots;
    for (uint32_t i = 0; i < n_slots; i++)
        h->slots[i].handler = h;
    return true;
}

static struct queue_handler *handler_new(struct redrive_queue *q, const char *task,
                                         uint32_t n_slots)
{
    const size_t size = strlen(task) + 1;
    struct queue_handler *h = calloc(1, sizeof *h + size);
    if (!h)
        return NULL;
    memcpy(h->task, task, size);
    h->queue = q;
    h->config = config_task(q->config, str_of(h->task));
    h->renewal.task = h->config;
    claim_pace_init(&h->pace, n_slots, claim_ahead_max(n_slots));
    thread_cond_init(&h->wake);
    list_init(&h->unused);
    list_init(&h->claimed);
    list_init(&h->ended);
    list_init(&h->later);
    list_init(&h->room);
    if (make_slots(h, n_slots) && make_runs(h))
        return h;
    handler_free(h);
    return NULL;
}

/* At the end, so that functions are asked in the order in which they came. The mutex is held. */
static int add_handler(struct redrive_queue *q, struct queue_handler *h, struct redrive_err *err)
{
    struct queue_handler **at = &q->handlers;
    if (q->is_working)
        return err_set(err, REDRIVE_E_STATE, "the queue is being worked");
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->task, h->task) == 0)
            return err_set(err, REDRIVE_E_EXISTS, "task '%s' has a function", h->task);
    *at = h;
    q->n_slots += h->n_slots;
    return 0;
}

int redrive_queue_handle(struct redrive_queue *q, const char *task, redrive_task_fn fn, void *arg,
                         const struct redrive_handle_options *options, struct redrive_err *err)
{
    const uint32_t concurrency = options && options->concurrency ? options->concurrency : 1;
    const int64_t timeout_ms = options ? options->timeout_ms : 0;
    int rc = check_handler(q, task, fn, concurrency, timeout_ms, err);
    if (rc < 0)
        return rc;
    struct queue_handler *h = handler_new(q, task, concurrency);
    if (!h)
        return err_nomem(err);
    h->fn = fn;
    h->arg = arg;
    h->timeout_ms = timeout_ms;
    h->delay = options ? options->delay : NULL;
    h->delay_ctx = options ? options->delay_ctx : NULL;
    h->may_claim_ahead = !(options && options->no_claim_ahead) && claim_ahead_is_allowed(h->config);
    pthread_mutex_lock(&q->mutex);
    rc = add_handler(q, h, err);
    pthread_mutex_unlock(&q->mutex);
    if (rc < 0)
        handler_free(h);
    return rc;
}
