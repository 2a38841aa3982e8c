#include "check.h"

#include "config/document/dotenv.h"

static void reads(const char *text, const char *name, const char *value)
{
    struct dotenv reader;
    struct dotenv_entry entry;
    struct redrive_err err;
    dotenv_init(&reader, str_of(text));
    if (dotenv_next(&reader, &entry, &err) != 1)
        fail_msg("%s: %s", text, err.message);
    check_str(entry.name, name);
    check_str(entry.value, value);
    assert_int_equal(dotenv_next(&reader, &entry, NULL), 0);
    dotenv_release(&reader);
}

static void refuses(const char *text, const char *message)
{
    struct dotenv reader;
    struct dotenv_entry entry;
    struct redrive_err err;
    dotenv_init(&reader, str_of(text));
    assert_int_equal(dotenv_next(&reader, &entry, &err), REDRIVE_E_PARSE);
    assert_string_equal(err.message, message);
    dotenv_release(&reader);
}

TEST(plain_values_end_at_a_comment)
{
    reads("A=b", "A", "b");
    reads("  A_1=b c  \n", "A_1", "b c");
    reads("A=b # c", "A", "b");
    reads("A=b#c", "A", "b#c");
    reads("A=", "A", "");
    reads("A= # nothing", "A", "");
    reads("A=b\r\n", "A", "b");
    reads("A=x=y", "A", "x=y");
    reads("_=1", "_", "1");
    reads("\xEF\xBB\xBF"
          "A=b",
          "A", "b");
}

TEST(export_is_allowed)
{
    reads("export A=b", "A", "b");
    reads("export\tA=b", "A", "b");
    reads("exported=1", "exported", "1");
}

TEST(nothing_is_expanded)
{
    reads("A=$HOME/x", "A", "$HOME/x");
    reads("A=\"${HOME} `id`\"", "A", "${HOME} `id`");
    reads("A='$(id)'", "A", "$(id)");
}

TEST(quotes_keep_what_is_inside)
{
    reads("A='b # c'", "A", "b # c");
    reads("A='\\n\"'", "A", "\\n\"");
    reads("A=\" b \"   # comment", "A", " b ");
    reads("A=\"x\\n\\t\\r\\\"\\\\\\$y\"", "A", "x\n\t\r\"\\$y");
    reads("A=''", "A", "");
}

TEST(what_is_not_understood_is_refused)
{
    refuses("A", "there is no '=' after the name");
    refuses("A =b", "there is no '=' after the name");
    refuses("=b", "the line does not begin with a name");
    refuses("1A=b", "the line does not begin with a name");
    refuses("A-B=c", "there is no '=' after the name");
    refuses("A='b", "the quote is not closed");
    refuses("A=\"b", "the quote is not closed");
    refuses("A=\"b\\", "the quote is not closed");
    refuses("A=\"b\\x\"", "unknown escape in double quotes");
    refuses("A='b'c", "there is text after the closing quote");
    refuses("A='b'#c", "there is text after the closing quote");
    refuses("A=\xFF", "the line is not UTF-8 text");
}

TEST(reading_goes_on_after_a_bad_line)
{
    struct dotenv reader;
    struct dotenv_entry entry;
    dotenv_init(&reader, STR("# one\n\nA=1\nwrong\nB=2"));
    assert_int_equal(dotenv_next(&reader, &entry, NULL), 1);
    assert_int_equal(entry.line, 3);
    assert_int_equal(dotenv_next(&reader, &entry, NULL), REDRIVE_E_PARSE);
    assert_int_equal(reader.line, 4);
    assert_int_equal(dotenv_next(&reader, &entry, NULL), 1);
    check_str(entry.name, "B");
    assert_int_equal(dotenv_next(&reader, &entry, NULL), 0);
    dotenv_release(&reader);
}
