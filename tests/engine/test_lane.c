/* How breakers and limits are kept, and how well the work goes. */
#include "engine/bed.h"

#include "engine/lane.h"

static void breaker_row_reads_back_as_it_was(void **state)
{
    (void)state;
    struct lane lane = {.kind = SHARED_BREAKER, .has_parked = true, .candidates = 2};
    struct lane read = {.kind = SHARED_BREAKER};
    struct buf bytes;
    redrive_breaker_config_init(&lane.breaker_config);
    breaker_init(&lane.breaker, 99);
    for (int i = 0; i < 5; i++)
        breaker_simulate_failure(&lane.breaker, &lane.breaker_config, 1000 + i);
    release_start(&lane.release, &lane.breaker_config, 5000);
    buf_init(&bytes, 1 << 16);
    lane_encode(&lane, &bytes);
    assert_true(lane_decode(&read, buf_str(&bytes)));
    assert_true(read.has_parked);
    assert_int_equal(read.candidates, 2);
    assert_int_equal(read.breaker.state, REDRIVE_BREAKER_OPEN);
    assert_memory_equal(&read.breaker, &lane.breaker, sizeof lane.breaker);
    assert_int_equal(read.breaker_config.window_ms, lane.breaker_config.window_ms);
    assert_true(read.release.rate == lane.release.rate);
    buf_release(&bytes);
}

static void damaged_row_is_refused(void **state)
{
    (void)state;
    struct lane lane = {.kind = SHARED_BREAKER}, read = {.kind = SHARED_BREAKER};
    struct buf bytes;
    redrive_breaker_config_init(&lane.breaker_config);
    breaker_init(&lane.breaker, 1);
    buf_init(&bytes, 1 << 16);
    lane_encode(&lane, &bytes);
    for (size_t len = 0; len < bytes.len; len++)
        assert_false(lane_decode(&read, (struct str){bytes.data, len}));
    bytes.data[0] = 9;
    assert_false(lane_decode(&read, buf_str(&bytes)));
    buf_release(&bytes);
}

static void health_falls_with_failures_and_run_time_is_measured(void **state)
{
    (void)state;
    struct bed bed;
    struct redrive_health health;
    bed_init(&bed, NULL);
    engine_health(bed.engine, NULL, &health);
    assert_true(health.health_score > 0.99);
    for (int i = 0; i < 10; i++)
        bed_submit(&bed, i < 5 ? "a" : "b", NULL);
    assert_int_equal(bed_claim(&bed, 10), 10);
    bed.now_ms += 200;
    for (int i = 0; i < 10; i++)
        assert_int_equal(i < 5 ? bed_fail(&bed, &bed.claim.jobs[i], "network")
                               : bed_succeed(&bed, &bed.claim.jobs[i]),
                         0);
    engine_health(bed.engine, NULL, &health);
    assert_true(health.health_score < 0.5);
    double ms = engine_run_time_ms(bed.engine, 0.5);
    assert_true(ms > 185 && ms < 215);
    bed_release(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(breaker_row_reads_back_as_it_was),
        T(damaged_row_is_refused),
        T(health_falls_with_failures_and_run_time_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
