#include "core/quantile.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "check.h"
#include "core/elapsed.h"

static void check_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 0.05 * expected))
        fail_msg("%g is not within 5 %% of %g", value, expected);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(an_empty_histogram_has_no_quantiles)
{
    struct quantile q;
    quantile_init(&q, 0, 0);
    assert_true(quantile_get(&q, 0.5) == 0);
    assert_true(quantile_count(&q, 0) == 0);
    quantile_add(&q, NAN, 0);
    assert_true(quantile_count(&q, 0) == 0);
}

TEST(every_value_in_range_comes_back_within_5_percent)
{
    for (double ms = QUANTILE_MIN_MS; ms <= QUANTILE_MAX_MS; ms *= 1.0007) {
        struct quantile q;
        quantile_init(&q, 0, 0);
        quantile_add(&q, ms, 0);
        check_near(quantile_get(&q, 0), ms);
        check_near(quantile_get(&q, 0.5), ms);
        check_near(quantile_get(&q, 1), ms);
    }
}

TEST(values_out_of_range_count_as_the_nearer_end)
{
    static const double SMALL[] = {0, -1, 0.00001, -INFINITY};
    static const double LARGE[] = {1e12, 1e300, INFINITY};
    struct quantile q;
    for (int i = 0; i < 4; i++) {
        quantile_init(&q, 0, 0);
        quantile_add(&q, SMALL[i], 0);
        check_near(quantile_get(&q, 0.5), QUANTILE_MIN_MS);
    }
    for (int i = 0; i < 3; i++) {
        quantile_init(&q, 0, 0);
        quantile_add(&q, LARGE[i], 0);
        check_near(quantile_get(&q, 0.5), QUANTILE_MAX_MS);
    }
}

TEST(quantiles_agree_with_a_sorted_list)
{
    enum {
        N = 5000
    };
    static double values[N];
    struct rng rng;
    rng_seed(&rng, 4);
    for (int round = 0; round < 50; round++) {
        struct quantile q;
        int n = 1 + (int)rng_below(&rng, N);
        double spread = 1 + 20 * rng_double(&rng);
        quantile_init(&q, 0, 0);
        for (int i = 0; i < n; i++) {
            values[i] = 0.1 * exp(rng_double(&rng) * spread);
            quantile_add(&q, values[i], i);
        }
        qsort(values, (size_t)n, sizeof values[0], compare);
        static const double SHARES[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
        for (int i = 0; i < 8; i++) {
            int rank = (int)ceil(SHARES[i] * n);
            check_near(quantile_get(&q, SHARES[i]), values[rank > 0 ? rank - 1 : 0]);
        }
        assert_true(quantile_count(&q, n) == n);
    }
}

TEST(shares_beyond_the_ends_are_the_ends)
{
    struct quantile q;
    quantile_init(&q, 0, 0);
    quantile_add(&q, 1, 0);
    quantile_add(&q, 1000, 0);
    check_near(quantile_get(&q, -5), 1);
    check_near(quantile_get(&q, NAN), 1);
    check_near(quantile_get(&q, 5), 1000);
}

TEST(merging_is_adding_everything_to_one)
{
    struct quantile all, a, b;
    struct rng rng;
    rng_seed(&rng, 5);
    quantile_init(&all, 0, 0);
    quantile_init(&a, 0, 0);
    quantile_init(&b, 0, 0);
    for (int i = 0; i < 10000; i++) {
        double ms = exp(rng_double(&rng) * 15);
        quantile_add(&all, ms, 0);
        quantile_add(i % 3 ? &a : &b, ms, 0);
    }
    quantile_merge(&a, &b, 0);
    assert_true(quantile_count(&a, 0) == quantile_count(&all, 0));
    for (double p = 0; p <= 1; p += 0.01)
        assert_true(quantile_get(&a, p) == quantile_get(&all, p));
}

TEST(fading_histograms_merge_at_their_present_weight)
{
    struct quantile a, b;
    quantile_init(&a, 1000, 0);
    quantile_init(&b, 2000, 0);
    for (int i = 0; i < 100; i++) {
        quantile_add(&a, 10, 0);
        quantile_add(&b, 20, 0);
    }
    quantile_merge(&a, &b, 2000);
    assert_true(fabs(quantile_count(&a, 2000) - 75) < 1e-9);
    check_near(quantile_get(&a, 0.3), 10);
    check_near(quantile_get(&a, 0.4), 20);
}

TEST(a_value_counts_half_after_its_half_life)
{
    struct quantile q;
    quantile_init(&q, 60000, 0);
    for (int i = 0; i < 100; i++)
        quantile_add(&q, 10, 0);
    assert_true(fabs(quantile_count(&q, 60000) - 50) < 1e-9);
    for (int i = 0; i < 51; i++)
        quantile_add(&q, 1000, 60000);
    check_near(quantile_get(&q, 0.49), 10);
    check_near(quantile_get(&q, 0.5), 1000);
}

TEST(old_values_vanish_in_the_end)
{
    struct quantile q;
    quantile_init(&q, 1000, 0);
    for (int i = 0; i < 100; i++)
        quantile_add(&q, 5, 0);
    for (int64_t t = 0; t < 3600 * 1000; t += 100)
        quantile_add(&q, 500, t);
    check_near(quantile_get(&q, 0), 500);
    /* Ten a second, with a mean life of 1/ln 2 seconds, are this many. */
    check_near(quantile_count(&q, 3600 * 1000), 10 / log(2));
    quantile_add(&q, 7, INT64_MAX);
    check_near(quantile_get(&q, 1), 7);
    assert_true(quantile_count(&q, INT64_MAX) == 1);
}

TEST(a_clock_that_goes_back_fades_nothing)
{
    struct quantile q;
    int64_t now = INT64_C(1700000000000);
    quantile_init(&q, 1000, now);
    quantile_add(&q, 1, now);
    for (int i = 0; i < 1000; i++) { /* readings out of order */
        quantile_add(&q, 1, now - ELAPSED_SLACK_MS);
        quantile_add(&q, 1, now);
    }
    assert_true(quantile_count(&q, now) == 2001);
    now -= 3600 * 1000; /* the clock was set back, and goes on */
    assert_true(quantile_count(&q, now) == 2001);
    quantile_add(&q, 1, now);
    assert_true(fabs(quantile_count(&q, now + 1000) - 1001) < 1e-9);
}
