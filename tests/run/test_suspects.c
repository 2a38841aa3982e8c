/* A job is blamed for a broken handler only when the handler works with others. */
#include "check.h"

#include "run/pool/private.h"

static void no_job_is_blamed_while_the_handler_has_never_worked(void **state)
{
    (void)state;
    struct suspects s = {0};
    for (int i = 0; i < 100; i++)
        for (int64_t seq = 1; seq <= 5; seq++)
            assert_false(suspects_blame_job(&s, seq));
}

static void job_is_blamed_when_another_went_well_in_between(void **state)
{
    (void)state;
    struct suspects s = {0};
    assert_false(suspects_blame_job(&s, 1));
    suspects_worked(&s);
    assert_true(suspects_blame_job(&s, 1));
}

static void handler_that_breaks_after_it_has_worked_is_not_blamed_on_its_first_job(void **state)
{
    (void)state;
    struct suspects s = {0};
    suspects_worked(&s);
    for (int64_t seq = 1; seq <= 20; seq++)
        assert_false(suspects_blame_job(&s, seq));
}

static void lone_job_is_blamed_after_some_tries_if_the_handler_has_worked(void **state)
{
    (void)state;
    struct suspects s = {0};
    suspects_worked(&s);
    for (int i = 0; i < SUSPECTS_PATIENCE; i++)
        assert_false(suspects_blame_job(&s, 7));
    assert_true(suspects_blame_job(&s, 7));
}

static void forgotten_suspect_is_given_back_once_more(void **state)
{
    (void)state;
    struct suspects s = {0};
    assert_false(suspects_blame_job(&s, 1));
    for (int64_t seq = 2; seq <= SUSPECTS_MAX + 1; seq++)
        (void)suspects_blame_job(&s, seq);
    suspects_worked(&s);
    assert_false(suspects_blame_job(&s, 1));
    suspects_worked(&s);
    assert_true(suspects_blame_job(&s, 1));
}

CHECK_FILE(suspects)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_job_is_blamed_while_the_handler_has_never_worked),
        cmocka_unit_test(job_is_blamed_when_another_went_well_in_between),
        cmocka_unit_test(handler_that_breaks_after_it_has_worked_is_not_blamed_on_its_first_job),
        cmocka_unit_test(lone_job_is_blamed_after_some_tries_if_the_handler_has_worked),
        cmocka_unit_test(forgotten_suspect_is_given_back_once_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
