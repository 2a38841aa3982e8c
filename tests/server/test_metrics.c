#include "check.h"

#include <stdio.h>

#include "engine/engine.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"
#include "server/exposition.h"
#include "server/metrics/metrics.h"

#define NOW_MS INT64_C(1767225600000)

/* An engine in memory, with what it tells. */
struct measured_engine {
    int64_t now_ms;
    struct engine *engine;
    struct run_times *times;
    struct buf text;
};

static int64_t measured_clock(void *ctx)
{
    return ((struct measured_engine *)ctx)->now_ms;
}

static void hear(const struct engine_event *event, void *ctx)
{
    run_times_event(((struct measured_engine *)ctx)->times, event);
}

static void measured_init(struct measured_engine *measured)
{
    static int number;
    char url[32];
    const struct store_options store_options = {.create = true};
    struct engine_options options = {.clock = measured_clock,
                                     .clock_ctx = measured,
                                     .seed = 7,
                                     .on_event = hear,
                                     .event_ctx = measured};
    *measured = (struct measured_engine){.now_ms = NOW_MS, .times = run_times_new()};
    assert_non_null(measured->times);
    buf_init(&measured->text, 1024 * 1024);
    (void)snprintf(url, sizeof url, "memory:metrics%d", number++);
    assert_int_equal(store_open(url, &store_options, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &measured->engine, NULL), 0);
}

static void measured_release(struct measured_engine *measured)
{
    engine_close(measured->engine);
    run_times_free(measured->times);
    buf_release(&measured->text);
}

static void submit_spec(struct measured_engine *measured, const struct job_spec *spec)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, measured->engine, spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(measured->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    submit_op_release(&op);
}

static void submit(struct measured_engine *measured, const char *tenant, const char *task)
{
    submit_spec(
        measured,
        &(struct job_spec){.tenant = str_of(tenant), .task = str_of(task), .payload = STR("{}")});
}

static void submit_later(struct measured_engine *measured, const char *task,
                         int64_t process_after_ms)
{
    submit_spec(measured, &(struct job_spec){.task = str_of(task),
                                             .payload = STR("{}"),
                                             .process_after_ms = process_after_ms});
}

/* Claims one job and ends it after `run_ms`; a NULL status is success. */
static void run(struct measured_engine *measured, int64_t run_ms, const char *status)
{
    const struct claim_filter filter = {.limit = 1};
    struct claim_op claim;
    struct settlement s = {.outcome = {.ending = ENDING_RAN, .failure = {.status = status}}};
    struct settle_op settle;
    claim_op_init(&claim, &filter, STR("w1"), 60000);
    assert_int_equal(engine_apply_one(measured->engine, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    measured->now_ms += run_ms;
    s.seq = claim.jobs[0].status.seq;
    s.token = claim.jobs[0].status.token;
    settle_op_init(&settle, &s, 1);
    assert_int_equal(engine_apply_one(measured->engine, &settle.op, NULL), 0);
    claim_op_release(&claim);
}

static const char *metrics_of(struct measured_engine *measured, const char *tenant)
{
    struct stats stats = {0};
    struct run_time *rows;
    struct store_status_view store_status;
    struct redrive_err err = {0};
    struct arena arena;
    arena_init(&arena);
    if (stats_read_all(engine_store(measured->engine), str_of(tenant), NULL, measured->now_ms,
                       &stats, &err) < 0)
        fail_msg("%s", err.message);
    size_t n = run_times_read(measured->times, str_of(tenant), &arena, &rows);
    const struct metrics_process process = {
        .store_status = &store_status,
        .store_is_read = true,
        .n_run_times = n,
        .run_times = rows,
        .facts = process_facts(NOW_MS),
    };
    store_status_read(engine_store_status(measured->engine), &store_status);
    buf_reset(&measured->text);
    assert_int_equal(metrics_write_store(&stats, &measured->text), 0);
    metrics_write_process(&process, &measured->text);
    assert_int_equal(buf_failed(&measured->text), 0);
    stats_release(&stats);
    arena_release(&arena);
    exposition_check(buf_cstr(&measured->text));
    return buf_cstr(&measured->text);
}

static void check_value(const char *text, const char *series, double value)
{
    const double found = exposition_value(text, series);
    if (found != value)
        fail_msg("%s is %g, not %g", series, found, value);
}

#define METRICS_TEST(test)                                                   \
    TEST_OF(test, struct measured_engine, measured, measured_init(measured), \
            measured_release(measured))

METRICS_TEST(an_empty_store_is_well_formed)
{
    const char *text = metrics_of(measured, "default");
    check_value(text, "redrive_build_info{version=\"" REDRIVE_VERSION "\"}", 1);
    check_value(text, "redrive_oldest_ready_seconds", 0);
    check_value(text, "redrive_health_score", 1);
    check_value(text, "redrive_store_up", 1);
    check_value(text, "redrive_store_errors_total{kind=\"io\"}", 0);
    check_value(text, "redrive_breakers{state=\"open\"}", 0);
}

METRICS_TEST(the_process_is_told_of_as_prometheus_is_used_to)
{
    const char *text = metrics_of(measured, "default");
    check_value(text, "process_start_time_seconds", (double)NOW_MS / 1000);
    assert_true(exposition_value(text, "process_cpu_seconds_total") >= 0);
    const double resident = exposition_value(text, "process_resident_memory_bytes");
    assert_true(resident > 100000 &&
                resident < exposition_value(text, "process_virtual_memory_bytes"));
    const double open = exposition_value(text, "process_open_fds");
    assert_true(open >= 3 && open < exposition_value(text, "process_max_fds"));
    FILE *file = fopen("/dev/null", "r");
    check_value(metrics_of(measured, "default"), "process_open_fds", open + 1);
    (void)fclose(file);
}

TEST(what_the_process_knows_is_told_without_the_store)
{
    struct store_status_view store_status = {.is_failing = true};
    struct buf text;
    buf_init(&text, 1 << 20);
    store_status.errors[-REDRIVE_E_IO] = 31;
    store_status.errors[-REDRIVE_E_CORRUPT] = 2;
    metrics_write_process(&(struct metrics_process){.store_status = &store_status}, &text);
    exposition_check(buf_cstr(&text));
    assert_true(exposition_value(buf_cstr(&text), "redrive_store_up") == 0);
    assert_true(exposition_value(buf_cstr(&text), "redrive_store_errors_total{kind=\"io\"}") == 31);
    assert_true(exposition_value(buf_cstr(&text), "redrive_store_errors_total{kind=\"corrupt\"}") ==
                2);
    assert_null(strstr(buf_cstr(&text), "redrive_health_score"));
    buf_release(&text);
}

METRICS_TEST(jobs_are_counted_by_what_became_of_them)
{
    submit(measured, NULL, "mail");
    run(measured, 20, NULL);
    submit(measured, NULL, "mail");
    run(measured, 700, "PERMANENT_FAIL");
    submit(measured, NULL, "mail");
    measured->now_ms += 5000;
    const char *text = metrics_of(measured, "default");
#define MAIL "queue=\"default\",task=\"mail\""
    check_value(text, "redrive_jobs_submitted_total{" MAIL "}", 3);
    check_value(text, "redrive_attempts_started_total{" MAIL "}", 2);
    check_value(text, "redrive_attempts_retried_total{" MAIL "}", 0);
    check_value(text, "redrive_jobs_finished_total{" MAIL ",outcome=\"completed\"}", 1);
    check_value(text, "redrive_jobs_finished_total{" MAIL ",outcome=\"dead_letter\"}", 1);
    check_value(text, "redrive_failures_total{class=\"permanent\"}", 1);
    check_value(text, "redrive_jobs{" MAIL ",state=\"queued\"}", 1);
    check_value(text, "redrive_jobs{" MAIL ",state=\"dead_letter\"}", 1);
    check_value(text, "redrive_oldest_ready_seconds", 5);
    check_value(text, "redrive_breaker_state{breaker=\"mail\"}", 0);
    check_value(text, "redrive_breakers{state=\"closed\"}", 1);
    check_value(text, "redrive_attempt_duration_seconds_sum{" MAIL ",outcome=\"dead_letter\"}",
                0.7);
}

METRICS_TEST(run_times_are_a_histogram)
{
    const int64_t times_ms[] = {0, 5, 6, 2500, 4000000};
    for (size_t i = 0; i < 5; i++) {
        submit(measured, NULL, "mail");
        /* Longer than its lease, which nobody ends here: no tick is made. */
        run(measured, times_ms[i], NULL);
    }
#define DURATION(part, le) \
    "redrive_attempt_duration_seconds_" part "{" MAIL ",outcome=\"completed\"" le "}"
    const char *text = metrics_of(measured, "default");
    check_value(text, DURATION("bucket", ",le=\"0.005\""), 2);
    check_value(text, DURATION("bucket", ",le=\"0.01\""), 3);
    check_value(text, DURATION("bucket", ",le=\"1\""), 3);
    check_value(text, DURATION("bucket", ",le=\"2.5\""), 4);
    check_value(text, DURATION("bucket", ",le=\"1800\""), 4);
    check_value(text, DURATION("bucket", ",le=\"+Inf\""), 5);
    check_value(text, DURATION("sum", ""), 4002.511);
    check_value(text, DURATION("count", ""), 5);
}

/* From when it was due, not from when it was submitted. */
METRICS_TEST(waiting_times_are_a_histogram)
{
    int64_t next_ms;
    submit(measured, NULL, "mail");
    measured->now_ms += 40;
    run(measured, 1, NULL);
    submit_later(measured, "mail", measured->now_ms + 60000);
    measured->now_ms += 60200;
    assert_int_equal(engine_tick(measured->engine, &next_ms, NULL), 0);
    run(measured, 1, NULL);
    const char *text = metrics_of(measured, "default");
    check_value(text, "redrive_queue_wait_seconds_bucket{" MAIL ",le=\"0.025\"}", 0);
    check_value(text, "redrive_queue_wait_seconds_bucket{" MAIL ",le=\"0.05\"}", 1);
    check_value(text, "redrive_queue_wait_seconds_sum{" MAIL "}", 0.24);
    check_value(text, "redrive_queue_wait_seconds_count{" MAIL "}", 2);
}

METRICS_TEST(names_are_escaped)
{
    submit(measured, NULL, "a\"b\\c{d} e=\"1\"");
    run(measured, 1, NULL);
    const char *text = metrics_of(measured, "default");
    check_value(text,
                "redrive_jobs_submitted_total{queue=\"default\",task=\"a\\\"b\\\\c{d} "
                "e=\\\"1\\\"\"}",
                1);
}

METRICS_TEST(a_tenant_sees_its_own)
{
    submit(measured, "zoo", "feed");
    run(measured, 1, NULL);
    submit(measured, NULL, "mail");
    run(measured, 1, NULL);
    assert_null(strstr(metrics_of(measured, "default"), "feed"));
    const char *text = metrics_of(measured, "zoo");
    assert_null(strstr(text, "mail"));
    check_value(text,
                "redrive_attempt_duration_seconds_count{queue=\"default\",task=\"feed\","
                "outcome=\"completed\"}",
                1);
}

TEST(tasks_without_end_share_one_histogram)
{
    struct run_times *times = run_times_new();
    struct run_time *rows;
    struct arena arena;
    char task[32];
    struct engine_event event = {
        .kind = ENGINE_EVENT_COMPLETED, .tenant = STR("default"), .ran = true, .run_ms = 1};
    assert_non_null(times);
    arena_init(&arena);
    for (int i = 0; i < RUN_TIMES_MAX + 100; i++) {
        (void)snprintf(task, sizeof task, "t%d", i);
        event.task = str_of(task);
        run_times_event(times, &event);
    }
    size_t n = run_times_read(times, STR("default"), &arena, &rows);
    assert_int_equal(n, RUN_TIMES_MAX + 1);
    check_str(rows[0].task, "");
    assert_int_equal(rows[0].counts[0], 100);
    arena_release(&arena);
    run_times_free(times);
}

/* The open one would come last by its name. */
TEST(breakers_without_end_are_counted_but_not_all_shown)
{
    enum {
        N = METRICS_MAX_BREAKERS + 50
    };
    static struct breaker_info breakers[N];
    static char keys[N][16];
    struct buf text;
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "host%04zu", i);
        breakers[i] = (struct breaker_info){.key = str_of(keys[i])};
    }
    breakers[N - 1].status.state = REDRIVE_BREAKER_OPEN;
    const struct stats stats = {.breakers = {.breakers = breakers, .n = N}};
    buf_init(&text, 1 << 20);
    assert_int_equal(metrics_write_store(&stats, &text), 0);
    exposition_check(buf_cstr(&text));
    size_t shown = 0;
    for (const char *at = buf_cstr(&text); (at = strstr(at, "redrive_breaker_state{")); at++)
        shown++;
    assert_int_equal(shown, METRICS_MAX_BREAKERS);
    check_value(buf_cstr(&text), "redrive_breaker_state{breaker=\"host0249\"}", 2);
    check_value(buf_cstr(&text), "redrive_breakers{state=\"closed\"}", N - 1);
    check_value(buf_cstr(&text), "redrive_breakers{state=\"open\"}", 1);
    buf_release(&text);
}

TEST(budgets_with_the_least_room_come_first)
{
    enum {
        N = METRICS_MAX_BREAKERS + 50
    };
    static struct limit_info limits[N + 1];
    static char keys[N][16];
    struct buf text;
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "host%04zu", i);
        limits[i] = (struct limit_info){
            .key = str_of(keys[i]),
            .budget = {.config = {.min_per_second = 1}, .status = {.room = (uint32_t)(N - i)}}};
    }
    limits[N] = (struct limit_info){.key = STR("without")};
    const struct stats stats = {.limits = {.limits = limits, .n = N + 1}};
    buf_init(&text, 1 << 20);
    assert_int_equal(metrics_write_store(&stats, &text), 0);
    exposition_check(buf_cstr(&text));
    check_value(buf_cstr(&text), "redrive_retry_budget_room_jobs{limit=\"host0249\"}", 1);
    assert_null(strstr(buf_cstr(&text), "host0049"));
    assert_null(strstr(buf_cstr(&text), "without"));
    buf_release(&text);
}

TEST(arms_have_their_figures_and_not_all_are_shown)
{
    enum {
        N = METRICS_MAX_ARMS / 2 + 25
    };
    static struct arm_row arms[N][2];
    static struct experiment_row rows[N];
    static char names[N][16];
    struct buf text;
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof names[i], "try%04zu", i);
        arms[i][0] = (struct arm_row){.name = STR("control")};
        arms[i][1] = (struct arm_row){.name = STR("slow")};
        rows[i] = (struct experiment_row){.name = str_of(names[i]), .arms = arms[i], .n_arms = 2};
    }
    arms[3][1].figures = (struct arm_figures){.submitted = 9,
                                              .completed = 4,
                                              .dead = 2,
                                              .cancelled = 1,
                                              .attempts = {.sum = 11},
                                              .time_ms = {.sum = 2500}};
    const struct stats stats = {.experiments = {.rows = rows, .n = N}};
    buf_init(&text, 1 << 20);
    assert_int_equal(metrics_write_store(&stats, &text), 0);
    exposition_check(buf_cstr(&text));
#define SLOW "experiment=\"try0003\",arm=\"slow\""
    const char *all = buf_cstr(&text);
    check_value(all, "redrive_experiment_jobs_submitted_total{" SLOW "}", 9);
    check_value(all, "redrive_experiment_jobs_finished_total{" SLOW ",outcome=\"completed\"}", 4);
    check_value(all, "redrive_experiment_jobs_finished_total{" SLOW ",outcome=\"dead\"}", 2);
    check_value(all, "redrive_experiment_jobs_finished_total{" SLOW ",outcome=\"cancelled\"}", 1);
    check_value(all, "redrive_experiment_attempts_total{" SLOW "}", 11);
    check_value(all, "redrive_experiment_completion_seconds_total{" SLOW "}", 2.5);
    size_t shown = 0;
    for (const char *at = all; (at = strstr(at, "redrive_experiment_attempts_total{")); at++)
        shown++;
    assert_int_equal(shown, METRICS_MAX_ARMS);
    buf_release(&text);
}

METRICS_TEST(tenants_are_added_up_where_none_is_named)
{
    struct run_time *rows;
    struct arena arena;
    arena_init(&arena);
    submit(measured, "zoo", "mail");
    run(measured, 1, NULL);
    submit(measured, NULL, "mail");
    run(measured, 1, NULL);
    assert_int_equal(run_times_read(measured->times, (struct str){0}, &arena, &rows), 2);
    assert_int_equal(rows[0].kind, ENGINE_EVENT_STARTED);
    assert_int_equal(rows[1].counts[0], 2);
    assert_int_equal(rows[1].sum_ms, 2);
    arena_release(&arena);
}
