#include "core/limit/adaptive.h"

#include "check.h"

static const struct adaptive_config CONFIG = {.floor = 2, .ceiling = 50};

TEST(a_new_limit_is_at_its_floor)
{
    struct adaptive a;
    adaptive_init(&a, &CONFIG);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 2);
}

static void succeed(struct adaptive *a, int n, uint32_t running)
{
    for (int i = 0; i < n; i++)
        adaptive_succeeded(a, &CONFIG, running);
}

TEST(it_doubles_with_each_round_until_the_first_cut)
{
    struct adaptive a;
    adaptive_init(&a, &CONFIG);
    for (uint32_t limit = 2; limit < 32; limit *= 2) {
        assert_int_equal(adaptive_limit(&a, &CONFIG), limit);
        succeed(&a, (int)limit, 50);
    }
    succeed(&a, 1000, 50);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 50);
}

TEST(then_it_grows_by_one_in_ten_rounds)
{
    struct adaptive a = {.limit = 10, .cut_ms = 1};
    succeed(&a, 10 * ADAPTIVE_ROUNDS - 1, 10);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 10);
    succeed(&a, 2, 10); /* a tenth a hundred times is a little less than ten */
    assert_int_equal(adaptive_limit(&a, &CONFIG), 11);
    succeed(&a, 100000, 50);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 50);
}

/* Two that see half of the calls each, and share the limit. */
TEST(processes_together_grow_it_as_one_does)
{
    struct adaptive one = {.limit = 10, .cut_ms = 1}, two = one;
    int rounds = 0;
    for (; one.limit < 20; rounds++) {
        succeed(&one, (int)one.limit / 2, 20);
        two.limit = one.limit;
        succeed(&two, (int)two.limit / 2, 20);
        one.limit = two.limit;
    }
    assert_in_range(rounds, 95, 115);
}

TEST(it_does_not_grow_while_it_is_not_used)
{
    struct adaptive a = {.limit = 11};
    succeed(&a, 100, 5);
    assert_int_equal(a.limit, 11);
    succeed(&a, 1, 6);
    assert_int_equal(a.limit, 12);
}

TEST(an_overload_cuts_it_once_for_all_that_ran)
{
    struct adaptive a = {.limit = 40, .grown = 0.9};
    adaptive_overloaded(&a, &CONFIG, 900, 1000);
    assert_int_equal(a.limit, 36);
    assert_true(a.grown == 0);
    adaptive_overloaded(&a, &CONFIG, 950, 1010);
    adaptive_overloaded(&a, &CONFIG, 1000, 1020);
    assert_int_equal(a.limit, 36);
    adaptive_overloaded(&a, &CONFIG, 1001, 1030);
    assert_int_equal(a.limit, 32);
    for (int i = 0; i < 100; i++)
        adaptive_overloaded(&a, &CONFIG, 2000 + 10 * i, 2005 + 10 * i);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 2);
}

/* The last cut is in the future then, and would hold off all others. */
TEST(a_clock_that_goes_back_does_not_stop_the_cuts)
{
    struct adaptive a = {.limit = 40, .cut_ms = 100000};
    adaptive_overloaded(&a, &CONFIG, 900, 1000);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 36);
    assert_int_equal(a.cut_ms, 1000);
}

TEST(it_keeps_to_a_floor_and_a_ceiling_that_have_changed)
{
    struct adaptive a = {.limit = 500};
    assert_int_equal(adaptive_limit(&a, &CONFIG), 50);
    adaptive_overloaded(&a, &CONFIG, 1, 2);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 45);
    a = (struct adaptive){0};
    adaptive_succeeded(&a, &CONFIG, 2);
    assert_int_equal(adaptive_limit(&a, &CONFIG), 3);
}

TEST(a_floor_above_the_ceiling_is_refused)
{
    assert_true(adaptive_config_is_valid(&CONFIG));
    assert_true(adaptive_config_is_valid(&(struct adaptive_config){0}));
    assert_true(adaptive_config_is_valid(&(struct adaptive_config){3, 3}));
    assert_false(adaptive_config_is_valid(&(struct adaptive_config){4, 3}));
    assert_false(adaptive_config_is_valid(&(struct adaptive_config){0, 3}));
    assert_false(adaptive_config_is_valid(&(struct adaptive_config){3, 0}));
    assert_false(adaptive_config_is_valid(&(struct adaptive_config){3, 1000001}));
    assert_false(adaptive_is_set(&(struct adaptive_config){0}));
    assert_true(adaptive_is_set(&CONFIG));
}
