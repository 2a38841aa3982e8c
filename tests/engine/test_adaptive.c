/* Adaptive concurrency: how many jobs of a task run at one time follows what its service can take.
 */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "engine/gates/gate.h"
#include "engine/gates/view.h"
#include "engine/state.h"

#define YAML(more)                                                               \
    "tasks: {call: {retry: {strategy: fixed, initial_delay: 1s, jitter: false, " \
    "max_retries: 50}, breaker: {failure_threshold: 100000, failure_rate: 0}, "  \
    "limits: {concurrency: adaptive" more "}}}\n"

/* Claims all that the limit lets start, and keeps them. */
static size_t claim_all(struct test_engine *te, struct job jobs[64])
{
    size_t n = 0;
    do {
        te_tick(te);
        (void)te_claim(te, 64 - n);
        for (size_t i = 0; i < te->claim.n; i++)
            jobs[n++] = te->claim.jobs[i];
    } while (te->claim.n > 0);
    return n;
}

static void submit(struct test_engine *te, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)te_submit(te, "call", NULL);
}

/* Runs everything that may run until the limit is as high as it gets. */
static size_t grow_to(struct test_engine *te, size_t wanted, struct job jobs[64])
{
    size_t n;
    while ((n = claim_all(te, jobs)) < wanted)
        for (size_t i = 0; i < n; i++)
            assert_int_equal(te_succeed(te, &jobs[i]), 0);
    return n;
}

ENGINE_TEST(it_begins_at_the_floor_and_ends_at_the_ceiling,
            YAML(", min_concurrency: 2, max_concurrency: 12"))
{
    struct job jobs[64];
    submit(te, 100);
    size_t n = claim_all(te, jobs);
    assert_int_equal(n, 2);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < n; i++)
            assert_int_equal(te_succeed(te, &jobs[i]), 0);
        const size_t more = claim_all(te, jobs);
        assert_true(more > n || more == 12);
        n = more;
    }
    assert_int_equal(n, 12);
}

ENGINE_TEST(a_refused_call_cuts_it_once_a_round, YAML(", max_concurrency: 20"))
{
    struct job jobs[64];
    submit(te, 300);
    assert_int_equal(grow_to(te, 20, jobs), 20);
    te_pass(te, 10);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(te_fail(te, &jobs[i], "rate_limited"), 0);
    te_pass(te, 1);
    assert_int_equal(claim_all(te, jobs), 18);
    te_pass(te, 10);
    assert_int_equal(te_fail(te, &jobs[0], "permanent"), 0); /* says nothing about load */
    assert_int_equal(te_fail(te, &jobs[1], "rate_limited"), 0);
    for (size_t i = 2; i < 18; i++)
        assert_int_equal(te_succeed(te, &jobs[i]), 0);
    assert_int_equal(claim_all(te, jobs), 16);
}

ENGINE_TEST(it_is_shown_with_its_bounds, YAML(", min_concurrency: 3, max_concurrency: 6"))
{
    struct job jobs[64];
    struct limit_page page = {0};
    struct redrive_err err = {0};
    submit(te, 20);
    assert_int_equal(grow_to(te, 6, jobs), 6);
    assert_int_equal(limits_read(te->engine->store, (struct str){0}, te->now_ms, &page, &err), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.limits[0].slots.max, 6);
    assert_int_equal(page.limits[0].slots.used, 6);
    assert_int_equal(page.limits[0].adaptive.floor, 3);
    assert_int_equal(page.limits[0].adaptive.ceiling, 6);
    limit_page_release(&page);
}

/* What was found out holds for processes that come later; a fixed limit replaces it. */
ENGINE_TEST(it_is_kept_over_a_restart_and_given_up_for_a_fixed_one, YAML(", max_concurrency: 8"))
{
    struct job jobs[64];
    submit(te, 100);
    assert_int_equal(grow_to(te, 8, jobs), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(te_succeed(te, &jobs[i]), 0);
    te_reload(te, YAML(", max_concurrency: 64"));
    assert_int_equal(claim_all(te, jobs), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(te_succeed(te, &jobs[i]), 0);
    const size_t n = claim_all(te, jobs);
    assert_true(n > 8);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(te_succeed(te, &jobs[i]), 0);
    te_reload(te, "tasks: {call: {limits: {concurrency: 5}}}\n");
    assert_int_equal(claim_all(te, jobs), 5);
}
