#include "check.h"

#include "base/json/json.h"
#include "base/json/writer.h"

static void check_compact(const char *text, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    json_compact(str_of(text), &out);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

static void check_indent(const char *text, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    json_indent(str_of(text), 2, &out);
    assert_string_equal(buf_cstr(&out), expected);
    assert_int_equal(json_check(buf_str(&out), NULL, NULL), 0);
    buf_release(&out);
}

TEST(compact_takes_out_space_between_tokens_only)
{
    check_compact(" { \"a b\" : [ 1 ,\n\t2.50 ] ,\r\n \"c\" : { } } ",
                  "{\"a b\":[1,2.50],\"c\":{}}");
    check_compact("\"x  \\\" [ , y\\\\\"", "\"x  \\\" [ , y\\\\\"");
    check_compact("  true  ", "true");
    check_compact("[null,\"\\\\\",  -1e5]", "[null,\"\\\\\",-1e5]");
    check_compact("", "");
}

TEST(indent_gives_every_item_a_line)
{
    check_indent("{\"a\":[1,2],\"b\":{},\"c\":[ ],\"d\":\"{,}\"}", "{\n"
                                                                   "    \"a\": [\n"
                                                                   "      1,\n"
                                                                   "      2\n"
                                                                   "    ],\n"
                                                                   "    \"b\": {},\n"
                                                                   "    \"c\": [],\n"
                                                                   "    \"d\": \"{,}\"\n"
                                                                   "  }");
    check_indent("[[]]", "[\n    []\n  ]");
    check_indent("17", "17");
}
