#include "check.h"

#include "cli/frame/command.h"
#include "fake.h"

static struct buf out;

/* The answer for a line whose last word is the cursor's. */
static const char *answer(const char *const *words, size_t n)
{
    buf_release(&out);
    buf_init(&out, 65536);
    assert_int_equal(complete_line(&FAKE_ROOT, &FAKE_SOURCE, words, n, n - 1, &out, NULL), 0);
    return buf_cstr(&out);
}

#define ANSWER(...)                                    \
    answer((const char *const[]){"fake", __VA_ARGS__}, \
           sizeof((const char *const[]){"fake", __VA_ARGS__}) / sizeof(const char *))

static int teardown(void **state)
{
    (void)state;
    buf_release(&out);
    return 0;
}

#define FIXTURE_TEST(test) TEST_AROUND(test, NULL, teardown)

FIXTURE_TEST(commands_are_offered_but_not_hidden_ones)
{
    assert_string_equal(ANSWER(""), "simulate\npolicy\n");
    assert_string_equal(ANSWER("s"), "simulate\n");
    assert_string_equal(ANSWER("g"), "");
    assert_string_equal(ANSWER("--json", "policy", ""), "explain\nshow\n");
    assert_string_equal(ANSWER("-c", "policy", "p"), "policy\n");
}

FIXTURE_TEST(options_of_the_command_and_all_above_are_offered)
{
    assert_string_equal(ANSWER("-"), "--config\n--json\n--help\n--retry-max-delay\n--retry-mode\n"
                                     "--queue-file\n");
    assert_string_equal(ANSWER("policy", "show", "--j"), "--json\n");
    assert_string_equal(ANSWER("simulate", "--j"), "--jitter\n--json\n");
    assert_string_equal(ANSWER("simulate", "t", "--no"), "--no-jitter\n");
    assert_string_equal(ANSWER("simulate", "--retry-m"), "--retry-max-delay\n--retry-mode\n");
}

FIXTURE_TEST(values_of_a_choice_are_offered)
{
    assert_string_equal(ANSWER("simulate", "--strategy", ""), "exponential\nlinear\nfixed\n");
    assert_string_equal(ANSWER("simulate", "--strategy", "l"), "linear\n");
    assert_string_equal(ANSWER("--retry-mode", "f"), "fixed\n");
}

FIXTURE_TEST(value_after_an_equals_sign_is_completed_however_it_is_split)
{
    assert_string_equal(ANSWER("simulate", "--strategy", "="), "exponential\nlinear\nfixed\n");
    assert_string_equal(ANSWER("simulate", "--strategy", "=", "li"), "linear\n");
    assert_string_equal(ANSWER("simulate", "--strategy=li"), "--strategy=linear\n");
    assert_string_equal(ANSWER("simulate", "--strategy", "=", "linear", "--j"),
                        "--jitter\n--json\n");
    assert_string_equal(ANSWER("--nothing=x"), "");
    assert_string_equal(ANSWER("-=x"), "");
}

FIXTURE_TEST(file_names_fit_where_the_placeholder_says_so)
{
    assert_string_equal(ANSWER("--config", ""), ":files\n");
    assert_string_equal(ANSWER("-c", ""), ":files\n");
    assert_string_equal(ANSWER("--queue-file", ""), ":files\n");
    assert_string_equal(ANSWER("simulate", "-jc", ""), ":files\n");
    assert_string_equal(ANSWER("simulate", ""), "");
    assert_string_equal(ANSWER("simulate", "t", ""), ":files\n");
    assert_string_equal(ANSWER("simulate", "t", "f", "g"), ":files\n");
    assert_string_equal(ANSWER("simulate", "-p", ""), "");
    assert_string_equal(ANSWER("simulate", "-pn", "t", ""), ":files\n");
}

FIXTURE_TEST(nothing_is_an_option_after_two_dashes)
{
    assert_string_equal(ANSWER("simulate", "t", "--", "--j"), ":files\n");
    assert_string_equal(ANSWER("--", "pol"), "policy\n");
}

FIXTURE_TEST(wrong_line_gets_no_words)
{
    assert_string_equal(ANSWER("nothing", ""), "");
    assert_string_equal(ANSWER("policy", "show", ""), "");
}

FIXTURE_TEST(cursor_may_stand_behind_the_last_word_but_not_further)
{
    const char *const words[] = {"fake", "policy"};
    struct redrive_err err = {0};
    buf_init(&out, 65536);
    assert_int_equal(complete_line(&FAKE_ROOT, NULL, words, 2, 2, &out, &err), 0);
    assert_string_equal(buf_cstr(&out), "explain\nshow\n");
    assert_int_equal(complete_line(&FAKE_ROOT, NULL, words, 2, 3, &out, &err), REDRIVE_E_USAGE);
    assert_int_equal(complete_line(&FAKE_ROOT, NULL, words, 2, 0, &out, &err), REDRIVE_E_USAGE);
}
