#include "engine/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t bed_clock(void *ctx)
{
    return ((struct bed *)ctx)->now_ms;
}

static void hear(const struct engine_event *event, void *ctx)
{
    ((struct bed *)ctx)->told[event->kind]++;
}

struct config *bed_config(struct bed *bed, const char *yaml)
{
    char path[128];
    struct config *config;
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", bed->dir);
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

static struct store *open_store(const struct bed *bed)
{
    const struct store_options options = {.create = true, .caller_time = true};
    struct redrive_err err = {0};
    struct store *store;
    if (store_open(bed->url, &options, &store, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return store;
}

static struct engine *open_engine(struct bed *bed, struct store *store, uint64_t seed)
{
    struct redrive_err err = {0};
    struct engine *engine;
    const struct engine_options options = {
        .store = store,
        .config = bed->config,
        .clock = bed_clock,
        .clock_ctx = bed,
        .seed = seed,
        .on_event = hear,
        .event_ctx = bed,
    };
    assert_int_equal(engine_open(&options, &engine, &err), 0);
    return engine;
}

static void init_without_engine(struct bed *bed, const char *yaml, int64_t now_ms)
{
    const char *tmp = getenv("TMPDIR");
    *bed = (struct bed){.now_ms = now_ms};
    (void)snprintf(bed->dir, sizeof bed->dir, "%.40s/engine-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(bed->dir));
    if (yaml)
        bed->config = bed_config(bed, yaml);
}

void bed_init(struct bed *bed, const char *yaml)
{
    init_without_engine(bed, yaml, BED_START_MS);
    stores_empty_url(stores_name(), bed->url);
    bed->engine = open_engine(bed, open_store(bed), 7);
    bed_tick(bed);
}

void bed_init_on(struct bed *bed, const char *yaml, struct store *store, int64_t now_ms)
{
    init_without_engine(bed, yaml, now_ms);
    bed->engine = open_engine(bed, store, 7);
    bed_tick(bed);
}

struct engine *bed_second_engine(struct bed *bed)
{
    return open_engine(bed, open_store(bed), 8);
}

struct engine *bed_engine_without_config(struct bed *bed)
{
    struct config *config = bed->config;
    bed->config = NULL;
    struct engine *engine = bed_second_engine(bed);
    bed->config = config;
    return engine;
}

void bed_release(struct bed *bed)
{
    claim_op_release(&bed->claim);
    engine_close(bed->engine);
    config_free(bed->config);
    if (bed->url[0])
        stores_remove(bed->url);
    (void)rmdir(bed->dir);
}

void bed_reload(struct bed *bed, const char *yaml)
{
    struct config *config = bed_config(bed, yaml);
    struct reload_op op;
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_true(op.in_force);
    reload_op_release(&op);
    bed_tick(bed);
}

void bed_tick(struct bed *bed)
{
    struct redrive_err err = {0};
    int64_t next_ms = 0;
    for (int i = 0; next_ms <= bed->now_ms; i++) {
        if (engine_tick(bed->engine, &next_ms, &err) < 0)
            fail_msg("%s: %s", err.message, err.detail);
        if (i > 1000)
            fail_msg("the engine wants to tick for ever");
    }
}

void bed_pass(struct bed *bed, int64_t ms)
{
    bed->now_ms += ms;
    bed_tick(bed);
}

void bed_pass_sweeps(struct bed *bed)
{
    for (int i = 0; i < 200; i++)
        bed_pass(bed, 10);
}

int bed_try_submit(struct bed *bed, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, bed->engine, spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    int code = op.answers[0].code;
    submit_op_release(&op);
    return code;
}

int64_t bed_submit_spec(struct bed *bed, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, bed->engine, spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    if (op.answers[0].code < 0)
        fail_msg("%s", op.answers[0].err->message);
    assert_false(op.answers[0].existed);
    int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    return seq;
}

int64_t bed_submit(struct bed *bed, const char *task, const char *payload)
{
    const struct job_spec spec = {.task = str_of(task), .payload = str_of(payload)};
    return bed_submit_spec(bed, &spec);
}

size_t bed_claim(struct bed *bed, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    claim_op_release(&bed->claim);
    claim_op_init(&bed->claim, &filter, STR("worker-1"), 0);
    struct redrive_err err = {0};
    if (engine_apply_one(bed->engine, &bed->claim.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return bed->claim.n;
}

const struct job *bed_claim_one(struct bed *bed)
{
    assert_int_equal(bed_claim(bed, 1), 1);
    return &bed->claim.jobs[0];
}

struct job bed_claim_this(struct bed *bed, int64_t seq)
{
    struct job job = *bed_claim_one(bed);
    assert_int_equal(job.status.seq, seq);
    return job;
}

void bed_run_this(struct bed *bed, int64_t seq)
{
    const struct job job = bed_claim_this(bed, seq);
    assert_int_equal(bed_succeed(bed, &job), 0);
}

int bed_settle(struct bed *bed, const struct job *job, const struct outcome *outcome)
{
    struct settlement s = {.seq = job->status.seq, .token = job->status.token, .outcome = *outcome};
    struct settle_op op;
    struct redrive_err err = {0};
    settle_op_init(&op, &s, 1);
    if (engine_apply_one(bed->engine, &op.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return s.ret.code;
}

int bed_succeed(struct bed *bed, const struct job *job)
{
    const struct outcome outcome = {.ending = ENDING_RAN};
    return bed_settle(bed, job, &outcome);
}

int bed_fail(struct bed *bed, const struct job *job, const char *status)
{
    const struct outcome outcome = {
        .ending = ENDING_RAN,
        .failure = {.status = status,
                    .error_type = "TestError",
                    .message = "it broke",
                    .stacktrace = "at test:1"},
    };
    return bed_settle(bed, job, &outcome);
}

struct job bed_job(struct bed *bed, int64_t seq)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct store *store = engine_store(bed->engine);
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    struct job job = page.jobs[0];
    assert_int_equal(job.status.seq, seq);
    job_page_release(&page);
    return job;
}

enum redrive_state bed_state(struct bed *bed, int64_t seq)
{
    return bed_job(bed, seq).status.state;
}

int bed_change(struct bed *bed, enum move_kind kind, int64_t seq)
{
    struct change_item item = {.seq = seq};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    return item.ret.code;
}

enum redrive_breaker_state bed_breaker(struct bed *bed, const char *key)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, str_of(key), BREAKER_LOOK);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    return op.status.state;
}

size_t bed_count(struct bed *bed, enum redrive_state state)
{
    struct store *store = engine_store(bed->engine);
    struct count_page page = {0};
    size_t n = 0;
    assert_int_equal(store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &page, NULL),
                     0);
    for (size_t i = 0; i < page.n; i++)
        n += page.counts[i].by_state[state];
    count_page_release(&page);
    return n;
}

int64_t bed_counter(struct bed *bed, const char *name, const char *label)
{
    struct store *store = engine_store(bed->engine);
    struct counter_page page = {0};
    int64_t value = 0;
    assert_int_equal(store_ops(store)->counters_list(store, (struct str){0}, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        if (str_is(page.counters[i].name, name) && str_is(page.counters[i].label, label))
            value += page.counters[i].value;
    counter_page_release(&page);
    return value;
}
