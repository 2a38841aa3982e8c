/* Retry budgets: retries that would be too many wait, and use no attempt. */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "engine/gates/gate.h"
#include "engine/gates/view.h"
#include "engine/state.h"

#define RETRY                                                                      \
    "retry: {strategy: fixed, initial_delay: 1s, jitter: false, max_retries: 20, " \
    "total_timeout: 0}, breaker: {failure_threshold: 100000, failure_rate: 0}"
#define TENTH "retry_budget: {ratio: 0.1, window: 10s, min_per_second: 0.1}"

static void start_and_fail(struct test_engine *te, size_t n)
{
    struct job jobs[64];
    assert_int_equal(te_claim(te, n), n);
    memcpy(jobs, te->claim.jobs, n * sizeof jobs[0]);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(te_fail(te, &jobs[i], "TRANSIENT_FAIL"), 0);
}

static void submit(struct test_engine *te, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)te_submit(te, "call", NULL);
}

static void succeed_all(struct test_engine *te)
{
    for (size_t i = 0; i < te->claim.n; i++)
        assert_int_equal(te_succeed(te, &te->claim.jobs[i]), 0);
}

/* Three retries are due, and the reserve has one. */
static void overdraw(struct test_engine *te, const char *limits)
{
    char yaml[512];
    (void)snprintf(yaml, sizeof yaml, "tasks: {call: {" RETRY ", limits: {%s}}}\n", limits);
    te_init(te, yaml);
    submit(te, 3);
    start_and_fail(te, 3);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 9), 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 2);
}

static struct job oldest_parked(struct test_engine *te)
{
    for (int64_t seq = 1; seq < 100; seq++)
        if (te_state(te, seq) == REDRIVE_STATE_PARKED)
            return te_job(te, seq);
    fail_msg("no job is parked");
    return (struct job){0};
}

#define OVERDRAWN_TEST(test, ...) \
    TEST_OF(test, struct test_engine, te, overdraw(te, __VA_ARGS__), te_release(te))

OVERDRAWN_TEST(an_overdrawn_retry_is_parked_and_uses_no_attempt, TENTH)
{
    const struct job job = oldest_parked(te);
    assert_int_equal(job.status.attempts, 1);
    assert_int_equal(job.status.deferrals, 1);
    assert_true(job.status.parked_by_limit);
}

OVERDRAWN_TEST(time_lets_parked_retries_go, TENTH)
{
    succeed_all(te);
    te_pass(te, 9000);
    assert_int_equal(te_claim(te, 9), 0);
    te_pass(te, 1002);
    assert_int_equal(te_claim(te, 9), 1);
    succeed_all(te);
    te_pass(te, 10002);
    assert_int_equal(te_claim(te, 9), 1);
    succeed_all(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 3);
}

/* The reserve has one retry: a job that gives its start back leaves it for the next start. */
OVERDRAWN_TEST(a_start_that_uses_no_attempt_is_given_back, TENTH)
{
    static const struct outcome GIVEN_BACK[] = {{.ending = ENDING_RELEASED},
                                                {.ending = ENDING_SNOOZED, .snooze_ms = 1000}};
    for (size_t i = 0; i < 2; i++) {
        const struct job job = te->claim.jobs[0];
        assert_int_equal(te_settle(te, &job, &GIVEN_BACK[i]), 0);
        te_tick(te);
        assert_int_equal(te_claim(te, 9), 1);
    }
    /* A run that is cancelled has made its call. */
    assert_int_equal(te_change(te, MOVE_CANCEL, te->claim.jobs[0].status.seq), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 9), 0);
}

OVERDRAWN_TEST(first_attempts_make_room_for_retries, TENTH)
{
    succeed_all(te);
    submit(te, 16);
    assert_int_equal(te_claim(te, 16), 16); /* and 3 of before: 1.9 */
    succeed_all(te);
    te_tick(te);
    assert_int_equal(te_claim(te, 9), 1);
    succeed_all(te);
    submit(te, 1);
    assert_int_equal(te_claim(te, 1), 1);
    succeed_all(te);
    te_tick(te);
    assert_int_equal(te_claim(te, 9), 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 0);
}

/* All three slots are free, and the two oldest that wait are retries. */
OVERDRAWN_TEST(first_attempts_pass_retries_that_the_budget_holds, "concurrency: 3, " TENTH)
{
    submit(te, 4);
    assert_int_equal(te_claim(te, 9), 2); /* one retry runs */
    const struct job first = te->claim.jobs[0];
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 4);
    assert_int_equal(te_succeed(te, &first), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 9), 1);
    assert_int_equal(te->claim.jobs[0].status.attempts, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 3);
}

OVERDRAWN_TEST(a_budget_that_is_no_longer_configured_holds_nothing, TENTH)
{
    te_reload(te, "tasks: {call: {" RETRY "}}\n");
    te_pass(te, GATE_LOOK_MS);
    assert_int_equal(te_claim(te, 9), 2);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 0);
}

/* The reserve gives one in ten seconds: no retry of a task that is gone waits for ever. */
OVERDRAWN_TEST(a_task_that_is_no_longer_configured_is_released, TENTH)
{
    te_reload(te, "strict_tasks: false\n");
    te_pass(te, 10002);
    assert_int_equal(te_claim(te, 9), 1);
    succeed_all(te);
    te_pass(te, GATE_LOOK_MS);
    assert_int_equal(te_claim(te, 9), 1);
}

ENGINE_TEST(tokens_stop_retries_at_half,
            "tasks: {call: {" RETRY ", limits: {retry_budget: {max_tokens: 4, "
            "token_ratio: 1.6, min_per_second: 0.01}}}}\n")
{
    submit(te, 3);
    start_and_fail(te, 3); /* 1 is left */
    submit(te, 1);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 9), 1); /* a first attempt always goes */
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 3);
    succeed_all(te); /* 2.61 */
    te_tick(te);
    assert_int_equal(te_claim(te, 9), 1);
}

/* What one process has used, another one does not have. */
OVERDRAWN_TEST(processes_share_a_budget, TENTH)
{
    const struct claim_filter filter = {.limit = 9};
    struct engine *other = te_second_engine(te);
    struct claim_op op;
    int64_t next_ms;
    submit(te, 1);
    start_and_fail(te, 1);
    te_pass(te, 1000);
    claim_op_init(&op, &filter, STR("w"), 30000);
    assert_int_equal(engine_apply_one(other, &op.op, NULL), 0);
    assert_int_equal(op.n, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 3);
    /* Its first attempts count in the same window. */
    submit(te, 26);
    claim_op_release(&op);
    claim_op_init(&op, &(struct claim_filter){.limit = 26}, STR("w"), 30000);
    assert_int_equal(engine_apply_one(other, &op.op, NULL), 0);
    assert_int_equal(op.n, 26);
    assert_int_equal(engine_tick(other, &next_ms, NULL), 0);
    assert_int_equal(te_claim(te, 9), 3);
    claim_op_release(&op);
    engine_close(other);
}

OVERDRAWN_TEST(a_job_tells_that_it_waits_for_the_budget, TENTH)
{
    struct store *store = engine_store(te->engine);
    const struct job_filter filter = {.states = 1 << REDRIVE_STATE_PARKED, .limit = 1};
    struct job_page page = {0};
    struct gate_info gate;
    struct buf out;
    struct json_writer w;
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(gate_read(store, &page.jobs[0], te->now_ms, &gate, NULL), 0);
    assert_true(gate.is_held && gate.is_limit && gate.is_budget);
    assert_in_range(gate.may_go_ms, te->now_ms + 9000, te->now_ms + 10001);
    buf_init(&out, 4096);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    gate_write_json(&w, &gate);
    json_end_object(&w);
    assert_non_null(strstr(buf_cstr(&out), "\"kind\":\"budget\",\"key\":\"limit:task:call\""));
    assert_non_null(strstr(buf_cstr(&out), "\"first_attempts\":3,\"retries\":1,"));
    buf_release(&out);
    job_page_release(&page);
}

OVERDRAWN_TEST(limits_are_listed_with_their_budgets, "rate: 100/s, concurrency: 5, " TENTH)
{
    struct store *store = engine_store(te->engine);
    struct limit_page page = {0};
    assert_int_equal(limits_read(store, (struct str){0}, te->now_ms, &page, NULL), 0);
    assert_int_equal(limits_count_parked(store, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    const struct limit_info *limit = &page.limits[0];
    assert_true(str_is(limit->key, "limit:task:call"));
    assert_int_equal(limit->rate.count, 100);
    assert_int_equal(limit->slots.max, 5);
    assert_int_equal(limit->slots.used, 1);
    assert_int_equal(limit->budget.status.firsts, 3);
    assert_int_equal(limit->budget.status.retries, 1);
    assert_int_equal(limit->budget.status.room, 0);
    assert_int_equal(limit->parked, 2);
    limit_page_release(&page);
}

TEST(the_row_reads_back_as_it_was)
{
    struct gate gate = {.kind = SHARED_LIMIT}, read = {.kind = SHARED_LIMIT};
    const struct budget_config config = {.ratio = 0.3, .window_ms = 20000, .min_per_second = 0.7};
    struct buf bytes;
    buf_init(&bytes, 1 << 16);
    gate_set_budget(&gate, &config, 1000);
    for (int i = 0; i < 1000; i++)
        budget_start(&gate.budget, &config, i % 3 == 0, 1000 + 37 * i);
    gate_encode(&gate, &bytes);
    assert_int_equal(gate_decode(&read, buf_str(&bytes)), 0);
    assert_memory_equal(&read.budget.slots, &gate.budget.slots, sizeof gate.budget.slots);
    assert_true(read.budget.tokens == gate.budget.tokens);
    assert_int_equal(read.budget.tokens_ms, gate.budget.tokens_ms);
    assert_int_equal(read.budget.slot_ms, gate.budget.slot_ms);
    assert_int_equal(read.budget.newest, gate.budget.newest);
    assert_true(read.budget_config.ratio == 0.3 && read.budget_config.min_per_second == 0.7);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(gate_decode(&read, (struct str){bytes.data, len}), REDRIVE_E_CORRUPT);
    /* Without a budget it is the row that earlier versions write, and nothing of the old is left.
     */
    gate_set_budget(&gate, &(struct budget_config){0}, 50000);
    buf_reset(&bytes);
    gate_encode(&gate, &bytes);
    assert_null(strstr(buf_cstr(&bytes), "budget"));
    assert_int_equal(gate_decode(&read, buf_str(&bytes)), 0);
    assert_false(budget_is_set(&read.budget_config));
    buf_release(&bytes);
}

OVERDRAWN_TEST(a_budget_that_is_full_again_is_removed, TENTH)
{
    succeed_all(te);
    for (int i = 0; i < 3; i++) {
        te_pass(te, 11000);
        (void)te_claim(te, 9);
        succeed_all(te);
    }
    assert_int_equal(te->engine->gates.limits.count, 1);
    for (int i = 0; i < 12; i++)
        te_pass(te, 600 * 1000);
    assert_int_equal(te->engine->gates.limits.count, 0);
}
