/* What holds jobs back: breakers, limits, pauses. */
#include "engine/engine_for_test.h"

#include "engine/state.h"

#define BREAKER                                                                                   \
    "tasks:\n  call:\n    retry: {strategy: fixed, initial_delay: 1s, max_attempts: 20, jitter: " \
    "false, total_timeout: 0s}\n    breaker: {failure_threshold: 3, failure_rate: 0, "            \
    "recovery_timeout: 30s, recovery_jitter: 0, release_rate: 10, release_growth: 0"

static void fail_n(struct test_engine *te, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(te_fail(te, te_claim_one(te), "network"), 0);
}

ENGINE_TEST(open_breaker_parks_and_uses_no_attempt, BREAKER "}\n")
{
    for (int i = 0; i < 3; i++)
        te_submit(te, "call", NULL);
    fail_n(te, 3);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_OPEN);
    int64_t seq = te_submit(te, "call", NULL);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 10), 0);
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_PARKED);
    assert_int_equal(job.status.attempts, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 4);
}

/* Three have failed, forty wait behind the open breaker. */
static void open_with_forty_parked(struct test_engine *te)
{
    for (int i = 0; i < 43; i++)
        te_submit(te, "call", NULL);
    fail_n(te, 3);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 100), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 43);
}

ENGINE_TEST(one_probe_goes_when_the_recovery_time_is_over, BREAKER "}\n")
{
    open_with_forty_parked(te);
    te_pass(te, 28999);
    assert_int_equal(te_claim(te, 100), 0);
    te_pass(te, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_tick(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    const struct job *probe = te_claim_one(te);
    /* The oldest of those with the most attempts left. */
    assert_int_equal(probe->status.seq, 4);
    assert_int_not_equal(probe->status.permit.probe, 0);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_HALF_OPEN);
    te_submit(te, "call", NULL);
    struct job copy = *probe;
    assert_int_equal(te_claim(te, 100), 0);
    assert_int_equal(te_fail(te, &copy, "network"), 0);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_OPEN);
    te_pass(te, 29999);
    assert_int_equal(te_claim(te, 100), 0);
    te_pass(te, 1);
    assert_int_equal(te_claim(te, 100), 1);
    /* The one before has failed: the newest of those with the most attempts left. */
    assert_int_equal(te->claim.jobs[0].status.seq, 44);
}

ENGINE_TEST(closed_breaker_lets_its_jobs_go_at_a_pace, BREAKER "}\n")
{
    open_with_forty_parked(te);
    te_pass(te, 29000);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_CLOSED);
    size_t started = 0, most = 0;
    int64_t seconds = 0;
    while (started < 42 && seconds < 20) {
        size_t in_second = 0;
        for (int tenth = 0; tenth < 10; tenth++) {
            te_pass(te, 100);
            size_t n = te_claim(te, 100);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(te_succeed(te, &te->claim.jobs[i]), 0);
            in_second += n;
        }
        started += in_second;
        most = in_second > most ? in_second : most;
        seconds++;
    }
    assert_int_equal(started, 42);
    assert_true(most <= 11);
    assert_true(seconds >= 4 && seconds <= 5);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 0);
}

static int64_t shared_version(struct test_engine *te)
{
    struct store *store = engine_store(te->engine);
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    store_ops(store)->rollback(store);
    return version;
}

/* Processes that hear of each other's looks would keep each other looking. */
ENGINE_TEST(a_look_that_lets_nothing_go_changes_nothing, BREAKER "}\n")
{
    int64_t next_ms;
    open_with_forty_parked(te);
    te_pass(te, 29000);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    te_pass(te, 100);
    const int64_t before = shared_version(te);
    te->now_ms += 10;
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    assert_int_equal(shared_version(te), before);
    assert_true(next_ms > te->now_ms && next_ms <= te->now_ms + 100);
}

ENGINE_TEST(cancelled_probe_makes_way_for_another, BREAKER "}\n")
{
    open_with_forty_parked(te);
    te_pass(te, 29000);
    int64_t seq = te_claim_one(te)->status.seq;
    assert_int_equal(te_change(te, MOVE_CANCEL, seq), 0);
    te_pass(te, 1);
    assert_int_equal(te_claim(te, 100), 1);
    assert_int_not_equal(te->claim.jobs[0].status.permit.probe, 0);
}

ENGINE_TEST(candidate_that_never_arrives_is_replaced, BREAKER "}\n")
{
    open_with_forty_parked(te);
    te_pass(te, 29000);
    assert_int_equal(te_change(te, MOVE_CANCEL, 4), 0); /* while it is queued */
    te_pass(te, 30000);
    assert_int_equal(te_claim(te, 100), 1);
}

/* Twenty jobs of a task fail by their own fault, but say that another time may do; twenty behind
 * them are good. Four workers look ten times a second. */
struct mix {
    int probes; /* until the first that succeeded */
    int good;   /* that are done */
};

static void work_on_mix(struct test_engine *te, struct mix *mix)
{
    size_t n = te_claim(te, 4);
    for (size_t i = 0; i < n; i++) {
        struct job job = te->claim.jobs[i];
        const bool is_bad = job.status.seq <= 20;
        mix->probes += job.status.permit.probe != 0 && mix->good == 0;
        mix->good += !is_bad;
        assert_int_equal(is_bad ? te_fail(te, &job, "TRANSIENT_FAIL") : te_succeed(te, &job), 0);
    }
}

ENGINE_TEST(bad_jobs_do_not_starve_the_good_ones_of_their_task, "tasks: {call: {}}\n")
{
    struct mix mix = {0};
    for (int i = 0; i < 40; i++)
        te_submit(te, "call", NULL);
    for (int tenth = 0; tenth < 6 * 600 && mix.good < 20; tenth++) {
        work_on_mix(te, &mix);
        te_pass(te, 100);
    }
    /* From the oldest on it would be 13 probes, and 17 minutes instead of 5. */
    assert_int_equal(mix.probes, 2);
    assert_int_equal(mix.good, 20);
}

ENGINE_TEST(breaker_with_dead_letter_ends_its_jobs, BREAKER ", on_open: dead_letter}\n")
{
    for (int i = 0; i < 4; i++)
        te_submit(te, "call", NULL);
    fail_n(te, 3);
    assert_int_equal(te_claim(te, 10), 0);
    struct job job = te_job(te, 4);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_BREAKER_OPEN);
}

ENGINE_TEST(breaker_with_reject_refuses_new_jobs, BREAKER ", on_open: reject}\n")
{
    for (int i = 0; i < 4; i++)
        te_submit(te, "call", NULL);
    fail_n(te, 3);
    const struct job_spec spec = {.task = STR("call")};
    assert_int_equal(te_try_submit(te, &spec), REDRIVE_E_BREAKER_OPEN);
    assert_int_equal(te_claim(te, 10), 0);
    assert_int_equal(te_state(te, 4), REDRIVE_STATE_PARKED);
    te_pass(te, 30000);
    assert_int_equal(te_try_submit(te, &spec), 0);
}

ENGINE_TEST(breakers_of_different_keys_are_apart, BREAKER ", key: \"{task}:{payload.at.host}\"}\n")
{
    for (int i = 0; i < 3; i++)
        te_submit(te, "call", "{\"at\": {\"port\": 1, \"host\": \"a\"}}");
    fail_n(te, 3);
    te_submit(te, "call", "{\"at\": {\"host\": \"a\"}}");
    int64_t other = te_submit(te, "call", "{\"at\": {\"host\": \"b\"}}");
    assert_int_equal(te_claim(te, 10), 1);
    assert_int_equal(te->claim.jobs[0].status.seq, other);
    assert_int_equal(te_breaker(te, "call:a"), REDRIVE_BREAKER_OPEN);
}

ENGINE_TEST(breaker_is_shared_by_engines_and_kept, BREAKER "}\n")
{
    for (int i = 0; i < 4; i++)
        te_submit(te, "call", NULL);
    struct engine *first = te->engine;
    struct engine *second = te_second_engine(te);
    fail_n(te, 2);
    te->engine = second;
    fail_n(te, 1);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_OPEN);
    te->engine = first;
    assert_int_equal(te_claim(te, 10), 0);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_OPEN);
    engine_close(second);
}

ENGINE_TEST(reset_by_hand_lets_parked_jobs_go, BREAKER "}\n")
{
    struct breaker_op op;
    te_submit(te, "call", NULL);
    breaker_op_init(&op, (struct str){0}, STR("call"), BREAKER_TRIP);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(te_claim(te, 1), 0);
    te_pass(te, 3600000);
    assert_int_equal(te_claim(te, 1), 0);
    breaker_op_init(&op, (struct str){0}, STR("call"), BREAKER_RESET);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 1), 1);
}

ENGINE_TEST(concurrency_limit_holds_and_frees, "tasks: {slow: {limits: {concurrency: 2}}}\n")
{
    for (int i = 0; i < 5; i++)
        te_submit(te, "slow", NULL);
    assert_int_equal(te_claim(te, 5), 2);
    struct job first = te->claim.jobs[0], second = te->claim.jobs[1];
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 3);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 5), 0);
    assert_int_equal(te_succeed(te, &first), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 5), 1);
    assert_int_equal(te_change(te, MOVE_CANCEL, second.status.seq), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 5), 1);
    te_pass(te, 30000); /* both leases end */
    assert_int_equal(te_claim(te, 5), 1);
}

ENGINE_TEST(rate_limit_is_kept_to_the_token,
            "tasks: {mail: {limits: {rate: 60/min, burst: 2, per: user}}}\n")
{
    const struct job_spec ann = {.task = STR("mail"), .user = STR("ann")};
    const struct job_spec bob = {.task = STR("mail"), .user = STR("bob")};
    for (int i = 0; i < 5; i++)
        te_submit_spec(te, &ann);
    assert_int_equal(te_claim(te, 10), 2);
    te_submit_spec(te, &bob);
    assert_int_equal(te_claim(te, 10), 1);
    te_pass(te, 999);
    assert_int_equal(te_claim(te, 10), 0);
    te_pass(te, 1);
    assert_int_equal(te_claim(te, 10), 1);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 10), 1);
}

ENGINE_TEST(jobs_without_a_user_are_not_one_user,
            "tasks:\n  mail: {limits: {rate: 60/min, burst: 1, per: user}}\n"
            "  scan: {limits: {concurrency: 1, per: project}}\n")
{
    const struct job_spec mail = {.task = STR("mail")};
    const struct job_spec scan = {.task = STR("scan"), .user = STR("ann")};
    const struct job_spec owned = {.task = STR("scan"), .project = STR("p")};
    for (int i = 0; i < 3; i++) {
        te_submit_spec(te, &mail);
        te_submit_spec(te, &scan);
    }
    assert_int_equal(te_claim(te, 10), 6);
    for (int i = 0; i < 3; i++)
        te_submit_spec(te, &owned);
    assert_int_equal(te_claim(te, 10), 1);
}

/* Somebody else was faster, every time. */
static int refuse_starts(struct store *store, const struct move_list *list, struct move_result *ret,
                         struct redrive_err *err)
{
    if (list->kind != MOVE_START)
        return store_ops(store)->move(store, list, ret, err);
    for (size_t i = 0; i < list->n; i++)
        ret[i] = (struct move_result){REDRIVE_E_STATE, REDRIVE_STATE_RUNNING};
    return 0;
}

ENGINE_TEST(start_that_the_store_refuses_costs_no_token,
            "tasks: {mail: {limits: {rate: 60/min, burst: 2, concurrency: 2}}}\n")
{
    for (int i = 0; i < 3; i++)
        te_submit(te, "mail", NULL);
    const struct store_ops *real = te->engine->ops;
    struct store_ops refusing = *real;
    refusing.move = refuse_starts;
    te->engine->ops = &refusing;
    assert_int_equal(te_claim(te, 2), 0);
    te->engine->ops = real;
    assert_int_equal(te_claim(te, 10), 2);
}

ENGINE_TEST(paused_queue_starts_nothing, NULL)
{
    struct pause_op op;
    te_submit(te, "any", NULL);
    pause_op_init(&op, (struct str){0}, STR("default"), true);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(te_claim(te, 1), 0);
    pause_op_init(&op, (struct str){0}, STR("default"), false);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(te_claim(te, 1), 1);
}

#define MANY 1200 /* more than one transaction gives their time back to */

/* Jobs that have failed once stand in the queue, which is then paused. */
static void pause_many(struct test_engine *te)
{
    struct pause_op op;
    for (int i = 0; i < MANY; i++)
        te_submit(te, "t", NULL);
    assert_int_equal(te_claim(te, MANY), MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(te_fail(te, &te->claim.jobs[i], "TRANSIENT_FAIL"), 0);
    te_pass(te, 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), MANY);
    pause_op_init(&op, (struct str){0}, STR("default"), true);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_false(pause_op_goes_on(&op));
}

#define PATIENT                                                                           \
    "tasks: {t: {retry: {strategy: fixed, initial_delay: 1s, jitter: false}, lease: 1h, " \
    "breaker: {failure_threshold: 100000, failure_rate: 0}}}\n"

ENGINE_TEST(long_queue_is_resumed_in_several_transactions, PATIENT)
{
    struct pause_op op;
    int transactions = 1;
    pause_many(te);
    te_pass(te, 5000);
    pause_op_init(&op, (struct str){0}, STR("default"), false);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    for (; pause_op_goes_on(&op); transactions++) {
        assert_int_equal(te_claim(te, 1), 0);
        te->now_ms += 70;
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    }
    assert_int_equal(transactions, 2);
    for (int64_t seq = 1; seq <= MANY; seq++)
        assert_int_equal(te_job(te, seq).status.paused_ms, 5000);
    assert_int_equal(te_claim(te, 1), 1);
}

/* Whoever began to resume it is gone: the pause goes on, and the next one ends it. */
ENGINE_TEST(queue_that_was_resumed_by_half_is_still_paused, PATIENT)
{
    struct pause_op op;
    pause_many(te);
    te_pass(te, 5000);
    pause_op_init(&op, (struct str){0}, STR("default"), false);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_true(pause_op_goes_on(&op));
    te_pass(te, 2000);
    struct pause_op again;
    pause_op_init(&again, (struct str){0}, STR("default"), false);
    do
        assert_int_equal(engine_apply_one(te->engine, &again.op, NULL), 0);
    while (pause_op_goes_on(&again));
    for (int64_t seq = 1; seq <= MANY; seq++)
        assert_int_equal(te_job(te, seq).status.paused_ms, 7000);
    /* Paused anew, it is not for the first one to resume it. */
    pause_op_init(&again, (struct str){0}, STR("default"), true);
    assert_int_equal(engine_apply_one(te->engine, &again.op, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), REDRIVE_E_STATE);
    assert_int_equal(te_claim(te, 1), 0);
}

/* A look at a full limit is not written, so that it must not be the look that notices the clock. */
ENGINE_TEST(rate_of_a_clock_that_was_ahead_goes_on_from_now,
            "tasks: {mail: {limits: {rate: 60/min, burst: 1}}}\n")
{
    for (int i = 0; i < 4; i++)
        te_submit(te, "mail", NULL);
    assert_int_equal(te_claim(te, 10), 1);
    te->now_ms -= 3600000;
    te_tick(te);
    for (int i = 0; i < 3; i++) {
        te_pass(te, 1000);
        assert_int_equal(te_claim(te, 10), 1);
    }
}
