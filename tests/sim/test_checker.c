/* A checker that cannot fail proves nothing. Here it is fed with lives that are right, and with
 * the same lives with one bug in them. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "checker.h"
#include "random_world.h"

/* Three attempts, 100 ms apart; a breaker that opens at once and for a second. */
struct script {
    struct checker checker;
    struct redrive_policy policy;
    struct redrive_breaker_config breaker;
    enum redrive_breaker_state breaker_state;
    uint64_t generation;
    uint32_t attempts[4];
    enum redrive_state states[4];
    int64_t first_start_ms[4];
};

static int begin(void **state)
{
    struct script *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    redrive_policy_init(&s->policy);
    s->policy.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    s->policy.backoff.initial_delay_ms = 100;
    s->policy.backoff.min_delay_ms = 0;
    s->policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    s->policy.max_retries = 2;
    s->policy.total_timeout_ms = 0;
    redrive_breaker_config_init(&s->breaker);
    s->breaker.failure_threshold = 1;
    s->breaker.failure_rate = 0;
    s->breaker.recovery_timeout_ms = 1000;
    s->breaker.recovery_jitter = 0;
    s->breaker.half_open_max = 2;
    s->breaker_state = REDRIVE_BREAKER_CLOSED;
    s->generation = 1;
    checker_init(&s->checker);
    checker_begin(&s->checker, &s->policy, NULL);
    *state = s;
    return 0;
}

static int end(void **state)
{
    struct script *s = *state;
    checker_release(&s->checker);
    free(s);
    return 0;
}

static struct sim_event event(struct script *s, enum sim_event_type type, int64_t at_ms,
                              uint32_t job, enum redrive_state to)
{
    struct sim_event e = {
        .type = type,
        .at_ms = at_ms,
        .job = job,
        .epoch = 1,
        .from = s->states[job],
        .to = to,
        .attempts = s->attempts[job],
        .process_after_ms = at_ms,
        .breaker = s->breaker_state,
        .generation = s->generation,
        .called = true,
    };
    s->states[job] = to;
    return e;
}

static void tell(struct script *s, const struct sim_event *e)
{
    checker_observe(e, &s->checker);
}

static void move(struct script *s, enum sim_event_type type, int64_t at_ms, uint32_t job,
                 enum redrive_state to)
{
    struct sim_event e = event(s, type, at_ms, job, to);
    tell(s, &e);
}

static void submit(struct script *s, int64_t at_ms, uint32_t job)
{
    move(s, SIM_SUBMITTED, at_ms, job, REDRIVE_STATE_QUEUED);
}

static void start(struct script *s, int64_t at_ms, uint32_t job)
{
    if (s->attempts[job]++ == 0)
        s->first_start_ms[job] = at_ms;
    struct sim_event e = event(s, SIM_STARTED, at_ms, job, REDRIVE_STATE_RUNNING);
    if (s->breaker_state == REDRIVE_BREAKER_HALF_OPEN)
        e.permit.probe = job + 1;
    tell(s, &e);
}

/* Ends a run as decide() says, or with the decision that a test has planted. */
static void settle(struct script *s, int64_t at_ms, uint32_t job, struct outcome outcome,
                   const struct decision *planted)
{
    struct job_facts facts = {
        .attempts = s->attempts[job],
        .elapsed_ms = at_ms - s->first_start_ms[job],
        .deadline_in_ms = INT64_MAX,
        .seed = job,
        .is_probe = s->breaker_state == REDRIVE_BREAKER_HALF_OPEN,
    };
    struct decision decision = decide(&facts, &outcome, &s->policy, NULL);
    if (planted)
        decision = *planted;
    if (!decision.uses_attempt)
        s->attempts[job]--;
    struct sim_event e = event(s, SIM_SETTLED, at_ms, job, decision.state);
    e.facts = &facts;
    e.outcome = &outcome;
    e.decision = &decision;
    if (facts.is_probe)
        e.permit.probe = job + 1;
    tell(s, &e);
}

static const struct outcome FAILS = {.ending = ENDING_RAN,
                                     .failure = {.http_status = 503, .message = "http 503"}};
static const struct outcome SUCCEEDS = {.ending = ENDING_RAN};

static void due(struct script *s, int64_t at_ms, uint32_t job)
{
    move(s, SIM_DUE, at_ms, job, REDRIVE_STATE_QUEUED);
}

static void breaker_becomes(struct script *s, int64_t at_ms, enum redrive_breaker_state to)
{
    s->breaker_state = to;
    s->generation++;
    tell(s, &(struct sim_event){
                .type = SIM_BREAKER, .at_ms = at_ms, .breaker = to, .generation = s->generation});
}

static void expect(struct script *s, const char *violation)
{
    const char *found = s->checker.violation;
    if (!strstr(found, violation) || (!*violation && *found))
        fail_msg("expected \"%s\", the checker says \"%s\"", violation, found);
}

static void fail_once(struct script *s, uint32_t job)
{
    submit(s, 0, job);
    start(s, 10, job);
    settle(s, 20, job, FAILS, NULL);
}

/* Job 0 fails and opens the breaker; job 1 comes and is parked. */
static void park(struct script *s)
{
    checker_begin(&s->checker, &s->policy, &s->breaker);
    fail_once(s, 0);
    breaker_becomes(s, 20, REDRIVE_BREAKER_OPEN);
    submit(s, 50, 1);
    move(s, SIM_PARKED, 50, 1, REDRIVE_STATE_PARKED);
}

static void half_open(struct script *s)
{
    park(s);
    for (uint32_t job = 2; job < 4; job++) {
        submit(s, 60, job);
        move(s, SIM_PARKED, 60, job, REDRIVE_STATE_PARKED);
    }
    breaker_becomes(s, 1020, REDRIVE_BREAKER_HALF_OPEN);
    for (uint32_t job = 1; job < 4; job++)
        move(s, SIM_UNPARKED, 1020, job, REDRIVE_STATE_QUEUED);
}

#define SCRIPT_TEST(test) TEST_WITH(test, begin, end, struct script *s)

SCRIPT_TEST(right_lives_pass)
{
    fail_once(s, 0);
    due(s, 120, 0);
    start(s, 120, 0);
    settle(s, 130, 0, SUCCEEDS, NULL);
    expect(s, "");

    struct sim_totals totals = {.submitted = 1, .in_state[REDRIVE_STATE_COMPLETED] = 1};
    checker_finish(&s->checker, &totals);
    expect(s, "");
}

SCRIPT_TEST(right_probes_pass)
{
    half_open(s);
    start(s, 1020, 1);
    start(s, 1020, 2);
    settle(s, 1030, 1, SUCCEEDS, NULL);
    breaker_becomes(s, 1030, REDRIVE_BREAKER_CLOSED);
    start(s, 1030, 3);
    expect(s, "");
}

SCRIPT_TEST(a_start_one_ms_early_is_caught)
{
    struct sim_event e = event(s, SIM_SUBMITTED, 0, 0, REDRIVE_STATE_QUEUED);
    e.process_after_ms = 50;
    tell(s, &e);
    start(s, 49, 0);
    expect(s, "started at 49 ms, before process_after 50 ms");
}

SCRIPT_TEST(a_lock_that_ends_early_is_caught)
{
    fail_once(s, 0);
    due(s, 119, 0);
    expect(s, "due at 119 ms, before process_after 120 ms");
}

SCRIPT_TEST(an_attempt_burned_while_parked_is_caught)
{
    park(s);
    breaker_becomes(s, 1020, REDRIVE_BREAKER_HALF_OPEN);
    s->attempts[1]++;
    move(s, SIM_UNPARKED, 1020, 1, REDRIVE_STATE_QUEUED);
    expect(s, "counts 1 attempts in epoch 1, which are 0");
}

SCRIPT_TEST(an_attempt_burned_by_a_release_is_caught)
{
    struct decision burns = {
        .state = REDRIVE_STATE_QUEUED, .uses_attempt = true, .breaker = BREAKER_NEUTRAL};
    submit(s, 0, 0);
    start(s, 10, 0);
    settle(s, 20, 0, (struct outcome){.ending = ENDING_RELEASED}, &burns);
    expect(s, "the same question got another answer");
}

SCRIPT_TEST(one_attempt_too_many_is_caught)
{
    struct decision again = {.state = REDRIVE_STATE_RETRYING,
                             .delay_ms = 100,
                             .class_ = REDRIVE_CLASS_TRANSIENT,
                             .uses_attempt = true};
    fail_once(s, 0);
    due(s, 120, 0);
    start(s, 120, 0);
    settle(s, 130, 0, FAILS, NULL);
    due(s, 230, 0);
    start(s, 230, 0);
    expect(s, "");
    settle(s, 240, 0, FAILS, &again);
    expect(s, "retried after its last attempt");
}

SCRIPT_TEST(a_start_beyond_the_limit_is_caught)
{
    submit(s, 0, 0);
    start(s, 10, 0);
    settle(s, 20, 0, (struct outcome){.ending = ENDING_RELEASED}, NULL);
    s->attempts[0] = s->checker.jobs[0].attempts = 3;
    start(s, 20, 0);
    expect(s, "attempt 4 of 1");
}

SCRIPT_TEST(an_attempt_too_few_is_caught)
{
    struct decision gives_up = {.state = REDRIVE_STATE_DEAD_LETTER,
                                .reason = REDRIVE_REASON_EXHAUSTED,
                                .class_ = REDRIVE_CLASS_TRANSIENT,
                                .uses_attempt = true};
    submit(s, 0, 0);
    start(s, 10, 0);
    settle(s, 20, 0, FAILS, &gives_up);
    expect(s, "exhausted with attempts left");
}

SCRIPT_TEST(a_terminal_state_left_is_caught)
{
    submit(s, 0, 0);
    start(s, 10, 0);
    settle(s, 20, 0, SUCCEEDS, NULL);
    move(s, SIM_RUN_NOW, 30, 0, REDRIVE_STATE_QUEUED);
    expect(s, "left completed, which is final");
}

SCRIPT_TEST(a_redrive_of_a_completed_job_is_caught)
{
    submit(s, 0, 0);
    start(s, 10, 0);
    settle(s, 20, 0, SUCCEEDS, NULL);
    move(s, SIM_REDRIVEN, 30, 0, REDRIVE_STATE_QUEUED);
    expect(s, "moved from completed to queued");
}

SCRIPT_TEST(a_move_that_is_not_in_the_table_is_caught)
{
    fail_once(s, 0);
    move(s, SIM_PARKED, 30, 0, REDRIVE_STATE_PARKED);
    expect(s, "moved from retrying to parked");
}

SCRIPT_TEST(a_delay_beyond_the_policy_is_caught)
{
    struct decision late = {.state = REDRIVE_STATE_RETRYING,
                            .delay_ms = 101,
                            .class_ = REDRIVE_CLASS_TRANSIENT,
                            .uses_attempt = true};
    submit(s, 0, 0);
    start(s, 10, 0);
    settle(s, 20, 0, FAILS, &late);
    expect(s, "delay 101 ms is not within 100 to 100 ms");
}

SCRIPT_TEST(a_start_through_an_open_breaker_is_caught)
{
    park(s);
    submit(s, 60, 2);
    start(s, 60, 2);
    expect(s, "started while the breaker was open");
}

SCRIPT_TEST(a_breaker_that_does_not_open_is_caught)
{
    checker_begin(&s->checker, &s->policy, &s->breaker);
    fail_once(s, 0);
    submit(s, 30, 1);
    start(s, 30, 1);
    expect(s, "started after 1 counted failures in a row");
}

SCRIPT_TEST(a_breaker_that_recovers_early_is_caught)
{
    park(s);
    breaker_becomes(s, 1000, REDRIVE_BREAKER_HALF_OPEN);
    expect(s, "the breaker went from open to half_open for no reason");
}

SCRIPT_TEST(one_probe_too_many_is_caught)
{
    half_open(s);
    start(s, 1020, 1);
    start(s, 1020, 2);
    expect(s, "");
    start(s, 1021, 3);
    expect(s, "probe 3 of at most 2");
}

SCRIPT_TEST(a_lapsed_probe_that_is_overlooked_is_caught)
{
    half_open(s);
    start(s, 1020, 1);
    start(s, 1020 + s->breaker.probe_lease_ms, 2);
    expect(s, "a probe has lapsed");
}

SCRIPT_TEST(a_lost_job_is_caught)
{
    fail_once(s, 0);
    struct sim_totals totals = {.submitted = 1};
    checker_finish(&s->checker, &totals);
    expect(s, "0 jobs are retrying, by the books 1");
}

SCRIPT_TEST(a_job_that_never_ends_is_caught)
{
    fail_once(s, 0);
    struct sim_totals totals = {.submitted = 1, .in_state[REDRIVE_STATE_RETRYING] = 1};
    checker_finish(&s->checker, &totals);
    expect(s, "still retrying when all faults had stopped");
}

/* The bug of a queue that counts waiting for a breaker as an attempt, planted into real runs. */
struct burner {
    struct checker *checker;
    uint32_t burned[1024];
};

static void burn_while_parked(const struct sim_event *event, void *ctx)
{
    struct burner *burner = ctx;
    struct sim_event copy = *event;
    if (event->type == SIM_UNPARKED && event->job < 1024)
        burner->burned[event->job]++;
    if (event->type != SIM_BREAKER && event->type != SIM_REJECTED && event->job < 1024)
        copy.attempts += burner->burned[event->job];
    checker_observe(&copy, burner->checker);
}

SCRIPT_TEST(a_burning_queue_is_caught_in_real_runs)
{
    int caught = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct random_world world;
        struct burner burner = {.checker = &s->checker};
        struct sim_totals totals;
        random_world_init(&world, seed);
        if (!world.has_breaker)
            continue;
        checker_begin(&s->checker, &world.policy, &world.breaker);
        world.config.observe = burn_while_parked;
        world.config.observe_ctx = &burner;
        assert_int_equal(sim_run(&world.config, &totals, NULL), 0);
        caught += s->checker.violation[0] != '\0';
    }
    assert_true(caught > 10);
}

SCRIPT_TEST(the_account_tells_the_life_of_the_job)
{
    fail_once(s, 0);
    submit(s, 30, 1);
    due(s, 119, 0);

    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    checker_explain(&s->checker, out);
    fclose(out);
    assert_string_equal(
        text, "job 0: due at 119 ms, before process_after 120 ms\n"
              "           0 ms  submitted -> queued, attempts 0\n"
              "          10 ms  started    queued -> running, attempts 1\n"
              "          20 ms  settled    running -> retrying, attempts 1, class transient, "
              "delay 100 ms\n"
              "         119 ms  due        retrying -> queued, attempts 1\n");
    free(text);
}
