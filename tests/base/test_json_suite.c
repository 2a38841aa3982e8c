/* What is JSON and what is not, case by case, and a document cut at every byte. */
#include "base/json/json.h"

#include "check.h"
#include "test_json.h"

#include <stdio.h>

/* Cases hold NUL bytes, so each carries its length. */
#define CASE(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }

static const struct str ACCEPTED[] = {
    /* structure */
    CASE("{}"),
    CASE("[]"),
    CASE(" [ ] "),
    CASE("\t\r\n [\t]\r\n"),
    CASE("{ }"),
    CASE("[[]]"),
    CASE("[[],[[]]]"),
    CASE("[{}]"),
    CASE("{\"a\":{}}"),
    CASE("{\"a\":[]}"),
    CASE("{\"\":0}"),
    CASE("{\"a\":1,\"b\":2}"),
    CASE("{ \"a\" : 1 , \"b\" : 2 }"),
    CASE("{\"a\":\n1}"),
    CASE("[1,2,3]"),
    CASE("[ 1 , 2 , 3 ]"),
    CASE("[null,true,false]"),
    CASE("{\"a\":1,\"A\":2}"),
    CASE("{\"a\":{\"a\":{\"a\":1}}}"),
    CASE("[{\"a\":1},{\"a\":1}]"),
    CASE("{\"a\":{\"b\":1},\"b\":{\"a\":1}}"),
    CASE("{\"a\\u0000\":1,\"a\":2}"),
    CASE("{\"\\u0000\":1,\"\":2}"),
    /* lone values */
    CASE("null"),
    CASE("true"),
    CASE("false"),
    CASE(" null "),
    CASE("0"),
    CASE("\"\""),
    CASE("\"lone\""),
    /* numbers */
    CASE("-0"),
    CASE("0.0"),
    CASE("-0.0"),
    CASE("1"),
    CASE("-1"),
    CASE("10"),
    CASE("1234567890"),
    CASE("9223372036854775807"),
    CASE("-9223372036854775808"),
    CASE("9223372036854775808"),
    CASE("123456789012345678901234567890"),
    CASE("0.1"),
    CASE("1.5"),
    CASE("1.0000000000000000000000000000000000000001"),
    CASE("0e0"),
    CASE("0E0"),
    CASE("0e+1"),
    CASE("0e-1"),
    CASE("1e5"),
    CASE("1E5"),
    CASE("1e+5"),
    CASE("1E-5"),
    CASE("1.5e5"),
    CASE("1.5E+5"),
    CASE("-1.5e-5"),
    CASE("1e00005"),
    CASE("1e400"),
    CASE("-1e400"),
    CASE("1e-400"),
    CASE("123e45678901234567890"),
    CASE("[1 ]"),
    CASE("[-0]"),
    /* strings */
    CASE("\"a\""),
    CASE("\" \""),
    CASE("\"/\""),
    CASE("\"\\/\""),
    CASE("\"\\\"\""),
    CASE("\"\\\\\""),
    CASE("\"\\b\\f\\n\\r\\t\""),
    CASE("\"\\\\n\""),
    CASE("\"\\u0000\""),
    CASE("\"\\u001f\""),
    CASE("\"\\u0022\""),
    CASE("\"\\u005C\""),
    CASE("\"\\uABCD\\uabcd\\uAbCd\""),
    CASE("\"\\uFFFF\""),
    CASE("\"\\uFFFE\""),
    CASE("\"\\uFDD0\""),
    CASE("\"\\u2028\\u2029\""),
    CASE("\"\\uD7FF\""),
    CASE("\"\\uE000\""),
    CASE("\"\\uD800\\uDC00\""),
    CASE("\"\\uDBFF\\uDFFF\""),
    CASE("\"\\ud83d\\ude00\""),
    CASE("\"\\uD83D\\uDE00\\uD83D\\uDE00\""),
    CASE("\"\x7F\""),
    CASE("\"\xC2\x80\""),
    CASE("\"\xC3\xA9\""),
    CASE("\"\xDF\xBF\""),
    CASE("\"\xE0\xA0\x80\""),
    CASE("\"\xE2\x82\xAC\""),
    CASE("\"\xED\x9F\xBF\""),
    CASE("\"\xEE\x80\x80\""),
    CASE("\"\xEF\xBB\xBF\""),
    CASE("\"\xEF\xBF\xBF\""),
    CASE("\"\xE2\x80\xA8\""),
    CASE("\"\xF0\x90\x80\x80\""),
    CASE("\"\xF0\x9F\x98\x80\""),
    CASE("\"\xF4\x8F\xBF\xBF\""),
    CASE("\"// not a comment /* nor this */\""),
    CASE("\"[{,:}]\""),
    CASE("\"'\""),
    CASE("{\"\\u00e9\":1,\"e\":2}"),
    CASE("{\"\\\"\":1,\"\\\\\":2}"),
};

static const struct str REFUSED[] = {
    /* nothing, or more than a value */
    CASE(""),
    CASE(" "),
    CASE("\n"),
    CASE("\0"),
    CASE("{}\0"),
    CASE("{}{}"),
    CASE("{} {}"),
    CASE("[],"),
    CASE("[]]"),
    CASE("{}}"),
    CASE("1 1"),
    CASE("1,"),
    CASE("null null"),
    CASE("\"a\"b"),
    CASE("\"a\" \"b\""),
    CASE("true#"),
    CASE("[1]x"),
    /* byte order marks and other encodings */
    CASE("\xEF\xBB\xBF{}"),
    CASE("\xEF\xBB\xBF"),
    CASE("{}\xEF\xBB\xBF"),
    CASE("\xFE\xFF\0[\0]"),
    CASE("\xFF\xFE[\0]\0"),
    CASE("[\0]\0"),
    CASE("[\xC2\xA0]"),
    CASE("[\xE2\x81\xA0]"),
    CASE("[\xE2\x80\xA8]"),
    CASE("\v[]"),
    CASE("[\f]"),
    CASE("[\x1A]"),
    CASE("[\xE5]"),
    /* structure */
    CASE("["),
    CASE("]"),
    CASE("{"),
    CASE("}"),
    CASE("[["),
    CASE("[]["),
    CASE("[}"),
    CASE("{]"),
    CASE("[{]}"),
    CASE("{[}]"),
    CASE("["
         "\"a\""),
    CASE("[\"a\","),
    CASE("[,]"),
    CASE("[,1]"),
    CASE("[1,]"),
    CASE("[1,,2]"),
    CASE("[1,,]"),
    CASE("[1 2]"),
    CASE("[1:2]"),
    CASE("[\"a\":1]"),
    CASE("[1;2]"),
    CASE(","),
    CASE(":"),
    CASE("*"),
    CASE("[*]"),
    CASE("{,}"),
    CASE("{\"a\"}"),
    CASE("{\"a\":}"),
    CASE("{:1}"),
    CASE("{\"a\"::1}"),
    CASE("{\"a\":1,}"),
    CASE("{\"a\":1,,\"b\":2}"),
    CASE("{,\"a\":1}"),
    CASE("{\"a\" \"b\"}"),
    CASE("{\"a\",1}"),
    CASE("{\"a\"=1}"),
    CASE("{\"a\":1 \"b\":2}"),
    CASE("{\"a\":1;\"b\":2}"),
    CASE("{\"a\":1:2}"),
    CASE("{a:1}"),
    CASE("{'a':1}"),
    CASE("{1:1}"),
    CASE("{null:1}"),
    CASE("{[]:1}"),
    CASE("{\"a\":1"),
    CASE("{\"a\":1]"),
    CASE("{\"a\""),
    CASE("{\"a"),
    CASE("{\"a\":\"b"),
    CASE("<null>"),
    CASE("[\n1\n,1"),
    CASE("(1)"),
    /* duplicate keys */
    CASE("{\"a\":1,\"a\":1}"),
    CASE("{\"a\":1,\"b\":2,\"a\":3}"),
    CASE("{\"\":1,\"\":2}"),
    CASE("{\"a\":1,\"\\u0061\":2}"),
    CASE("{\"\\u0061\":1,\"a\":2}"),
    CASE("{\"\\/\":1,\"/\":2}"),
    CASE("{\"\\u000a\":1,\"\\n\":2}"),
    CASE("{\"\\uD83D\\uDE00\":1,\"\xF0\x9F\x98\x80\":2}"),
    CASE("{\"\\u0000\":1,\"\\u0000\":2}"),
    CASE("{\"x\":{\"a\":1,\"a\":2}}"),
    CASE("[{\"a\":[{\"b\":1,\"b\":2}]}]"),
    CASE("{\"a\":{\"b\":1},\"a\":2}"),
    CASE("{\"0123456789\":1,\"0123456789\":2}"),
    /* comments */
    CASE("/**/1"),
    CASE("1/**/"),
    CASE("[1/*x*/]"),
    CASE("[1] // end"),
    CASE("# x\n1"),
    CASE("{\"a\":1 /* */}"),
    /* words */
    CASE("nul"),
    CASE("nulll"),
    CASE("Null"),
    CASE("NULL"),
    CASE("tru"),
    CASE("truee"),
    CASE("True"),
    CASE("TRUE"),
    CASE("fals"),
    CASE("falsee"),
    CASE("False"),
    CASE("nan"),
    CASE("NaN"),
    CASE("-NaN"),
    CASE("Infinity"),
    CASE("-Infinity"),
    CASE("inf"),
    CASE("undefined"),
    CASE("[truefalse]"),
    CASE("[nu,ll]"),
    CASE("n\0ull"),
    /* numbers */
    CASE("+1"),
    CASE("++1"),
    CASE("--1"),
    CASE("-"),
    CASE("- 1"),
    CASE("-a"),
    CASE("01"),
    CASE("-01"),
    CASE("00"),
    CASE("-00"),
    CASE("012"),
    CASE("0x1"),
    CASE("0x"),
    CASE("1x"),
    CASE("1."),
    CASE("-1."),
    CASE(".1"),
    CASE("-.1"),
    CASE("1..2"),
    CASE("1.2.3"),
    CASE("1.e1"),
    CASE("0.e1"),
    CASE("1e"),
    CASE("1E"),
    CASE("1e+"),
    CASE("1e-"),
    CASE("1e+-1"),
    CASE("1ee1"),
    CASE("1e1.5"),
    CASE("0e"),
    CASE("1.0e"),
    CASE("1eE2"),
    CASE("1 000"),
    CASE("1,000"),
    CASE("1_000"),
    CASE("0b1"),
    CASE("1f"),
    CASE("1L"),
    CASE("$1"),
    CASE("\xEF\xBC\x91"),
    CASE("1\xE5"),
    CASE("1e1\xE5"),
    CASE("[1+2]"),
    CASE("[0 .1]"),
    /* strings */
    CASE("\""),
    CASE("\"a"),
    CASE("'a'"),
    CASE("\"a'"),
    CASE("`a`"),
    CASE("\xE2\x80\x9C"
         "a\xE2\x80\x9D"),
    CASE("a"),
    CASE("\"\\\""),
    CASE("\"\\"),
    CASE("\"\\\\\\\""),
    CASE("\"\\a\""),
    CASE("\"\\v\""),
    CASE("\"\\0\""),
    CASE("\"\\x41\""),
    CASE("\"\\'\""),
    CASE("\"\\ \""),
    CASE("\"\\\n\""),
    CASE("\"\\\0\""),
    CASE("\"\\U0041\""),
    CASE("\"\\u\""),
    CASE("\"\\u"),
    CASE("\"\\u0"),
    CASE("\"\\u00"),
    CASE("\"\\u000"),
    CASE("\"\\u004\""),
    CASE("\"\\u004g\""),
    CASE("\"\\u 041\""),
    CASE("\"\\u-041\""),
    CASE("\"\\u+041\""),
    CASE("\"\\u{41}\""),
    CASE("\"\\uD800\""),
    CASE("\"\\uD800"),
    CASE("\"\\uD800\\"),
    CASE("\"\\uD800\\u"),
    CASE("\"\\uD800\\uDC0"),
    CASE("\"\\uD800\\n\""),
    CASE("\"\\uD800x\""),
    CASE("\"\\uD800\\uD800\""),
    CASE("\"\\uD800\\u0041\""),
    CASE("\"\\uD800\\uE000\""),
    CASE("\"\\uDBFF\""),
    CASE("\"\\uDC00\""),
    CASE("\"\\uDFFF\""),
    CASE("\"\\uDC00\\uD800\""),
    CASE("\"\\uDC00\\uDC00\""),
    CASE("\"\\uD800\xED\xB0\x80\""),
    CASE("\"\0\""),
    CASE("\"a\0b\""),
    CASE("\"\x01\""),
    CASE("\"\x1F\""),
    CASE("\"\t\""),
    CASE("\"\n\""),
    CASE("\"\r\""),
    CASE("{\"\n\":1}"),
    CASE("\"\x80\""),
    CASE("\"\xBF\""),
    CASE("\"\xC0\x80\""),
    CASE("\"\xC0\xAF\""),
    CASE("\"\xC1\xBF\""),
    CASE("\"\xC3\""),
    CASE("\"\xC3("),
    CASE("\"\xC3\x28\""),
    CASE("\"\xE0\x80\xAF\""),
    CASE("\"\xE0\x9F\xBF\""),
    CASE("\"\xE2\x82\""),
    CASE("\"\xE2\x28\xA1\""),
    CASE("\"\xED\xA0\x80\""),
    CASE("\"\xED\xBF\xBF\""),
    CASE("\"\xED\xA0\x80\xED\xB0\x80\""),
    CASE("\"\xF0\x80\x80\xAF\""),
    CASE("\"\xF0\x8F\xBF\xBF\""),
    CASE("\"\xF0\x9F\x98\""),
    CASE("\"\xF4\x90\x80\x80\""),
    CASE("\"\xF5\x80\x80\x80\""),
    CASE("\"\xF8\x88\x80\x80\x80\""),
    CASE("\"\xFC\x84\x80\x80\x80\x80\""),
    CASE("\"\xFE\""),
    CASE("\"\xFF\""),
    CASE("\"a\xC3"),
    CASE("{\"\xFF\":1}"),
};

/* A failing case is worth seeing. */
static void show(const char *what, struct str text)
{
    fprintf(stderr, "%s: ", what);
    for (size_t i = 0; i < text.len; i++)
        fprintf(stderr, text.ptr[i] >= 0x20 && text.ptr[i] < 0x7F ? "%c" : "\\x%02x",
                (unsigned char)text.ptr[i]);
    fputc('\n', stderr);
}

/* The text as it is, and as a part of something larger where that makes no difference. */
static void check_in_places(struct str text, int expected)
{
    static const char *const around[][2] = {
        {"", ""},
        {"[", "]"},
        {"{\"k\":", "}"},
        {"[1,", " ,1]"},
        {"{\"k\":[0,{\"l\":", "}],\"m\":\"a string to follow\"}"}};
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
        char joined[200];
        size_t before = strlen(around[i][0]), after = strlen(around[i][1]);
        memcpy(joined, around[i][0], before);
        memcpy(joined + before, text.ptr, text.len);
        memcpy(joined + before + text.len, around[i][1], after);
        struct str whole = {joined, before + text.len + after};
        int rc = check_exact(whole, NULL);
        if (rc != expected)
            show(expected == 0 ? "refused" : "accepted", whole);
        assert_int_equal(rc, expected);
        if (expected != 0)
            break;
    }
}

TEST(what_is_json_is_accepted)
{
    assert_true(sizeof ACCEPTED / sizeof ACCEPTED[0] >= 90);
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof ACCEPTED[0]; i++)
        check_in_places(ACCEPTED[i], 0);
}

TEST(what_is_not_is_refused)
{
    assert_true(sizeof REFUSED / sizeof REFUSED[0] >= 200);
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        check_in_places(REFUSED[i], REDRIVE_E_PARSE);
}

TEST(every_lone_byte_but_a_digit_is_refused)
{
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool digit = c >= '0' && c <= '9';
        assert_int_equal(check_exact((struct str){&c, 1}, NULL), digit ? 0 : REDRIVE_E_PARSE);
    }
}

static const char SAMPLE[] =
    "{\"id\":\"0190f3c2-7b1e\", \"payload\": {\"name\":\"M\xC3\xBCller \\u00e9\\uD83D\\uDE00\\n\","
    "\"n\":[0,-1.5e+10,true,false,null,{}],\"empty\":\"\"}, \"attempts\" : 3 }";

TEST(a_document_cut_anywhere_is_refused)
{
    const size_t len = sizeof SAMPLE - 1;
    assert_int_equal(check_exact((struct str){SAMPLE, len}, NULL), 0);
    for (size_t cut = 0; cut < len; cut++) {
        struct redrive_err err;
        assert_int_equal(check_exact((struct str){SAMPLE, cut}, &err), REDRIVE_E_PARSE);
        assert_int_equal(check_exact((struct str){SAMPLE + cut + 1, len - cut - 1}, NULL),
                         REDRIVE_E_PARSE);
    }
}

TEST(space_may_stand_between_any_two_tokens)
{
    static const char *const tokens[] = {"{", "\"a\"", ":",     "[", "1", ",", "true",
                                         "]", ",",     "\"b\"", ":", "{", "}", "}"};
    char text[300] = "";
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        strcat(text, " \t\r\n");
        strcat(text, tokens[i]);
    }
    strcat(text, "\n\n  ");
    assert_int_equal(check_exact(str_of(text), NULL), 0);
}

TEST(megabytes_are_read_as_well)
{
    struct buf b;
    buf_init(&b, 8u << 20);
    buf_puts(&b, "[\"");
    for (int i = 0; i < 1000000; i++)
        buf_puts(&b, "abc");
    buf_puts(&b, "\",");
    for (int i = 0; i < 500000; i++)
        buf_puts(&b, "1234");
    for (int i = 0; i < 100000; i++)
        buf_puts(&b, ",[{}]");
    buf_puts(&b, "]");
    assert_int_equal(buf_failed(&b), 0);
    assert_int_equal(json_check(buf_str(&b), NULL, NULL), 0);
    buf_release(&b);
}
