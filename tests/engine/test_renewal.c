/* test_renewal.c - when leases are extended, and when they are over by the worker's own clock. */
#include "check.h"

#include "engine/worker/renewal.h"

static const struct config_task TASK = {.lease_ms = 30000, .heartbeat_ms = 10000};

#define START 1000000

static struct held_lease given_at(int64_t sent_ms)
{
    struct held_lease lease = {0};
    held_lease_give(&lease, sent_ms, TASK.lease_ms);
    return lease;
}

TEST(a_lease_is_counted_from_the_moment_it_was_asked_for)
{
    struct held_lease lease = given_at(START);
    assert_false(held_lease_is_over(&lease, START + 29999));
    assert_true(held_lease_is_over(&lease, START + 30000));
    held_lease_give(&lease, START + 10000, TASK.lease_ms);
    assert_false(held_lease_is_over(&lease, START + 39999));
    assert_true(held_lease_is_over(&lease, START + 40000));
}

TEST(an_extension_makes_no_lease_shorter)
{
    struct held_lease lease = {0};
    held_lease_give(&lease, START, 3600000);
    held_lease_give(&lease, START + 10000, TASK.lease_ms);
    assert_int_equal(lease.since_ms, START + 10000);
    assert_false(held_lease_is_over(&lease, START + 3599999));
}

TEST(a_lease_is_due_a_heartbeat_after_it_was_given)
{
    struct renewal renewal = {.task = &TASK};
    struct held_lease lease = given_at(START);
    assert_int_equal(renewal_next_ms(&renewal, &lease, START), START + 10000);
    assert_false(renewal_is_due(&renewal, &lease, START + 9999));
    assert_true(renewal_is_due(&renewal, &lease, START + 10000));
    /* A claim that took 25 s. */
    assert_true(renewal_next_ms(&renewal, &lease, START + 25000) <= START + 25000);
}

TEST(leases_that_were_just_given_are_left_out)
{
    struct renewal renewal = {.task = &TASK};
    struct held_lease lease = given_at(START);
    assert_false(renewal_takes(&renewal, &lease, START + 4999));
    assert_true(renewal_takes(&renewal, &lease, START + 5000));
}

/* Not a heartbeat later, and not at once for ever. */
TEST(a_failed_extension_is_tried_again_soon_and_then_less_often)
{
    static const int64_t pauses[] = {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    struct renewal renewal = {.task = &TASK};
    struct held_lease lease = given_at(START);
    int64_t now_ms = START + 10000;
    for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        assert_true(renewal_is_due(&renewal, &lease, now_ms));
        renewal_sent(&renewal, now_ms);
        renewal_answered(&renewal, true, now_ms);
        lease.until_ms = RENEWAL_NEVER; /* the end of the lease is another test */
        assert_int_equal(renewal_next_ms(&renewal, &lease, now_ms), now_ms + pauses[i]);
        assert_false(renewal_is_due(&renewal, &lease, now_ms + pauses[i] - 1));
        now_ms += pauses[i];
    }
    renewal_sent(&renewal, now_ms);
    renewal_answered(&renewal, false, now_ms + 20);
    held_lease_give(&lease, renewal.sent_ms, TASK.lease_ms);
    assert_int_equal(renewal_next_ms(&renewal, &lease, now_ms + 20), now_ms + 10000);
    renewal_answered(&renewal, true, now_ms + 20);
    assert_int_equal(renewal.not_before_ms, now_ms + 20 + 50);
}

TEST(short_heartbeats_have_short_pauses)
{
    static const struct config_task hasty = {.lease_ms = 300, .heartbeat_ms = 100};
    struct renewal renewal = {.task = &hasty};
    for (int i = 0; i < 5; i++) {
        renewal_answered(&renewal, true, START);
        assert_int_equal(renewal.not_before_ms, START + 50);
    }
}

/* It hangs with the store. */
TEST(the_end_of_a_lease_is_looked_at_while_an_extension_is_under_way)
{
    struct renewal renewal = {.task = &TASK};
    struct held_lease lease = given_at(START);
    renewal_sent(&renewal, START + 10000);
    assert_false(renewal_is_due(&renewal, &lease, START + 25000));
    assert_int_equal(renewal_next_ms(&renewal, &lease, START + 10000), START + 30000);
    assert_int_equal(renewal_next_ms(&renewal, &lease, START + 30000), RENEWAL_NEVER);
    renewal_answered(&renewal, true, START + 40000);
    assert_int_equal(renewal_next_ms(&renewal, &lease, START + 40000), START + 40050);
}

TEST(only_a_refusal_loses_a_lease)
{
    assert_int_equal(renewal_fate(0, 0), RENEWAL_KEPT);
    assert_int_equal(renewal_fate(0, REDRIVE_E_STATE), RENEWAL_LOST);
    assert_int_equal(renewal_fate(0, REDRIVE_E_NOT_FOUND), RENEWAL_LOST);
    assert_int_equal(renewal_fate(0, REDRIVE_E_IO), RENEWAL_UNKNOWN);
    assert_int_equal(renewal_fate(REDRIVE_E_IO, 0), RENEWAL_UNKNOWN);
    assert_int_equal(renewal_fate(REDRIVE_E_STOPPING, 0), RENEWAL_UNKNOWN);
}

TEST(a_first_attempt_has_no_earlier_run)
{
    assert_false(lease_may_have_earlier_run(&(struct job){.status = {.attempts = 1}}));
    assert_true(lease_may_have_earlier_run(&(struct job){.status = {.attempts = 2}}));
    assert_true(lease_may_have_earlier_run(&(struct job){.status = {.attempts = 1, .epoch = 1}}));
}
