/* A job is blamed for a broken handler only when the handler works with others. */
#include "check.h"

#include "run/pool/private.h"

TEST(no_job_is_blamed_while_the_handler_has_never_worked)
{
    struct suspects s = {0};
    for (int i = 0; i < 100; i++)
        for (int64_t seq = 1; seq <= 5; seq++)
            assert_false(suspects_blame_job(&s, seq));
}

TEST(job_is_blamed_when_another_went_well_in_between)
{
    struct suspects s = {0};
    assert_false(suspects_blame_job(&s, 1));
    suspects_worked(&s);
    assert_true(suspects_blame_job(&s, 1));
}

TEST(handler_that_breaks_after_it_has_worked_is_not_blamed_on_its_first_job)
{
    struct suspects s = {0};
    suspects_worked(&s);
    for (int64_t seq = 1; seq <= 20; seq++)
        assert_false(suspects_blame_job(&s, seq));
}

TEST(lone_job_is_blamed_after_some_tries_if_the_handler_has_worked)
{
    struct suspects s = {0};
    suspects_worked(&s);
    for (int i = 0; i < SUSPECTS_PATIENCE; i++)
        assert_false(suspects_blame_job(&s, 7));
    assert_true(suspects_blame_job(&s, 7));
}

TEST(forgotten_suspect_is_given_back_once_more)
{
    struct suspects s = {0};
    assert_false(suspects_blame_job(&s, 1));
    for (int64_t seq = 2; seq <= SUSPECTS_MAX + 1; seq++)
        (void)suspects_blame_job(&s, seq);
    suspects_worked(&s);
    assert_false(suspects_blame_job(&s, 1));
    suspects_worked(&s);
    assert_true(suspects_blame_job(&s, 1));
}
