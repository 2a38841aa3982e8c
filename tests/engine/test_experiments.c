/* Experiments: jobs get the policy of their arm when they come in, keep it, and are counted for it.
 */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "engine/report/experiments.h"
#include "engine/tasks.h"

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

#define CALL                                                                                 \
    "tasks: {call: {retry: {max_attempts: 2, strategy: fixed, initial_delay: 1s}, breaker: " \
    "{failure_threshold: 0, failure_rate: 0}}}\n"
#define PATIENCE                                                               \
    CALL "experiments: {patience: {task: call, arms: {control: {share: 0.5}, " \
         "slow: {share: 0.5, retry: {initial_delay: 10s, max_attempts: 4}}}}}\n"

/* By `printf patience/ID | sha256sum`. */
#define IN_CONTROL "job-1"
#define IN_SLOW    "job-5"

static void submit_id(struct test_engine *te, const char *id)
{
    const struct job_spec spec = {.task = STR("call"), .id = str_of(id)};
    (void)te_submit_spec(te, &spec);
}

static struct job_page look_up(struct test_engine *te, const char *id)
{
    struct store *store = engine_store(te->engine);
    const struct job_name name = {STR(ENGINE_TENANT_DEFAULT), str_of(id)};
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->lookup(store, &name, 1, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    return page;
}

static void check_arm(struct test_engine *te, const char *id, const char *arm, int32_t max_attempts)
{
    struct job_page page = look_up(te, id);
    check_str(arm_kept(page.jobs[0].spec.policy), arm);
    assert_int_equal(page.jobs[0].spec.max_attempts, max_attempts);
    job_page_release(&page);
}

/* Starts the job, lets it fail, and gives the delay before the next try; -1: it is dead. */
static int64_t fail_once(struct test_engine *te, const char *id)
{
    const struct job *job = te_claim_one(te);
    check_str(job->spec.id, id);
    const int64_t seq = job->status.seq;
    assert_int_equal(te_fail(te, job, "TRANSIENT_FAIL"), 0);
    const struct job after = te_job(te, seq);
    return after.status.state == REDRIVE_STATE_DEAD_LETTER
               ? -1
               : after.status.process_after_ms - te->now_ms;
}

static void publish(struct engine *engine)
{
    struct publish_op op;
    publish_op_init(&op);
    assert_int_equal(engine_apply_one(engine, &op.op, NULL), 0);
}

/* ---- The choice ------------------------------------------------------------------------------ */

ENGINE_TEST(a_job_is_retried_by_the_policy_of_its_arm, PATIENCE)
{
    submit_id(te, IN_CONTROL);
    check_arm(te, IN_CONTROL, "patience/control", 2);
    assert_int_equal(fail_once(te, IN_CONTROL), 1000);
    te_pass(te, 1000);
    assert_int_equal(fail_once(te, IN_CONTROL), -1);

    submit_id(te, IN_SLOW);
    check_arm(te, IN_SLOW, "patience/slow", 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fail_once(te, IN_SLOW), 10000);
        te_pass(te, 10000);
    }
    assert_int_equal(fail_once(te, IN_SLOW), -1);
}

ENGINE_TEST(jobs_without_an_id_get_an_arm_too, PATIENCE)
{
    for (int i = 0; i < 40; i++)
        (void)te_submit(te, "call", NULL);
    const int64_t control = te_counter(te, "arm_submitted", "arm:patience/control");
    const int64_t slow = te_counter(te, "arm_submitted", "arm:patience/slow");
    assert_int_equal(control + slow, 40);
    assert_true(control > 5 && slow > 5);
    assert_int_equal(te_claim(te, 40), 40);
    for (size_t i = 0; i < 40; i++) {
        const struct job *job = &te->claim.jobs[i];
        const struct arm *arm =
            experiment_choose(config_task(te->config, STR("call"))->experiment, job->spec.id);
        struct str experiment, name;
        assert_true(arm_split(arm_kept(job->spec.policy), &experiment, &name));
        assert_true(str_is(experiment, "patience") && str_is(name, arm->name));
    }
}

ENGINE_TEST(a_job_with_a_policy_of_its_own_takes_no_part, PATIENCE)
{
    const struct job_spec own = {
        .task = STR("call"), .id = STR(IN_SLOW), .policy = STR("{\"max_attempts\":3}")};
    (void)te_submit_spec(te, &own);
    check_arm(te, IN_SLOW, "", 3);
    assert_int_equal(te_counter(te, "arm_submitted", "arm:patience/slow"), 0);
}

ENGINE_TEST(a_client_cannot_choose_an_arm, PATIENCE)
{
    const struct job_spec chosen = {.task = STR("call"),
                                    .policy = STR("{\"experiment\":\"patience/slow\"}")};
    assert_int_equal(te_try_submit(te, &chosen), REDRIVE_E_INVALID);
}

ENGINE_TEST(a_traceparent_is_kept_beside_the_arm, PATIENCE)
{
    const struct job_spec traced = {
        .task = STR("call"), .id = STR(IN_SLOW), .policy = STR("{\"traceparent\":\"" TRACE "\"}")};
    (void)te_submit_spec(te, &traced);
    check_arm(te, IN_SLOW, "patience/slow", 4);
    struct job_page page = look_up(te, IN_SLOW);
    check_str(trace_kept(page.jobs[0].spec.policy), TRACE);
    job_page_release(&page);
    assert_int_equal(fail_once(te, IN_SLOW), 10000);
}

/* The client has said nothing about a policy, either time. */
ENGINE_TEST(a_request_that_is_repeated_is_the_same_one, PATIENCE)
{
    struct submit_op op;
    submit_id(te, IN_SLOW);
    const struct job_spec spec = {.task = STR("call"), .id = STR(IN_SLOW)};
    const struct job_spec other = {
        .task = STR("call"), .id = STR(IN_SLOW), .policy = STR("{\"max_attempts\":3}")};
    assert_int_equal(submit_op_init(&op, te->engine, &spec, 1, NULL), 0);
    op.key = STR(IN_SLOW);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_true(op.answers[0].code == 0 && op.answers[0].existed);
    submit_op_release(&op);
    assert_int_equal(submit_op_init(&op, te->engine, &other, 1, NULL), 0);
    op.key = STR(IN_SLOW);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, REDRIVE_E_EXISTS);
    submit_op_release(&op);
}

/* A record whose id is taken gets its unique key for an id, and the arm of that. */
ENGINE_TEST(a_record_has_the_arm_of_the_id_that_it_gets, PATIENCE)
{
    struct submit_op op;
    submit_id(te, IN_CONTROL);
    const struct job_spec record = {
        .task = STR("call"), .id = STR(IN_CONTROL), .unique_key = STR(IN_SLOW)};
    assert_int_equal(submit_op_init(&op, te->engine, &record, 1, NULL), 0);
    op.records = true;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    check_str(op.answers[0].id, IN_SLOW);
    submit_op_release(&op);
    check_arm(te, IN_SLOW, "patience/slow", 4);
}

/* ---- Several processes, and changes in the middle -------------------------------------------- */

ENGINE_TEST(a_process_that_knows_nothing_of_it_goes_by_the_arm, PATIENCE)
{
    publish(te->engine);
    struct engine *bare = te_engine_without_config(te), *own = te->engine;
    submit_id(te, IN_SLOW);
    te->engine = bare;
    assert_int_equal(fail_once(te, IN_SLOW), 10000);
    /* And chooses arms for the jobs that it submits. */
    submit_id(te, IN_CONTROL);
    check_arm(te, IN_CONTROL, "patience/control", 2);
    assert_int_equal(fail_once(te, IN_CONTROL), 1000);
    submit_id(te, "job-6");
    check_arm(te, "job-6", "patience/slow", 4);
    te->engine = own;
    engine_close(bare);
}

/* Stopped, and the task's own policy is another one now. */
ENGINE_TEST(jobs_keep_the_policy_that_they_have_when_it_stops, PATIENCE)
{
    submit_id(te, IN_CONTROL);
    assert_int_equal(fail_once(te, IN_CONTROL), 1000);
    submit_id(te, IN_SLOW);
    te_reload(te, "tasks: {call: {retry: {max_attempts: 9, strategy: fixed, initial_delay: 7s, "
                  "retry_on: [database]}, on: {transient: {initial_delay: 77s}}, breaker: "
                  "{failure_threshold: 0, failure_rate: 0}}}\n");
    assert_int_equal(fail_once(te, IN_SLOW), 10000);
    te_pass(te, 1000);
    assert_int_equal(fail_once(te, IN_CONTROL), -1);
    submit_id(te, "job-6");
    check_arm(te, "job-6", "", 9);
    assert_int_equal(fail_once(te, "job-6"), -1); /* not one of retry_on */

    te_reload(te, PATIENCE);
    submit_id(te, "job-7");
    struct job_page page = look_up(te, "job-7");
    assert_true(arm_kept(page.jobs[0].spec.policy).len > 0);
    job_page_release(&page);
}

ENGINE_TEST(dead_letters_are_kept_as_long_as_the_arm_says,
            "tasks: {call: {retry: {dlq_retention_days: 30}}}\n"
            "experiments: {patience: {task: call, arms: {control: {share: 0.5}, "
            "slow: {share: 0.5, retry: {dlq_retention_days: 2}}}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    submit_id(te, IN_CONTROL);
    submit_id(te, IN_SLOW);
    assert_int_equal(te_change(te, MOVE_END, 1), 0);
    assert_int_equal(te_change(te, MOVE_END, 2), 0);
    te_pass(te, 2 * day_ms - 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
    te_pass(te, day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1);
}

/* ---- Figures --------------------------------------------------------------------------------- */

static struct arm_figures figures_of(struct test_engine *te, const struct config *config,
                                     const char *name, const char *arm_name)
{
    struct experiment_page page = {0};
    struct arm_figures ret = {.submitted = -1};
    assert_int_equal(
        experiments_read(engine_store(te->engine), (struct str){0}, config, &page, NULL), 0);
    const struct experiment_row *row = experiment_find(&page, str_of(name));
    for (size_t i = 0; row && i < row->n_arms; i++)
        if (str_is(row->arms[i].name, arm_name))
            ret = row->arms[i].figures;
    experiment_page_release(&page);
    return ret;
}

ENGINE_TEST(figures_are_those_of_the_jobs_that_have_ended, PATIENCE)
{
    submit_id(te, IN_SLOW);
    assert_int_equal(fail_once(te, IN_SLOW), 10000);
    struct arm_figures f = figures_of(te, te->config, "patience", "slow");
    assert_true(f.submitted == 1 && figures_ended(&f) == 0 && f.attempts.sum == 0);
    te_pass(te, 10000);
    assert_int_equal(fail_once(te, IN_SLOW), 10000);
    te_pass(te, 10500);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    f = figures_of(te, te->config, "patience", "slow");
    assert_true(f.completed == 1 && f.dead == 0 && f.cancelled == 0);
    assert_true(f.attempts.sum == 3 && f.attempts.squares_low == 9);
    assert_true(f.time_ms.sum == 20500 && f.time_ms.squares_low == 20500 * 20500);

    submit_id(te, IN_CONTROL);
    assert_int_equal(fail_once(te, IN_CONTROL), 1000);
    te_pass(te, 1000);
    assert_int_equal(fail_once(te, IN_CONTROL), -1);
    f = figures_of(te, te->config, "patience", "control");
    assert_true(f.submitted == 1 && f.completed == 0 && f.dead == 1);
    assert_true(f.attempts.sum == 2 && f.time_ms.sum == 0);
}

/* The second life of a dead letter says nothing about the policy that let it die. */
ENGINE_TEST(a_redrive_is_not_counted, PATIENCE)
{
    submit_id(te, IN_CONTROL);
    assert_int_equal(fail_once(te, IN_CONTROL), 1000);
    te_pass(te, 1000);
    const int64_t seq = te_claim_one(te)->status.seq;
    assert_int_equal(te_fail(te, &te->claim.jobs[0], "PERMANENT_FAIL"), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), 0);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_COMPLETED);
    const struct arm_figures f = figures_of(te, te->config, "patience", "control");
    assert_true(f.completed == 0 && f.dead == 1 && f.attempts.sum == 2);
}

ENGINE_TEST(a_cancelled_job_is_in_no_other_figure, PATIENCE)
{
    submit_id(te, IN_CONTROL);
    const int64_t seq = te_claim_one(te)->status.seq;
    assert_int_equal(te_change(te, MOVE_CANCEL, seq), 0);
    const struct arm_figures f = figures_of(te, te->config, "patience", "control");
    assert_true(f.cancelled == 1 && figures_ended(&f) == 0 && f.attempts.sum == 0);
}

/* By counters alone, by what was published, by the configuration. */
ENGINE_TEST(an_experiment_is_known_from_three_sources, PATIENCE)
{
    struct experiment_page page = {0};
    struct store *store = engine_store(te->engine);
    const struct str all = {0};
    assert_int_equal(experiments_read(store, all, NULL, &page, NULL), 0);
    assert_int_equal(page.n, 0);
    assert_int_equal(experiments_read(store, all, te->config, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_true(page.rows[0].arms[1].share == 0.5);
    submit_id(te, IN_SLOW);
    assert_int_equal(experiments_read(store, all, NULL, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_true(page.rows[0].task.len == 0 && page.rows[0].n_arms == 1);
    publish(te->engine);
    assert_int_equal(experiments_read(store, all, NULL, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    check_str(page.rows[0].task, "call");
    assert_int_equal(page.rows[0].n_arms, 2);
    assert_int_equal(page.rows[0].arms[1].figures.submitted, 1);
    assert_int_equal(experiments_read(store, STR("other"), NULL, &page, NULL), 0);
    assert_int_equal(page.rows[0].arms[1].figures.submitted, 0);
    experiment_page_release(&page);
}
