/* Command lines: unknown words, places of options and arguments, and options of another source. */
#include "line.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/text/buf.h"

/* ---- Unknown words --------------------------------------------------------------------------- */

TEST(misspelt_option_gets_the_nearest)
{
    refuse(READ("simulate", "--profil"), "unknown option --profil", "", "did you mean --profile?");
    refuse(READ("simulate", "--profiel=x"), "unknown option --profiel", "",
           "did you mean --profile?");
    refuse(READ("--jsno"), "unknown option --jsno", "", "did you mean --json?");
    refuse(READ("simulate", "--retry-max-dealy=1s"), "unknown option --retry-max-dealy", "",
           "did you mean --retry-max-delay?");
    refuse(READ("simulate", "--retry_max_delay=1s"), "unknown option --retry_max_delay", "",
           "did you mean --retry-max-delay?");
    refuse(READ("simulate", "--=x"), "unknown option --", "",
           "run 'fake simulate --help' to see the options");
}

TEST(shortened_option_is_refused_with_a_hint)
{
    refuse(READ("simulate", "--str", "fixed"), "unknown option --str", "",
           "did you mean --strategy?");
    refuse(READ("--retry-max", "1s"), "unknown option --retry-max", "",
           "did you mean --retry-max-delay?");
}

TEST(option_far_from_all_others_points_at_help)
{
    refuse(READ("--zzzzzzzz"), "unknown option --zzzzzzzz", "",
           "run 'fake --help' to see the options");
    refuse(READ("policy", "show", "--zzzzzzzz"), "unknown option --zzzzzzzz", "",
           "run 'fake policy show --help' to see the options");
}

TEST(option_of_a_command_before_its_name_is_explained)
{
    refuse(READ("--profile", "x", "simulate"), "unknown option --profile", "",
           "--profile belongs to 'fake simulate': write it after the command");
}

TEST(misspelt_command_gets_the_nearest)
{
    refuse(READ("simulte"), "unknown command 'simulte'", "", "did you mean 'fake simulate'?");
    refuse(READ("sim"), "unknown command 'sim'", "", "did you mean 'fake simulate'?");
    refuse(READ("policy", "explian", "t"), "unknown command 'explian' of 'fake policy'", "",
           "did you mean 'fake policy explain'?");
    refuse(READ("zzzzzz"), "unknown command 'zzzzzz'", "", "run 'fake --help' to see its commands");
    refuse(READ(""), "unknown command ''", "", "run 'fake --help' to see its commands");
}

TEST(hidden_command_works_but_is_not_suggested)
{
    ACCEPT(l, "ghost");
    done(l);
    refuse(READ("gost"), "unknown command 'gost'", "", "run 'fake --help' to see its commands");
}

TEST(very_long_words_are_cut_not_overrun)
{
    char word[5000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    struct line *command = READ(word);
    assert_int_equal(command->rc, REDRIVE_E_USAGE);
    done(command);
    memcpy(word, "--", 2);
    struct line *option = READ(word);
    assert_int_equal(option->rc, REDRIVE_E_USAGE);
    done(option);
    memcpy(word, "--json=", 7);
    struct line *value = READ(word);
    assert_string_equal(value->err.message, "--json takes no value");
    done(value);
}

/* ---- Places ---------------------------------------------------------------------------------- */

TEST(global_option_stands_anywhere)
{
    static const char *const LINES[][6] = {
        {"-c", "f", "policy", "explain", "t", "--json"},
        {"--json", "policy", "-c", "f", "explain", "t"},
        {"--json", "policy", "explain", "-cf", "t", "--"},
        {"policy", "--json", "explain", "t", "-c", "f"},
        {"policy", "explain", "--config=f", "--json", "t", "--"},
    };
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        struct line *l = read_line(LINES[i], 6);
        assert_int_equal(l->rc, 0);
        assert_int_equal(invocation_check(&l->inv, NULL), 0);
        assert_string_equal(command_path_last(&l->inv.path)->name, "explain");
        assert_true(globals(l)->json);
        assert_string_equal(globals(l)->config, "f");
        assert_int_equal(l->inv.n_args, 1);
        assert_string_equal(l->inv.args[0], "t");
        done(l);
    }
}

TEST(options_and_arguments_mix)
{
    ACCEPT(l, "simulate", "t", "-n5", "f1", "--jitter", "f2");
    assert_int_equal(l->inv.n_args, 3);
    assert_string_equal(l->inv.args[0], "t");
    assert_string_equal(l->inv.args[2], "f2");
    assert_int_equal(options(l)->count, 5);
    done(l);
}

TEST(two_dashes_end_the_options)
{
    ACCEPT(l, "simulate", "--", "--jitter", "-n5", "--");
    assert_false(options(l)->jitter);
    assert_int_equal(l->inv.n_args, 3);
    assert_string_equal(l->inv.args[0], "--jitter");
    assert_string_equal(l->inv.args[2], "--");
    done(l);
    ACCEPT(early, "--", "simulate", "--jitter");
    assert_string_equal(command_path_last(&early->inv.path)->name, "simulate");
    assert_string_equal(early->inv.args[0], "--jitter");
    done(early);
}

TEST(one_dash_is_an_argument)
{
    ACCEPT(l, "simulate", "-", "-j");
    assert_int_equal(l->inv.n_args, 1);
    assert_string_equal(l->inv.args[0], "-");
    done(l);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

TEST(number_of_arguments_follows_from_their_text)
{
    const char usage[] = "usage: fake simulate [OPTIONS] TASK [FILE...]";
    refuse_arguments(READ("simulate"), "missing argument TASK", usage, "");
    for (size_t n = 1; n <= 3; n++) {
        struct line *l = read_line((const char *[]){"simulate", "a", "b", "c"}, n + 1);
        assert_int_equal(invocation_check(&l->inv, NULL), 0);
        done(l);
    }
    refuse_arguments(READ("policy", "explain", "a", "b", "c"), "unexpected argument 'b'",
                     "usage: fake policy explain [OPTIONS] TASK", "");
    refuse_arguments(READ("policy", "show", "a"), "unexpected argument 'a'",
                     "usage: fake policy show [OPTIONS]", "");
}

TEST(command_with_commands_needs_one)
{
    refuse_arguments(READ("--json"), "no command given", "",
                     "run 'fake --help' to see its commands");
    refuse_arguments(READ("policy"), "'fake policy' needs a command", "",
                     "run 'fake policy --help' to see its commands");
}

TEST(argument_text_is_read_word_by_word)
{
    const struct command c = {.arguments = "A  B... "};
    const struct command optional = {.arguments = "[A] [B...]"};
    struct argument a;
    assert_true(command_argument(&c, 0, &a));
    check_str(a.name, "A");
    assert_true(a.required && !a.repeated);
    assert_true(command_argument(&c, 1, &a));
    check_str(a.name, "B");
    assert_true(a.required && a.repeated);
    assert_true(command_argument(&c, 9, &a));
    assert_false(a.required);
    assert_true(command_argument(&optional, 0, &a));
    check_str(a.name, "A");
    assert_false(a.required || a.repeated);
    assert_true(command_argument(&optional, 5, &a));
    check_str(a.name, "B");
    assert_false(command_argument(&(struct command){0}, 0, &a));
}

/* ---- The source ------------------------------------------------------------------------------ */

TEST(source_takes_what_no_table_knows)
{
    ACCEPT(l, "--retry-max-delay", "5s", "simulate", "--retry-mode=x", "t", "--queue-file", "--q");
    assert_string_equal(fake_source_log, "retry-max-delay=5s;retry-mode=x;queue-file=--q;");
    assert_int_equal(l->inv.n_args, 1);
    done(l);
}

TEST(source_reports_in_the_name_of_the_option)
{
    struct line *l = READ("simulate", "--retry-max-delay=wrong");
    assert_int_equal(l->rc, REDRIVE_E_CONFIG);
    assert_string_equal(l->err.message, "--retry-max-delay: 'wrong' is no duration");
    assert_string_equal(l->err.detail, "retry.max_delay is one");
    assert_string_equal(l->err.hint, "write 30s");
    assert_int_equal(redrive_err_exit_code(l->rc), 2);
    done(l);
}

TEST(line_without_a_source_is_read_by_the_tables)
{
    struct invocation inv;
    struct redrive_err err = {0};
    const char *const words[] = {"--retry-max-delay=5s"};
    assert_int_equal(invocation_parse(&inv, &FAKE_ROOT, NULL, words, 1, &err), REDRIVE_E_USAGE);
    assert_string_equal(err.message, "unknown option --retry-max-delay");
    invocation_release(&inv);
}

/* Whatever is typed is either understood or refused with a reason, and never completes badly. */
TEST(random_lines_are_read_or_refused_with_a_reason)
{
    static const char *const WORDS[] = {
        "simulate", "policy",     "explain", "show",   "ghost",      "t",     "--",
        "-",        "--json",     "-c",      "-cx",    "--config",   "-jv",   "-jvn5",
        "--count",  "--count=0",  "7",       "--rate", "0.25",       "--no",  "--no-jitter",
        "-l",       "--label=a",  "--delay", "1s",     "--strategy", "fixed", "--strategy=",
        "--=",      "=",          "",        "-n",     "\xFF\xFE",   "-\xC3", "--retry-max-delay",
        "wrong",    "--retry-m=", "-h",      "--help", "--any=-1",   "---",   "--no-no-jitter",
    };
    const size_t n_words = sizeof WORDS / sizeof WORDS[0];
    struct rng rng;
    struct buf out;

    rng_seed(&rng, 42);
    buf_init(&out, 1 << 20);
    for (int i = 0; i < 20000; i++) {
        const char *words[9] = {"fake"};
        size_t n = rng_below(&rng, 9);
        for (size_t k = 0; k < n; k++)
            words[k + 1] = WORDS[rng_below(&rng, n_words)];
        struct line *l = read_line(words + 1, n);
        assert_int_equal(l->rc == 0, l->err.message[0] == '\0');
        if (l->rc == 0 && invocation_check(&l->inv, &l->err) < 0)
            assert_int_not_equal(l->err.message[0], '\0');
        done(l);
        buf_reset(&out);
        assert_int_equal(complete_line(&FAKE_ROOT, &FAKE_SOURCE, words, n + 1, n + 1, &out, NULL),
                         0);
    }
    buf_release(&out);
}

TEST(error_may_be_ignored)
{
    struct invocation inv;
    const char *const words[] = {"simulate", "--count=0"};
    assert_int_equal(invocation_parse(&inv, &FAKE_ROOT, NULL, words, 2, NULL), REDRIVE_E_USAGE);
    invocation_release(&inv);
    invocation_release(&inv);
}
