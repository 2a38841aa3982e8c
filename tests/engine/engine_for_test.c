#include "engine/engine_for_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t te_clock(void *ctx)
{
    return ((struct test_engine *)ctx)->now_ms;
}

static void hear(const struct engine_event *event, void *ctx)
{
    ((struct test_engine *)ctx)->told[event->kind]++;
}

struct config *te_config(struct test_engine *te, const char *yaml)
{
    char path[128];
    struct config *config;
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", te->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(yaml, f);
    (void)fclose(f);
    const struct config_sources sources = {.path = path, .path_required = true};
    if (config_load(&sources, &config, &report) < 0)
        fail_msg("%s: %s", report.errors[0].message, report.errors[0].detail);
    (void)unlink(path);
    return config;
}

static struct store *open_store(const struct test_engine *te)
{
    const struct store_options options = {.create = true, .caller_time = true};
    struct redrive_err err = {0};
    struct store *store;
    if (store_open(te->url, &options, &store, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return store;
}

static struct engine *open_engine(struct test_engine *te, struct store *store, uint64_t seed)
{
    struct redrive_err err = {0};
    struct engine *engine;
    const struct engine_options options = {
        .store = store,
        .config = te->config,
        .clock = te_clock,
        .clock_ctx = te,
        .seed = seed,
        .on_event = hear,
        .event_ctx = te,
    };
    assert_int_equal(engine_open(&options, &engine, &err), 0);
    return engine;
}

static void init_without_engine(struct test_engine *te, const char *yaml, int64_t now_ms)
{
    const char *tmp = getenv("TMPDIR");
    *te = (struct test_engine){.now_ms = now_ms};
    (void)snprintf(te->dir, sizeof te->dir, "%.40s/engine-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(te->dir));
    if (yaml)
        te->config = te_config(te, yaml);
}

void te_init(struct test_engine *te, const char *yaml)
{
    init_without_engine(te, yaml, TE_START_MS);
    stores_empty_url(stores_name(), te->url);
    te->engine = open_engine(te, open_store(te), 7);
    te_tick(te);
}

void te_init_on(struct test_engine *te, const char *yaml, struct store *store, int64_t now_ms)
{
    init_without_engine(te, yaml, now_ms);
    te->engine = open_engine(te, store, 7);
    te_tick(te);
}

struct engine *te_second_engine(struct test_engine *te)
{
    return open_engine(te, open_store(te), 8);
}

struct engine *te_engine_without_config(struct test_engine *te)
{
    struct config *config = te->config;
    te->config = NULL;
    struct engine *engine = te_second_engine(te);
    te->config = config;
    return engine;
}

void te_release(struct test_engine *te)
{
    claim_op_release(&te->claim);
    engine_close(te->engine);
    config_free(te->config);
    if (te->url[0])
        stores_remove(te->url);
    (void)rmdir(te->dir);
}

void te_reload(struct test_engine *te, const char *yaml)
{
    struct config *config = te_config(te, yaml);
    struct reload_op op;
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_true(op.in_force);
    reload_op_release(&op);
    te_tick(te);
}

void te_tick(struct test_engine *te)
{
    struct redrive_err err = {0};
    int64_t next_ms = 0;
    for (int i = 0; next_ms <= te->now_ms; i++) {
        if (engine_tick(te->engine, &next_ms, &err) < 0)
            fail_msg("%s: %s", err.message, err.detail);
        if (i > 1000)
            fail_msg("the engine wants to tick for ever");
    }
}

void te_pass(struct test_engine *te, int64_t ms)
{
    te->now_ms += ms;
    te_tick(te);
}

void te_pass_sweeps(struct test_engine *te)
{
    for (int i = 0; i < 200; i++)
        te_pass(te, 10);
}

int te_try_submit(struct test_engine *te, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, te->engine, spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    int code = op.answers[0].code;
    submit_op_release(&op);
    return code;
}

int64_t te_submit_spec(struct test_engine *te, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, te->engine, spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    if (op.answers[0].code < 0)
        fail_msg("%s", op.answers[0].err->message);
    assert_false(op.answers[0].existed);
    int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    return seq;
}

int64_t te_submit(struct test_engine *te, const char *task, const char *payload)
{
    const struct job_spec spec = {.task = str_of(task), .payload = str_of(payload)};
    return te_submit_spec(te, &spec);
}

size_t te_claim(struct test_engine *te, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    claim_op_release(&te->claim);
    claim_op_init(&te->claim, &filter, STR("worker-1"), 0);
    struct redrive_err err = {0};
    if (engine_apply_one(te->engine, &te->claim.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return te->claim.n;
}

const struct job *te_claim_one(struct test_engine *te)
{
    assert_int_equal(te_claim(te, 1), 1);
    return &te->claim.jobs[0];
}

struct job te_claim_this(struct test_engine *te, int64_t seq)
{
    struct job job = *te_claim_one(te);
    assert_int_equal(job.status.seq, seq);
    return job;
}

void te_run_this(struct test_engine *te, int64_t seq)
{
    const struct job job = te_claim_this(te, seq);
    assert_int_equal(te_succeed(te, &job), 0);
}

int te_settle(struct test_engine *te, const struct job *job, const struct outcome *outcome)
{
    struct settlement s = {.seq = job->status.seq, .token = job->status.token, .outcome = *outcome};
    struct settle_op op;
    struct redrive_err err = {0};
    settle_op_init(&op, &s, 1);
    if (engine_apply_one(te->engine, &op.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return s.ret.code;
}

int te_succeed(struct test_engine *te, const struct job *job)
{
    const struct outcome outcome = {.ending = ENDING_RAN};
    return te_settle(te, job, &outcome);
}

int te_fail(struct test_engine *te, const struct job *job, const char *status)
{
    const struct outcome outcome = {
        .ending = ENDING_RAN,
        .failure = {.status = status,
                    .error_type = "TestError",
                    .message = "it broke",
                    .stacktrace = "at test:1"},
    };
    return te_settle(te, job, &outcome);
}

struct job te_job(struct test_engine *te, int64_t seq)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct store *store = engine_store(te->engine);
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    struct job job = page.jobs[0];
    assert_int_equal(job.status.seq, seq);
    job_page_release(&page);
    return job;
}

enum redrive_state te_state(struct test_engine *te, int64_t seq)
{
    return te_job(te, seq).status.state;
}

int te_change(struct test_engine *te, enum move_kind kind, int64_t seq)
{
    struct change_item item = {.seq = seq};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    return item.ret.code;
}

enum redrive_breaker_state te_breaker(struct test_engine *te, const char *key)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, str_of(key), BREAKER_LOOK);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    return op.status.state;
}

size_t te_count(struct test_engine *te, enum redrive_state state)
{
    struct store *store = engine_store(te->engine);
    struct count_page page = {0};
    size_t n = 0;
    assert_int_equal(store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &page, NULL),
                     0);
    for (size_t i = 0; i < page.n; i++)
        n += page.counts[i].by_state[state];
    count_page_release(&page);
    return n;
}

int64_t te_counter(struct test_engine *te, const char *name, const char *label)
{
    struct store *store = engine_store(te->engine);
    struct counter_page page = {0};
    int64_t value = 0;
    assert_int_equal(store_ops(store)->counters_list(store, (struct str){0}, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        if (str_is(page.counters[i].name, name) && str_is(page.counters[i].label, label))
            value += page.counters[i].value;
    counter_page_release(&page);
    return value;
}
