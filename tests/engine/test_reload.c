/* Another configuration for an engine that is at work. */
#include "engine/engine_for_test.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/committer.h"
#include "engine/engine.h"
#include "engine/tasks.h"

#define QUICK "tasks: {call: {retry: {max_attempts: 2, strategy: fixed, initial_delay: 1s}}}\n"
#define SLOW                                                                                     \
    "tasks: {call: {retry: {total_timeout: 0, max_attempts: 9, strategy: fixed, initial_delay: " \
    "10m, max_delay: 20m, "                                                                      \
    "jitter: false}}}\n"

ENGINE_TEST(waiting_jobs_go_by_the_new_policy, QUICK)
{
    int64_t seq = te_submit(te, "call", "{}");
    te_reload(te, SLOW);
    assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
    te_pass(te, 60 * 1000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RETRYING);
    te_pass(te, 3600 * 1000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_QUEUED);
}

ENGINE_TEST(shown_attempts_are_never_less_than_there_were,
            "tasks: {call: {retry: {max_attempts: 2, strategy: immediate}}}\n")
{
    int64_t seq = te_submit(te, "call", "{}");
    te_reload(te, "tasks: {call: {retry: {max_attempts: 3, strategy: immediate}}}\n");
    for (int n = 0; n < 3; n++) {
        assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
        te_tick(te);
    }
    const struct job job = te_job(te, seq);
    assert_int_equal(job.status.attempts, 3);
    assert_int_equal(job_max_attempts(&job), 3);
}

ENGINE_TEST(shown_attempts_are_those_of_the_class_that_ended_it,
            "tasks: {call: {retry: {max_attempts: 2, strategy: immediate},\n"
            "  on: {rate_limited: {max_attempts: 9}}}}\n")
{
    int64_t seq = te_submit(te, "call", "{}");
    struct job job = te_job(te, seq);
    assert_int_equal(job_max_attempts(&job), 9);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
        te_tick(te);
    }
    job = te_job(te, seq);
    assert_int_equal(job.status.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job.status.attempts, 2);
    assert_int_equal(job_max_attempts(&job), 2);
}

ENGINE_TEST(new_jobs_go_by_the_new_definitions, QUICK)
{
    te_reload(te, SLOW "strict_tasks: true\n");
    int64_t seq = te_submit(te, "call", "{}");
    assert_int_equal(te_job(te, seq).spec.max_attempts, 9);
    const struct job_spec unknown = {.task = STR("other")};
    assert_int_equal(te_try_submit(te, &unknown), REDRIVE_E_UNKNOWN);
    assert_string_equal(engine_task(te->engine, STR("call"))->name, "call");
    assert_string_equal(engine_task(te->engine, STR("other"))->name, "");
}

ENGINE_TEST(classification_is_the_new_one, QUICK)
{
    const struct outcome outcome = {.ending = ENDING_RAN, .failure = {.error_type = "OddError"}};
    te_reload(te, QUICK "classify: [{error_type: OddError, class: permanent}]\n");
    int64_t seq = te_submit(te, "call", "{}");
    assert_int_equal(te_settle(te, te_claim_one(te), &outcome), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_DEAD_LETTER);
}

ENGINE_TEST(periodic_tasks_come_and_go,
            "cron: {hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n")
{
    te_reload(te, "cron: {often: {task: call, schedule: \"* * * * *\"},\n"
                  "       hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n");
    te_pass(te, 60 * 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_reload(te, "strict_tasks: false\n");
    te_pass(te, 3600 * 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
}

ENGINE_TEST(a_cron_entries_keeps_its_marks,
            "cron: {hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n")
{
    te_pass(te, 3600 * 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_reload(te, "cron: {first: {task: x, schedule: \"0 0 1 1 *\"},\n"
                  "       hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n");
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_pass(te, 3600 * 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
}

ENGINE_TEST(new_tasks_are_published, QUICK)
{
    te_reload(te, SLOW);
    struct shared_page page = {0};
    struct store *store = engine_store(te->engine);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_true(str_contains(page.rows[0].value, STR("\"max_attempts\":9")) ||
                str_contains(page.rows[0].value, STR("\"max_retries\":8")));
    shared_page_release(&page);
}

ENGINE_TEST(a_submit_under_way_keeps_what_it_began_with, QUICK)
{
    te_reload(te, "tasks: {call: {queue: media}}\n"); /* held by the engine alone */
    const struct job_spec spec = {.task = STR("call")};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, te->engine, &spec, 1, NULL), 0);
    te_reload(te, QUICK);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    check_str(op.specs[0].queue, "media");
    submit_op_release(&op);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
}

/* ---- Jobs that are parked under a limit ------------------------------------------------------ */

#define LIMIT(limits) "tasks: {call: {limits: {" limits "}}}\n"

static void submit_some(struct test_engine *te, int n)
{
    for (int i = 0; i < n; i++)
        te_submit(te, "call", "{}");
}

/* One of three runs. */
static void fill_limit(struct test_engine *te, const char *yaml)
{
    te_init(te, yaml);
    submit_some(te, 3);
    assert_int_equal(te_claim(te, 9), 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 2);
}

TEST(parked_jobs_go_by_the_new_limit)
{
    static const struct {
        const char *before, *after;
        size_t n;
    } CASES[] = {
        {LIMIT("concurrency: 1"), LIMIT("concurrency: 3"), 2},
        {LIMIT("concurrency: 1"), LIMIT("concurrency: 2"), 1},
        {LIMIT("concurrency: 1"), LIMIT("concurrency: adaptive, min_concurrency: 2"), 1},
        {LIMIT("concurrency: 1"), QUICK, 2},
        {LIMIT("rate: 1/d"), QUICK, 2},
        {LIMIT("rate: 1/d"), LIMIT("concurrency: 2"), 1},
        {LIMIT("concurrency: 1"), LIMIT("rate: 1/h"), 1},
        {LIMIT("concurrency: 1"), LIMIT("concurrency: 1, rate: 9/s"), 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct test_engine te;
        fill_limit(&te, CASES[i].before);
        te_reload(&te, CASES[i].after);
        assert_int_equal(te_claim(&te, 9), CASES[i].n);
        te_release(&te);
    }
}

/* What the bucket has is kept: it fills faster from now on. */
TEST(parked_jobs_go_at_the_new_rate)
{
    struct test_engine te;
    int64_t next_ms;
    fill_limit(&te, LIMIT("rate: 1/d"));
    te_reload(&te, LIMIT("rate: 10/s"));
    assert_int_equal(engine_tick(te.engine, &next_ms, NULL), 0);
    assert_true(next_ms <= te.now_ms + 100);
    te_pass(&te, 100);
    assert_int_equal(te_claim(&te, 9), 1);
    te_pass(&te, 100);
    assert_int_equal(te_claim(&te, 9), 1);
    te_release(&te);
}

TEST(a_restart_reaches_parked_jobs)
{
    struct test_engine te;
    fill_limit(&te, LIMIT("rate: 1/d"));
    config_free(te.config);
    te.config = te_config(&te, LIMIT("concurrency: 3"));
    struct engine *former = te.engine;
    te.engine = te_second_engine(&te);
    te_tick(&te);
    assert_int_equal(te_claim(&te, 9), 2);
    engine_close(former);
    te_release(&te);
}

/* The leader goes by what another process has published. */
TEST(a_reload_of_another_process_reaches_parked_jobs)
{
    struct test_engine te;
    struct reload_op op;
    int64_t next_ms;
    fill_limit(&te, LIMIT("rate: 1/d"));
    struct engine *leader = te_engine_without_config(&te);
    assert_int_equal(engine_tick(leader, &next_ms, NULL), 0);
    struct config *config = te_config(&te, LIMIT("concurrency: 2"));
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    reload_op_release(&op);
    assert_int_equal(te_count(&te, REDRIVE_STATE_QUEUED), 0);
    assert_int_equal(engine_tick(leader, &next_ms, NULL), 0);
    assert_int_equal(te_count(&te, REDRIVE_STATE_QUEUED), 1);
    engine_close(leader);
    te_release(&te);
}

/* More limits than one transaction renews. */
#define MANY 300
ENGINE_TEST(all_limits_are_renewed, LIMIT("rate: 1/d, per: user"))
{
    for (int i = 0; i < 2 * MANY; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user-%d", i % MANY);
        te_submit_spec(te, &(struct job_spec){.task = STR("call"), .user = str_of(user)});
    }
    for (size_t n = 0; n < MANY;)
        n += te_claim(te, 2 * MANY);
    while (te_claim(te, 2 * MANY) > 0)
        ;
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), MANY);
    te_reload(te, LIMIT("concurrency: 2, per: user"));
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 0);
}

ENGINE_TEST(ticks_that_may_not_overlap_do_not_after_a_reload, QUICK)
{
    const struct job_spec spec = {.task = STR("call"), .limit_key = STR("limit:cron:nightly")};
    te_submit_spec(te, &spec);
    te_submit_spec(te, &spec);
    assert_int_equal(te_claim(te, 9), 1);
    te_reload(te, SLOW);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 1);
}

/* ---- While others are at it ------------------------------------------------------------------ */

#define N_SUBMITS 300
#define N_RELOADS 40

static void *submit_many(void *arg)
{
    struct committer *committer = arg;
    const struct job_spec spec = {.task = STR("call"), .payload = STR("{}")};
    size_t accepted = 0;
    for (int i = 0; i < N_SUBMITS; i++) {
        struct submit_op op;
        if (submit_op_init(&op, committer_engine(committer), &spec, 1, NULL) < 0)
            continue;
        accepted += committer_run(committer, &op.op, NULL) == 0 && op.answers[0].code == 0;
        submit_op_release(&op);
    }
    return (void *)accepted;
}

ENGINE_TEST(submits_go_on_while_configurations_change, QUICK)
{
    struct committer *committer;
    pthread_t threads[2];
    struct engine *other = te_second_engine(te);
    const struct committer_options options = {.engine = te->engine};
    te->engine = other;
    assert_int_equal(committer_start(&options, &committer, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, committer), 0);
    for (int i = 0; i < N_RELOADS; i++) {
        struct config *config = te_config(te, i % 2 ? QUICK : "tasks: {call: {queue: media}}\n");
        struct reload_op op;
        assert_int_equal(reload_op_init(&op, config, NULL), 0);
        config_free(config);
        assert_int_equal(committer_run(committer, &op.op, NULL), 0);
        reload_op_release(&op);
    }
    for (size_t i = 0; i < 2; i++) {
        void *accepted;
        assert_int_equal(pthread_join(threads[i], &accepted), 0);
        assert_int_equal((size_t)accepted, N_SUBMITS);
    }
    committer_stop(committer);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2 * N_SUBMITS);
}
