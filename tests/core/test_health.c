#include "core/breaker/health.h"

#include <math.h>

#include "check.h"
#include "core/elapsed.h"

#define START INT64_C(1700000000000)

#define check_near(value, expected, tolerance)                    \
    do {                                                          \
        double value_ = (value);                                  \
        if (!(fabs(value_ - (expected)) <= (tolerance)))          \
            fail_msg("%g is not %g", value_, (double)(expected)); \
    } while (0)

static struct redrive_health read_at(const struct health *h, int64_t now_ms)
{
    struct redrive_health r;
    health_read(h, NULL, 0, 0, now_ms, &r);
    return r;
}

static void record(struct health *h, int n, bool success, double latency_ms, int64_t now_ms)
{
    for (int i = 0; i < n; i++)
        health_record(h, success ? REDRIVE_CLASS_SUCCESS : REDRIVE_CLASS_NETWORK, latency_ms,
                      now_ms);
}

TEST(an_idle_system_is_healthy)
{
    struct health h;
    health_init(&h, START);
    struct redrive_health r = read_at(&h, START);
    assert_string_equal(r.status, "healthy");
    assert_true(r.health_score == 1 && r.success_rate == 1 && r.error_rate == 0);
    assert_true(r.latency_factor == 1);
    assert_int_equal(r.breakers, 0);
}

TEST(rates_are_fractions_of_recent_events)
{
    struct health h;
    health_init(&h, START);
    record(&h, 6, true, 10, START);
    record(&h, 4, false, 10, START);
    struct redrive_health r = read_at(&h, START);
    check_near(r.success_rate, 0.6, 1e-12);
    check_near(r.error_rate, 0.4, 1e-12);
    check_near(r.health_score, 0.6, 1e-12);
    assert_string_equal(r.status, "degraded");
}

TEST(an_event_weighs_a_third_after_a_minute)
{
    struct health h;
    health_init(&h, START);
    record(&h, 100, false, 0, START);
    record(&h, 100, true, 0, START + 60000);
    check_near(read_at(&h, START + 60000).error_rate, exp(-1) / (1 + exp(-1)), 1e-4);
}

TEST(old_failures_are_forgotten_when_nothing_happens)
{
    struct health h;
    health_init(&h, START);
    record(&h, 100, false, 0, START);
    assert_string_equal(read_at(&h, START).status, "unhealthy");
    assert_true(read_at(&h, START + 60000).success_rate < 1e-12);
    double before = 0;
    for (int minute = 1; minute <= 12; minute++) {
        double rate = read_at(&h, START + minute * 60000).success_rate;
        assert_true(rate >= before);
        before = rate;
    }
    assert_string_equal(read_at(&h, START + 12 * 60000).status, "healthy");
    assert_true(read_at(&h, START + INT64_C(3600) * 1000 * 24 * 365).success_rate == 1);
    assert_true(read_at(&h, INT64_MAX).success_rate == 1);
}

TEST(health_falls_and_rises_with_the_work)
{
    struct health h;
    int64_t now = START;
    health_init(&h, now);
    for (int i = 0; i < 3000; i++)
        health_record(&h, REDRIVE_CLASS_SUCCESS, 20, now += 100);
    assert_string_equal(read_at(&h, now).status, "healthy");
    for (int i = 0; i < 1200; i++)
        health_record(&h, REDRIVE_CLASS_NETWORK, 20, now += 100);
    assert_string_equal(read_at(&h, now).status, "unhealthy");
    for (int i = 0; i < 3000; i++)
        health_record(&h, REDRIVE_CLASS_SUCCESS, 20, now += 100);
    assert_string_equal(read_at(&h, now).status, "healthy");
}

TEST(open_breakers_take_their_share)
{
    struct health h;
    struct redrive_health r;
    health_init(&h, START);
    health_read(&h, NULL, 4, 1, START, &r);
    check_near(r.health_score, 0.75, 1e-12);
    assert_int_equal(r.breakers, 4);
    assert_int_equal(r.breakers_open, 1);
    assert_true(r.success_rate == 1);
    assert_string_equal(r.status, "degraded");
    health_read(&h, NULL, 4, 4, START, &r);
    assert_true(r.health_score == 0);
    health_read(&h, NULL, 1, 2, START, &r);
    assert_true(r.health_score == 0);
}

TEST(work_slower_than_usual_lowers_the_score)
{
    struct health h;
    int64_t now = START;
    health_init(&h, now);
    for (int i = 0; i < 36000; i++)
        health_record(&h, REDRIVE_CLASS_SUCCESS, 20, now += 100);
    assert_true(read_at(&h, now).latency_factor == 1);
    for (int i = 0; i < 1800; i++) /* three minutes at four times the latency */
        health_record(&h, REDRIVE_CLASS_SUCCESS, 80, now += 100);
    struct redrive_health r = read_at(&h, now);
    check_near(r.latency_factor, 0.25, 0.03);
    assert_string_equal(r.status, "unhealthy");
    assert_true(r.success_rate == 1);
    for (int i = 0; i < 3 * 36000; i++) /* after hours it is how things are */
        health_record(&h, REDRIVE_CLASS_SUCCESS, 80, now += 100);
    assert_true(read_at(&h, now).latency_factor == 1);
}

TEST(faster_work_is_no_better_than_healthy)
{
    struct health h;
    health_init(&h, START);
    record(&h, 100, true, 500, START);
    record(&h, 5000, true, 1, START + 300000);
    assert_true(read_at(&h, START + 300000).latency_factor == 1);
    assert_true(read_at(&h, START + 300000).health_score == 1);
}

TEST(too_few_samples_say_nothing_about_latency)
{
    struct health h;
    health_init(&h, START);
    record(&h, 500, true, 1, START);
    /* Ten minutes later the recent past is empty but for these. */
    const int64_t later = START + 600000;
    record(&h, HEALTH_MIN_SAMPLES - 1, true, 1000, later);
    assert_true(read_at(&h, later).latency_factor == 1);
    record(&h, 1, true, 1000, later);
    assert_true(read_at(&h, later).latency_factor < 0.1);
}

TEST(failures_say_nothing_about_latency)
{
    struct health h;
    int64_t now = START;
    health_init(&h, now);
    for (int i = 0; i < 36000; i++) /* an hour of refused connections */
        health_record(&h, REDRIVE_CLASS_NETWORK, 0.2, now += 100);
    for (int i = 0; i < 6000; i++)
        health_record(&h, REDRIVE_CLASS_SUCCESS, 100, now += 100);
    assert_true(read_at(&h, now).latency_factor == 1);
    record(&h, 1000, true, -1, now);
    record(&h, 1000, true, NAN, now);
    assert_true(read_at(&h, now).latency_factor == 1);
}

TEST(thresholds_can_be_chosen)
{
    struct health h;
    struct redrive_health r;
    const struct health_thresholds strict = {.healthy = 0.99, .degraded = 0.9};
    health_init(&h, START);
    record(&h, 8, true, 1, START);
    record(&h, 2, false, 1, START);
    assert_string_equal(read_at(&h, START).status, "healthy");
    health_read(&h, &strict, 0, 0, START, &r);
    assert_string_equal(r.status, "unhealthy");
    record(&h, 10, true, 1, START);
    health_read(&h, &strict, 0, 0, START, &r);
    assert_string_equal(r.status, "degraded");
    assert_true(HEALTH_THRESHOLDS_DEFAULT.healthy == 0.8);
    assert_true(HEALTH_THRESHOLDS_DEFAULT.degraded == 0.5);
}

TEST(several_processes_count_as_one)
{
    struct health one, two, both;
    struct health_share sum = {0}, share;
    struct redrive_health apart, together;
    health_init(&one, START);
    health_init(&two, START);
    health_init(&both, START);
    record(&one, 30, true, 10, START);
    record(&both, 30, true, 10, START);
    record(&two, 10, false, -1, START + 5000);
    record(&both, 10, false, -1, START + 5000);
    health_share(&one, START, &share);
    health_share_add(&sum, &share, START + 9000);
    health_share(&two, START + 9000, &share);
    health_share_add(&sum, &share, START + 9000);
    health_share_read(&sum, NULL, 4, 1, START + 20000, &apart);
    health_read(&both, NULL, 4, 1, START + 20000, &together);
    check_near(apart.success_rate, together.success_rate, 1e-9);
    check_near(apart.health_score, together.health_score, 1e-9);
    assert_int_equal(apart.breakers_open, 1);
    assert_string_equal(apart.status, together.status);
}

TEST(latency_factors_weigh_by_the_work_behind_them)
{
    struct health_share sum = {0};
    struct redrive_health r;
    health_share_add(&sum, &(struct health_share){300, 0, 1, START}, START);
    health_share_add(&sum, &(struct health_share){100, 0, 0.2, START}, START);
    health_share_add(&sum, &(struct health_share){0, 0, 0.1, START}, START);
    health_share_read(&sum, NULL, 0, 0, START, &r);
    check_near(r.latency_factor, 0.8, 1e-9);
}

TEST(a_rate_is_right_from_the_first_seconds_on)
{
    struct health h;
    struct health_share share;
    health_init(&h, START);
    for (int i = 1; i <= 300; i++) {
        record(&h, 7, true, 1, START + i * 1000);
        health_share(&h, START + i * 1000, &share);
        if (i == 10 || i == 60 || i == 300)
            check_near(health_share_rate(&share, START, START + i * 1000), 7, 0.7);
    }
    check_near(health_share_rate(&share, START, START + 600 * 1000), 0, 0.1);
}

TEST(a_clock_that_goes_back_fades_nothing_and_stops_nothing)
{
    struct health h;
    health_init(&h, START);
    record(&h, 10, false, 1, START);
    for (int i = 0; i < 1000; i++) {
        health_record(&h, REDRIVE_CLASS_SUCCESS, 1, START - ELAPSED_SLACK_MS);
        health_record(&h, REDRIVE_CLASS_SUCCESS, 1, START);
    }
    check_near(read_at(&h, START).error_rate, 10.0 / 2010, 1e-12);
    const int64_t before = START - 7 * 86400000;
    check_near(read_at(&h, before).error_rate, 10.0 / 2010, 1e-12);
    record(&h, 1000, false, 1, before);
    check_near(read_at(&h, before).error_rate, 1010.0 / 3010, 1e-12);
    record(&h, 1000, true, 1, before + 600000); /* time goes on from there */
    assert_true(read_at(&h, before + 600000).error_rate < 0.001);
    health_record(&h, REDRIVE_CLASS_SUCCESS, 1, INT64_MIN);
    health_record(&h, REDRIVE_CLASS_SUCCESS, 1, INT64_MAX);
    assert_true(read_at(&h, INT64_MIN).success_rate == 1);
}

TEST(bad_input_of_a_job_does_not_lower_it)
{
    struct health h;
    struct redrive_health read;
    health_init(&h, START);
    health_record(&h, REDRIVE_CLASS_SUCCESS, 1, START);
    for (int i = 0; i < 50; i++) {
        health_record(&h, REDRIVE_CLASS_VALIDATION, 1, START);
        health_record(&h, REDRIVE_CLASS_PERMANENT, 1, START);
    }
    health_read(&h, NULL, 0, 0, START, &read);
    assert_true(read.health_score == 1 && read.error_rate == 0);
    health_record(&h, REDRIVE_CLASS_AUTHENTICATION, 1, START);
    health_read(&h, NULL, 0, 0, START, &read);
    assert_true(read.health_score < 1);
}
