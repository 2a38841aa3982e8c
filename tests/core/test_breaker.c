#include "core/breaker/breaker.h"

#include "check.h"

#include <math.h>

/* Small numbers and no jitter, so that times can be written down. */
static struct redrive_breaker_config quick(void)
{
    struct redrive_breaker_config c;
    redrive_breaker_config_init(&c);
    c.failure_threshold = 2;
    c.failure_rate = 0;
    c.recovery_timeout_ms = 10000;
    c.recovery_jitter = 0;
    return c;
}

static void call(struct breaker *b, const struct redrive_breaker_config *c, int64_t now_ms,
                 enum breaker_result result)
{
    struct breaker_permit permit;
    assert_true(breaker_allow(b, c, now_ms, &permit));
    breaker_record(b, c, permit, result, 0, now_ms);
}

static void open_it(struct breaker *b, const struct redrive_breaker_config *c, int64_t now_ms)
{
    for (uint32_t i = 0; i < c->failure_threshold; i++)
        call(b, c, now_ms, BREAKER_FAILURE);
    assert_int_equal(b->state, REDRIVE_BREAKER_OPEN);
}

static struct breaker_permit probe(struct breaker *b, const struct redrive_breaker_config *c,
                                   int64_t now_ms)
{
    struct breaker_permit permit = {0};
    assert_true(breaker_allow(b, c, now_ms, &permit));
    assert_int_not_equal(permit.probe, 0);
    return permit;
}

TEST(defaults_pass_their_own_check)
{
    struct redrive_breaker_config c;
    redrive_breaker_config_init(&c);
    assert_int_equal(redrive_breaker_config_check(&c, NULL), 0);
}

TEST(absurd_configurations_are_refused)
{
    struct redrive_err err;
    struct redrive_breaker_config c = quick();
    c.failure_rate = NAN;
    assert_int_equal(redrive_breaker_config_check(&c, &err), REDRIVE_E_RANGE);
    assert_string_equal(err.message, "failure_rate is out of range");
    c = quick();
    c.half_open_max = REDRIVE_MAX_PROBES + 1;
    assert_int_equal(redrive_breaker_config_check(&c, &err), REDRIVE_E_RANGE);
    c = quick();
    c.recovery_timeout_ms = -1;
    assert_int_equal(redrive_breaker_config_check(&c, &err), REDRIVE_E_RANGE);
    c = quick();
    c.min_calls = 0;
    assert_int_equal(redrive_breaker_config_check(&c, &err), REDRIVE_E_RANGE);
    c = quick();
    c.on_open = (enum redrive_on_open)77;
    assert_int_equal(redrive_breaker_config_check(&c, &err), REDRIVE_E_INVALID);
}

TEST(an_open_breaker_lets_nothing_through_until_its_time)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    open_it(&b, &c, 1000);
    for (int64_t t = 0; t < 11000; t += 100)
        assert_false(breaker_allow(&b, &c, t, &permit));
    assert_true(breaker_allow(&b, &c, 11000, &permit));
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
}

TEST(half_open_lets_out_only_its_probes)
{
    struct redrive_breaker_config c = quick();
    c.half_open_max = 3;
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    struct breaker_permit first = probe(&b, &c, 10000);
    probe(&b, &c, 10000);
    probe(&b, &c, 10000);
    assert_false(breaker_allow(&b, &c, 10000, &permit));
    breaker_record(&b, &c, first, BREAKER_NEUTRAL, 0, 10001);
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
    probe(&b, &c, 10101);
    assert_false(breaker_allow(&b, &c, 10101, &permit));
}

TEST(after_a_probe_that_proved_nothing_the_next_waits_its_turn)
{
    struct redrive_breaker_config c = quick();
    c.release_rate = 4;
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    assert_int_equal(breaker_probe_room(&b, &c, 9999), 0);
    assert_int_equal(breaker_probe_room(&b, &c, 10000), 1);
    breaker_record(&b, &c, probe(&b, &c, 10000), BREAKER_NEUTRAL, 0, 10050);
    assert_false(breaker_allow(&b, &c, 10299, &permit));
    assert_int_equal(breaker_next_ms(&b, &c), 10300);
    struct breaker_permit second = probe(&b, &c, 10300);
    assert_int_equal(breaker_probe_room(&b, &c, 10300), 0);
    /* One that was cancelled makes way at once. */
    breaker_record(&b, &c, second, BREAKER_RETURNED, 0, 10301);
    probe(&b, &c, 10301);
    breaker_reset(&b);
    call(&b, &c, 10300, BREAKER_RETURNED);
    assert_int_equal(breaker_window_sum(&b.window, &c).calls, 0);
    assert_int_equal(breaker_probe_room(&b, &c, 10300), 0);
}

TEST(no_more_probes_than_there_are_slots)
{
    struct redrive_breaker_config c = quick();
    c.half_open_max = 1000;
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++)
        probe(&b, &c, 10000);
    assert_false(breaker_allow(&b, &c, 10000, &permit));
}

TEST(enough_successes_close_it)
{
    struct redrive_breaker_config c = quick();
    c.success_threshold = 2;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    breaker_record(&b, &c, probe(&b, &c, 10000), BREAKER_SUCCESS, 0, 10001);
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
    breaker_record(&b, &c, probe(&b, &c, 10002), BREAKER_SUCCESS, 0, 10003);
    assert_int_equal(b.state, REDRIVE_BREAKER_CLOSED);
    assert_int_equal(b.consecutive, 0);
}

TEST(one_failed_probe_opens_it_again_for_longer)
{
    struct redrive_breaker_config c = quick();
    c.recovery_multiplier = 2;
    c.recovery_max_ms = 35000;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    assert_int_equal(b.retry_at_ms, 10000);
    static const int64_t WAITS[] = {20000, 35000, 35000};
    for (int i = 0; i < 3; i++) {
        int64_t now_ms = b.retry_at_ms;
        breaker_record(&b, &c, probe(&b, &c, now_ms), BREAKER_FAILURE, 0, now_ms);
        assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
        assert_int_equal(b.retry_at_ms - now_ms, WAITS[i]);
    }
    breaker_record(&b, &c, probe(&b, &c, b.retry_at_ms), BREAKER_SUCCESS, 0, b.retry_at_ms);
    open_it(&b, &c, 500000);
    assert_int_equal(b.retry_at_ms, 510000);
}

TEST(recovery_jitter_stays_within_its_share)
{
    struct redrive_breaker_config c = quick();
    c.recovery_jitter = 0.1;
    int64_t least = INT64_MAX, most = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct breaker b;
        breaker_init(&b, seed);
        open_it(&b, &c, 0);
        assert_in_range(b.retry_at_ms, 9000, 11000);
        least = b.retry_at_ms < least ? b.retry_at_ms : least;
        most = b.retry_at_ms > most ? b.retry_at_ms : most;
    }
    assert_true(least < 9100 && most > 10900);
}

TEST(a_lapsed_probe_opens_it_as_of_the_end_of_its_lease)
{
    struct redrive_breaker_config c = quick();
    c.half_open_max = 2;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    probe(&b, &c, 10000);
    probe(&b, &c, 10500);
    assert_int_equal(breaker_next_ms(&b, &c), 40000);
    assert_false(breaker_tick(&b, &c, 39999));
    assert_true(breaker_tick(&b, &c, 41000));
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
    assert_int_equal(b.opened_at_ms, 40000);
    assert_int_equal(b.retry_at_ms, 50000);
    assert_false(breaker_tick(&b, &c, 41000));
}

TEST(the_first_lease_to_end_counts_whichever_slot_it_has)
{
    struct redrive_breaker_config c = quick();
    c.half_open_max = 3;
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    struct breaker_permit first = probe(&b, &c, 10000);
    probe(&b, &c, 11000);
    probe(&b, &c, 11500);
    breaker_record(&b, &c, first, BREAKER_NEUTRAL, 0, 12000);
    probe(&b, &c, 12100);
    assert_int_equal(breaker_next_ms(&b, &c), 41000);
    assert_false(breaker_allow(&b, &c, 43000, &permit));
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
    assert_int_equal(b.opened_at_ms, 41000);
}

TEST(a_probe_that_answers_after_its_lease_changes_nothing)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    struct breaker_permit late = probe(&b, &c, 10000);
    breaker_record(&b, &c, late, BREAKER_SUCCESS, 0, 40001);
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
}

TEST(an_answer_given_twice_counts_once)
{
    struct redrive_breaker_config c = quick();
    c.success_threshold = 2;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    struct breaker_permit permit = probe(&b, &c, 10000);
    breaker_record(&b, &c, permit, BREAKER_SUCCESS, 0, 10001);
    breaker_record(&b, &c, permit, BREAKER_SUCCESS, 0, 10002);
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(b.probe_successes, 1);
}

TEST(only_probes_have_a_say_in_half_open)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    probe(&b, &c, 10000);
    struct breaker_permit forged = {.generation = b.generation};
    breaker_record(&b, &c, forged, BREAKER_FAILURE, 0, 10001);
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
}

TEST(the_rate_rule_needs_its_minimum)
{
    struct redrive_breaker_config c = quick();
    c.failure_threshold = 0;
    c.failure_rate = 0.5;
    c.min_calls = 4;
    struct redrive_breaker_status status;
    struct breaker b;
    breaker_init(&b, 1);
    call(&b, &c, 0, BREAKER_FAILURE);
    call(&b, &c, 0, BREAKER_NEUTRAL);
    call(&b, &c, 0, BREAKER_SUCCESS);
    call(&b, &c, 0, BREAKER_SUCCESS);
    breaker_status(&b, &c, 0, &status);
    assert_true(status.rate < 0);
    call(&b, &c, 0, BREAKER_FAILURE);
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
    breaker_status(&b, &c, 99999, &status);
    assert_true(fabs(status.rate - 0.5) < 1e-9);
}

TEST(old_calls_leave_the_window_bit_by_bit)
{
    struct redrive_breaker_config c = quick();
    c.failure_threshold = 0;
    c.failure_rate = 0.9;
    c.min_calls = 1;
    struct redrive_breaker_status status;
    struct breaker b;
    breaker_init(&b, 1);
    call(&b, &c, 0, BREAKER_SUCCESS);
    call(&b, &c, 5000, BREAKER_FAILURE);
    breaker_status(&b, &c, 9000, &status);
    assert_true(fabs(status.rate - 0.5) < 1e-9);
    breaker_status(&b, &c, 11000, &status);
    assert_true(fabs(status.rate - 1) < 1e-9);
    breaker_status(&b, &c, 99000, &status);
    assert_true(status.rate < 0);
    /* A clock that goes back reads and fills the newest bucket. */
    call(&b, &c, 4000, BREAKER_SUCCESS);
    breaker_status(&b, &c, 4000, &status);
    assert_true(fabs(status.rate - 1.0 / 3) < 1e-9);
}

/* ---- Windows, slow calls, probes together ---------------------------------------------------- */

static struct breaker_counts sum_of(const struct breaker_window *w,
                                    const struct redrive_breaker_config *c)
{
    return breaker_window_sum(w, c);
}

TEST(a_window_of_calls_forgets_one_for_each_that_comes)
{
    static const uint32_t SIZES[] = {1, 63, 64, 65, 1000, REDRIVE_MAX_WINDOW_CALLS};
    for (size_t k = 0; k < sizeof SIZES / sizeof SIZES[0]; k++) {
        struct redrive_breaker_config c = quick();
        struct breaker_window w = {0};
        c.window_calls = SIZES[k];
        for (uint32_t i = 0; i < SIZES[k]; i++)
            breaker_window_add(&w, &c, true, i % 2 == 0, i);
        assert_int_equal(sum_of(&w, &c).failures, SIZES[k]);
        assert_int_equal(sum_of(&w, &c).slow, (SIZES[k] + 1) / 2);
        for (uint32_t i = 1; i <= SIZES[k]; i++) {
            breaker_window_add(&w, &c, false, false, 0);
            assert_int_equal(sum_of(&w, &c).calls, SIZES[k]);
            assert_int_equal(sum_of(&w, &c).failures, SIZES[k] - i);
        }
        assert_int_equal(sum_of(&w, &c).slow, 0);
    }
}

TEST(a_window_that_gets_smaller_looks_at_the_newest)
{
    struct redrive_breaker_config c = quick();
    struct breaker_window w = {0};
    c.window_calls = 100;
    for (int i = 0; i < 100; i++)
        breaker_window_add(&w, &c, i >= 90, false, 0);
    c.window_calls = 20;
    assert_int_equal(sum_of(&w, &c).calls, 20);
    assert_int_equal(sum_of(&w, &c).failures, 10);
    c.window_calls = 0; /* one of time does not keep the calls of a former one */
    breaker_window_add(&w, &c, false, false, 0);
    c.window_calls = 20;
    assert_int_equal(sum_of(&w, &c).calls, 0);
}

TEST(successes_of_another_process_go_where_they_belong)
{
    struct redrive_breaker_config c = quick();
    c.window_ms = 10000;
    struct breaker_window mine = {0}, more = {0};
    breaker_window_add(&mine, &c, true, false, 100500);
    breaker_window_add_counts(&more, &c, (struct breaker_counts){.calls = 3}, 95200);
    breaker_window_add_counts(&more, &c, (struct breaker_counts){.calls = 4}, 100900);
    breaker_window_add_counts(&more, &c, (struct breaker_counts){.calls = 5},
                              96999); /* a time that lies back */
    breaker_window_merge(&mine, &c, &more);
    assert_int_equal(sum_of(&mine, &c).calls, 13);
    assert_int_equal(sum_of(&mine, &c).failures, 1);
    breaker_window_advance(&mine, &c, 105999);
    assert_int_equal(sum_of(&mine, &c).calls, 10); /* 95 is out of the window */
    breaker_window_advance(&mine, &c, 106000);
    assert_int_equal(sum_of(&mine, &c).calls, 5);
    breaker_window_merge(&mine, &c, &more); /* by now only those of 100 are in it */
    assert_int_equal(sum_of(&mine, &c).calls, 9);
    /* Newer ones turn the window. */
    breaker_window_add_counts(&more, &c, (struct breaker_counts){.calls = 1}, 130000);
    breaker_window_merge(&mine, &c, &more);
    assert_int_equal(sum_of(&mine, &c).calls, 1);
}

TEST(successes_of_another_process_are_the_latest_calls)
{
    struct redrive_breaker_config c = quick();
    struct breaker_window mine = {0}, more = {0};
    c.window_calls = 10;
    for (int i = 0; i < 10; i++)
        breaker_window_add(&mine, &c, true, false, 1000);
    breaker_window_add_counts(&more, &c, (struct breaker_counts){.calls = 4}, 900);
    breaker_window_merge(&mine, &c, &more);
    assert_int_equal(sum_of(&mine, &c).failures, 6);
    breaker_window_add_counts(&more, &c, (struct breaker_counts){.calls = UINT32_MAX / 2},
                              900); /* no more than it can have */
    breaker_window_merge(&mine, &c, &more);
    assert_int_equal(sum_of(&mine, &c).failures, 0);
    assert_int_equal(sum_of(&mine, &c).calls, 10);
}

TEST(a_slow_probe_has_failed)
{
    struct redrive_breaker_config c = quick();
    c.slow_call_ms = 1000;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    breaker_record(&b, &c, probe(&b, &c, 10000), BREAKER_SUCCESS, 1001, 11001);
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
    breaker_record(&b, &c, probe(&b, &c, 21001), BREAKER_SUCCESS, 1000, 22001);
    assert_int_equal(b.state, REDRIVE_BREAKER_CLOSED);
    c.slow_rate = 0; /* without a rule it is a success like others */
    open_it(&b, &c, 30000);
    breaker_record(&b, &c, probe(&b, &c, 40000), BREAKER_SUCCESS, 5000, 45000);
    assert_int_equal(b.state, REDRIVE_BREAKER_CLOSED);
}

TEST(probes_that_are_judged_together_are_counted_out)
{
    struct redrive_breaker_config c = quick();
    c.half_open_max = 3;
    c.half_open_rate = 0.5;
    c.recovery_multiplier = 2;
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    breaker_record(&b, &c, probe(&b, &c, 10000), BREAKER_FAILURE, 0, 10001);
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(breaker_probe_room(&b, &c, 10001), 2);
    struct breaker_permit lost = probe(&b, &c, 10002);
    struct breaker_permit last = probe(&b, &c, 10003);
    assert_false(breaker_allow(&b, &c, 10004, &permit));
    assert_int_equal(breaker_next_ms(&b, &c), 40002);
    /* A cancelled one makes way, and the next takes its place. */
    breaker_record(&b, &c, last, BREAKER_RETURNED, 0, 10005);
    assert_int_equal(breaker_probe_room(&b, &c, 10005), 1);
    last = probe(&b, &c, 10006);
    breaker_record(&b, &c, last, BREAKER_SUCCESS, 0, 10007);
    breaker_record(&b, &c, last, BREAKER_SUCCESS, 0, 10008); /* an answer given twice */
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(breaker_probe_room(&b, &c, 10009), 0);
    assert_true(breaker_tick(&b, &c, 50000));
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN); /* two of three */
    assert_int_equal(b.opened_at_ms, 40002);
    assert_int_equal(b.retry_at_ms, 60002);
    breaker_record(&b, &c, lost, BREAKER_SUCCESS, 0, 50001);
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
}

TEST(smaller_half_open_max_brings_the_verdict_that_no_probe_would)
{
    struct redrive_breaker_config c = quick();
    c.half_open_max = 4;
    c.half_open_rate = 0.5;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, 0);
    breaker_record(&b, &c, probe(&b, &c, 10000), BREAKER_SUCCESS, 0, 10001);
    breaker_record(&b, &c, probe(&b, &c, 10002), BREAKER_SUCCESS, 0, 10003);
    struct breaker_permit out = probe(&b, &c, 10004);
    c.half_open_max = 2;
    assert_false(breaker_tick(&b, &c, 10005)); /* one may still say something */
    breaker_record(&b, &c, out, BREAKER_RETURNED, 0, 10006);
    assert_true(breaker_tick(&b, &c, 10007));
    assert_int_equal(b.state, REDRIVE_BREAKER_CLOSED);
}

TEST(by_hand_it_is_tripped_disabled_and_reset)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    breaker_trip(&b, 500);
    assert_false(breaker_allow(&b, &c, INT64_MAX, &permit));
    assert_int_equal(breaker_next_ms(&b, &c), 0);
    breaker_disable(&b);
    for (int i = 0; i < 100; i++)
        call(&b, &c, 600, BREAKER_FAILURE);
    assert_int_equal(b.state, REDRIVE_BREAKER_DISABLED);
    breaker_reset(&b);
    assert_int_equal(b.state, REDRIVE_BREAKER_CLOSED);
    call(&b, &c, 700, BREAKER_SUCCESS);
}

TEST(results_from_before_a_reset_are_ignored)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    struct breaker_permit permit;
    breaker_init(&b, 1);
    breaker_allow(&b, &c, 0, &permit);
    breaker_reset(&b);
    breaker_record(&b, &c, permit, BREAKER_FAILURE, 0, 0);
    assert_int_equal(b.consecutive, 0);
}

TEST(a_simulated_failure_counts_like_a_real_one)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    breaker_init(&b, 1);
    breaker_simulate_failure(&b, &c, 0);
    breaker_simulate_failure(&b, &c, 0);
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
    breaker_simulate_failure(&b, &c, 1);
    assert_int_equal(b.retry_at_ms, 10000);
    breaker_simulate_failure(&b, &c, 10000);
    assert_int_equal(b.retry_at_ms, 20000);
}

TEST(status_tells_what_a_person_asks)
{
    struct redrive_breaker_config c = quick();
    struct redrive_breaker_status status;
    struct breaker b;
    breaker_init(&b, 1);
    breaker_status(&b, &c, 0, &status);
    assert_int_equal(status.next_probe_ms, 0);
    assert_int_equal(breaker_next_ms(&b, &c), 0);
    open_it(&b, &c, 1234);
    breaker_status(&b, &c, 2000, &status);
    assert_int_equal(status.state, REDRIVE_BREAKER_OPEN);
    assert_int_equal(status.failure_count, 2);
    assert_int_equal(status.opened_at_ms, 1234);
    assert_int_equal(status.next_probe_ms, 11234);
    assert_int_equal(breaker_next_ms(&b, &c), 11234);
    assert_int_equal(status.config.failure_threshold, 2);
    breaker_record(&b, &c, probe(&b, &c, 11234), BREAKER_NEUTRAL, 0, 11235);
    assert_int_equal(breaker_next_ms(&b, &c), 11335);
}

/* ---- Clocks that are set ----------------------------------------------------------------------
 */

#define HOUR_MS INT64_C(3600000)
#define NOON_MS INT64_C(1700000000000)

TEST(a_recovery_begins_anew_when_the_clock_is_set_back)
{
    struct redrive_breaker_config c = quick();
    struct redrive_breaker_status status;
    struct breaker_permit permit;
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, NOON_MS + HOUR_MS);
    const uint64_t generation = b.generation;
    assert_false(breaker_allow(&b, &c, NOON_MS, &permit));
    assert_int_equal(b.generation, generation);
    assert_int_equal(breaker_next_ms(&b, &c), NOON_MS + c.recovery_timeout_ms);
    breaker_status(&b, &c, NOON_MS, &status);
    assert_int_equal(status.opened_at_ms, NOON_MS);
    assert_false(breaker_allow(&b, &c, NOON_MS + c.recovery_timeout_ms - 1, &permit));
    (void)probe(&b, &c, NOON_MS + c.recovery_timeout_ms);
}

/* Two processes do not read exactly the same time. */
TEST(a_second_back_is_no_new_clock)
{
    struct redrive_breaker_config c = quick();
    struct breaker b, before;
    breaker_init(&b, 1);
    open_it(&b, &c, NOON_MS);
    before = b;
    assert_false(breaker_tick(&b, &c, NOON_MS - 1000));
    assert_memory_equal(&b, &before, sizeof b);
    assert_true(breaker_tick(&b, &c, NOON_MS - 1001));
}

TEST(the_lease_of_a_probe_begins_anew_when_the_clock_is_set_back)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, NOON_MS + HOUR_MS);
    (void)probe(&b, &c, NOON_MS + 2 * HOUR_MS);
    assert_true(breaker_tick(&b, &c, NOON_MS));
    assert_int_equal(b.state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(breaker_next_ms(&b, &c), NOON_MS + c.probe_lease_ms);
    assert_true(breaker_tick(&b, &c, NOON_MS + c.probe_lease_ms));
    assert_int_equal(b.state, REDRIVE_BREAKER_OPEN);
    assert_in_range(b.retry_at_ms, NOON_MS, NOON_MS + HOUR_MS);
}

TEST(the_next_probe_does_not_wait_for_a_clock_that_was_ahead)
{
    struct redrive_breaker_config c = quick();
    struct breaker b;
    breaker_init(&b, 1);
    open_it(&b, &c, NOON_MS);
    struct breaker_permit first = probe(&b, &c, NOON_MS + HOUR_MS);
    breaker_record(&b, &c, first, BREAKER_NEUTRAL, 0, NOON_MS + HOUR_MS);
    (void)probe(&b, &c, NOON_MS + 60000);
}

TEST(calls_of_a_clock_that_was_ahead_grow_old)
{
    struct redrive_breaker_config c = quick();
    struct redrive_breaker_status status;
    struct breaker b;
    c.failure_threshold = 0;
    c.failure_rate = 0.9;
    c.min_calls = 1;
    breaker_init(&b, 1);
    call(&b, &c, NOON_MS + HOUR_MS, BREAKER_SUCCESS);
    breaker_status(&b, &c, NOON_MS, &status);
    assert_true(status.rate >= 0);
    call(&b, &c, NOON_MS, BREAKER_SUCCESS);
    assert_int_equal(breaker_window_sum(&b.window, &c).calls, 2);
    call(&b, &c, NOON_MS + c.window_ms + c.window_ms / BREAKER_BUCKETS, BREAKER_SUCCESS);
    assert_int_equal(breaker_window_sum(&b.window, &c).calls, 1);
}
