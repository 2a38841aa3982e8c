#include "check.h"

#include "cli/output/table.h"
#include "cli/output/term.h"

static struct table table;
static struct buf out;

/* The n-th allocation from now fails; 0: none does. */
static int fails_at;
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
    return fails_at > 0 && --fails_at == 0 ? NULL : __real_realloc(old, size);
}

static int setup(void **state)
{
    (void)state;
    table_init(&table, ">ATTEMPT|TASK|MESSAGE");
    buf_init(&out, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    table_release(&table);
    buf_release(&out);
    return 0;
}

static void add_row(const char *attempt, const char *task, const char *message)
{
    table_add(&table, attempt);
    table_add(&table, task);
    table_add(&table, message);
}

static const char *render(unsigned width)
{
    buf_reset(&out);
    assert_int_equal(table_render(&table, width, false, &out), 0);
    return buf_cstr(&out);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

/* ---- Width ----------------------------------------------------------------------------------- */

FIXTURE_TEST(width_counts_columns_not_bytes)
{
    assert_int_equal(text_width(STR("")), 0);
    assert_int_equal(text_width(STR("abc")), 3);
    assert_int_equal(text_width(STR("äöü€")), 4);
    assert_int_equal(text_width(STR("日本語")), 6);
    assert_int_equal(text_width(STR("e\xCC\x81")), 1); /* e and a combining accent */
    assert_int_equal(text_width(STR("\U0001F600")), 2);
    assert_int_equal(text_width(STR("한글")), 4);
}

FIXTURE_TEST(broken_utf8_counts_one_for_each_broken_character)
{
    assert_int_equal(text_width(STR("a\xFF"
                                    "b")),
                     3);
    assert_int_equal(text_width(STR("\xE2\x82")), 1);
}

FIXTURE_TEST(fit_never_splits_a_character)
{
    check_str(text_fit(STR("abc"), 2), "ab");
    check_str(text_fit(STR("日本"), 3), "日");
    check_str(text_fit(STR("日本"), 4), "日本");
    check_str(text_fit(STR("e\xCC\x81x"), 1), "e\xCC\x81");
    check_str(text_fit(STR("abc"), 0), "");
}

FIXTURE_TEST(cleaned_text_cannot_steer_a_terminal)
{
    text_add_clean(&out, STR("a\nb\tc\033[31md\x7F\xC2\x9B"
                             "e\xFF€"));
    assert_string_equal(buf_cstr(&out), "a b c?[31md??e?€");
}

FIXTURE_TEST(wrapping_fills_lines_and_indents)
{
    text_add_wrapped(&out, STR("one two three four"), 4, 4, 12);
    assert_string_equal(buf_cstr(&out), "one two\n    three\n    four");
}

FIXTURE_TEST(wrapping_keeps_line_breaks_and_leaves_long_words_whole)
{
    text_add_wrapped(&out, STR("a unbreakable b\n\n  as  it  is indeed\nc"), 0, 2, 5);
    assert_string_equal(buf_cstr(&out), "a\n  unbreakable\n  b\n\n    as  it  is indeed\n  c");
}

/* ---- Tables ---------------------------------------------------------------------------------- */

FIXTURE_TEST(columns_are_aligned_and_numbers_stand_right)
{
    add_row("1", "thumbnail", "ok");
    add_row("12", "x", "no such file");
    assert_string_equal(render(0), "ATTEMPT  TASK       MESSAGE\n"
                                   "      1  thumbnail  ok\n"
                                   "     12  x          no such file\n");
}

FIXTURE_TEST(table_without_rows_has_its_heading)
{
    assert_string_equal(render(0), "ATTEMPT  TASK  MESSAGE\n");
}

FIXTURE_TEST(wide_characters_keep_columns_straight)
{
    add_row("1", "日本", "a");
    add_row("2", "über", "b");
    assert_string_equal(render(0), "ATTEMPT  TASK  MESSAGE\n"
                                   "      1  日本  a\n"
                                   "      2  über  b\n");
}

FIXTURE_TEST(last_column_is_cut_to_the_width)
{
    add_row("1", "t", "connection refused");
    assert_string_equal(render(30), "ATTEMPT  TASK  MESSAGE\n"
                                    "      1  t     connection ref…\n");
    assert_string_equal(render(33), "ATTEMPT  TASK  MESSAGE\n"
                                    "      1  t     connection refused\n");
    add_row("2", "t", "日本日本日本日本日本");
    assert_non_null(strstr(render(30), "      2  t     日本日本日本日…\n"));
    assert_non_null(strstr(render(31), "      2  t     日本日本日本日…\n"));
}

FIXTURE_TEST(last_column_keeps_a_least_width)
{
    add_row("1", "t", "connection refused");
    assert_non_null(strstr(render(5), "      1  t     connect…\n"));
}

FIXTURE_TEST(pipe_gets_whole_cells)
{
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    add_row("1", "t", text);
    assert_non_null(strstr(render(0), text));
}

FIXTURE_TEST(cell_stays_on_its_line)
{
    add_row("1", "a\nb", "\033[2J");
    assert_non_null(strstr(render(0), "      1  a b   ?[2J\n"));
}

FIXTURE_TEST(unfinished_row_is_filled)
{
    table_addf(&table, "%d", 7);
    table_add(&table, NULL);
    assert_string_equal(render(0), "ATTEMPT  TASK  MESSAGE\n"
                                   "      7        \n");
}

FIXTURE_TEST(colour_does_not_disturb_the_columns)
{
    table_add(&table, "1");
    table_add_styled(&table, STYLE_RED, "dead");
    table_add(&table, "m");
    assert_int_equal(table_render(&table, 0, true, &out), 0);
    assert_string_equal(buf_cstr(&out),
                        "\033[1mATTEMPT\033[0m  \033[1mTASK\033[0m  \033[1mMESSAGE\033[0m\n"
                        "      1  \033[31mdead\033[0m  m\n");
}

FIXTURE_TEST(output_over_its_limit_is_an_error)
{
    struct buf small;
    buf_init(&small, 16);
    add_row("1", "t", "m");
    assert_int_equal(table_render(&table, 0, false, &small), REDRIVE_E_TOO_BIG);
    buf_release(&small);
}

FIXTURE_TEST(cell_that_there_is_no_memory_for_fails_the_table)
{
    for (int n = 1; fails_at == 0; n++) {
        buf_release(&out);
        table_release(&table);
        table_init(&table, ">ATTEMPT|TASK|MESSAGE");
        add_row("1", "a", "b");
        fails_at = n;
        const int rc = table_render(&table, 80, false, &out);
        assert_int_equal(rc, fails_at == 0 ? REDRIVE_E_NOMEM : 0);
    }
    fails_at = 0;
}
