#include "base/json/json.h"

#include "check.h"
#include "test_json.h"

#include <stdio.h>

#include "base/mem/arena.h"
#include "base/text/encode.h"

/* ---- Walking --------------------------------------------------------------------------------- */

TEST(an_object_gives_its_keys_and_values_in_order)
{
    struct json_reader r;
    struct json_string key, text;
    int64_t number = 0;
    double real = 0;
    bool yes = false, no = true;

    json_reader_init(
        &r,
        STR(" { \"s\" : \"x\\ty\" , \"i\":-7,\"d\":2.5,\"t\":true,\"f\":false,\"n\":null } \r\n"),
        NULL);
    assert_int_equal(json_enter_object(&r), 0);
    assert_int_equal(json_next_key(&r, &key), 1);
    assert_true(json_string_is(key, "s"));
    assert_int_equal(json_peek(&r), JSON_TYPE_STRING);
    assert_int_equal(json_read_string(&r, &text), 0);
    check_str(text.raw, "x\\ty");
    assert_true(text.escaped);
    assert_int_equal(json_next_key(&r, &key), 1);
    assert_false(key.escaped);
    assert_int_equal(json_read_int(&r, &number), 0);
    assert_int_equal(number, -7);
    assert_int_equal(json_next_key(&r, &key), 1);
    assert_int_equal(json_read_double(&r, &real), 0);
    assert_true(real == 2.5);
    assert_int_equal(json_next_key(&r, &key), 1);
    assert_int_equal(json_read_bool(&r, &yes), 0);
    assert_int_equal(json_next_key(&r, &key), 1);
    assert_int_equal(json_read_bool(&r, &no), 0);
    assert_true(yes && !no);
    assert_int_equal(json_next_key(&r, &key), 1);
    assert_int_equal(json_read_null(&r), 0);
    assert_int_equal(json_next_key(&r, &key), 0);
    assert_int_equal(json_end(&r), 0);
    assert_int_equal(json_error(&r, NULL), 0);
    json_reader_release(&r);
}

TEST(arrays_give_their_items_and_may_be_nested)
{
    struct json_reader r;
    int64_t sum = 0, value;

    json_reader_init(&r, STR("[[1,2],[],[ ],[3]]"), NULL);
    assert_int_equal(json_enter_array(&r), 0);
    while (json_next_item(&r) > 0) {
        json_enter_array(&r);
        while (json_next_item(&r) > 0)
            if (json_read_int(&r, &value) == 0)
                sum += value;
    }
    assert_int_equal(json_end(&r), 0);
    assert_int_equal(sum, 6);
    json_reader_release(&r);
}

TEST(peek_names_each_type_and_reads_nothing)
{
    static const struct {
        const char *text;
        enum json_type type;
        const char *name;
    } cases[] = {
        {" null", JSON_TYPE_NULL, "null"},    {"false", JSON_TYPE_FALSE, "false"},
        {"true", JSON_TYPE_TRUE, "true"},     {"-1", JSON_TYPE_NUMBER, "number"},
        {"0", JSON_TYPE_NUMBER, "number"},    {"9", JSON_TYPE_NUMBER, "number"},
        {"\"\"", JSON_TYPE_STRING, "string"}, {"[]", JSON_TYPE_ARRAY, "array"},
        {"{}", JSON_TYPE_OBJECT, "object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_reader r;
        json_reader_init(&r, str_of(cases[i].text), NULL);
        assert_int_equal(json_peek(&r), cases[i].type);
        assert_int_equal(json_peek(&r), cases[i].type);
        assert_string_equal(json_type_name(cases[i].type), cases[i].name);
        assert_int_equal(json_skip(&r, NULL), 0);
        assert_int_equal(json_end(&r), 0);
        json_reader_release(&r);
    }
}

TEST(skip_gives_the_value_byte_for_byte)
{
    static const char *const values[] = {"{ \"a\" : [ 1 , {\"b\":\"]}\"} ] }",
                                         "[ ]",
                                         "\"x\\\"y\"",
                                         "-1.5e+3",
                                         "null",
                                         "true",
                                         "false",
                                         "{}"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[100];
        struct json_reader r;
        struct json_string key;
        struct str slice;
        snprintf(text, sizeof text, "{\"payload\" :\n%s\t,\"next\":1}", values[i]);
        json_reader_init(&r, str_of(text), NULL);
        json_enter_object(&r);
        assert_int_equal(json_next_key(&r, &key), 1);
        assert_int_equal(json_skip(&r, &slice), 0);
        check_str(slice, values[i]);
        assert_int_equal(json_next_key(&r, &key), 1);
        check_str(key.raw, "next");
        json_reader_release(&r);
    }
}

TEST(an_absent_text_is_an_empty_one)
{
    struct redrive_err err;
    assert_int_equal(json_check(str_of(NULL), NULL, &err), REDRIVE_E_PARSE);
    assert_string_equal(err.message,
                        "line 1, column 1: expected a value, found the end of the text");
}

/* ---- Errors ---------------------------------------------------------------------------------- */

TEST(errors_say_where_and_what_was_expected_and_found)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\n \"a\": 1,\n \"b\": [1, 2 x\n]}", "line 3, column 13: expected ',' or ']', found 'x'"},
        {"{\"a\":1 \"b\":2}", "line 1, column 8: expected ',' or '}', found '\"'"},
        {"{\"a\" 1}", "line 1, column 6: expected ':', found '1'"},
        {"{\"a\":1,}", "line 1, column 8: expected a key, found '}'"},
        {"{a:1}", "line 1, column 2: expected a key or '}', found 'a'"},
        {"{'a':1}", "line 1, column 2: expected a key or '}', found \"'\""},
        {"{", "line 1, column 2: expected a key or '}', found the end of the text"},
        {"{\"a\"", "line 1, column 5: expected ':', found the end of the text"},
        {"{\"a\":", "line 1, column 6: expected a value, found the end of the text"},
        {"{\"a\":1", "line 1, column 7: expected ',' or '}', found the end of the text"},
        {"{\"a\":1,", "line 1, column 8: expected a key, found the end of the text"},
        {"[", "line 1, column 2: expected a value or ']', found the end of the text"},
        {"[1", "line 1, column 3: expected ',' or ']', found the end of the text"},
        {"[1,", "line 1, column 4: expected a value, found the end of the text"},
        {"[1,]", "line 1, column 4: expected a value, found ']'"},
        {"[,1]", "line 1, column 2: expected a value, found ','"},
        {"[1}", "line 1, column 3: expected ',' or ']', found '}'"},
        {"", "line 1, column 1: expected a value, found the end of the text"},
        {"1 2", "line 1, column 3: expected the end of the text, found '2'"},
        {"\xEF\xBB\xBF{}", "line 1, column 1: expected a value, found a byte order mark"},
        {"[\xEF\xBB\xBF]", "line 1, column 2: expected a value, found '\xEF\xBB\xBF'"},
        {"\x01", "line 1, column 1: expected a value, found byte 0x01"},
        {"\x7F", "line 1, column 1: expected a value, found byte 0x7F"},
        {"\xFF", "line 1, column 1: expected a value, found byte 0xFF"},
        {"\xC2\x9B", "line 1, column 1: expected a value, found '?"
                     "?'"},
        {"\xE2\x80\x9C", "line 1, column 1: expected a value, found '\xE2\x80\x9C'"},
        {"nul", "line 1, column 4: expected null, found the end of the text"},
        {"[trux]", "line 1, column 5: expected true, found 'x'"},
        {"fals\n", "line 1, column 5: expected false, found byte 0x0A"},
        {"NaN", "line 1, column 1: expected a value, found 'N'"},
        {"-", "line 1, column 2: expected a digit, found the end of the text"},
        {"[-a]", "line 1, column 3: expected a digit, found 'a'"},
        {"[1.]", "line 1, column 4: expected a digit, found ']'"},
        {"1e+", "line 1, column 4: expected a digit, found the end of the text"},
        {"012", "line 1, column 2: expected no digit after a leading zero, found '1'"},
        {"\"a", "line 1, column 3: expected '\"' to close the string, found the end of the text"},
        {"\"a\nb\"", "line 1, column 3: expected '\"' to close the string, found byte 0x0A"},
        {"\"\xC0\x80\"", "line 1, column 2: expected UTF-8, found byte 0xC0"},
        {"\"\\x\"",
         "line 1, column 3: expected one of \" \\ / b f n r t u after a backslash, found 'x'"},
        {"\"\\",
         "line 1, column 3: expected one of \" \\ / b f n r t u after a backslash, found the end "
         "of the text"},
        {"\"\\u12g4\"", "line 1, column 6: expected four hex digits after \\u, found 'g'"},
        {"\"\\uDC00\"",
         "line 1, column 2: expected a high surrogate escape first, found \\uDC00 alone"},
        {"\"\\uD800x\"",
         "line 1, column 8: expected a low surrogate escape (\\uDC00 to \\uDFFF), found 'x'"},
        {"\"\\uD800\\u0041\"",
         "line 1, column 8: expected a low surrogate escape (\\uDC00 to \\uDFFF), found '\\'"},
        {"\"\\uD800\\u004\"", "line 1, column 13: expected four hex digits after \\u, found '\"'"},
        {"{\"a\":1,\"\\u0061\":2}",
         "line 1, column 8: expected each key once, found \"\\u0061\" again"},
        {"{\"\x7F\xC2\x9B\":1,\"\x7F\xC2\x9B\":2}",
         "line 1, column 10: expected each key once, found \"???\" again"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct redrive_err err = {0};
        assert_int_equal(check_exact(str_of(cases[i].text), &err), REDRIVE_E_PARSE);
        assert_string_equal(err.message, cases[i].message);
        assert_int_equal(err.code, REDRIVE_E_PARSE);
        assert_string_equal(err.detail, "");
    }
}

/* Reads the value by one function after another; each wants a type of its own. */
static int read_as(struct json_reader *r, int what)
{
    struct json_string s;
    int64_t i;
    double d;
    bool b;
    switch (what) {
    case 0: return json_read_null(r);
    case 1: return json_read_bool(r, &b);
    case 2: return json_read_string(r, &s);
    case 3: return json_read_int(r, &i);
    case 4: return json_read_double(r, &d);
    case 5: return json_enter_object(r);
    default: return json_enter_array(r);
    }
}

TEST(a_value_of_another_type_is_named)
{
    static const char *const values[] = {"null", "true", "false", "\"\"", "1", "{}", "[]"};
    static const char *const names[] = {"null",     "true",      "false",   "a string",
                                        "a number", "an object", "an array"};
    static const char *const wanted[] = {"null",     "true or false", "a string", "a whole number",
                                         "a number", "an object",     "an array"};
    static const char *const fits[] = {"0", "12", "3", "4", "4", "5", "6"};

    for (int what = 0; what < 7; what++) {
        for (int v = 0; v < 7; v++) {
            struct json_reader r;
            struct redrive_err err;
            char text[40], message[100];
            snprintf(text, sizeof text, "[ %s]", values[v]);
            json_reader_init(&r, str_of(text), NULL);
            json_enter_array(&r);
            json_next_item(&r);
            int rc = read_as(&r, what);
            if (strchr(fits[what], '0' + v)) {
                assert_int_equal(rc, 0);
            } else {
                snprintf(message, sizeof message, "line 1, column 3: expected %s, found %s",
                         wanted[what], names[v]);
                assert_int_equal(rc, REDRIVE_E_INVALID);
                assert_int_equal(json_error(&r, &err), REDRIVE_E_INVALID);
                assert_string_equal(err.message, message);
            }
            json_reader_release(&r);
        }
    }
}

TEST(whatever_is_read_a_missing_value_is_malformed)
{
    static const char *const texts[] = {"", " ", "?", "]"};
    for (int what = 0; what < 7; what++) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            struct json_reader r;
            json_reader_init(&r, str_of(texts[i]), NULL);
            assert_int_equal(read_as(&r, what), REDRIVE_E_PARSE);
            json_reader_release(&r);
        }
    }
}

TEST(malformed_values_are_refused_by_their_own_reader)
{
    static const struct {
        const char *text;
        int what;
    } cases[] = {{"nil", 0}, {"tru", 1}, {"folse", 1}, {"\"\\q\"", 2}, {"-", 3}, {"1.e1", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_reader r;
        json_reader_init(&r, str_of(cases[i].text), NULL);
        assert_int_equal(read_as(&r, cases[i].what), REDRIVE_E_PARSE);
        json_reader_release(&r);
    }
}

TEST(the_first_error_sticks)
{
    struct json_reader r;
    struct json_string s;
    struct redrive_err err;

    json_reader_init(&r, STR("[1,{\"a\":x}]"), NULL);
    json_enter_array(&r);
    json_next_item(&r);
    assert_int_equal(json_read_string(&r, &s), REDRIVE_E_INVALID);
    for (int what = 0; what < 7; what++)
        assert_int_equal(read_as(&r, what), REDRIVE_E_INVALID);
    assert_int_equal(json_peek(&r), REDRIVE_E_INVALID);
    assert_int_equal(json_skip(&r, NULL), REDRIVE_E_INVALID);
    assert_int_equal(json_next_key(&r, &s), REDRIVE_E_INVALID);
    assert_int_equal(json_next_item(&r), REDRIVE_E_INVALID);
    assert_int_equal(json_end(&r), REDRIVE_E_INVALID);
    assert_int_equal(json_fail(&r, REDRIVE_E_RANGE, "later"), REDRIVE_E_INVALID);
    assert_int_equal(json_error(&r, &err), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "line 1, column 2: expected a string, found a number");
    json_reader_release(&r);
}

TEST(the_caller_may_fail_the_reader_at_what_it_read_last)
{
    static const struct {
        int steps;
        const char *message;
    } cases[] = {
        {0, "line 1, column 1: no good: a?b"},  /* nothing read yet */
        {1, "line 1, column 1: no good: a?b"},  /* entered */
        {2, "line 2, column 2: no good: a?b"},  /* the key */
        {3, "line 2, column 6: no good: a?b"},  /* a skipped container: where it begins */
        {4, "line 2, column 14: no good: a?b"}, /* left: the bracket */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_reader r;
        struct json_string key;
        struct redrive_err err;
        json_reader_init(&r, STR("{\n \"a\":[1, [2]]}"), NULL);
        if (cases[i].steps > 0)
            json_enter_object(&r);
        if (cases[i].steps > 1)
            json_next_key(&r, &key);
        if (cases[i].steps > 2)
            json_skip(&r, NULL);
        if (cases[i].steps > 3)
            json_next_key(&r, &key);
        assert_int_equal(json_fail(&r, REDRIVE_E_UNKNOWN, "no good: %s", "a\033b"),
                         REDRIVE_E_UNKNOWN);
        assert_int_equal(json_error(&r, &err), REDRIVE_E_UNKNOWN);
        assert_string_equal(err.message, cases[i].message);
        json_reader_release(&r);
    }
}

TEST(long_messages_are_cut_between_characters_or_marked)
{
    struct json_reader r;
    struct redrive_err err;
    char text[400];
    for (size_t pad = 0; pad < 4; pad++) {
        memset(text, 'x', pad);
        for (size_t i = pad; i + 4 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        json_reader_init(&r, STR("1"), NULL);
        json_fail(&r, REDRIVE_E_INVALID, "%s", text);
        json_error(&r, &err);
        assert_true(strlen(err.message) < 256);
        assert_true(strlen(err.message) > 150);
        assert_true(utf8_valid(str_of(err.message)));
        json_reader_release(&r);
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

TEST(nesting_is_allowed_up_to_its_limit)
{
    for (unsigned max = 0; max <= 84; max += 7) {
        struct json_limits limits = {.max_depth = max};
        unsigned most = max == 0 ? JSON_MAX_DEPTH : max > JSON_DEPTH_LIMIT ? JSON_DEPTH_LIMIT : max;
        for (unsigned depth = most; depth <= most + 1; depth++) {
            char text[200];
            struct redrive_err err;
            for (unsigned i = 0; i < depth; i++) {
                text[i] = '[';
                text[depth + i] = ']';
            }
            int rc = json_check((struct str){text, 2 * depth}, &limits, &err);
            assert_int_equal(rc, depth > most ? REDRIVE_E_TOO_DEEP : 0);
            if (rc < 0) {
                char message[100];
                snprintf(message, sizeof message,
                         "line 1, column %u: expected at most %u levels of nesting, found one more",
                         depth, most);
                assert_string_equal(err.message, message);
            }
        }
    }
}

TEST(a_hundred_thousand_brackets_are_refused_early)
{
    const size_t n = 100000;
    char *text = malloc(n * 5);
    assert_non_null(text);
    memset(text, '[', n);
    assert_int_equal(json_check((struct str){text, n}, NULL, NULL), REDRIVE_E_TOO_DEEP);
    for (size_t i = 0; i < n; i++)
        memcpy(text + 5 * i, "{\"a\":", 5);
    assert_int_equal(json_check((struct str){text, n * 5}, NULL, NULL), REDRIVE_E_TOO_DEEP);
    free(text);
}

TEST(text_is_allowed_up_to_its_size)
{
    struct redrive_err err;
    struct json_limits limits = {.max_bytes = 6};
    assert_int_equal(json_check(STR("[1, 2]"), &limits, NULL), 0);
    assert_int_equal(json_check(STR("[1, 2] "), &limits, &err), REDRIVE_E_TOO_BIG);
    assert_string_equal(err.message, "expected at most 6 bytes, found 7");
    limits.max_bytes = SIZE_MAX;
    assert_int_equal(json_check(STR("[1, 2]"), &limits, NULL), 0);
    /* Neither text is looked at, so neither needs to be there. */
    assert_int_equal(json_check((struct str){"", (size_t)JSON_MAX_BYTES + 1}, NULL, NULL),
                     REDRIVE_E_TOO_BIG);
    assert_int_equal(json_check((struct str){"", (size_t)UINT32_MAX + 1}, &limits, NULL),
                     REDRIVE_E_TOO_BIG);
}

/* ---- Strings --------------------------------------------------------------------------------- */

static struct json_string string_of(const char *text)
{
    struct json_reader r;
    struct json_string s;
    json_reader_init(&r, str_of(text), NULL);
    assert_int_equal(json_read_string(&r, &s), 0);
    assert_int_equal(json_end(&r), 0);
    json_reader_release(&r);
    return s;
}

TEST(escapes_are_decoded)
{
    static const struct {
        const char *text, *decoded;
    } cases[] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"a\\u00e9b\\u20AC\"", "a\xC3\xA9"
                                 "b\xE2\x82\xAC"},
        {"\"\\uD83D\\uDE00!\"", "\xF0\x9F\x98\x80!"},
        {"\"\\uDBFF\\uDFFF\"", "\xF4\x8F\xBF\xBF"},
        {"\"\\ud800\\udc00\"", "\xF0\x90\x80\x80"},
        {"\"\\\\u0041\"", "\\u0041"},
        {"\"\xC3\xA9\\n\"", "\xC3\xA9\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_string s = string_of(cases[i].text);
        struct buf out;
        buf_init(&out, 100);
        assert_int_equal(s.escaped, strchr(cases[i].text, '\\') != NULL);
        assert_int_equal(json_unescape(s, &out), 0);
        check_str(buf_str(&out), cases[i].decoded);
        assert_true(json_string_is(s, cases[i].decoded));
        assert_false(json_string_is(s, "something else"));
        buf_release(&out);
    }
}

TEST(nul_is_a_character_like_others)
{
    struct json_string s = string_of("\"a\\u0000b\"");
    struct buf out;
    buf_init(&out, 100);
    assert_int_equal(json_unescape(s, &out), 0);
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "a\0b", 3);
    assert_false(json_string_is(s, "a"));
    assert_false(json_string_is(s, "ab"));
    buf_release(&out);
}

TEST(unescape_reports_a_full_buffer)
{
    struct buf out;
    buf_init(&out, 3);
    assert_int_equal(json_unescape(string_of("\"ab\\ncd\""), &out), REDRIVE_E_TOO_BIG);
    buf_reset(&out);
    assert_int_equal(json_unescape((struct json_string){0}, &out), 0);
    buf_release(&out);
}

TEST(equality_is_of_the_decoded_text)
{
    assert_true(json_string_is(string_of("\"\\u0069d\""), "id"));
    assert_false(json_string_is(string_of("\"\\u0069d\""), "i"));
    assert_false(json_string_is(string_of("\"\\u0069d\""), "ids"));
    assert_false(json_string_is(string_of("\"\\u20AC\""), "\xE2"));
    assert_true(json_string_is(string_of("\"id\""), "id"));
    assert_false(json_string_is(string_of("\"id\""), "ie"));
}

/* Sixteen bytes are looked at together: each place in and around them must count. */
TEST(a_special_byte_is_found_wherever_it_stands)
{
    for (size_t len = 0; len < 50; len++) {
        char text[60];
        memset(text, 'a', sizeof text);
        text[0] = '"';
        text[len + 1] = '"';
        assert_int_equal(check_exact((struct str){text, len + 2}, NULL), 0);
        assert_int_equal(check_exact((struct str){text, len + 1}, NULL), REDRIVE_E_PARSE);
        for (size_t at = 1; at <= len; at++) {
            static const char special[] = "\x1F\x00\n\"\\\x80\xFF";
            for (size_t i = 0; i < sizeof special - 1; i++) {
                text[at] = special[i];
                assert_int_equal(check_exact((struct str){text, len + 2}, NULL), REDRIVE_E_PARSE);
            }
            text[at] = '\x7F';
            assert_int_equal(check_exact((struct str){text, len + 2}, NULL), 0);
            text[at] = 'a';
        }
    }
}

/* ---- Members --------------------------------------------------------------------------------- */

TEST(members_are_listed_with_decoded_names_and_the_text_of_values)
{
    struct arena arena = {0};
    struct json_member *members;
    size_t n;
    assert_int_equal(json_read_members(STR("{\"a\": {\"x\": [1, 2]}, \"b\\u0020c\":null}"), NULL,
                                       &arena, &members, &n, NULL),
                     0);
    assert_int_equal(n, 2);
    check_str(members[0].name, "a");
    check_str(members[0].value, "{\"x\": [1, 2]}");
    check_str(members[1].name, "b c");
    check_str(members[1].value, "null");
    assert_int_equal(json_read_members(STR(" {} "), NULL, &arena, &members, &n, NULL), 0);
    assert_int_equal(n, 0);
    static const char *const BAD[] = {
        "", "[]", "5", "{", "{\"a\": }", "{} {}", "{\"a\":1,\"a\":2}"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct redrive_err err = {0};
        assert_true(json_read_members(str_of(BAD[i]), NULL, &arena, &members, &n, &err) < 0);
        assert_int_equal(n, 0);
        assert_true(*err.message);
    }
    arena_release(&arena);
}
