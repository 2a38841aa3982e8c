#include "check.h"

#include "core/check.h"

static void a_name_is_text_without_control_characters(void **state)
{
    char text[256];
    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(name_check("task", (struct str){text, 255}, NULL), 0);
    assert_int_equal(name_check("task", (struct str){text, 256}, NULL), REDRIVE_E_TOO_BIG);
    assert_int_equal(name_check("task", STR(""), NULL), REDRIVE_E_INVALID);
    assert_int_equal(name_check("task", STR("a\0b"), NULL), REDRIVE_E_INVALID);
    assert_int_equal(name_check("task", STR("\xff"), NULL), REDRIVE_E_INVALID);
    assert_int_equal(name_check("task", STR("a b \xc3\xa4"), NULL), 0);
}

static void a_queue_has_letters_digits_and_three_signs(void **state)
{
    static const char *const WRONG[] = {"a b", "a/b", "a:b", "*", "\xc3\xa4", "a\n", ""};
    (void)state;
    assert_int_equal(name_check_queue(STR("azAZ09._-"), NULL), 0);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_int_equal(name_check_queue(str_of(WRONG[i]), NULL), REDRIVE_E_INVALID);
}

CHECK_FILE(name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_text_without_control_characters),
        cmocka_unit_test(a_queue_has_letters_digits_and_three_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
