#include "check.h"

#include "core/breaker/breaker.h"

static struct probe_candidate job(uint32_t attempts, uint32_t max_attempts, uint64_t age_order)
{
    return (struct probe_candidate){attempts, max_attempts, age_order};
}

TEST(most_attempts_left_goes_first)
{
    assert_true(probe_precedes(job(0, 8, 9), job(1, 8, 1)));
    assert_false(probe_precedes(job(1, 8, 1), job(0, 8, 9)));
}

TEST(a_job_with_one_attempt_is_spared_for_one_with_many)
{
    assert_true(probe_precedes(job(3, 8, 2), job(0, 1, 1)));
}

TEST(the_oldest_goes_first_among_equals)
{
    assert_true(probe_precedes(job(2, 8, 1), job(2, 8, 2)));
    assert_true(probe_precedes(job(0, 6, 1), job(2, 8, 2)));
    assert_false(probe_precedes(job(2, 8, 2), job(2, 8, 1)));
}

TEST(nobody_precedes_itself)
{
    assert_false(probe_precedes(job(2, 8, 1), job(2, 8, 1)));
}

/* A limit that was lowered after the job had run more often than that. */
TEST(more_attempts_than_allowed_come_last)
{
    assert_true(probe_precedes(job(0, 1, 2), job(9, 3, 1)));
    assert_false(probe_precedes(job(9, 3, 1), job(0, 1, 2)));
}

/* Eight failed probes take one attempt each from eight jobs, not eight from one. */
TEST(probes_spread_over_all_that_wait)
{
    struct probe_candidate waiting[8];
    for (uint64_t i = 0; i < 8; i++)
        waiting[i] = job(0, 8, i);
    for (int probe = 0; probe < 8; probe++) {
        struct probe_candidate *best = &waiting[0];
        for (int i = 1; i < 8; i++)
            if (probe_precedes(waiting[i], *best))
                best = &waiting[i];
        best->attempts++;
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(waiting[i].attempts, 1);
}

/* Bad jobs at either end are not all tried before the first good one at the other. */
TEST(a_good_job_at_either_end_is_the_second_probe_at_the_latest)
{
    for (uint64_t good = 0; good <= 39; good += 39) {
        struct probe_candidate *best;
        uint32_t probes = 0;
        struct probe_candidate waiting[40];
        do {
            const bool newest = probe_takes_newest(probes++);
            for (uint64_t i = 0; i < 40; i++)
                waiting[i] = job(0, 8, probe_age(i, newest));
            best = &waiting[0];
            for (int i = 1; i < 40; i++)
                if (probe_precedes(waiting[i], *best))
                    best = &waiting[i];
        } while ((uint64_t)(best - waiting) != good && probes < 40);
        assert_in_range(probes, 1, 2);
    }
}
