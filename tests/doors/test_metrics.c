#include "check.h"

#include <stdio.h>

#include "doors/exposition.h"
#include "doors/metrics.h"
#include "engine/engine.h"
#include "engine/claim.h"
#include "engine/settle.h"
#include "engine/submit.h"

#define NOW_MS INT64_C(1767225600000)

/* An engine in memory, with what it tells. */
struct rig {
    int64_t now_ms;
    struct engine *engine;
    struct run_times *times;
    struct buf text;
};

static int64_t rig_clock(void *ctx)
{
    return ((struct rig *)ctx)->now_ms;
}

static void hear(const struct engine_event *event, void *ctx)
{
    run_times_event(((struct rig *)ctx)->times, event);
}

static void rig_init(struct rig *rig)
{
    static int number;
    char url[32];
    const struct store_options store_options = {.create = true};
    struct engine_options options = {
        .clock = rig_clock, .clock_ctx = rig, .seed = 7, .on_event = hear, .event_ctx = rig};
    *rig = (struct rig){.now_ms = NOW_MS, .times = run_times_new()};
    assert_non_null(rig->times);
    buf_init(&rig->text, 1024 * 1024);
    (void)snprintf(url, sizeof url, "memory:metrics%d", number++);
    assert_int_equal(store_open(url, &store_options, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &rig->engine, NULL), 0);
}

static void rig_release(struct rig *rig)
{
    engine_close(rig->engine);
    run_times_free(rig->times);
    buf_release(&rig->text);
}

static void submit(struct rig *rig, const char *tenant, const char *task)
{
    const struct job_spec spec = {
        .tenant = str_of(tenant), .task = str_of(task), .payload = STR("{}")};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, rig->engine, &spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(rig->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    submit_op_release(&op);
}

/* Claims one job and ends it after `run_ms`; a NULL status is success. */
static void run(struct rig *rig, int64_t run_ms, const char *status)
{
    const struct claim_filter filter = {.limit = 1};
    struct claim_op claim;
    struct settlement s = {.outcome = {.ending = ENDING_RAN, .failure = {.status = status}}};
    struct settle_op settle;
    claim_op_init(&claim, &filter, STR("w1"), 60000);
    assert_int_equal(engine_apply_one(rig->engine, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    rig->now_ms += run_ms;
    s.seq = claim.jobs[0].status.seq;
    s.token = claim.jobs[0].status.token;
    settle_op_init(&settle, &s, 1);
    assert_int_equal(engine_apply_one(rig->engine, &settle.op, NULL), 0);
    claim_op_release(&claim);
}

static const char *metrics_of(struct rig *rig, const char *tenant)
{
    struct stats stats = {0};
    struct run_time *rows;
    struct pulse_state pulse;
    struct redrive_err err = {0};
    struct arena arena;
    arena_init(&arena);
    if (stats_read(engine_store(rig->engine), str_of(tenant), NULL, rig->now_ms, &stats, &err) < 0)
        fail_msg("%s", err.message);
    size_t n = run_times_read(rig->times, str_of(tenant), &arena, &rows);
    const struct metrics_facts facts = {
        .stats = &stats,
        .n_run_times = n,
        .run_times = rows,
        .started_ms = NOW_MS,
        .pulse = &pulse,
    };
    pulse_read(engine_pulse(rig->engine), &pulse);
    buf_reset(&rig->text);
    metrics_write(&facts, &rig->text);
    assert_int_equal(buf_failed(&rig->text), 0);
    stats_release(&stats);
    arena_release(&arena);
    exposition_check(buf_cstr(&rig->text));
    return buf_cstr(&rig->text);
}

static void an_empty_store_is_well_formed(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const char *text = metrics_of(&rig, "default");
    assert_true(exposition_value(text, "redrive_build_info{version=\"" REDRIVE_VERSION "\"}") == 1);
    assert_true(exposition_value(text, "redrive_oldest_ready_seconds") == 0);
    assert_true(exposition_value(text, "redrive_health_score") == 1);
    assert_true(exposition_value(text, "redrive_store_up") == 1);
    assert_true(exposition_value(text, "redrive_store_errors_total{kind=\"io\"}") == 0);
    assert_true(exposition_value(text, "redrive_start_time_seconds") == (double)NOW_MS / 1000);
    rig_release(&rig);
}

static void what_the_process_knows_is_told_without_the_store(void **state)
{
    (void)state;
    struct pulse_state pulse = {.is_failing = true};
    struct buf text;
    buf_init(&text, 1 << 20);
    pulse.errors[-REDRIVE_E_IO] = 31;
    pulse.errors[-REDRIVE_E_CORRUPT] = 2;
    metrics_write(&(struct metrics_facts){.started_ms = NOW_MS, .pulse = &pulse}, &text);
    exposition_check(buf_cstr(&text));
    assert_true(exposition_value(buf_cstr(&text), "redrive_store_up") == 0);
    assert_true(exposition_value(buf_cstr(&text), "redrive_store_errors_total{kind=\"io\"}") == 31);
    assert_true(exposition_value(buf_cstr(&text), "redrive_store_errors_total{kind=\"corrupt\"}") ==
                2);
    assert_null(strstr(buf_cstr(&text), "redrive_health_score"));
    buf_release(&text);
}

static void jobs_are_counted_by_what_became_of_them(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    submit(&rig, NULL, "mail");
    run(&rig, 20, NULL);
    submit(&rig, NULL, "mail");
    run(&rig, 700, "PERMANENT_FAIL");
    submit(&rig, NULL, "mail");
    rig.now_ms += 5000;
    const char *text = metrics_of(&rig, "default");
    assert_true(exposition_value(text, "redrive_jobs_submitted_total{task=\"mail\"}") == 3);
    assert_true(exposition_value(text, "redrive_jobs_started_total{task=\"mail\"}") == 2);
    assert_true(exposition_value(text, "redrive_jobs_total{task=\"mail\",outcome=\"completed\"}") ==
                1);
    assert_true(
        exposition_value(text, "redrive_jobs_total{task=\"mail\",outcome=\"dead_letter\"}") == 1);
    assert_true(exposition_value(text, "redrive_failures_total{class=\"permanent\"}") == 1);
    assert_true(exposition_value(text, "redrive_queue_jobs{queue=\"default\",state=\"queued\"}") ==
                1);
    assert_true(exposition_value(text, "redrive_dead_letter_jobs") == 1);
    assert_true(exposition_value(text, "redrive_oldest_ready_seconds") == 5);
    assert_true(exposition_value(text, "redrive_breaker_state{breaker=\"mail\"}") == 0);
    rig_release(&rig);
}

static void run_times_are_a_histogram(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const int64_t times_ms[] = {0, 5, 6, 2500, 4000000};
    for (size_t i = 0; i < 5; i++) {
        submit(&rig, NULL, "mail");
        /* Longer than its lease, which nobody ends here: no tick is made. */
        run(&rig, times_ms[i], NULL);
    }
#define BUCKET(le) "redrive_job_duration_seconds_bucket{task=\"mail\",le=\"" le "\"}"
    const char *text = metrics_of(&rig, "default");
    assert_true(exposition_value(text, BUCKET("0.005")) == 2);
    assert_true(exposition_value(text, BUCKET("0.01")) == 3);
    assert_true(exposition_value(text, BUCKET("1")) == 3);
    assert_true(exposition_value(text, BUCKET("2.5")) == 4);
    assert_true(exposition_value(text, BUCKET("1800")) == 4);
    assert_true(exposition_value(text, BUCKET("+Inf")) == 5);
    assert_true(exposition_value(text, "redrive_job_duration_seconds_sum{task=\"mail\"}") ==
                4002.511);
    rig_release(&rig);
}

static void names_are_escaped(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    submit(&rig, NULL, "a\"b\\c{d} e=\"1\"");
    run(&rig, 1, NULL);
    const char *text = metrics_of(&rig, "default");
    assert_true(exposition_value(text, "redrive_jobs_submitted_total{task=\"a\\\"b\\\\c{d} "
                                       "e=\\\"1\\\"\"}") == 1);
    rig_release(&rig);
}

static void a_tenant_sees_its_own(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    submit(&rig, "zoo", "feed");
    run(&rig, 1, NULL);
    submit(&rig, NULL, "mail");
    run(&rig, 1, NULL);
    assert_null(strstr(metrics_of(&rig, "default"), "feed"));
    const char *text = metrics_of(&rig, "zoo");
    assert_null(strstr(text, "mail"));
    assert_true(exposition_value(text, "redrive_job_duration_seconds_count{task=\"feed\"}") == 1);
    rig_release(&rig);
}

static void tasks_without_end_share_one_histogram(void **state)
{
    (void)state;
    struct run_times *times = run_times_new();
    struct run_time *rows;
    struct arena arena;
    char task[32];
    struct engine_event event = {
        .kind = ENGINE_EVENT_COMPLETED, .tenant = STR("default"), .ran = true, .run_ms = 1};
    assert_non_null(times);
    arena_init(&arena);
    for (int i = 0; i < RUN_TIMES_MAX_TASKS + 100; i++) {
        (void)snprintf(task, sizeof task, "t%d", i);
        event.task = str_of(task);
        run_times_event(times, &event);
    }
    size_t n = run_times_read(times, STR("default"), &arena, &rows);
    assert_int_equal(n, RUN_TIMES_MAX_TASKS + 1);
    check_str(rows[0].task, "");
    assert_int_equal(rows[0].counts[0], 100);
    arena_release(&arena);
    run_times_free(times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_empty_store_is_well_formed),
        T(what_the_process_knows_is_told_without_the_store),
        T(jobs_are_counted_by_what_became_of_them),
        T(run_times_are_a_histogram),
        T(names_are_escaped),
        T(a_tenant_sees_its_own),
        T(tasks_without_end_share_one_histogram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
