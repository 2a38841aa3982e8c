/* Options by their types, and by one letter. */
#include "line.h"

/* ---- Types ----------------------------------------------------------------------------------- */

TEST(options_not_given_have_their_defaults)
{
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

TEST(string_takes_the_next_word_or_what_follows_the_equals_sign)
{
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

static const char HINT[] = "leave the option away, or look at the variable it came from";

TEST(string_may_look_like_an_option_and_is_not_empty)
{
    refuse(READ("simulate", "--profile="), "--profile: it is empty", "", HINT);
    refuse(READ("simulate", "-p", ""), "-p: it is empty", "", HINT);
    ACCEPT(dashed, "simulate", "--profile", "--json");
    assert_string_equal(options(dashed)->profile, "--json");
    assert_false(globals(dashed)->json);
    done(dashed);
    ACCEPT(equals, "simulate", "--profile=a=b");
    assert_string_equal(options(equals)->profile, "a=b");
    done(equals);
}

TEST(int_is_taken_up_to_its_bounds)
{
    ACCEPT(least, "simulate", "--count", "1");
    assert_int_equal(options(least)->count, 1);
    done(least);
    ACCEPT(greatest, "simulate", "-n100");
    assert_int_equal(options(greatest)->count, 100);
    done(greatest);
    refuse(READ("simulate", "--count", "0"), "--count: '0' is out of range",
           "expected a whole number from 1 to 100", "");
    refuse(READ("simulate", "-n", "101"), "-n: '101' is out of range",
           "expected a whole number from 1 to 100", "");
    refuse(READ("simulate", "-n", "99999999999999999999"),
           "-n: '99999999999999999999' is out of range", "expected a whole number from 1 to 100",
           "");
}

TEST(int_without_bounds_takes_the_whole_type)
{
    ACCEPT(greatest, "simulate", "--any", "9223372036854775807");
    assert_true(options(greatest)->any == INT64_MAX);
    done(greatest);
    ACCEPT(least, "simulate", "--any=-9223372036854775808");
    assert_true(options(least)->any == INT64_MIN);
    done(least);
    refuse(READ("simulate", "--any", "9223372036854775808"),
           "--any: '9223372036854775808' is out of range", "expected a whole number", "");
}

TEST(int_refuses_what_is_not_a_whole_number)
{
    static const char *const WRONG[] = {"-", "x", "1x", " 1", "1 ", "+1", "1.0", "0x10", "--1"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char message[64];
        snprintf(message, sizeof message, "--any: '%s' is not a whole number", WRONG[i]);
        refuse(READ("simulate", "--any", WRONG[i]), message, "expected a whole number", "");
    }
}

TEST(int_with_a_lower_bound_only_says_so)
{
    struct redrive_err err = {0};
    int64_t value = 7;
    const struct field o = {.name = "n", .kind = &FIELD_INT, .min = 1, .max = INT64_MAX};
    assert_int_equal(option_store(&o, &value, "--n", "0", &err), REDRIVE_E_USAGE);
    assert_string_equal(err.detail, "expected a whole number, at least 1");
    assert_int_equal(value, 7);
}

TEST(double_is_taken_within_its_bounds)
{
    ACCEPT(zero, "simulate", "--rate", "0");
    assert_true(options(zero)->rate == 0);
    done(zero);
    ACCEPT(one, "simulate", "--rate", "1");
    assert_true(options(one)->rate == 1);
    done(one);
    ACCEPT(small, "simulate", "--rate=2.5e-1");
    assert_true(options(small)->rate == 0.25);
    done(small);
    refuse(READ("simulate", "--rate", "1.01"), "--rate: '1.01' is out of range",
           "expected a number from 0 to 1", "");
    refuse(READ("simulate", "--rate", "-0.1"), "--rate: '-0.1' is out of range",
           "expected a number from 0 to 1", "");
    refuse(READ("simulate", "--rate", "1e999"), "--rate: '1e999' is out of range",
           "expected a number from 0 to 1", "");
}

TEST(double_refuses_what_is_not_a_plain_number)
{
    static const char *const WRONG[] = {"nan", "inf", "0x1p3", "1,5", " 1", "1 ",
                                        ".",   "e5",  "+1",    "1e",  "-"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char message[64];
        snprintf(message, sizeof message, "--rate: '%s' is not a number", WRONG[i]);
        refuse(READ("simulate", "--rate", WRONG[i]), message, "expected a number from 0 to 1", "");
    }
}

TEST(double_without_bounds_must_still_be_finite)
{
    struct redrive_err err = {0};
    double value = 0;
    const struct field o = {.name = "x", .kind = &FIELD_DOUBLE};
    assert_int_equal(option_store(&o, &value, "--x", "-1e300", &err), 0);
    assert_true(value == -1e300);
    assert_int_equal(option_store(&o, &value, "--x", "1e400", &err), REDRIVE_E_USAGE);
    assert_string_equal(err.message, "--x: '1e400' is out of range");
}

TEST(duration_is_taken_in_milliseconds_within_its_bounds)
{
    ACCEPT(least, "simulate", "--delay", "100ms");
    assert_int_equal(options(least)->delay_ms, 100);
    done(least);
    ACCEPT(greatest, "simulate", "--delay=1m");
    assert_int_equal(options(greatest)->delay_ms, 60000);
    done(greatest);
    refuse(READ("simulate", "--delay", "99ms"), "--delay: '99ms' is out of range",
           "expected a duration such as 500ms, 2m or 1h30m, from 100ms to 1m", "");
    refuse(READ("simulate", "--delay", "2h"), "--delay: '2h' is out of range",
           "expected a duration such as 500ms, 2m or 1h30m, from 100ms to 1m", "");
}

TEST(duration_without_a_unit_is_refused_in_the_name_of_the_option)
{
    struct line *l = READ("simulate", "--delay", "5");
    assert_int_equal(l->rc, REDRIVE_E_USAGE);
    assert_int_equal(strncmp(l->err.message, "--delay: ", 9), 0);
    assert_true(strlen(l->err.message) > 9);
    done(l);
}

TEST(choice_is_the_index_of_the_word)
{
    ACCEPT(l, "simulate", "--strategy", "exponential", "--mode=fixed");
    assert_int_equal(options(l)->strategy, 0);
    assert_int_equal(options(l)->mode, 2);
    done(l);
}

TEST(choice_suggests_the_nearest_word)
{
    refuse(READ("simulate", "--strategy", "liner"), "--strategy: there is no 'liner'",
           "expected one of exponential, linear, fixed", "did you mean 'linear'?");
    refuse(READ("simulate", "--strategy", "exp"), "--strategy: there is no 'exp'",
           "expected one of exponential, linear, fixed", "did you mean 'exponential'?");
    refuse(READ("simulate", "--strategy="), "--strategy: it is empty",
           "expected one of exponential, linear, fixed", HINT);
}

TEST(list_keeps_every_value_in_order)
{
    ACCEPT(l, "simulate", "-la", "--label", "b", "t", "--label=");
    assert_int_equal(options(l)->labels.n, 3);
    assert_string_equal(options(l)->labels.items[0], "a");
    assert_string_equal(options(l)->labels.items[1], "b");
    assert_string_equal(options(l)->labels.items[2], "");
    done(l);
}

TEST(flag_takes_no_value)
{
    ACCEPT(l, "simulate", "--jitter");
    assert_true(options(l)->jitter);
    done(l);
    refuse(READ("simulate", "--jitter=yes"), "--jitter takes no value", "", "");
    refuse(READ("simulate", "--jitter="), "--jitter takes no value", "", "");
    refuse(READ("simulate", "--no-jitter=no"), "--no-jitter takes no value", "", "");
}

TEST(flag_is_negated_only_if_it_says_so)
{
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

TEST(last_of_several_counts)
{
    ACCEPT(l, "-c", "a", "simulate", "-n1", "--count", "2", "--config=b");
    assert_int_equal(options(l)->count, 2);
    assert_string_equal(globals(l)->config, "b");
    done(l);
}

/* ---- Short options --------------------------------------------------------------------------- */

TEST(short_flags_share_a_word)
{
    ACCEPT(l, "simulate", "-jv");
    assert_true(options(l)->jitter);
    assert_true(options(l)->verbose);
    done(l);
}

TEST(last_letter_of_a_word_may_take_a_value)
{
    ACCEPT(joined, "simulate", "-jvn5");
    assert_true(options(joined)->verbose);
    assert_int_equal(options(joined)->count, 5);
    done(joined);
    ACCEPT(apart, "simulate", "-jn", "6", "t");
    assert_int_equal(options(apart)->count, 6);
    assert_int_equal(apart->inv.n_args, 1);
    done(apart);
}

TEST(unknown_letter_is_named_with_its_word)
{
    refuse(READ("simulate", "-x"), "unknown option -x", "",
           "write '--' before '-x' if it is an argument");
    refuse(READ("simulate", "-jx"), "unknown option -x", "in '-jx'",
           "write '--' before '-jx' if it is an argument");
    refuse(READ("-1"), "unknown option -1", "", "write '--' before '-1' if it is an argument");
}

TEST(long_option_with_one_dash_gets_the_second)
{
    refuse(READ("policy", "show", "-json"), "unknown option -j", "in '-json'",
           "did you mean --json?");
    refuse(READ("-help=x"), "unknown option -e", "in '-help=x'",
           "write '--' before '-help=x' if it is an argument");
}

/* ---- Missing values -------------------------------------------------------------------------- */

TEST(missing_value_shows_what_is_missing)
{
    refuse(READ("simulate", "--count"), "--count needs a value", "", "write --count N");
    refuse(READ("simulate", "-jn"), "-n needs a value", "", "write -n N");
    refuse(READ("--config"), "--config needs a value", "", "write --config FILE");
    refuse(READ("simulate", "--any"), "--any needs a value", "", "write --any VALUE");
    refuse(READ("--retry-max-delay"), "--retry-max-delay needs a value", "",
           "write --retry-max-delay TIME");
}
