#include "check.h"

#include <stdlib.h>

TEST(absent_and_empty_are_equal_in_bytes)
{
    assert_true(str_eq(str_of(NULL), STR("")));
    assert_false(str_eq(STR("a"), STR("b")));
    assert_false(str_eq(STR("a"), STR("ab")));
    assert_true(str_is(STR("ab"), "ab"));
}

TEST(case_is_ignored_for_ascii_only)
{
    assert_true(str_eq_nocase(STR("SIGKILL"), STR("sigkill")));
    assert_false(str_eq_nocase(STR("a"), STR("ab")));
    assert_false(str_eq_nocase(STR("\xC3\x84"), STR("\xC3\xA4")));
}

TEST(prefixes_and_contents_are_found)
{
    assert_true(str_starts_with(STR("40001"), STR("40")));
    assert_false(str_starts_with(STR("4"), STR("40")));
    assert_true(str_contains(STR("no such bucket"), STR("such")));
    assert_true(str_contains(STR("x"), STR("")));
    assert_false(str_contains(STR("x"), STR("xy")));
}

TEST(trim_takes_space_from_both_ends)
{
    check_str(str_trim(STR(" \t a b\r\n")), "a b");
    check_str(str_trim(STR("  ")), "");
}

TEST(copy_terminates_and_says_when_it_cut)
{
    char out[4];
    assert_true(str_copy(out, sizeof out, STR("abc")));
    assert_string_equal(out, "abc");
    assert_false(str_copy(out, sizeof out, STR("abcd")));
    assert_string_equal(out, "abc");
    assert_true(str_copy(out, sizeof out, STR("")));
    assert_string_equal(out, "");
}

TEST(copy_never_leaves_half_a_character)
{
    char out[4];
    assert_false(str_copy(out, sizeof out, STR("ab\xE2\x82\xAC")));
    assert_string_equal(out, "ab");
}

TEST(dup_copies_with_a_terminator)
{
    char *copy = str_dup((struct str){"abcdef", 3});
    assert_string_equal(copy, "abc");
    free(copy);
    copy = str_dup(str_of(NULL));
    assert_string_equal(copy, "");
    free(copy);
}

TEST(packed_strings_follow_each_other)
{
    char block[8];
    char *at = block;
    memset(block, 'x', sizeof block);
    assert_string_equal(str_pack(&at, STR("ab")), "ab");
    assert_string_equal(str_pack(&at, str_of(NULL)), "");
    assert_string_equal(str_pack(&at, (struct str){"cdefg", 2}), "cd");
    assert_memory_equal(block, "ab\0\0cd\0x", 8);
    assert_ptr_equal(at, block + 7);
}

TEST(globs_match_the_whole_text)
{
    assert_true(str_glob("Quota*", STR("QuotaExceededError")));
    assert_true(str_glob("*Timeout*", STR("java.net.SocketTimeoutException")));
    assert_true(str_glob("a?c", STR("abc")));
    assert_true(str_glob("*", STR("")));
    assert_true(str_glob("a*b*c", STR("aXbYbZc")));
    assert_false(str_glob("Quota", STR("QuotaExceededError")));
    assert_false(str_glob("a?c", STR("ac")));
    assert_false(str_glob("", STR("a")));
    assert_false(str_glob("a*b", STR("ac")));
}

TEST(a_hostile_glob_takes_no_time)
{
    char text[5000];
    memset(text, 'a', sizeof text);
    assert_false(str_glob("a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", (struct str){text, sizeof text}));
}

TEST(last_component_of_type_names)
{
    check_str(str_last_component(STR("httpx.ConnectError")), "ConnectError");
    check_str(str_last_component(STR("Net::ReadTimeout")), "ReadTimeout");
    check_str(str_last_component(STR("App\\Error\\Quota")), "Quota");
    check_str(str_last_component(STR("ValueError")), "ValueError");
    check_str(str_last_component(STR("")), "");
}

TEST(order_is_that_of_bytes)
{
    assert_int_equal(str_compare(STR("a"), STR("a")), 0);
    assert_int_equal(str_compare((struct str){0}, STR("")), 0);
    assert_true(str_compare(STR("a"), STR("ab")) < 0);
    assert_true(str_compare(STR("b"), STR("ab")) > 0);
    assert_true(str_compare(STR("\xff"), STR("a")) > 0);
    assert_true(str_compare(STR(""), STR("a")) < 0);
}
