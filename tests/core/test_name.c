#include "check.h"

#include "core/check.h"

TEST(a_name_is_text_without_control_characters)
{
    char text[256];
    memset(text, 'a', sizeof text);
    assert_int_equal(name_check("task", (struct str){text, 255}, NULL), 0);
    assert_int_equal(name_check("task", (struct str){text, 256}, NULL), REDRIVE_E_TOO_BIG);
    assert_int_equal(name_check("task", STR(""), NULL), REDRIVE_E_INVALID);
    assert_int_equal(name_check("task", STR("a\0b"), NULL), REDRIVE_E_INVALID);
    assert_int_equal(name_check("task", STR("\xff"), NULL), REDRIVE_E_INVALID);
    assert_int_equal(name_check("task", STR("a b \xc3\xa4"), NULL), 0);
}

TEST(a_queue_has_letters_digits_and_three_signs)
{
    static const char *const WRONG[] = {"a b", "a/b", "a:b", "*", "\xc3\xa4", "a\n", ""};
    assert_int_equal(name_check_queue(STR("azAZ09._-"), NULL), 0);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_int_equal(name_check_queue(str_of(WRONG[i]), NULL), REDRIVE_E_INVALID);
}
