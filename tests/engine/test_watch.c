/* What can be seen of a queue: breakers, statistics, workers, health. */
#include "engine/engine_for_test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/report/stats.h"

#define YAML                                                                              \
    "tasks:\n"                                                                            \
    "  mail: {queue: post, retry: {max_retries: 1, strategy: fixed, initial_delay: 10s, " \
    "jitter: false}, breaker: {failure_threshold: 3, recovery_timeout: 60s, "             \
    "recovery_jitter: 0}}\n"                                                              \
    "  sms: {queue: post, breaker: {key: \"sms:{payload.host}\"}}\n"                      \
    "  quiet: {retry: {max_retries: 0, enable_dlq: false}}\n"

#define check_near(value, expected) assert_true(fabs((value) - (expected)) < 1e-6)

static struct store *store_of(struct test_engine *te)
{
    return engine_store(te->engine);
}

static struct breaker_page breakers_of(struct test_engine *te, struct str tenant)
{
    struct breaker_page page = {0};
    assert_int_equal(breakers_read(store_of(te), tenant, te->now_ms, &page, NULL), 0);
    assert_int_equal(breakers_count_parked(store_of(te), tenant, &page, NULL), 0);
    return page;
}

static struct stats stats_of(struct test_engine *te, struct str tenant)
{
    struct stats stats = {0};
    struct redrive_err err = {0};
    if (stats_read_all(store_of(te), tenant, NULL, te->now_ms, &stats, &err) < 0)
        fail_msg("%s", err.message);
    return stats;
}

/* Opens the breaker of mail, with two jobs parked behind it. */
static void break_mail(struct test_engine *te)
{
    for (int i = 0; i < 5; i++)
        te_submit(te, "mail", "{}");
    for (int i = 0; i < 3; i++)
        te_fail(te, te_claim_one(te), "network");
    assert_int_equal(te_claim(te, 10), 0);
}

ENGINE_TEST(a_store_without_work_has_no_breakers, YAML)
{
    struct breaker_page page = breakers_of(te, (struct str){0});
    assert_int_equal(page.n, 0);
    assert_null(breakers_find(&page, STR("default"), STR("mail")));
    breaker_page_release(&page);
}

ENGINE_TEST(an_open_breaker_shows_why_since_when_and_what_waits, YAML)
{
    break_mail(te);
    int64_t opened_ms = te->now_ms;
    te->now_ms += 5000;
    struct breaker_page page = breakers_of(te, (struct str){0});
    assert_int_equal(page.n, 1);
    const struct breaker_info *b = breakers_find(&page, STR("default"), STR("mail"));
    assert_non_null(b);
    assert_int_equal(b->status.state, REDRIVE_BREAKER_OPEN);
    assert_int_equal(b->status.failure_count, 3);
    assert_int_equal(b->status.opened_at_ms, opened_ms);
    assert_int_equal(b->status.next_probe_ms, opened_ms + 60000);
    assert_int_equal(b->status.config.failure_threshold, 3);
    assert_int_equal(b->parked, 2);
    assert_int_equal(b->status.parked, 2);
    assert_int_equal(breakers_open(&page), 1);
    /* Its time has come, but nobody has asked it yet. */
    te->now_ms += 60000;
    breaker_page_release(&page);
    page = breakers_of(te, (struct str){0});
    assert_int_equal(page.breakers[0].status.state, REDRIVE_BREAKER_OPEN);
    breaker_page_release(&page);
}

ENGINE_TEST(breakers_of_tenants_are_told_apart, YAML)
{
    static const char *const TENANTS[] = {"acme", "zoo"};
    for (int i = 0; i < 2; i++) {
        struct breaker_op op;
        breaker_op_init(&op, str_of(TENANTS[i]), STR("mail"), i ? BREAKER_TRIP : BREAKER_DISABLE);
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    }
    struct breaker_page page = breakers_of(te, STR("zoo"));
    assert_int_equal(page.n, 1);
    assert_int_equal(page.breakers[0].status.state, REDRIVE_BREAKER_FORCED_OPEN);
    breaker_page_release(&page);
    page = breakers_of(te, (struct str){0});
    assert_int_equal(page.n, 2);
    assert_int_equal(breakers_open(&page), 1);
    breaker_page_release(&page);
}

ENGINE_TEST(a_breaker_made_by_hand_has_the_thresholds_of_its_task, YAML)
{
    struct breaker_op op;
    for (int i = 0; i < 3; i++) {
        breaker_op_init(&op, (struct str){0}, STR("mail"), BREAKER_SIMULATE_FAILURE);
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    }
    assert_int_equal(op.status.state, REDRIVE_BREAKER_OPEN);
}

ENGINE_TEST(a_damaged_row_is_named, NULL)
{
    struct breaker_page page = {0};
    struct redrive_err err = {0};
    struct move_result result;
    int64_t now_ms, version;
    struct store *store = store_of(te);
    const struct shared_row row = {
        .kind = SHARED_BREAKER, .tenant = STR("default"), .key = STR("mail"), .value = STR("?")};
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(breakers_read(store, (struct str){0}, te->now_ms, &page, &err),
                     REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.message, "mail"));
    assert_int_equal(page.n, 0);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static const struct stats_row *row_of(const struct stats *s, enum stats_label by, const char *name)
{
    for (size_t i = 0; i < s->by[by].n; i++)
        if (str_is(s->by[by].rows[i].name, name))
            return &s->by[by].rows[i];
    fail_msg("there is no row for %s", name);
    return NULL;
}

ENGINE_TEST(statistics_equal_the_facts, YAML)
{
    for (int i = 0; i < 4; i++)
        te_submit(te, "sms", "{\"host\":\"a\"}");
    te_succeed(te, te_claim_one(te));
    te_succeed(te, te_claim_one(te));
    te_fail(te, te_claim_one(te), "TRANSIENT_FAIL");
    te_fail(te, te_claim_one(te), "PERMANENT_FAIL");
    te_submit(te, "quiet", "{}");
    te_fail(te, te_claim_one(te), "network");
    te_submit(te, "late", "{}");
    te->now_ms += 7000;

    struct stats s = stats_of(te, (struct str){0});
    assert_int_equal(s.counts[ENGINE_EVENT_SUBMITTED], 6);
    assert_int_equal(s.counts[ENGINE_EVENT_STARTED], 5);
    assert_int_equal(s.counts[ENGINE_EVENT_COMPLETED], 2);
    assert_int_equal(s.counts[ENGINE_EVENT_RETRYING], 1);
    assert_int_equal(s.counts[ENGINE_EVENT_DEAD], 1);
    assert_int_equal(s.counts[ENGINE_EVENT_FAILED], 1);
    check_near(s.average_retries, 1.0 / 4);
    assert_int_equal(s.by_state[REDRIVE_STATE_COMPLETED], 2);
    assert_int_equal(s.by_state[REDRIVE_STATE_RETRYING], 1);
    assert_int_equal(s.by_state[REDRIVE_STATE_DEAD_LETTER], 1);
    assert_int_equal(s.by_state[REDRIVE_STATE_QUEUED], 1);
    assert_int_equal(s.at_ms - s.oldest_ready_ms, 7000);
    assert_true(s.next_ready_ms > 0);
    assert_int_equal(row_of(&s, STATS_TASK, "sms")->counts[ENGINE_EVENT_COMPLETED], 2);
    assert_int_equal(row_of(&s, STATS_QUEUE, "post")->counts[ENGINE_EVENT_DEAD], 1);
    assert_int_equal(row_of(&s, STATS_CLASS, "network")->counts[ENGINE_EVENT_FAILED], 1);
    assert_int_equal(s.n_tasks, 3);
    check_str(s.tasks[2].task, "sms");
    assert_int_equal(s.tasks[2].by_state[REDRIVE_STATE_DEAD_LETTER], 1);
    assert_int_equal(s.breakers.n, 2);
    stats_release(&s);
}

ENGINE_TEST(statistics_of_one_tenant_leave_the_others_out, YAML)
{
    const struct job_spec spec = {.tenant = STR("zoo"), .task = STR("mail")};
    te_submit_spec(te, &spec);
    te_submit(te, "mail", "{}");
    te_submit(te, "mail", "{}");
    struct stats s = stats_of(te, STR("zoo"));
    assert_int_equal(s.counts[ENGINE_EVENT_SUBMITTED], 1);
    assert_int_equal(s.by_state[REDRIVE_STATE_QUEUED], 1);
    stats_release(&s);
    s = stats_of(te, (struct str){0});
    assert_int_equal(s.counts[ENGINE_EVENT_SUBMITTED], 3);
    assert_int_equal(row_of(&s, STATS_TASK, "mail")->counts[ENGINE_EVENT_SUBMITTED], 3);
    assert_int_equal(s.n_tasks, 1);
    stats_release(&s);
}

static void check_retry_document(struct test_engine *te, const char *expected)
{
    struct stats s = stats_of(te, (struct str){0});
    struct buf out;
    struct json_writer w;
    buf_init(&out, 65536);
    json_writer_init(&w, &out);
    stats_write_retry_json(&w, &s);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
    stats_release(&s);
}

ENGINE_TEST(retry_statistics_are_in_percent_and_0_when_nothing_ran, YAML)
{
    check_retry_document(
        te, "{\"execution_stats\":{\"total_executed\":0,\"successful\":0,\"failed\":0,"
            "\"retried\":0,\"success_rate\":0.0,\"failure_rate\":0.0,\"retry_rate\":0.0},"
            "\"circuit_breaker_stats\":{\"total_circuit_breakers\":0,\"open_circuits\":0,"
            "\"closed_circuits\":0},\"dead_letter_stats\":{\"total_dead_letters\":0,"
            "\"by_task_type\":{}}}");
    break_mail(te);
    te_submit(te, "sms", "{\"host\":\"a\"}");
    te_fail(te, te_claim_one(te), "PERMANENT_FAIL");
    check_retry_document(
        te, "{\"execution_stats\":{\"total_executed\":4,\"successful\":0,\"failed\":1,"
            "\"retried\":3,\"success_rate\":0.0,\"failure_rate\":25.0,\"retry_rate\":75.0},"
            "\"circuit_breaker_stats\":{\"total_circuit_breakers\":2,\"open_circuits\":1,"
            "\"closed_circuits\":1},\"dead_letter_stats\":{\"total_dead_letters\":1,"
            "\"by_task_type\":{\"sms\":1}}}");
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void tell(struct engine *engine, const char *name, uint32_t running, bool leaving)
{
    struct worker_op op;
    struct redrive_err err = {0};
    worker_op_init(&op, str_of(name), (struct str){0});
    op.running = running;
    op.slots = 8;
    op.leaving = leaving;
    if (engine_apply_one(engine, &op.op, &err) < 0)
        fail_msg("%s", err.message);
}

static struct worker_page workers_of(struct test_engine *te)
{
    struct worker_page page = {0};
    assert_int_equal(workers_read(store_of(te), (struct str){0}, te->now_ms, &page, NULL), 0);
    return page;
}

static void tell_of_remote(struct engine *engine, const struct remote_worker *workers, size_t n)
{
    struct remote_workers_op op;
    struct redrive_err err = {0};
    remote_workers_op_init(&op, workers, n);
    if (engine_apply_one(engine, &op.op, &err) < 0)
        fail_msg("%s", err.message);
}

ENGINE_TEST(a_server_tells_of_those_who_work_through_it, YAML)
{
    struct remote_worker remote[] = {
        {.name = STR("b"), .tenant = STR("t"), .started_ms = 5, .running = 2, .slots = 3},
        {.name = STR("a"), .tenant = STR("t"), .runs = 7, .failed = 1},
        {.name = STR("a"), .tenant = STR("s")},
        {.name = STR("none"), .tenant = STR("s"), .gone = true},
    };
    tell(te->engine, "own", 1, false);
    tell_of_remote(te->engine, remote, 4);
    remote[0].running = 1;
    remote[1].gone = true;
    tell_of_remote(te->engine, remote, 2);
    struct worker_page page = workers_of(te);
    assert_int_equal(page.n, 3);
    assert_int_equal(page.n_working, 2); /* the second has no slots */
    check_str(page.workers[0].name, "own");
    check_str(page.workers[1].tenant, "s");
    check_str(page.workers[2].name, "b");
    assert_int_equal(page.workers[2].running, 1);
    assert_int_equal(page.workers[2].slots, 3);
    assert_int_equal(page.workers[2].started_ms, 5);
    assert_int_equal(page.workers[2].pid, 0);
    worker_page_release(&page);
    /* Silence ends it like any other. */
    te->now_ms += WORKER_GONE_MS;
    page = workers_of(te);
    assert_int_equal(page.n, 0);
    worker_page_release(&page);
}

ENGINE_TEST(worker_of_a_clock_that_was_ahead_is_gone, YAML)
{
    tell(te->engine, "w1", 1, false);
    te->now_ms -= WORKER_GONE_MS - 1;
    struct worker_page page = workers_of(te);
    assert_int_equal(page.n, 1);
    worker_page_release(&page);
    te->now_ms -= 1;
    page = workers_of(te);
    assert_int_equal(page.n, 0);
    worker_page_release(&page);
}

ENGINE_TEST(a_worker_is_seen_by_every_process, YAML)
{
    for (int i = 0; i < 4; i++) {
        te_submit(te, "sms", "{\"host\":\"a\"}");
        const struct job *job = te_claim_one(te);
        te->now_ms += 100;
        if (i < 3)
            te_succeed(te, job);
        else
            te_fail(te, job, "network");
    }
    tell(te->engine, "w1", 3, false);
    struct engine *other = te_second_engine(te);
    struct worker_page page = {0};
    assert_int_equal(workers_read(engine_store(other), (struct str){0}, te->now_ms, &page, NULL),
                     0);
    assert_int_equal(page.n, 1);
    const struct worker_info *w = &page.workers[0];
    check_str(w->name, "w1");
    assert_true(w->host.len > 0);
    assert_int_equal(w->pid, getpid());
    assert_int_equal(w->started_ms, TE_START_MS);
    assert_int_equal(w->seen_ms, te->now_ms);
    assert_int_equal(w->running, 3);
    assert_int_equal(w->slots, 8);
    assert_int_equal(w->runs, 4);
    assert_int_equal(w->failed, 1);
    assert_true(w->p50_ms > 95 && w->p50_ms < 105);
    assert_true(w->tasks_per_second > 3);
    worker_page_release(&page);
    engine_close(other);
}

ENGINE_TEST(a_worker_that_stops_is_gone_at_once_and_a_lost_one_after_a_minute, YAML)
{
    struct shared_page rows = {0};
    tell(te->engine, "w1", 0, false);
    tell(te->engine, "w1", 1, false);
    tell(te->engine, "w2", 0, false);
    struct worker_page page = workers_of(te);
    assert_int_equal(page.n, 2);
    assert_int_equal(page.workers[0].running, 1);
    tell(te->engine, "w1", 0, true);
    tell(te->engine, "w1", 0, true);
    worker_page_release(&page);
    page = workers_of(te);
    assert_int_equal(page.n, 1);
    check_str(page.workers[0].name, "w2");
    te->now_ms += WORKER_GONE_MS;
    worker_page_release(&page);
    page = workers_of(te);
    assert_int_equal(page.n, 0);
    te_tick(te);
    struct store *store = store_of(te);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_WORKER, (struct str){0}, &rows, NULL), 0);
    assert_int_equal(rows.n, 0);
    shared_page_release(&rows);
    worker_page_release(&page);
}

ENGINE_TEST(telling_of_a_worker_makes_nobody_read_the_breakers_again, YAML)
{
    int64_t now_ms, before, after;
    struct store *store = store_of(te);
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &before, NULL), 0);
    store_ops(store)->rollback(store);
    tell(te->engine, "w1", 0, false);
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &after, NULL), 0);
    store_ops(store)->rollback(store);
    assert_int_equal(after, before);
    break_mail(te);
    tell(te->engine, "w1", 0, false);
    assert_int_equal(te_breaker(te, "mail"), REDRIVE_BREAKER_OPEN);
}

static void put_worker(struct test_engine *te, const char *name, const char *value)
{
    struct move_result result = {0};
    int64_t now_ms, version;
    struct store *store = store_of(te);
    const struct shared_row row = {
        .kind = SHARED_WORKER, .key = str_of(name), .value = str_of(value)};
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

ENGINE_TEST(a_row_that_is_no_worker_is_passed_over_and_swept, YAML)
{
    static const char *const rows[] = {
        "{\"seen_ms\":",
        "{\"run_times\":[[1]]}",
        "{\"run_times\":[[]]}",
        "{\"run_times\":[[1,2,3],[4]],\"run_times\":7}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_worker(te, "odd", rows[i]);
        struct worker_page page = workers_of(te);
        assert_int_equal(page.n, 0);
        worker_page_release(&page);
        te_pass(te, 120000);
    }
}

ENGINE_TEST(figures_that_no_worker_has_do_not_spoil_those_of_the_others, YAML)
{
    char value[256];
    (void)snprintf(value, sizeof value,
                   "{\"seen_ms\":%" PRId64 ",\"events\":1e308,\"failures\":-1e308,"
                   "\"latency_factor\":1e308,\"run_times\":[[3,1e308],[4,1e308],[5],[6,2,9]]}",
                   te->now_ms);
    put_worker(te, "a", value);
    put_worker(te, "b", value);
    struct worker_page page = workers_of(te);
    struct redrive_health health;
    assert_int_equal(page.n, 2);
    workers_health(&page, NULL, 0, 0, te->now_ms, &health);
    assert_true(health.error_rate >= 0 && health.error_rate <= 1);
    assert_true(page.run_time.total > 0 && page.run_time.total < 1e300);
    worker_page_release(&page);
}

/* ---- Health ---------------------------------------------------------------------------------- */

ENGINE_TEST(health_of_the_store_weighs_workers_by_their_work, YAML)
{
    struct redrive_health health;
    struct worker_page workers = {0};
    struct engine *other = te_second_engine(te);
    /* One worker has 30 successes, the other 10 failures that count for no breaker. */
    for (int i = 0; i < 30; i++) {
        te_submit(te, "sms", "{\"host\":\"a\"}");
        te_succeed(te, te_claim_one(te));
    }
    struct engine *first = te->engine;
    te->engine = other;
    for (int i = 0; i < 10; i++) {
        te_submit(te, "sms", "{\"host\":\"a\"}");
        te_fail(te, te_claim_one(te), "rate_limited");
    }
    te->engine = first;
    tell(first, "w1", 0, false);
    tell(other, "w2", 0, false);
    assert_int_equal(stats_health(store_of(te), NULL, te->now_ms, &health, &workers, NULL), 0);
    assert_int_equal(workers.n, 2);
    check_near(health.success_rate, 0.75);
    check_near(health.error_rate, 0.25);
    check_near(health.health_score, 0.75);
    assert_string_equal(health.status, "degraded");
    assert_int_equal(health.breakers, 1);
    worker_page_release(&workers);
    engine_close(other);
}

ENGINE_TEST(health_without_workers_is_that_of_the_breakers, YAML)
{
    struct stats s = stats_of(te, (struct str){0});
    assert_string_equal(s.health.status, "healthy");
    check_near(s.health.health_score, 1);
    stats_release(&s);
    break_mail(te);
    s = stats_of(te, (struct str){0});
    check_near(s.health.health_score, 0);
    assert_string_equal(s.health.status, "unhealthy");
    stats_release(&s);
}
