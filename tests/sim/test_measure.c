#include "check.h"

#include "sim/measure.h"

static const struct decision GOOD = {.class_ = REDRIVE_CLASS_SUCCESS};
static const struct decision BAD = {.class_ = REDRIVE_CLASS_NETWORK};

/* An outage from 10 s to 20 s; jobs arrive until 100 s. */
static struct measure m;

static int begin(void **state)
{
    (void)state;
    measure_init(&m, 10000, 20000, 100000);
    return 0;
}

static int end(void **state)
{
    (void)state;
    measure_release(&m);
    return 0;
}

static void submit(int64_t at_ms)
{
    measure_observe(&(struct sim_event){.type = SIM_SUBMITTED, .at_ms = at_ms}, &m);
}

static void settle(int64_t submitted_ms, int64_t started_ms, int64_t at_ms, enum redrive_state to)
{
    bool good = to == REDRIVE_STATE_COMPLETED;
    measure_observe(&(struct sim_event){.type = SIM_SETTLED,
                                        .at_ms = at_ms,
                                        .from = REDRIVE_STATE_RUNNING,
                                        .to = to,
                                        .called = true,
                                        .submitted_ms = submitted_ms,
                                        .started_ms = started_ms,
                                        .decision = good ? &GOOD : &BAD},
                    &m);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, begin, end)

FIXTURE_TEST(calls_are_counted_in_the_second_they_began)
{
    submit(900);
    submit(950);
    settle(900, 999, 1001, REDRIVE_STATE_RETRYING);
    settle(950, 999, 1001, REDRIVE_STATE_COMPLETED);
    settle(900, 1000, 1001, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(measure_finish(&m), 0);
    assert_int_equal(m.figures.calls, 3);
    assert_int_equal(m.figures.wasted, 2);
    assert_int_equal(m.figures.dead, 1);
    assert_int_equal(m.figures.completed, 1);
    assert_int_equal(m.figures.peak_per_s, 2);
    assert_int_equal(m.n_seconds, 2);
    assert_int_equal(m.seconds[0].ok, 1);
    assert_int_equal(m.seconds[0].failed, 1);
    assert_int_equal(m.seconds[1].failed, 1);
}

FIXTURE_TEST(calls_after_a_week_have_no_second)
{
    const int64_t late_ms = INT64_C(400) * 24 * 3600 * 1000;
    submit(900);
    settle(900, 999, 1001, REDRIVE_STATE_RETRYING);
    settle(900, late_ms, late_ms + 1, REDRIVE_STATE_COMPLETED);
    assert_int_equal(measure_finish(&m), 0);
    assert_int_equal(m.figures.calls, 2);
    assert_int_equal(m.n_seconds, 1);
}

FIXTURE_TEST(a_start_without_a_call_is_no_call)
{
    submit(0);
    measure_observe(&(struct sim_event){.type = SIM_SETTLED,
                                        .from = REDRIVE_STATE_RUNNING,
                                        .to = REDRIVE_STATE_DEAD_LETTER,
                                        .decision = &BAD},
                    &m);
    assert_int_equal(m.figures.calls, 0);
    assert_int_equal(m.figures.dead, 1);
}

FIXTURE_TEST(latency_is_that_of_jobs_that_met_the_outage)
{
    for (int i = 1; i <= 100; i++) {
        submit(15000);
        settle(15000, 20000, 15000 + i, REDRIVE_STATE_COMPLETED);
    }
    submit(0);
    settle(0, 1, 9999, REDRIVE_STATE_COMPLETED);
    assert_int_equal(measure_finish(&m), 0);
    assert_int_equal(m.figures.p50_ms, 50);
    assert_int_equal(m.figures.p99_ms, 99);
}

FIXTURE_TEST(nothing_completed_has_no_latency)
{
    assert_int_equal(measure_finish(&m), 0);
    assert_int_equal(m.figures.p50_ms, -1);
    assert_int_equal(m.figures.p99_ms, -1);
}

FIXTURE_TEST(drained_is_when_the_backlog_is_back_to_normal)
{
    submit(0); /* normal: two at a time */
    submit(1);
    settle(0, 1, 50, REDRIVE_STATE_COMPLETED);
    settle(1, 1, 50, REDRIVE_STATE_COMPLETED);
    for (int i = 0; i < 4; i++)
        submit(15000);
    settle(15000, 25000, 25000, REDRIVE_STATE_COMPLETED);
    assert_int_equal(m.figures.drain_ms, -1);
    settle(15000, 25000, 26000, REDRIVE_STATE_COMPLETED);
    assert_int_equal(m.figures.drain_ms, 6000);
    settle(15000, 25000, 27000, REDRIVE_STATE_COMPLETED);
    assert_int_equal(m.figures.drain_ms, 6000);
}

FIXTURE_TEST(an_end_of_arrivals_is_not_a_recovery)
{
    submit(15000);
    settle(15000, 25000, 100001, REDRIVE_STATE_COMPLETED);
    assert_int_equal(m.figures.drain_ms, -1);
}
