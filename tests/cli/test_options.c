#include "check.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/text/buf.h"
#include "cli/frame/command.h"
#include "cli/frame/options.h"
#include "fake.h"

/* A command line that has been read, and what was said about it. */
struct line {
    struct invocation inv;
    struct redrive_err err;
    int rc;
};

static struct line *read_line(const char *const *words, size_t n)
{
    static struct line line;
    line = (struct line){0};
    fake_source_log[0] = '\0';
    line.rc = invocation_parse(&line.inv, &FAKE_ROOT, &FAKE_SOURCE, words, n, &line.err);
    return &line;
}

/* READ("simulate", "t"): the words after the name of the program. */
#define READ(...)                                 \
    read_line((const char *const[]){__VA_ARGS__}, \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static const struct fake_globals *globals(const struct line *l)
{
    return l->inv.values[0];
}

static const struct fake_options *options(const struct line *l)
{
    return invocation_options(&l->inv);
}

static void done(struct line *l)
{
    invocation_release(&l->inv);
}

/* The line must be read without complaint; returns its options. */
#define ACCEPT(l, ...)                       \
    struct line *l = READ(__VA_ARGS__);      \
    assert_string_equal(l->err.message, ""); \
    assert_int_equal(l->rc, 0)

static void refuse(struct line *l, const char *message, const char *detail, const char *hint)
{
    assert_string_equal(l->err.message, message);
    assert_string_equal(l->err.detail, detail);
    assert_string_equal(l->err.hint, hint);
    assert_int_equal(l->rc, REDRIVE_E_USAGE);
    assert_int_equal(l->err.code, REDRIVE_E_USAGE);
    done(l);
}

static void refuse_arguments(struct line *l, const char *message, const char *detail,
                             const char *hint)
{
    assert_int_equal(l->rc, 0);
    l->rc = invocation_check(&l->inv, &l->err);
    refuse(l, message, detail, hint);
}

/* ---- Types ----------------------------------------------------------------------------------- */

static void options_not_given_have_their_defaults(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "t");
    assert_null(options(l)->profile);
    assert_int_equal(options(l)->count, 10);
    assert_int_equal(options(l)->any, 0);
    assert_true(options(l)->rate == 0.5);
    assert_int_equal(options(l)->delay_ms, 1000);
    assert_int_equal(options(l)->strategy, 1);
    assert_int_equal(options(l)->mode, -1);
    assert_int_equal(options(l)->labels.n, 0);
    assert_false(options(l)->jitter);
    assert_false(invocation_given(&l->inv, "count"));
    done(l);
}

static void string_takes_the_next_word_or_what_follows_the_equals_sign(void **state)
{
    (void)state;
    static const char *const FORMS[][2] = {
        {"--profile=a b", NULL}, {"--profile", "a b"}, {"-pa b", NULL}, {"-p", "a b"}};
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        const char *words[] = {"simulate", FORMS[i][0], FORMS[i][1]};
        struct line *l = read_line(words, FORMS[i][1] ? 3 : 2);
        assert_int_equal(l->rc, 0);
        assert_string_equal(options(l)->profile, "a b");
        assert_true(invocation_given(&l->inv, "profile"));
        assert_false(invocation_given(&l->inv, "json"));
        done(l);
    }
}

static void string_may_be_empty_and_may_look_like_an_option(void **state)
{
    (void)state;
    ACCEPT(empty, "simulate", "--profile=");
    assert_string_equal(options(empty)->profile, "");
    done(empty);
    ACCEPT(dashed, "simulate", "--profile", "--json");
    assert_string_equal(options(dashed)->profile, "--json");
    assert_false(globals(dashed)->json);
    done(dashed);
    ACCEPT(equals, "simulate", "--profile=a=b");
    assert_string_equal(options(equals)->profile, "a=b");
    done(equals);
}

static void int_is_taken_up_to_its_bounds(void **state)
{
    (void)state;
    ACCEPT(least, "simulate", "--count", "1");
    assert_int_equal(options(least)->count, 1);
    done(least);
    ACCEPT(greatest, "simulate", "-n100");
    assert_int_equal(options(greatest)->count, 100);
    done(greatest);
    refuse(READ("simulate", "--count", "0"), "--count: 0 is out of range",
           "it must be from 1 to 100", "");
    refuse(READ("simulate", "-n", "101"), "-n: 101 is out of range", "it must be from 1 to 100",
           "");
    refuse(READ("simulate", "-n", "99999999999999999999"),
           "-n: 99999999999999999999 is out of range", "it must be from 1 to 100", "");
}

static void int_without_bounds_takes_the_whole_type(void **state)
{
    (void)state;
    ACCEPT(greatest, "simulate", "--any", "9223372036854775807");
    assert_true(options(greatest)->any == INT64_MAX);
    done(greatest);
    ACCEPT(least, "simulate", "--any=-9223372036854775808");
    assert_true(options(least)->any == INT64_MIN);
    done(least);
    refuse(READ("simulate", "--any", "9223372036854775808"),
           "--any: 9223372036854775808 is too large a number", "", "");
}

static void int_refuses_what_is_not_a_whole_number(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"", "-", "x", "1x", " 1", "1 ", "+1", "1.0", "0x10", "--1"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char message[64];
        snprintf(message, sizeof message, "--any: '%s' is not a whole number", WRONG[i]);
        refuse(READ("simulate", "--any", WRONG[i]), message, "", "");
    }
}

static void int_with_a_lower_bound_only_says_so(void **state)
{
    (void)state;
    struct redrive_err err = {0};
    int64_t value = 7;
    const struct option o = {.name = "n", .type = OPTION_INT, .min = 1, .max = INT64_MAX};
    assert_int_equal(option_store(&o, &value, "--n", "0", &err), REDRIVE_E_USAGE);
    assert_string_equal(err.detail, "it must be at least 1");
    assert_int_equal(value, 7);
}

static void double_is_taken_within_its_bounds(void **state)
{
    (void)state;
    ACCEPT(zero, "simulate", "--rate", "0");
    assert_true(options(zero)->rate == 0);
    done(zero);
    ACCEPT(one, "simulate", "--rate", "1");
    assert_true(options(one)->rate == 1);
    done(one);
    ACCEPT(small, "simulate", "--rate=2.5e-1");
    assert_true(options(small)->rate == 0.25);
    done(small);
    refuse(READ("simulate", "--rate", "1.01"), "--rate: 1.01 is out of range",
           "it must be from 0 to 1", "");
    refuse(READ("simulate", "--rate", "-0.1"), "--rate: -0.1 is out of range",
           "it must be from 0 to 1", "");
    refuse(READ("simulate", "--rate", "1e999"), "--rate: 1e999 is out of range",
           "it must be from 0 to 1", "");
}

static void double_refuses_what_is_not_a_plain_number(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"",   "nan", "inf", "0x1p3", "1,5", " 1",
                                        "1 ", ".",   "e5",  "+1",    "1e",  "-"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char message[64];
        snprintf(message, sizeof message, "--rate: '%s' is not a number", WRONG[i]);
        refuse(READ("simulate", "--rate", WRONG[i]), message, "", "");
    }
}

static void double_without_bounds_must_still_be_finite(void **state)
{
    (void)state;
    struct redrive_err err = {0};
    double value = 0;
    const struct option o = {.name = "x", .type = OPTION_DOUBLE};
    assert_int_equal(option_store(&o, &value, "--x", "-1e300", &err), 0);
    assert_true(value == -1e300);
    assert_int_equal(option_store(&o, &value, "--x", "1e400", &err), REDRIVE_E_USAGE);
    assert_string_equal(err.message, "--x: 1e400 is too large a number");
}

static void duration_is_taken_in_milliseconds_within_its_bounds(void **state)
{
    (void)state;
    ACCEPT(least, "simulate", "--delay", "100ms");
    assert_int_equal(options(least)->delay_ms, 100);
    done(least);
    ACCEPT(greatest, "simulate", "--delay=1m");
    assert_int_equal(options(greatest)->delay_ms, 60000);
    done(greatest);
    refuse(READ("simulate", "--delay", "99ms"), "--delay: 99ms is out of range",
           "it must be from 100ms to 1m", "");
    refuse(READ("simulate", "--delay", "2h"), "--delay: 2h is out of range",
           "it must be from 100ms to 1m", "");
}

static void duration_without_a_unit_is_refused_in_the_name_of_the_option(void **state)
{
    (void)state;
    struct line *l = READ("simulate", "--delay", "5");
    assert_int_equal(l->rc, REDRIVE_E_USAGE);
    assert_int_equal(strncmp(l->err.message, "--delay: ", 9), 0);
    assert_true(strlen(l->err.message) > 9);
    done(l);
}

static void choice_is_the_index_of_the_word(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "--strategy", "exponential", "--mode=fixed");
    assert_int_equal(options(l)->strategy, 0);
    assert_int_equal(options(l)->mode, 2);
    done(l);
}

static void choice_suggests_the_nearest_word(void **state)
{
    (void)state;
    refuse(READ("simulate", "--strategy", "liner"), "--strategy: 'liner' is not one of its values",
           "it takes exponential, linear, fixed", "did you mean linear?");
    refuse(READ("simulate", "--strategy", "exp"), "--strategy: 'exp' is not one of its values",
           "it takes exponential, linear, fixed", "did you mean exponential?");
    refuse(READ("simulate", "--strategy="), "--strategy: '' is not one of its values",
           "it takes exponential, linear, fixed", "");
}

static void list_keeps_every_value_in_order(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "-la", "--label", "b", "t", "--label=");
    assert_int_equal(options(l)->labels.n, 3);
    assert_string_equal(options(l)->labels.items[0], "a");
    assert_string_equal(options(l)->labels.items[1], "b");
    assert_string_equal(options(l)->labels.items[2], "");
    done(l);
}

static void flag_takes_no_value(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "--jitter");
    assert_true(options(l)->jitter);
    done(l);
    refuse(READ("simulate", "--jitter=yes"), "--jitter takes no value", "", "");
    refuse(READ("simulate", "--jitter="), "--jitter takes no value", "", "");
    refuse(READ("simulate", "--no-jitter=no"), "--no-jitter takes no value", "", "");
}

static void flag_is_negated_only_if_it_says_so(void **state)
{
    (void)state;
    ACCEPT(off, "simulate", "--jitter", "--no-jitter");
    assert_false(options(off)->jitter);
    assert_true(invocation_given(&off->inv, "jitter"));
    done(off);
    ACCEPT(on, "simulate", "--no-jitter", "-j");
    assert_true(options(on)->jitter);
    done(on);
    refuse(READ("simulate", "--no-verbose"), "unknown option --no-verbose", "",
           "did you mean --verbose?");
}

static void last_of_several_counts(void **state)
{
    (void)state;
    ACCEPT(l, "-c", "a", "simulate", "-n1", "--count", "2", "--config=b");
    assert_int_equal(options(l)->count, 2);
    assert_string_equal(globals(l)->config, "b");
    done(l);
}

/* ---- Short options --------------------------------------------------------------------------- */

static void short_flags_share_a_word(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "-jv");
    assert_true(options(l)->jitter);
    assert_true(options(l)->verbose);
    done(l);
}

static void last_letter_of_a_word_may_take_a_value(void **state)
{
    (void)state;
    ACCEPT(joined, "simulate", "-jvn5");
    assert_true(options(joined)->verbose);
    assert_int_equal(options(joined)->count, 5);
    done(joined);
    ACCEPT(apart, "simulate", "-jn", "6", "t");
    assert_int_equal(options(apart)->count, 6);
    assert_int_equal(apart->inv.n_args, 1);
    done(apart);
}

static void unknown_letter_is_named_with_its_word(void **state)
{
    (void)state;
    refuse(READ("simulate", "-x"), "unknown option -x", "",
           "write '--' before '-x' if it is an argument");
    refuse(READ("simulate", "-jx"), "unknown option -x", "in '-jx'",
           "write '--' before '-jx' if it is an argument");
    refuse(READ("-1"), "unknown option -1", "", "write '--' before '-1' if it is an argument");
}

static void long_option_with_one_dash_gets_the_second(void **state)
{
    (void)state;
    refuse(READ("policy", "show", "-json"), "unknown option -j", "in '-json'",
           "did you mean --json?");
    refuse(READ("-help=x"), "unknown option -e", "in '-help=x'",
           "write '--' before '-help=x' if it is an argument");
}

/* ---- Missing values -------------------------------------------------------------------------- */

static void missing_value_shows_what_is_missing(void **state)
{
    (void)state;
    refuse(READ("simulate", "--count"), "--count needs a value", "", "write --count N");
    refuse(READ("simulate", "-jn"), "-n needs a value", "", "write -n N");
    refuse(READ("--config"), "--config needs a value", "", "write --config FILE");
    refuse(READ("simulate", "--any"), "--any needs a value", "", "write --any VALUE");
    refuse(READ("--retry-max-delay"), "--retry-max-delay needs a value", "",
           "write --retry-max-delay TIME");
}

/* ---- Unknown words --------------------------------------------------------------------------- */

static void misspelt_option_gets_the_nearest(void **state)
{
    (void)state;
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

static void shortened_option_is_refused_with_a_hint(void **state)
{
    (void)state;
    refuse(READ("simulate", "--str", "fixed"), "unknown option --str", "",
           "did you mean --strategy?");
    refuse(READ("--retry-max", "1s"), "unknown option --retry-max", "",
           "did you mean --retry-max-delay?");
}

static void option_far_from_all_others_points_at_help(void **state)
{
    (void)state;
    refuse(READ("--zzzzzzzz"), "unknown option --zzzzzzzz", "",
           "run 'fake --help' to see the options");
    refuse(READ("policy", "show", "--zzzzzzzz"), "unknown option --zzzzzzzz", "",
           "run 'fake policy show --help' to see the options");
}

static void option_of_a_command_before_its_name_is_explained(void **state)
{
    (void)state;
    refuse(READ("--profile", "x", "simulate"), "unknown option --profile", "",
           "--profile belongs to 'fake simulate': write it after the command");
}

static void misspelt_command_gets_the_nearest(void **state)
{
    (void)state;
    refuse(READ("simulte"), "unknown command 'simulte'", "", "did you mean 'fake simulate'?");
    refuse(READ("sim"), "unknown command 'sim'", "", "did you mean 'fake simulate'?");
    refuse(READ("policy", "explian", "t"), "unknown command 'explian' of 'fake policy'", "",
           "did you mean 'fake policy explain'?");
    refuse(READ("zzzzzz"), "unknown command 'zzzzzz'", "", "run 'fake --help' to see its commands");
    refuse(READ(""), "unknown command ''", "", "run 'fake --help' to see its commands");
}

static void hidden_command_works_but_is_not_suggested(void **state)
{
    (void)state;
    ACCEPT(l, "ghost");
    done(l);
    refuse(READ("gost"), "unknown command 'gost'", "", "run 'fake --help' to see its commands");
}

static void very_long_words_are_cut_not_overrun(void **state)
{
    (void)state;
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

static void global_option_stands_anywhere(void **state)
{
    (void)state;
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

static void options_and_arguments_mix(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "t", "-n5", "f1", "--jitter", "f2");
    assert_int_equal(l->inv.n_args, 3);
    assert_string_equal(l->inv.args[0], "t");
    assert_string_equal(l->inv.args[2], "f2");
    assert_int_equal(options(l)->count, 5);
    done(l);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
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

static void one_dash_is_an_argument(void **state)
{
    (void)state;
    ACCEPT(l, "simulate", "-", "-j");
    assert_int_equal(l->inv.n_args, 1);
    assert_string_equal(l->inv.args[0], "-");
    done(l);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void number_of_arguments_follows_from_their_text(void **state)
{
    (void)state;
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

static void command_with_commands_needs_one(void **state)
{
    (void)state;
    refuse_arguments(READ("--json"), "no command given", "",
                     "run 'fake --help' to see its commands");
    refuse_arguments(READ("policy"), "'fake policy' needs a command", "",
                     "run 'fake policy --help' to see its commands");
}

static void argument_text_is_read_word_by_word(void **state)
{
    (void)state;
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

static void source_takes_what_no_table_knows(void **state)
{
    (void)state;
    ACCEPT(l, "--retry-max-delay", "5s", "simulate", "--retry-mode=x", "t", "--queue-file", "--q");
    assert_string_equal(fake_source_log, "retry-max-delay=5s;retry-mode=x;queue-file=--q;");
    assert_int_equal(l->inv.n_args, 1);
    done(l);
}

static void source_reports_in_the_name_of_the_option(void **state)
{
    (void)state;
    struct line *l = READ("simulate", "--retry-max-delay=wrong");
    assert_int_equal(l->rc, REDRIVE_E_CONFIG);
    assert_string_equal(l->err.message, "--retry-max-delay: 'wrong' is no duration");
    assert_string_equal(l->err.detail, "retry.max_delay is one");
    assert_string_equal(l->err.hint, "write 30s");
    assert_int_equal(redrive_err_exit_code(l->rc), 2);
    done(l);
}

static void line_without_a_source_is_read_by_the_tables(void **state)
{
    (void)state;
    struct invocation inv;
    struct redrive_err err = {0};
    const char *const words[] = {"--retry-max-delay=5s"};
    assert_int_equal(invocation_parse(&inv, &FAKE_ROOT, NULL, words, 1, &err), REDRIVE_E_USAGE);
    assert_string_equal(err.message, "unknown option --retry-max-delay");
    invocation_release(&inv);
}

/* Whatever is typed is either understood or refused with a reason, and never completes badly. */
static void random_lines_are_read_or_refused_with_a_reason(void **state)
{
    (void)state;
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

static void error_may_be_ignored(void **state)
{
    (void)state;
    struct invocation inv;
    const char *const words[] = {"simulate", "--count=0"};
    assert_int_equal(invocation_parse(&inv, &FAKE_ROOT, NULL, words, 2, NULL), REDRIVE_E_USAGE);
    invocation_release(&inv);
    invocation_release(&inv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(options_not_given_have_their_defaults),
        T(string_takes_the_next_word_or_what_follows_the_equals_sign),
        T(string_may_be_empty_and_may_look_like_an_option),
        T(int_is_taken_up_to_its_bounds),
        T(int_without_bounds_takes_the_whole_type),
        T(int_refuses_what_is_not_a_whole_number),
        T(int_with_a_lower_bound_only_says_so),
        T(double_is_taken_within_its_bounds),
        T(double_refuses_what_is_not_a_plain_number),
        T(double_without_bounds_must_still_be_finite),
        T(duration_is_taken_in_milliseconds_within_its_bounds),
        T(duration_without_a_unit_is_refused_in_the_name_of_the_option),
        T(choice_is_the_index_of_the_word),
        T(choice_suggests_the_nearest_word),
        T(list_keeps_every_value_in_order),
        T(flag_takes_no_value),
        T(flag_is_negated_only_if_it_says_so),
        T(last_of_several_counts),
        T(short_flags_share_a_word),
        T(last_letter_of_a_word_may_take_a_value),
        T(unknown_letter_is_named_with_its_word),
        T(long_option_with_one_dash_gets_the_second),
        T(missing_value_shows_what_is_missing),
        T(misspelt_option_gets_the_nearest),
        T(shortened_option_is_refused_with_a_hint),
        T(option_far_from_all_others_points_at_help),
        T(option_of_a_command_before_its_name_is_explained),
        T(misspelt_command_gets_the_nearest),
        T(hidden_command_works_but_is_not_suggested),
        T(very_long_words_are_cut_not_overrun),
        T(global_option_stands_anywhere),
        T(options_and_arguments_mix),
        T(two_dashes_end_the_options),
        T(one_dash_is_an_argument),
        T(number_of_arguments_follows_from_their_text),
        T(command_with_commands_needs_one),
        T(argument_text_is_read_word_by_word),
        T(source_takes_what_no_table_knows),
        T(source_reports_in_the_name_of_the_option),
        T(line_without_a_source_is_read_by_the_tables),
        T(random_lines_are_read_or_refused_with_a_reason),
        T(error_may_be_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
