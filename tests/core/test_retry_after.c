#include "check.h"

#include "core/retry/policy.h"

#include "redrive.h"

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define THEN_MS (INT64_C(784111777) * 1000)

static void check_ms(const char *value, int64_t expected_ms)
{
    int64_t ms = -1;
    assert_true(retry_after_parse(str_of(value), THEN_MS - 5000, &ms));
    assert_int_equal(ms, expected_ms);
}

TEST(seconds_are_read)
{
    check_ms("0", 0);
    check_ms("120", 120000);
    check_ms(" 7 ", 7000);
    check_ms("99999999999999999999999999", INT64_C(3153600000) * 1000);
}

TEST(dates_are_read_in_all_three_forms)
{
    check_ms("Sun, 06 Nov 1994 08:49:37 GMT", 5000);
    check_ms("Sunday, 06-Nov-94 08:49:37 GMT", 5000);
    check_ms("Sun Nov  6 08:49:37 1994", 5000);
    check_ms("Mon, 07 Nov 1994 08:49:37 GMT", 86405000);
    check_ms("Sun, 06 Nov 1994 08:49:31 GMT", 0);
    check_ms("Saturday, 06-Nov-99 08:49:37 GMT", INT64_C(157766405) * 1000);
    check_ms("Wednesday, 06-Nov-46 08:49:37 GMT", 0); /* 1946, as 2046 would be too far ahead */
}

TEST(all_else_is_refused)
{
    static const char *const values[] = {
        "",
        "-1",
        "1.5",
        "1s",
        "+1",
        "0x10",
        "soon",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT, 5",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Xun, 06 Nov 1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
    };
    int64_t ms;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        assert_false(retry_after_parse(str_of(values[i]), THEN_MS, &ms));
}

TEST(the_public_function_gives_0_for_what_it_cannot_read)
{
    assert_int_equal(redrive_retry_after_ms("7", THEN_MS), 7000);
    assert_int_equal(redrive_retry_after_ms("Sun, 06 Nov 1994 08:49:37 GMT", THEN_MS - 1000), 1000);
    assert_int_equal(redrive_retry_after_ms("soon", THEN_MS), 0);
    assert_int_equal(redrive_retry_after_ms(NULL, THEN_MS), 0);
}
