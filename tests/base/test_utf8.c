#include "base/text/encode.h"

#include "check.h"

TEST(each_code_point_is_valid_and_surrogates_are_not)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char out[4];
        size_t len = utf8_encode(code, out);
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        assert_int_equal(utf8_valid((struct str){out, len}), !surrogate);
        if (!surrogate)
            assert_int_equal(utf8_next(out, out + len), len);
    }
}

TEST(characters_are_encoded_as_the_standard_says)
{
    char out[4];
    assert_int_equal(utf8_encode('A', out), 1);
    assert_memory_equal(out, "A", 1);
    assert_int_equal(utf8_encode(0xE9, out), 2);
    assert_memory_equal(out, "\xC3\xA9", 2);
    assert_int_equal(utf8_encode(0x20AC, out), 3);
    assert_memory_equal(out, "\xE2\x82\xAC", 3);
    assert_int_equal(utf8_encode(0x1F600, out), 4);
    assert_memory_equal(out, "\xF0\x9F\x98\x80", 4);
}

TEST(malformed_sequences_are_refused_with_their_length)
{
    static const struct {
        const char *bytes;
        int step;
    } cases[] = {
        {"\x80", -1},             /* continuation alone */
        {"\xBF", -1},             /* the same */
        {"\xC0\x80", -1},         /* overlong NUL */
        {"\xC1\xBF", -1},         /* overlong DEL */
        {"\xE0\x80\x80", -1},     /* overlong in three */
        {"\xE0\x9F\xBF", -1},     /* the last of them */
        {"\xF0\x80\x80\x80", -1}, /* overlong in four */
        {"\xF0\x8F\xBF\xBF", -1}, /* the last of them */
        {"\xED\xA0\x80", -1},     /* first surrogate */
        {"\xED\xBF\xBF", -1},     /* last surrogate */
        {"\xF4\x90\x80\x80", -1}, /* U+110000 */
        {"\xF5\x80\x80\x80", -1},
        {"\xFE", -1},
        {"\xFF", -1},
        {"\xC3", -1}, /* cut short, at the end and before another character */
        {"\xC3(", -1},
        {"\xE2\x82", -2},
        {"\xE2\x82(", -2},
        {"\xE2(\xA1", -1},
        {"\xF0\x9F\x98", -3},
        {"\xF0\x9F\x98(", -3},
        {"\xF0\x9F", -2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str s = str_of(cases[i].bytes);
        assert_int_equal(utf8_next(s.ptr, s.ptr + s.len), cases[i].step);
        assert_false(utf8_valid(s));
    }
}

TEST(a_bad_byte_is_found_wherever_it_stands)
{
    char text[41];
    assert_true(utf8_valid(str_of(NULL)));
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        assert_true(utf8_valid((struct str){text, sizeof text}));
        text[at] = '\xFF';
        assert_false(utf8_valid((struct str){text, sizeof text}));
        text[at] = '\xC3';
        if (at + 1 < sizeof text) {
            text[at + 1] = '\xA4';
            assert_true(utf8_valid((struct str){text, sizeof text}));
            assert_false(utf8_valid((struct str){text, at + 1}));
        }
    }
}

TEST(control_characters_and_bad_bytes_are_made_printable)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},
        {"plain text", "plain text"},
        {"a\nb\tc\x1b[31m\x7f", "a b c?[31m?"},
        {"gr\xC3\xB6\xC3\x9F"
         "e \xE2\x82\xAC \xF0\x9F\x98\x80",
         "gr\xC3\xB6\xC3\x9F"
         "e \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\xC2\x9B"
         "2J\xC2\xA0",
         "??2J\xC2\xA0"},
        {"cut \xE2\x82", "cut ??"},
        {"\xFF\xC3\xA9", "?\xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        assert_true(str_copy(text, sizeof text, str_of(cases[i].from)));
        utf8_make_printable(text);
        assert_string_equal(text, cases[i].to);
    }
}
