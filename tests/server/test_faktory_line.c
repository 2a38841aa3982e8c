#include "check.h"

#include "redrive.h"
#include "server/faktory/format/request.h"

static int next(const char *text, struct faktory_line *line, size_t *used)
{
    size_t scanned = 0;
    return faktory_line_next(str_of(text), 64, &scanned, line, used);
}

TEST(a_line_is_a_verb_and_arguments)
{
    struct faktory_line line;
    size_t used;
    assert_int_equal(next("PUSH {\"a\": 1}\r\nrest", &line, &used), 1);
    check_str(line.verb, "PUSH");
    check_str(line.args, "{\"a\": 1}");
    assert_int_equal(used, 15);
    assert_int_equal(next("INFO\n", &line, &used), 1);
    check_str(line.verb, "INFO");
    check_str(line.args, "");
    assert_int_equal(used, 5);
    assert_int_equal(next("\r\n", &line, &used), 1);
    check_str(line.verb, "");
    assert_int_equal(next(" x\n", &line, &used), 1);
    check_str(line.verb, "");
    check_str(line.args, "x");
}

TEST(an_unfinished_line_is_looked_at_once)
{
    struct faktory_line line;
    size_t used, scanned = 0;
    assert_int_equal(faktory_line_next(STR("ACK {"), 64, &scanned, &line, &used), 0);
    assert_int_equal(scanned, 5);
    assert_int_equal(faktory_line_next(STR("ACK {}\r\n"), 64, &scanned, &line, &used), 1);
    check_str(line.args, "{}");
    assert_int_equal(scanned, 0);
}

TEST(a_long_line_is_refused_before_it_ends)
{
    struct faktory_line line;
    size_t used, scanned = 0;
    char text[80];
    memset(text, 'x', sizeof text);
    assert_int_equal(faktory_line_next((struct str){text, 80}, 64, &scanned, &line, &used),
                     REDRIVE_E_TOO_BIG);
    scanned = 0;
    assert_int_equal(faktory_line_next((struct str){text, 65}, 64, &scanned, &line, &used), 0);
    text[64] = '\r';
    text[65] = '\n';
    scanned = 0;
    assert_int_equal(faktory_line_next((struct str){text, 66}, 64, &scanned, &line, &used), 1);
    text[64] = 'x';
    scanned = 0;
    assert_int_equal(faktory_line_next((struct str){text, 66}, 64, &scanned, &line, &used),
                     REDRIVE_E_TOO_BIG);
}

TEST(words_stand_between_blanks)
{
    struct str rest = STR("  critical default  bulk ");
    struct str word;
    assert_true(faktory_word_next(&rest, &word));
    check_str(word, "critical");
    assert_true(faktory_word_next(&rest, &word));
    check_str(word, "default");
    assert_true(faktory_word_next(&rest, &word));
    check_str(word, "bulk");
    assert_false(faktory_word_next(&rest, &word));
}

TEST(names_have_no_control_characters)
{
    char text[256];
    memset(text, 'q', sizeof text);
    assert_true(faktory_is_name((struct str){text, 255}));
    assert_false(faktory_is_name((struct str){text, 256}));
    assert_false(faktory_is_name(STR("")));
    assert_false(faktory_is_name(STR("a\0b")));
    assert_false(faktory_is_name(STR("a\tb")));
    assert_false(faktory_is_name(STR("\xff")));
    assert_true(faktory_is_name(STR("\xc3\xa4")));
}

TEST(replies_are_resp)
{
    struct buf out;
    buf_init(&out, 4096);
    faktory_put_ok(&out);
    faktory_put_nil(&out);
    faktory_put_bulk(&out, STR("{}"));
    faktory_put_bulk(&out, STR(""));
    faktory_put_error(&out, "bad\r\n+OK %s", "x\ny");
    check_str(buf_str(&out), "+OK\r\n$-1\r\n$2\r\n{}\r\n$0\r\n\r\n-ERR bad  +OK x y\r\n");
    buf_release(&out);
}
