#include "base/rng.h"

#include "check.h"

TEST(a_seed_gives_the_same_stream)
{
    struct rng a, b;
    rng_seed(&a, 42);
    rng_seed(&b, 42);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rng_next(&a), rng_next(&b));
    rng_seed(&b, 43);
    assert_int_not_equal(rng_next(&a), rng_next(&b));
}

TEST(mixing_gives_the_published_values)
{
    /* The first outputs of splitmix64 seeded with 1234567. */
    assert_int_equal(rng_mix(1234567), UINT64_C(6457827717110365317));
    assert_int_equal(rng_mix(1234567 + UINT64_C(0x9e3779b97f4a7c15)),
                     UINT64_C(3203168211198807973));
}

TEST(doubles_fill_the_unit_interval_evenly)
{
    struct rng rng;
    rng_seed(&rng, 7);
    int tenths[10] = {0};
    for (int i = 0; i < 100000; i++) {
        double x = rng_double(&rng);
        assert_true(x >= 0 && x < 1);
        tenths[(int)(x * 10)]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(tenths[i], 9600, 10400);
}

TEST(below_reaches_every_number_and_no_other)
{
    struct rng rng;
    rng_seed(&rng, 7);
    int seen[6] = {0};
    for (int i = 0; i < 6000; i++)
        seen[rng_below(&rng, 6)]++;
    for (int i = 0; i < 6; i++)
        assert_in_range(seen[i], 850, 1150);
    assert_int_equal(rng_below(&rng, 0), 0);
    assert_int_equal(rng_below(&rng, 1), 0);
}

TEST(hashes_depend_on_every_byte_the_length_and_the_seed)
{
    assert_int_equal(rng_hash("job-000001", 10, 1), rng_hash("job-000001", 10, 1));
    assert_int_not_equal(rng_hash("job-000001", 10, 1), rng_hash("job-000002", 10, 1));
    assert_int_not_equal(rng_hash("job-000001", 10, 1), rng_hash("job-000001", 10, 2));
    assert_int_not_equal(rng_hash("a\0", 2, 0), rng_hash("a", 1, 0));
    assert_int_equal(rng_hash("", 0, 5), rng_hash(NULL, 0, 5));
    /* Schedules depend on it: it may not change from version to version. */
    assert_int_equal(rng_hash("", 0, 0), rng_mix(0));
    assert_int_equal(rng_hash("0190163d-8694-7c2b-9b1e-7d5f5c1e1a2b", 36, 1),
                     UINT64_C(3321798864322156405));
}

TEST(the_system_gives_different_seeds)
{
    assert_int_not_equal(rng_system_seed(), rng_system_seed());
}
