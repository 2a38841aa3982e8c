#include "check.h"

#include "base/text/encode.h"

/* The examples of RFC 4648. */
static const char *const ROWS[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xff\xfe", "+//+"},
};

TEST(published_examples_match_both_ways)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[16];
        uint8_t bytes[8];
        const size_t len = strlen(ROWS[i][0]);
        assert_string_equal(base64_encode(ROWS[i][0], len, text), ROWS[i][1]);
        assert_int_equal(base64_decode(str_of(ROWS[i][1]), bytes, sizeof bytes), len);
        assert_memory_equal(bytes, ROWS[i][0], len);
    }
}

TEST(padding_may_be_left_out)
{
    uint8_t bytes[8];
    assert_int_equal(base64_decode(STR("Zm8"), bytes, sizeof bytes), 2);
    assert_int_equal(base64_decode(STR("Zg"), bytes, sizeof bytes), 1);
}

TEST(what_is_not_base64_is_refused)
{
    static const struct str rows[] = {
        STR("Z"), STR("Zm9v="), STR("Z==="), STR("Zm9v\n"), STR("Zm-v"), STR("Zh=="), STR("Zm9\0"),
    };
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(base64_decode(rows[i], bytes, sizeof bytes), -1);
    assert_int_equal(base64_decode(STR("Zm9vYmFy"), bytes, 5), -1);
}
