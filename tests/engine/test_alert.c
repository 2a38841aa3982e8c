#include "engine/engine_for_test.h"

#include "base/json/json.h"
#include "engine/clock/alert.h"
#include "engine/report/worker_row.h"
#include "engine/verbs/change.h"

#define YAML                                                                                \
    "tasks:\n"                                                                              \
    "  mail: {retry: {max_retries: 1, strategy: fixed, initial_delay: 1h, jitter: false}, " \
    "breaker: {failure_threshold: 1000, failure_rate: 0}}\n"                                \
    "alerts:\n"

/* Engines that watch for alerts, beside the test's own, which does the work. */
struct watch {
    struct test_engine te;
    struct engine *a;
    struct engine *b;
    unsigned told[2]; /* recovered, firing */
    double value;
    char json[1024];
};

static int64_t te_time(void *ctx)
{
    return ((struct watch *)ctx)->te.now_ms;
}

static void hear(const struct alert_event *event, void *ctx)
{
    struct watch *w = ctx;
    w->told[event->firing]++;
    w->value = event->value;
    assert_true(str_copy(w->json, sizeof w->json, event->json));
    assert_int_equal(json_check(event->json, NULL, NULL), 0);
}

static struct engine *open_watcher(struct watch *w)
{
    const struct store_options store_options = {.create = true, .caller_time = true};
    struct engine_options options = {
        .config = w->te.config,
        .clock = te_time,
        .clock_ctx = w,
        .seed = 9,
        .on_alert = hear,
        .alert_ctx = w,
    };
    struct engine *engine;
    assert_int_equal(store_open(w->te.url, &store_options, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &engine, NULL), 0);
    return engine;
}

static void watch_init(struct watch *w, const char *yaml)
{
    *w = (struct watch){0};
    te_init(&w->te, yaml);
    w->a = open_watcher(w);
    w->b = open_watcher(w);
}

static void watch_release(struct watch *w)
{
    engine_close(w->a);
    engine_close(w->b);
    te_release(&w->te);
}

/* Time passes, and both look. */
static void pass(struct watch *w, int64_t ms)
{
    int64_t next_ms;
    w->te.now_ms += ms;
    assert_int_equal(engine_tick(w->a, &next_ms, NULL), 0);
    assert_true(next_ms <= w->te.now_ms + ALERT_EVERY_MS);
    assert_int_equal(engine_tick(w->b, &next_ms, NULL), 0);
}

static void kill_jobs(struct watch *w, int n)
{
    for (int i = 0; i < n; i++) {
        te_submit(&w->te, "mail", "{}");
        te_fail(&w->te, te_claim_one(&w->te), "PERMANENT_FAIL");
    }
}

/* Failures that are not the jobs' own fault, and that no breaker counts. */
static void fail_jobs(struct watch *w, int n)
{
    for (int i = 0; i < n; i++) {
        te_submit(&w->te, "mail", "{}");
        te_fail(&w->te, te_claim_one(&w->te), "rate_limited");
    }
}

static void remove_dead(struct watch *w)
{
    struct bulk bulk;
    struct bulk_op op;
    bulk_init(&bulk, MOVE_REMOVE, &(struct job_filter){0}, w->te.now_ms);
    bulk_op_init(&op, &bulk, BULK_CHUNK_MAX);
    assert_int_equal(engine_apply_one(w->te.engine, &op.op, NULL), 0);
    assert_false(op.more);
}

/* ---- The decision ---------------------------------------------------------------------------- */

TEST(comparisons_are_what_they_say)
{
    static const struct {
        enum config_compare compare;
        bool below, equal, above;
    } CASES[] = {{CONFIG_ABOVE, false, false, true},
                 {CONFIG_AT_LEAST, false, true, true},
                 {CONFIG_BELOW, true, false, false},
                 {CONFIG_AT_MOST, true, true, false}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct config_condition when = {CONFIG_METRIC_DEAD_LETTERS, CASES[i].compare, 5};
        assert_int_equal(alert_holds(&when, 4), CASES[i].below);
        assert_int_equal(alert_holds(&when, 5), CASES[i].equal);
        assert_int_equal(alert_holds(&when, 6), CASES[i].above);
    }
}

TEST(an_episode_begins_once_and_ends_when_it_has_been_clear_for_a_while)
{
    struct alert_state s = {0};
    assert_int_equal(alert_advance(&s, false, 1000), ALERT_NOTHING);
    assert_int_equal(alert_advance(&s, true, 2000), ALERT_BEGINS);
    assert_int_equal(alert_advance(&s, true, 3000), ALERT_NOTHING);
    assert_int_equal(s.since_ms, 2000);
    assert_int_equal(alert_advance(&s, false, 4000), ALERT_NOTHING);
    assert_int_equal(alert_advance(&s, true, 5000), ALERT_NOTHING);
    assert_int_equal(alert_advance(&s, false, 6000), ALERT_NOTHING);
    assert_int_equal(alert_advance(&s, false, 6000 + ALERT_CLEAR_MS - 1), ALERT_NOTHING);
    assert_int_equal(alert_advance(&s, false, 6000 + ALERT_CLEAR_MS), ALERT_IS_OVER);
    assert_int_equal(alert_advance(&s, false, 7000 + ALERT_CLEAR_MS), ALERT_NOTHING);
    assert_int_equal(alert_advance(&s, true, 8000 + ALERT_CLEAR_MS), ALERT_BEGINS);
}

TEST(a_window_counts_its_own_runs)
{
    struct alert_state s = {0};
    assert_true(alert_window(&s, 1000, 900, 1, 1) == 0);
    assert_true(alert_window(&s, 1004, 901, 1, 2) == 0);
    assert_true(alert_window(&s, 1004, 901, 1, 1 + ALERT_WINDOW_MS) == 0.25);
    assert_true(alert_window(&s, 2000, 901, 1, 2 + ALERT_WINDOW_MS) == 0.25);
    assert_true(alert_window(&s, 2000, 901, 1, 1 + 2 * ALERT_WINDOW_MS) == 0);
    assert_true(alert_window(&s, 2000, 901, 1, 1 + 3 * ALERT_WINDOW_MS) == 0);
    /* The store was made anew. */
    assert_true(alert_window(&s, 3, 1, 1, 1 + 4 * ALERT_WINDOW_MS) == 0);
}

TEST(a_window_with_few_runs_has_no_rate)
{
    struct alert_state s = {0};
    assert_true(alert_window(&s, 0, 0, 10, 1) == 0);
    assert_true(alert_window(&s, 9, 9, 10, 1 + ALERT_WINDOW_MS) == 0);
    assert_true(alert_window(&s, 19, 14, 10, 1 + 2 * ALERT_WINDOW_MS) == 0.5);
}

TEST(the_end_of_a_run_ends_a_window_that_has_runs_enough)
{
    struct alert_state s = {0};
    assert_true(alert_window(&s, 0, 0, 4, 1) == 0);
    assert_true(alert_window_end(&s, 3, 3, 4, 2) == 0);
    assert_int_equal(s.window_ms, 1);
    assert_true(alert_window_end(&s, 4, 3, 4, 3) == 0.75);
    assert_int_equal(s.window_ms, 3);
    assert_true(alert_window(&s, 4, 3, 4, 4) == 0.75);
}

TEST(rates_are_told_with_three_digits_and_sizes_in_full)
{
    const struct config_condition rate = {.metric = CONFIG_METRIC_ERROR_RATE};
    const struct config_condition score = {.metric = CONFIG_METRIC_HEALTH_SCORE};
    const struct config_condition size = {.metric = CONFIG_METRIC_DEAD_LETTERS};
    assert_true(alert_rounded(&rate, 1.0 / 3) == 0.333);
    assert_true(alert_rounded(&rate, 0.0012345) == 0.00123);
    assert_true(alert_rounded(&score, 0.99999) == 1);
    assert_true(alert_rounded(&size, 123456) == 123456);
}

#define WATCH_TEST(test, ...) \
    TEST_OF(test, struct watch, w, watch_init(w, __VA_ARGS__), watch_release(w))

/* ---- Engines --------------------------------------------------------------------------------- */

WATCH_TEST(alerts_are_looked_at_after_the_clock_was_set_back,
           YAML "  - {when: \"dead_letters > 2\", webhook: \"http://127.0.0.1:9/\"}\n")
{
    pass(w, INT64_C(365) * 86400000);
    w->te.now_ms -= INT64_C(364) * 86400000;
    kill_jobs(w, 3);
    pass(w, 0);
    assert_int_equal(w->told[1], 1);
}

WATCH_TEST(one_of_several_processes_tells_and_tells_once,
           YAML "  - {when: \"dead_letters > 2\", webhook: \"http://127.0.0.1:9/\"}\n")
{
    kill_jobs(w, 2);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 0);
    kill_jobs(w, 1);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 1);
    assert_true(w->value == 3);
    assert_non_null(strstr(w->json, "\"status\":\"firing\",\"condition\":\"dead_letters > 2\","
                                    "\"task\":null,\"value\":3,"));
    for (int i = 0; i < 20; i++)
        pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 1);
    remove_dead(w);
    for (int i = 0; i < 20; i++)
        pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[false], 1);
    assert_non_null(strstr(w->json, "\"status\":\"recovered\""));
    kill_jobs(w, 3);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 2);
}

WATCH_TEST(a_restart_does_not_tell_again, YAML "  - {when: \"dead_letters >= 1\"}\n")
{
    kill_jobs(w, 1);
    pass(w, 0);
    assert_int_equal(w->told[true], 1);
    engine_close(w->a);
    w->a = open_watcher(w);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 1);
}

WATCH_TEST(two_rules_that_say_the_same_are_both_told,
           YAML "  - {when: \"dead_letters >= 1\", webhook: \"http://127.0.0.1:9/a\"}\n"
                "  - {when: \"dead_letters >= 1\", webhook: \"http://127.0.0.1:9/b\"}\n")
{
    kill_jobs(w, 1);
    pass(w, 0);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 2);
}

WATCH_TEST(a_rule_about_a_task_counts_that_task_only,
           YAML "  - {when: \"retry_backlog > 1\", task: mail}\n")
{
    for (int i = 0; i < 3; i++) {
        te_submit(&w->te, "other", "{}");
        te_fail(&w->te, te_claim_one(&w->te), "TRANSIENT_FAIL");
    }
    pass(w, 0);
    assert_int_equal(w->told[true], 0);
    for (int i = 0; i < 2; i++) {
        te_submit(&w->te, "mail", "{}");
        te_fail(&w->te, te_claim_one(&w->te), "TRANSIENT_FAIL");
    }
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 1);
    assert_true(w->value == 2);
    assert_non_null(strstr(w->json, "\"task\":\"mail\""));
}

WATCH_TEST(error_rate_and_health_come_from_the_workers,
           YAML "  - {when: \"error_rate > 0.1\"}\n  - {when: \"health_score < 0.5\"}\n")
{
    struct worker_op worker;
    fail_jobs(w, 14);
    pass(w, 0);
    assert_int_equal(w->told[true], 0);
    worker_op_init(&worker, STR("w1"), (struct str){0});
    assert_int_equal(engine_apply_one(w->te.engine, &worker.op, NULL), 0);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 2);
}

WATCH_TEST(one_failure_is_no_rate_unless_the_rule_says_so,
           YAML "  - {when: \"error_rate > 0.1\"}\n  - {when: \"health_score < 0.5\"}\n"
                "  - {when: \"error_rate > 0.2\", min_runs: 1}\n")
{
    struct worker_op worker;
    fail_jobs(w, 2);
    te_submit(&w->te, "mail", "{}");
    te_succeed(&w->te, te_claim_one(&w->te));
    worker_op_init(&worker, STR("w1"), (struct str){0});
    assert_int_equal(engine_apply_one(w->te.engine, &worker.op, NULL), 0);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 1);
    assert_true(w->value == 0.667);
    assert_non_null(strstr(w->json, "\"condition\":\"error_rate > 0.2\""));
    assert_non_null(strstr(w->json, "\"value\":0.667,"));
}

WATCH_TEST(the_error_rate_of_a_task_is_that_of_the_last_minute,
           YAML "  - {when: \"error_rate >= 0.5\", task: mail, min_runs: 4}\n")
{
    fail_jobs(w, 5);
    pass(w, 0);
    pass(w, ALERT_WINDOW_MS);
    assert_int_equal(w->told[true], 0);
    fail_jobs(w, 2);
    for (int i = 0; i < 2; i++) {
        te_submit(&w->te, "mail", "{}");
        te_succeed(&w->te, te_claim_one(&w->te));
    }
    pass(w, ALERT_WINDOW_MS);
    assert_int_equal(w->told[true], 1);
    assert_true(w->value == 0.5);
}

#define RATES_OF_TASK                                                \
    YAML "  - {when: \"error_rate > 0\", task: mail, min_runs: 1}\n" \
         "  - {when: \"health_score < 0.9\", task: mail, min_runs: 1}\n"

/* Twenty, of which none was run: a deadline, or a person. */
WATCH_TEST(ends_without_a_run_are_no_failures_of_a_task, RATES_OF_TASK)
{
    pass(w, 0);
    for (int i = 0; i < 20; i++) {
        const struct job_spec spec = {.task = STR("mail"),
                                      .deadline_ms = i % 2 ? w->te.now_ms + 1000 : 0};
        const int64_t seq = te_submit_spec(&w->te, &spec);
        if (i % 2 == 0)
            assert_int_equal(te_change(&w->te, MOVE_END, seq), 0);
    }
    te_pass(&w->te, 1000);
    assert_int_equal(te_count(&w->te, REDRIVE_STATE_DEAD_LETTER), 20);
    assert_int_equal(te_counter(&w->te, COUNTER_WITHOUT_RUN, "partition:default/mail"), 20);
    pass(w, ALERT_WINDOW_MS);
    assert_int_equal(w->told[true], 0);
}

/* They count as runs all the same. */
WATCH_TEST(failures_by_the_fault_of_the_job_are_none_of_its_task, RATES_OF_TASK)
{
    pass(w, 0);
    kill_jobs(w, 10);
    for (int i = 0; i < 10; i++) {
        te_submit(&w->te, "mail", "{}");
        te_fail(&w->te, te_claim_one(&w->te), "validation");
    }
    pass(w, ALERT_WINDOW_MS);
    assert_int_equal(w->told[true], 0);
    kill_jobs(w, 15);
    fail_jobs(w, 5);
    pass(w, ALERT_WINDOW_MS);
    assert_int_equal(w->told[true], 2);
    assert_true(w->value == 0.75);
}

WATCH_TEST(without_rules_the_shipped_ones_hold,
           "tasks: {mail: {breaker: {failure_threshold: 1000, failure_rate: 0}}}\n")
{
    kill_jobs(w, 100);
    pass(w, 0);
    assert_int_equal(w->told[true], 0);
    kill_jobs(w, 1);
    pass(w, ALERT_EVERY_MS);
    assert_int_equal(w->told[true], 1);
    assert_non_null(strstr(w->json, "dead_letters > 100"));
}

static void last_look(struct engine *engine)
{
    struct op op;
    alert_op_init(&op);
    assert_int_equal(engine_apply_one(engine, &op, NULL), 0);
}

/* However soon after the one before, and none comes after it. */
WATCH_TEST(the_last_look_is_taken_at_once, YAML "  - {when: \"dead_letters >= 1\"}\n")
{
    int64_t next_ms;
    pass(w, 1);
    kill_jobs(w, 1);
    pass(w, 1);
    assert_int_equal(w->told[true], 0);
    last_look(w->a);
    assert_int_equal(w->told[true], 1);
    last_look(w->b);
    assert_int_equal(w->told[true], 1);
    remove_dead(w);
    w->te.now_ms += 10 * ALERT_CLEAR_MS;
    assert_int_equal(engine_tick(w->a, &next_ms, NULL), 0);
    w->te.now_ms += 10 * ALERT_CLEAR_MS;
    assert_int_equal(engine_tick(w->a, &next_ms, NULL), 0);
    assert_int_equal(w->told[false], 0);
}

WATCH_TEST(an_engine_that_nobody_listens_to_does_not_look,
           YAML "  - {when: \"dead_letters >= 1\"}\n")
{
    struct shared_page rows = {0};
    kill_jobs(w, 1);
    te_pass(&w->te, ALERT_EVERY_MS);
    struct store *store = engine_store(w->te.engine);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_ALERT, (struct str){0}, &rows, NULL), 0);
    assert_int_equal(rows.n, 0);
    shared_page_release(&rows);
}
