#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "engine/shards/router.h"
#include "store/shards/shards.h"

extern char **environ;

/* ---- Setting up ------------------------------------------------------------------------------ */

static struct rig *rig_of(struct wrap *wrap)
{
    return (struct rig *)(void *)((char *)wrap - offsetof(struct rig, wrap));
}

static int break_if_told(struct wrap *wrap, struct redrive_err *err)
{
    HOLD_UNTIL(!rig_of(wrap)->is_held);
    return rig_of(wrap)->is_broken ? err_set(err, REDRIVE_E_IO, "the disk is full") : 0;
}

static void hear(const struct engine_event *event, void *ctx)
{
    struct rig *rig = ctx;
    rig->told[event->kind]++;
    if (event->kind != ENGINE_EVENT_CANCELLED || !rig->tells_of_cancels)
        return;
    pthread_mutex_lock(&rig->mutex);
    if (rig->woken)
        pool_cancelled(rig->woken, event->seq);
    pthread_mutex_unlock(&rig->mutex);
}

static void on_ready(void *ctx)
{
    struct rig *rig = ctx;
    pthread_mutex_lock(&rig->mutex);
    if (rig->woken)
        pool_wake(rig->woken);
    pthread_mutex_unlock(&rig->mutex);
}

static void keep_line(struct str line, void *ctx)
{
    struct rig *rig = ctx;
    pthread_mutex_lock(&rig->mutex);
    (void)buf_add_str(&rig->lines, line);
    pthread_mutex_unlock(&rig->mutex);
}

static void load(struct rig *rig, const char *yaml)
{
    char path[128];
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", rig->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (const char *p = yaml; *p; p++)
        *p == '@' ? fputs(rig->dir, f) : fputc(*p, f);
    (void)fclose(f);
    const struct config_sources sources = {.path = path, .path_required = true};
    if (config_load(&sources, &rig->config, &report) < 0)
        fail_msg("%s: %s", report.errors[0].message, report.errors[0].detail);
    (void)unlink(path);
}

static void start_router(struct rig *rig, const struct engine_options *engine)
{
    const struct router_options options = {.url = rig->url, .create = true, .engine = *engine};
    const struct router_start start = {.on_ready = on_ready, .ready_ctx = rig};
    struct router *router;
    struct redrive_err err;
    assert_int_equal(router_open(&options, &router, &err), 0);
    assert_int_equal(router_start(router, &start, &rig->committer, &err), 0);
}

static void start_committer(struct rig *rig)
{
    const struct store_options store_options = {.create = true};
    struct committer_options options = {.on_ready = on_ready, .ready_ctx = rig};
    struct engine_options engine_options = {
        .config = rig->config,
        .log = &rig->log,
        .on_event = hear,
        .event_ctx = rig,
    };
    struct redrive_err err;
    if (shards_is(rig->url)) {
        start_router(rig, &engine_options);
        return;
    }
    assert_int_equal(store_open(rig->url, &store_options, &rig->inner, &err), 0);
    wrap_init(&rig->wrap, rig->inner);
    rig->wrap.before = break_if_told;
    engine_options.store = wrap_store(&rig->wrap);
    assert_int_equal(engine_open(&engine_options, &options.engine, &err), 0);
    assert_int_equal(committer_start(&options, &rig->committer, &err), 0);
}

static void on_stopped(void *ctx)
{
    ((struct rig *)ctx)->is_stopped = true;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* so that a condition is looked at again */
}

void rig_init(struct rig *rig, const char *yaml)
{
    static unsigned number;
    const char *kind = getenv("REDRIVE_TEST_STORE");
    const char *tmp = getenv("TMPDIR");
    memset(rig, 0, sizeof *rig);
    pthread_mutex_init(&rig->mutex, NULL);
    buf_init(&rig->lines, 1u << 20);
    rig->log = (struct log){.level = LOG_LEVEL_INFO, .sink = keep_line, .ctx = rig};
    (void)snprintf(rig->dir, sizeof rig->dir, "%.40s/pool-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(rig->dir));
    (void)snprintf(rig->effects, sizeof rig->effects, "%s/effects", rig->dir);
    if (kind && strcmp(kind, "sqlite") == 0)
        (void)snprintf(rig->url, sizeof rig->url, "sqlite:%s/jobs.db", rig->dir);
    else if (kind && strcmp(kind, "shards") == 0)
        (void)snprintf(rig->url, sizeof rig->url, "shards:sqlite:%s/0.db sqlite:%s/1.db", rig->dir,
                       rig->dir);
    else
        (void)snprintf(rig->url, sizeof rig->url, "memory:rig%u", ++number);
    load(rig, yaml);
    start_committer(rig);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    uv_timer_init(&rig->loop, &rig->ticker);
    uv_timer_start(&rig->ticker, on_tick, 5, 5);
    rig->options = (struct pool_options){
        .loop = &rig->loop,
        .committer = rig->committer,
        .config = rig->config,
        .log = &rig->log,
        .environ = environ,
        .worker = STR("w"),
        .stopped = on_stopped,
        .stopped_ctx = rig,
    };
}

void rig_release(struct rig *rig)
{
    static const char *const FILES[] = {
        "jobs.db", "jobs.db-wal", "jobs.db-shm", "0.db",    "0.db-wal", "0.db-shm",
        "1.db",    "1.db-wal",    "1.db-shm",    "effects", "gate",
    };
    rig->is_broken = rig->is_held = false;
    if (rig->pool && !rig->is_stopped) {
        pool_stop(rig->pool, 0);
        rig_until_stopped(rig);
    }
    committer_stop(rig->committer);
    pool_free(rig->pool);
    store_close(rig->inner);
    uv_close((uv_handle_t *)&rig->ticker, NULL);
    while (uv_run(&rig->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    config_free(rig->config);
    buf_release(&rig->lines);
    pthread_mutex_destroy(&rig->mutex);
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", rig->dir, FILES[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(rig->dir), 0);
}

int rig_try(struct rig *rig, struct redrive_err *err)
{
    int rc = pool_new(&rig->options, &rig->pool, err);
    pthread_mutex_lock(&rig->mutex);
    rig->woken = rig->pool;
    pthread_mutex_unlock(&rig->mutex);
    return rc;
}

void rig_start(struct rig *rig)
{
    struct redrive_err err;
    if (rig_try(rig, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

void rig_until(struct rig *rig, rig_condition condition)
{
    WAIT_TELLING(condition(rig), uv_run(&rig->loop, UV_RUN_ONCE),
                 print_error("the log:\n%s\n", buf_cstr(&rig->lines)));
}

void rig_until_told(struct rig *rig, enum engine_event_kind kind, unsigned at_least)
{
    WAIT_TELLING(rig->told[kind] >= at_least, uv_run(&rig->loop, UV_RUN_ONCE),
                 print_error("%u of %u %s; the log:\n%s\n", rig->told[kind], at_least,
                             engine_event_name(kind), buf_cstr(&rig->lines)));
}

static bool is_stopped(struct rig *rig)
{
    return rig->is_stopped;
}

void rig_until_stopped(struct rig *rig)
{
    rig_until(rig, is_stopped);
}

void rig_until_rest(struct rig *rig)
{
    for (int turn = 0; turn < TURNS_TO_REST; turn++) {
        uv_run(&rig->loop, UV_RUN_NOWAIT);
        WAIT_RUNNING(process_rests("self"), uv_run(&rig->loop, UV_RUN_NOWAIT));
    }
}

void rig_pass_ms(struct rig *rig, int64_t ms)
{
    const int64_t until_ms = waiting_now_ms() + ms;
    while (waiting_now_ms() < until_ms)
        uv_run(&rig->loop, UV_RUN_ONCE);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

int64_t rig_submit_spec(struct rig *rig, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(rig->committer), spec, 1, NULL), 0);
    assert_int_equal(committer_run(rig->committer, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    return seq;
}

int64_t rig_submit(struct rig *rig, const char *task, const char *payload)
{
    return rig_submit_spec(rig,
                           &(struct job_spec){.task = str_of(task), .payload = str_of(payload)});
}

int64_t rig_submit_prior(struct rig *rig, const char *task, int32_t priority)
{
    return rig_submit_spec(rig, &(struct job_spec){.task = str_of(task), .priority = priority});
}

int64_t rig_submit_later(struct rig *rig, const char *task, int64_t delay_ms)
{
    return rig_submit_spec(rig, &(struct job_spec){.task = str_of(task), .delay_ms = delay_ms});
}

int rig_change(struct rig *rig, enum move_kind kind, int64_t seq)
{
    struct change_item item = {.seq = seq};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    assert_int_equal(committer_run(rig->committer, &op.op, NULL), 0);
    return item.ret.code;
}

const struct job *rig_job(struct rig *rig, int64_t seq, struct job_page *page)
{
    const struct store_options options = {.create = false};
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct store *store;
    assert_int_equal(store_open(rig->url, &options, &store, NULL), 0);
    assert_int_equal(store_ops(store)->list(store, &filter, page, NULL), 0);
    store_close(store);
    assert_int_equal(page->n, 1);
    assert_int_equal(page->jobs[0].status.seq, seq);
    return &page->jobs[0];
}

enum redrive_state rig_state(struct rig *rig, int64_t seq)
{
    struct job_page page = {0};
    enum redrive_state state = rig_job(rig, seq, &page)->status.state;
    job_page_release(&page);
    return state;
}

/* ---- What truly happened --------------------------------------------------------------------- */

void rig_open_gate(struct rig *rig)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/gate", rig->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fclose(f);
}

static void each_effect(struct rig *rig, void (*see)(const char *line, void *ctx), void *ctx)
{
    char line[256];
    FILE *f = fopen(rig->effects, "r");
    while (f && fgets(line, sizeof line, f))
        see(line, ctx);
    if (f)
        (void)fclose(f);
}

struct count {
    const char *beginning;
    unsigned n;
    unsigned most;
};

static void count_line(const char *line, void *ctx)
{
    struct count *c = ctx;
    c->n += strncmp(line, c->beginning, strlen(c->beginning)) == 0;
}

unsigned rig_effects(struct rig *rig, const char *beginning)
{
    struct count count = {.beginning = beginning};
    each_effect(rig, count_line, &count);
    return count.n;
}

static void count_overlap(const char *line, void *ctx)
{
    struct count *c = ctx;
    c->n += strncmp(line, "start", 5) == 0;
    c->n -= strncmp(line, "end", 3) == 0;
    c->most = c->n > c->most ? c->n : c->most;
}

unsigned rig_most_at_once(struct rig *rig)
{
    struct count count = {0};
    each_effect(rig, count_overlap, &count);
    assert_int_equal(count.n, 0);
    return count.most;
}

unsigned rig_count_logged(struct rig *rig, const char *text)
{
    unsigned n = 0;
    pthread_mutex_lock(&rig->mutex);
    for (const char *at = strstr(buf_cstr(&rig->lines), text); at; at = strstr(at + 1, text))
        n++;
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

bool rig_logged(struct rig *rig, const char *text)
{
    return rig_count_logged(rig, text) > 0;
}
