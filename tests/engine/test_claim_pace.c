/* test_claim_pace.c - how many jobs a worker claims before it has a free slot for them. */
#include "check.h"

#include "engine/worker/claim_pace.h"

static struct claim_pace pace_of(uint32_t n_slots, int64_t turn_us, int64_t run_us)
{
    struct claim_pace pace;
    claim_pace_init(&pace, n_slots, claim_ahead_max(n_slots));
    for (int i = 0; i < 20; i++)
        claim_pace_turn(&pace, turn_us);
    for (int i = 0; i < 100; i++)
        claim_pace_run(&pace, run_us);
    return pace;
}

TEST(nothing_is_claimed_ahead_before_something_is_known)
{
    struct claim_pace pace;
    claim_pace_init(&pace, 20, claim_ahead_max(20));
    assert_int_equal(claim_pace_ahead(&pace), 0);
    claim_pace_turn(&pace, 1000);
    assert_int_equal(claim_pace_ahead(&pace), 0);
    claim_pace_run(&pace, 10);
    assert_int_equal(claim_pace_ahead(&pace), 80);
}

TEST(as_many_as_the_slots_run_in_a_turn_up_to_a_bound)
{
    static const struct {
        uint32_t n_slots;
        int64_t turn_us, run_us;
        uint32_t ahead;
    } rows[] = {
        {20, 3000, 0, 80},       {20, 3000, 1, 80},    {20, 3000, 750, 80},
        {20, 3000, 1000, 60},    {20, 3000, 3000, 20}, {20, 3000, 6000, 10},
        {20, 3000, 60000, 1},    {20, 3000, 61000, 0}, {1, 3000, 100, 4},
        {1, 3000, 1500, 2},      {1, 3000, 3000, 1},   {1, 3000, 3001, 0},
        {64, 3000, 1, 256},      {1024, 3000, 1, 256}, {1024, 3000, 3000, 256},
        {1024, 1000, 8000, 128},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct claim_pace pace = pace_of(rows[i].n_slots, rows[i].turn_us, rows[i].run_us);
        if (claim_pace_ahead(&pace) != rows[i].ahead)
            fail_msg("row %zu: %u", i, claim_pace_ahead(&pace));
    }
}

TEST(one_slot_may_have_many)
{
    struct claim_pace pace;
    claim_pace_init(&pace, 1, CLAIM_AHEAD_MAX);
    for (int i = 0; i < 20; i++)
        claim_pace_turn(&pace, 3000);
    claim_pace_run(&pace, 30);
    assert_int_equal(claim_pace_ahead(&pace), 100);
    claim_pace_run(&pace, 3000);
    assert_int_equal(claim_pace_ahead(&pace), 3);
    for (int i = 0; i < 1000; i++)
        claim_pace_run(&pace, 1);
    assert_int_equal(claim_pace_ahead(&pace), CLAIM_AHEAD_MAX);
}

TEST(a_long_run_counts_at_once_and_is_forgotten_bit_by_bit)
{
    struct claim_pace pace = pace_of(20, 3000, 1);
    int n = 0;
    claim_pace_run(&pace, 1000000);
    assert_int_equal(claim_pace_ahead(&pace), 0);
    for (; claim_pace_ahead(&pace) < 80; n++) {
        assert_true(n < 1000);
        claim_pace_run(&pace, 1);
    }
    assert_in_range(n, 50, 200);
}

TEST(a_turn_that_took_long_counts_for_an_eighth)
{
    struct claim_pace pace = pace_of(20, 1000, 1000);
    claim_pace_turn(&pace, 9000);
    assert_int_equal(pace.turn_us, 2000);
    claim_pace_turn(&pace, 0);
    assert_int_equal(pace.turn_us, 2000 - 1999 / 8);
}

TEST(some_tasks_are_not_claimed_ahead)
{
    struct config_task task = {.retry.max_retries = 2};
    assert_true(claim_ahead_is_allowed(&task));
    task.limits.concurrency = 1;
    assert_false(claim_ahead_is_allowed(&task));
    task = (struct config_task){.retry.max_retries = 2, .limits.rate.count = 5};
    assert_false(claim_ahead_is_allowed(&task));
    task = (struct config_task){.retry.max_retries = 2, .limits.budget.min_per_second = 1};
    assert_false(claim_ahead_is_allowed(&task));
    task = (struct config_task){.retry.max_retries = 0};
    assert_false(claim_ahead_is_allowed(&task));
    task = (struct config_task){.retry.max_retries = 2};
    task.breaker.config.slow_call_ms = 100;
    assert_true(claim_ahead_is_allowed(&task));
    task.breaker.config.slow_rate = 0.5;
    assert_false(claim_ahead_is_allowed(&task));
}

/* 40 jobs keep 20 slots busy for two runs. */
TEST(a_turn_is_due_when_the_claimed_jobs_last_for_half_of_it)
{
    struct claim_pace pace = pace_of(20, 3000, 100);
    assert_true(claim_pace_is_due(&pace, 0));
    assert_false(claim_pace_is_due(&pace, 1));
    assert_false(claim_pace_is_due(&pace, 40));
    pace = pace_of(20, 3000, 750);
    assert_false(claim_pace_is_due(&pace, 39));
    assert_true(claim_pace_is_due(&pace, 40));
    assert_true(claim_pace_is_due(&pace, 80));
}
