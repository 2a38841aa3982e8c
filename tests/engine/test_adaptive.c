/* Adaptive concurrency: how many jobs of a task run at one time follows what its service can take.
 */
#include "engine/bed.h"

#include <stdio.h>

#include "engine/gates/gate.h"
#include "engine/gates/view.h"
#include "engine/state.h"

#define YAML(more)                                                               \
    "tasks: {call: {retry: {strategy: fixed, initial_delay: 1s, jitter: false, " \
    "max_retries: 50}, breaker: {failure_threshold: 100000, failure_rate: 0}, "  \
    "limits: {concurrency: adaptive" more "}}}\n"

/* Claims all that the limit lets start, and keeps them. */
static size_t claim_all(struct bed *bed, struct job jobs[64])
{
    size_t n = 0;
    do {
        bed_tick(bed);
        (void)bed_claim(bed, 64 - n);
        for (size_t i = 0; i < bed->claim.n; i++)
            jobs[n++] = bed->claim.jobs[i];
    } while (bed->claim.n > 0);
    return n;
}

static void submit(struct bed *bed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)bed_submit(bed, "call", NULL);
}

/* Runs everything that may run until the limit is as high as it gets. */
static size_t grow_to(struct bed *bed, size_t wanted, struct job jobs[64])
{
    size_t n;
    while ((n = claim_all(bed, jobs)) < wanted)
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bed_succeed(bed, &jobs[i]), 0);
    return n;
}

BED_TEST(it_begins_at_the_floor_and_ends_at_the_ceiling,
         YAML(", min_concurrency: 2, max_concurrency: 12"))
{
    struct job jobs[64];
    submit(bed, 100);
    size_t n = claim_all(bed, jobs);
    assert_int_equal(n, 2);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bed_succeed(bed, &jobs[i]), 0);
        const size_t more = claim_all(bed, jobs);
        assert_true(more > n || more == 12);
        n = more;
    }
    assert_int_equal(n, 12);
}

BED_TEST(a_refused_call_cuts_it_once_a_round, YAML(", max_concurrency: 20"))
{
    struct job jobs[64];
    submit(bed, 300);
    assert_int_equal(grow_to(bed, 20, jobs), 20);
    bed_pass(bed, 10);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(bed_fail(bed, &jobs[i], "rate_limited"), 0);
    bed_pass(bed, 1);
    assert_int_equal(claim_all(bed, jobs), 18);
    bed_pass(bed, 10);
    assert_int_equal(bed_fail(bed, &jobs[0], "permanent"), 0); /* says nothing about load */
    assert_int_equal(bed_fail(bed, &jobs[1], "rate_limited"), 0);
    for (size_t i = 2; i < 18; i++)
        assert_int_equal(bed_succeed(bed, &jobs[i]), 0);
    assert_int_equal(claim_all(bed, jobs), 16);
}

BED_TEST(it_is_shown_with_its_bounds, YAML(", min_concurrency: 3, max_concurrency: 6"))
{
    struct job jobs[64];
    struct limit_page page = {0};
    struct redrive_err err = {0};
    submit(bed, 20);
    assert_int_equal(grow_to(bed, 6, jobs), 6);
    assert_int_equal(limits_read(bed->engine->store, (struct str){0}, bed->now_ms, &page, &err), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.limits[0].slots.max, 6);
    assert_int_equal(page.limits[0].slots.used, 6);
    assert_int_equal(page.limits[0].adaptive.floor, 3);
    assert_int_equal(page.limits[0].adaptive.ceiling, 6);
    limit_page_release(&page);
}

/* What was found out holds for processes that come later; a fixed limit replaces it. */
BED_TEST(it_is_kept_over_a_restart_and_given_up_for_a_fixed_one, YAML(", max_concurrency: 8"))
{
    struct job jobs[64];
    submit(bed, 100);
    assert_int_equal(grow_to(bed, 8, jobs), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(bed_succeed(bed, &jobs[i]), 0);
    bed_reload(bed, YAML(", max_concurrency: 64"));
    assert_int_equal(claim_all(bed, jobs), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(bed_succeed(bed, &jobs[i]), 0);
    const size_t n = claim_all(bed, jobs);
    assert_true(n > 8);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bed_succeed(bed, &jobs[i]), 0);
    bed_reload(bed, "tasks: {call: {limits: {concurrency: 5}}}\n");
    assert_int_equal(claim_all(bed, jobs), 5);
}
