#include "cli/commands/top/view.h"

#include <math.h>

#include "check.h"

#define check_near(value, expected) assert_true(fabs((value) - (expected)) < 1e-6)

TEST(nothing_is_known_before_two_looks)
{
    struct pace p = {0};
    check_near(pace_recent(&p, 5000), 0);
    pace_add(&p, 1000, 10);
    check_near(pace_recent(&p, 5000), 0);
    check_near(pace_between(&p, 500, 1000), -1);
}

TEST(growth_is_even_between_looks)
{
    struct pace p = {0};
    pace_add(&p, 0, 100);
    pace_add(&p, 2000, 120);
    pace_add(&p, 3000, 120);
    check_near(pace_between(&p, 0, 1000), 10);
    check_near(pace_between(&p, 500, 1500), 10);
    check_near(pace_between(&p, 1000, 3000), 5);
    check_near(pace_between(&p, 2000, 3000), 0);
    check_near(pace_between(&p, 2000, 3001), -1);
    check_near(pace_between(&p, -1, 1000), -1);
    check_near(pace_recent(&p, 1000), 0);
    check_near(pace_recent(&p, 60000), 20.0 / 3);
}

TEST(a_number_that_falls_starts_over)
{
    struct pace p = {0};
    pace_add(&p, 0, 100);
    pace_add(&p, 1000, 5);
    check_near(pace_recent(&p, 5000), 0);
    pace_add(&p, 2000, 8);
    check_near(pace_recent(&p, 5000), 3);
}

TEST(old_looks_make_room)
{
    struct pace p = {0};
    for (int i = 0; i < 3 * PACE_LOOKS; i++)
        pace_add(&p, i * INT64_C(1000), i * 2.0);
    check_near(pace_recent(&p, 60000), 2);
    check_near(pace_between(&p, 0, 1000), -1);
}

TEST(the_highest_second_is_the_highest_sign)
{
    struct pace p = {0};
    struct buf out;
    pace_add(&p, 0, 0);
    pace_add(&p, 1000, 70);
    pace_add(&p, 2000, 70);
    pace_add(&p, 3000, 105);
    buf_init(&out, 1024);
    pace_draw(&p, 5, &out);
    assert_string_equal(buf_cstr(&out), "  █▁▅");
    buf_release(&out);
}
