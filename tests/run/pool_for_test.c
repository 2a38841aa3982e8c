#include "pool_for_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "engine/shards/router.h"
#include "store/shards/shards.h"

extern char **environ;

/* ---- Setting up ------------------------------------------------------------------------------ */

static struct test_pool *tp_of(struct wrap *wrap)
{
    return (struct test_pool *)(void *)((char *)wrap - offsetof(struct test_pool, wrap));
}

static int break_if_told(struct wrap *wrap, struct redrive_err *err)
{
    HOLD_UNTIL(!tp_of(wrap)->is_held);
    return tp_of(wrap)->is_broken ? err_set(err, REDRIVE_E_IO, "the disk is full") : 0;
}

static void hear(const struct engine_event *event, void *ctx)
{
    struct test_pool *tp = ctx;
    tp->told[event->kind]++;
    if (event->kind != ENGINE_EVENT_CANCELLED || !tp->tells_of_cancels)
        return;
    pthread_mutex_lock(&tp->mutex);
    if (tp->woken)
        pool_cancelled(tp->woken, event->seq);
    pthread_mutex_unlock(&tp->mutex);
}

static void on_ready(void *ctx)
{
    struct test_pool *tp = ctx;
    pthread_mutex_lock(&tp->mutex);
    if (tp->woken)
        pool_wake(tp->woken);
    pthread_mutex_unlock(&tp->mutex);
}

static void keep_line(struct str line, void *ctx)
{
    struct test_pool *tp = ctx;
    pthread_mutex_lock(&tp->mutex);
    (void)buf_add_str(&tp->lines, line);
    pthread_mutex_unlock(&tp->mutex);
}

static void load(struct test_pool *tp, const char *yaml)
{
    char path[128];
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", tp->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (const char *p = yaml; *p; p++)
        *p == '@' ? fputs(tp->dir, f) : fputc(*p, f);
    (void)fclose(f);
    const struct config_sources sources = {.path = path, .path_required = true};
    if (config_load(&sources, &tp->config, &report) < 0)
        fail_msg("%s: %s", report.errors[0].message, report.errors[0].detail);
    (void)unlink(path);
}

static void start_router(struct test_pool *tp, const struct engine_options *engine)
{
    const struct router_options options = {.url = tp->url, .create = true, .engine = *engine};
    const struct router_start start = {.on_ready = on_ready, .ready_ctx = tp};
    struct router *router;
    struct redrive_err err;
    assert_int_equal(router_open(&options, &router, &err), 0);
    assert_int_equal(router_start(router, &start, &tp->committer, &err), 0);
}

static void start_committer(struct test_pool *tp)
{
    const struct store_options store_options = {.create = true};
    struct committer_options options = {.on_ready = on_ready, .ready_ctx = tp};
    struct engine_options engine_options = {
        .config = tp->config,
        .log = &tp->log,
        .on_event = hear,
        .event_ctx = tp,
    };
    struct redrive_err err;
    if (shards_is(tp->url)) {
        start_router(tp, &engine_options);
        return;
    }
    assert_int_equal(store_open(tp->url, &store_options, &tp->inner, &err), 0);
    wrap_init(&tp->wrap, tp->inner);
    tp->wrap.before = break_if_told;
    engine_options.store = wrap_store(&tp->wrap);
    assert_int_equal(engine_open(&engine_options, &options.engine, &err), 0);
    assert_int_equal(committer_start(&options, &tp->committer, &err), 0);
}

static void on_stopped(void *ctx)
{
    ((struct test_pool *)ctx)->is_stopped = true;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* so that a condition is looked at again */
}

void tp_init(struct test_pool *tp, const char *yaml)
{
    static unsigned number;
    const char *kind = getenv("REDRIVE_TEST_STORE");
    const char *tmp = getenv("TMPDIR");
    memset(tp, 0, sizeof *tp);
    pthread_mutex_init(&tp->mutex, NULL);
    buf_init(&tp->lines, 1u << 20);
    tp->log = (struct log){.level = LOG_LEVEL_INFO, .sink = keep_line, .ctx = tp};
    (void)snprintf(tp->dir, sizeof tp->dir, "%.40s/pool-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(tp->dir));
    (void)snprintf(tp->effects, sizeof tp->effects, "%s/effects", tp->dir);
    if (kind && strcmp(kind, "sqlite") == 0)
        (void)snprintf(tp->url, sizeof tp->url, "sqlite:%s/jobs.db", tp->dir);
    else if (kind && strcmp(kind, "shards") == 0)
        (void)snprintf(tp->url, sizeof tp->url, "shards:sqlite:%s/0.db sqlite:%s/1.db", tp->dir,
                       tp->dir);
    else
        (void)snprintf(tp->url, sizeof tp->url, "memory:rig%u", ++number);
    load(tp, yaml);
    start_committer(tp);
    assert_int_equal(uv_loop_init(&tp->loop), 0);
    uv_timer_init(&tp->loop, &tp->ticker);
    uv_timer_start(&tp->ticker, on_tick, 5, 5);
    tp->options = (struct pool_options){
        .loop = &tp->loop,
        .committer = tp->committer,
        .config = tp->config,
        .log = &tp->log,
        .environ = environ,
        .worker = STR("w"),
        .stopped = on_stopped,
        .stopped_ctx = tp,
    };
}

void tp_release(struct test_pool *tp)
{
    static const char *const FILES[] = {
        "jobs.db", "jobs.db-wal", "jobs.db-shm", "0.db",    "0.db-wal", "0.db-shm",
        "1.db",    "1.db-wal",    "1.db-shm",    "effects", "gate",
    };
    tp->is_broken = tp->is_held = false;
    if (tp->pool && !tp->is_stopped) {
        pool_stop(tp->pool, 0);
        tp_until_stopped(tp);
    }
    committer_stop(tp->committer);
    pool_free(tp->pool);
    store_close(tp->inner);
    uv_close((uv_handle_t *)&tp->ticker, NULL);
    while (uv_run(&tp->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&tp->loop), 0);
    config_free(tp->config);
    buf_release(&tp->lines);
    pthread_mutex_destroy(&tp->mutex);
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", tp->dir, FILES[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(tp->dir), 0);
}

int tp_try(struct test_pool *tp, struct redrive_err *err)
{
    int rc = pool_new(&tp->options, &tp->pool, err);
    pthread_mutex_lock(&tp->mutex);
    tp->woken = tp->pool;
    pthread_mutex_unlock(&tp->mutex);
    return rc;
}

void tp_start(struct test_pool *tp)
{
    struct redrive_err err;
    if (tp_try(tp, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

void tp_until(struct test_pool *tp, tp_condition condition)
{
    WAIT_TELLING(condition(tp), uv_run(&tp->loop, UV_RUN_ONCE),
                 print_error("the log:\n%s\n", buf_cstr(&tp->lines)));
}

void tp_until_told(struct test_pool *tp, enum engine_event_kind kind, unsigned at_least)
{
    WAIT_TELLING(tp->told[kind] >= at_least, uv_run(&tp->loop, UV_RUN_ONCE),
                 print_error("%u of %u %s; the log:\n%s\n", tp->told[kind], at_least,
                             engine_event_name(kind), buf_cstr(&tp->lines)));
}

static bool is_stopped(struct test_pool *tp)
{
    return tp->is_stopped;
}

void tp_until_stopped(struct test_pool *tp)
{
    tp_until(tp, is_stopped);
}

void tp_until_rest(struct test_pool *tp)
{
    for (int turn = 0; turn < TURNS_TO_REST; turn++) {
        uv_run(&tp->loop, UV_RUN_NOWAIT);
        WAIT_RUNNING(process_rests("self"), uv_run(&tp->loop, UV_RUN_NOWAIT));
    }
}

void tp_pass_ms(struct test_pool *tp, int64_t ms)
{
    const int64_t until_ms = waiting_now_ms() + ms;
    while (waiting_now_ms() < until_ms)
        uv_run(&tp->loop, UV_RUN_ONCE);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

int64_t tp_submit_spec(struct test_pool *tp, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(tp->committer), spec, 1, NULL), 0);
    assert_int_equal(committer_run(tp->committer, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    return seq;
}

int64_t tp_submit(struct test_pool *tp, const char *task, const char *payload)
{
    return tp_submit_spec(tp, &(struct job_spec){.task = str_of(task), .payload = str_of(payload)});
}

int64_t tp_submit_prior(struct test_pool *tp, const char *task, int32_t priority)
{
    return tp_submit_spec(tp, &(struct job_spec){.task = str_of(task), .priority = priority});
}

int64_t tp_submit_later(struct test_pool *tp, const char *task, int64_t delay_ms)
{
    return tp_submit_spec(tp, &(struct job_spec){.task = str_of(task), .delay_ms = delay_ms});
}

int tp_change(struct test_pool *tp, enum move_kind kind, int64_t seq)
{
    struct change_item item = {.seq = seq};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    assert_int_equal(committer_run(tp->committer, &op.op, NULL), 0);
    return item.ret.code;
}

const struct job *tp_job(struct test_pool *tp, int64_t seq, struct job_page *page)
{
    const struct store_options options = {.create = false};
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct store *store;
    assert_int_equal(store_open(tp->url, &options, &store, NULL), 0);
    assert_int_equal(store_ops(store)->list(store, &filter, page, NULL), 0);
    store_close(store);
    assert_int_equal(page->n, 1);
    assert_int_equal(page->jobs[0].status.seq, seq);
    return &page->jobs[0];
}

enum redrive_state tp_state(struct test_pool *tp, int64_t seq)
{
    struct job_page page = {0};
    enum redrive_state state = tp_job(tp, seq, &page)->status.state;
    job_page_release(&page);
    return state;
}

/* ---- What truly happened --------------------------------------------------------------------- */

void tp_open_gate(struct test_pool *tp)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/gate", tp->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fclose(f);
}

static void each_effect(struct test_pool *tp, void (*see)(const char *line, void *ctx), void *ctx)
{
    char line[256];
    FILE *f = fopen(tp->effects, "r");
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

unsigned tp_effects(struct test_pool *tp, const char *beginning)
{
    struct count count = {.beginning = beginning};
    each_effect(tp, count_line, &count);
    return count.n;
}

static void count_overlap(const char *line, void *ctx)
{
    struct count *c = ctx;
    c->n += strncmp(line, "start", 5) == 0;
    c->n -= strncmp(line, "end", 3) == 0;
    c->most = c->n > c->most ? c->n : c->most;
}

unsigned tp_most_at_once(struct test_pool *tp)
{
    struct count count = {0};
    each_effect(tp, count_overlap, &count);
    assert_int_equal(count.n, 0);
    return count.most;
}

unsigned tp_count_logged(struct test_pool *tp, const char *text)
{
    unsigned n = 0;
    pthread_mutex_lock(&tp->mutex);
    for (const char *at = strstr(buf_cstr(&tp->lines), text); at; at = strstr(at + 1, text))
        n++;
    pthread_mutex_unlock(&tp->mutex);
    return n;
}

bool tp_logged(struct test_pool *tp, const char *text)
{
    return tp_count_logged(tp, text) > 0;
}
