#include "base/time/duration.h"

#include "check.h"

#include <stdlib.h>

#include "base/rng.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define WEEK   (7 * DAY)

/* Parses a copy of exactly its size. */
static int parse(struct str text, int64_t *ret, struct redrive_err *err)
{
    char *copy = malloc(text.len ? text.len : 1);
    assert_non_null(copy);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    int rc = duration_parse((struct str){copy, text.len}, ret, err);
    free(copy);
    return rc;
}

TEST(durations_are_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"0ms", 0},
        {"0.0h", 0},
        {"1ms", 1},
        {"500ms", 500},
        {"1s", SECOND},
        {"90s", 90 * SECOND},
        {"2m", 2 * MINUTE},
        {"2min", 2 * MINUTE},
        {"1h", HOUR},
        {"1h30m", HOUR + 30 * MINUTE},
        {"1h30min", HOUR + 30 * MINUTE},
        {"1h05m", HOUR + 5 * MINUTE},
        {"1h90m", HOUR + 90 * MINUTE},
        {"7d", WEEK},
        {"1w", WEEK},
        {"1w2d3h4m5s6ms", WEEK + 2 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6},
        {"1w6ms", WEEK + 6},
        {"1.5s", 1500},
        {"0.001s", 1},
        {"1.000s", 1000},
        {"1.50000000000000000000000000000s", 1500},
        {"0.5h", 30 * MINUTE},
        {"1.25m", 75 * SECOND},
        {"1h1.5m", HOUR + 90 * SECOND},
        {"2.0ms", 2},
        {"0.0009765625w", 590625},
        {"0.00001w", 6048},
        {"36500d", DURATION_MAX_MS},
        {"3153600000000ms", DURATION_MAX_MS},
        {"PT0S", 0},
        {"PT1H30M", HOUR + 30 * MINUTE},
        {"P1DT12H", 36 * HOUR},
        {"P1D", DAY},
        {"PT0.5S", 500},
        {"PT36H", 36 * HOUR},
        {"PT1M", MINUTE},
        {"P0.5D", 12 * HOUR},
        {"P2W", 2 * WEEK},
        {"P1DT1H1M1.001S", DAY + HOUR + MINUTE + 1001},
        {"P36500D", DURATION_MAX_MS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -1;
        struct redrive_err err = {.code = 1};
        assert_int_equal(parse(str_of(cases[i].text), &ms, &err), 0);
        assert_true(ms == cases[i].ms);
        assert_int_equal(err.code, 1);
    }
}

TEST(anything_else_is_refused)
{
    static const char *const texts[] = {
        "",           " ",       "s",       "ms",
        "-1s",        "+1s",     "1 s",     " 1s",
        "1s ",        "1h 30m",  "1s,",     "1,5s",
        ".5s",        "1.s",     "1..5s",   "1.5.5s",
        "5",          "00",      "0.0",     "1.5",
        "1h30",       "1S",      "1H",      "1M",
        "1sec",       "1hour",   "1mo",     "1y",
        "1us",        "1ns",     "1msec",   "1mins",
        "30m1h",      "1s1m",    "1m1m",    "1m1min",
        "1ms1s",      "1s1s",    "1.5h30m", "1.0m1s",
        "0.5ms",      "1.0001s", "0.0001s", "0.00000000001w",
        "0.000001w",  "1e3s",    "0x1s",    "1s\n",
        "1\xC2\xB5s", "inf",     "nan",     "never",
        "s1",         "1h-30m",  "00:30",   "1:30",
        "P",          "PT",      "P1",      "PT1",
        "P1Y",        "P1M",     "P1H",     "PT1D",
        "PT1W",       "P1DT",    "P1D1W",   "P1W1D",
        "P1WT1H",     "PT1S1M",  "PT1S1S",  "PT1.5H1M",
        "PT1.0001S",  "p1d",     "Pt1s",    "P1d",
        "PT1h",       "P-1D",    "-P1D",    "P 1D",
        "P1DT1HT1M",  "PTT1H",   "PT1HS",   "P1D ",
        "PT.5S",      "PT1.S",   "PD",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t ms = -1;
        struct redrive_err err;
        assert_int_equal(parse(str_of(texts[i]), &ms, &err), REDRIVE_E_PARSE);
        assert_true(ms == -1);
        assert_int_equal(err.code, REDRIVE_E_PARSE);
        assert_non_null(
            strstr(err.message, "expected a duration such as 500ms, 2m or 1h30m, found \""));
        assert_true(err.detail[0] != '\0');
    }
    assert_int_equal(parse((struct str){"1s\0", 3}, NULL, NULL), REDRIVE_E_PARSE);
    assert_int_equal(duration_parse(str_of(NULL), NULL, NULL), REDRIVE_E_PARSE);
}

TEST(more_than_a_hundred_years_is_out_of_range)
{
    static const char *const texts[] = {
        "36501d",
        "36500d1ms",
        "3153600000001ms",
        "5214.3w",
        "99999999999999999999999999s",
        "9223372036854775807ms",
        "9223372036854775808ms",
        "18446744073709551616ms",
        "3153600000000w",
        "5215w",
        "36499d24h1ms",
        "P36501D",
        "P5215W",
        "PT9999999999H",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct redrive_err err;
        assert_int_equal(parse(str_of(texts[i]), NULL, &err), REDRIVE_E_RANGE);
        assert_non_null(strstr(err.message, "expected a duration of at most 36500d, found \""));
    }
}

TEST(a_refusal_says_what_is_wrong_and_what_may_be_meant)
{
    static const struct {
        const char *text, *message, *detail, *hint;
    } cases[] = {
        {"5", "expected a duration such as 500ms, 2m or 1h30m, found \"5\"",
         "a number without a unit", "add a unit: 5s"},
        {"1.5", "expected a duration such as 500ms, 2m or 1h30m, found \"1.5\"",
         "a number without a unit", "add a unit: 1.5s"},
        {"1h30", "expected a duration such as 500ms, 2m or 1h30m, found \"1h30\"",
         "a number without a unit", "add a unit: 1h30m"},
        {"1m30", "expected a duration such as 500ms, 2m or 1h30m, found \"1m30\"",
         "a number without a unit", "add a unit: 1m30s"},
        {"1ms30", "expected a duration such as 500ms, 2m or 1h30m, found \"1ms30\"",
         "a number without a unit", ""},
        {"5sec", "expected a duration such as 500ms, 2m or 1h30m, found \"5sec\"",
         "unknown unit \"sec\"", "the units are w, d, h, m, s and ms"},
        {"1h\x1b[2J", "expected a duration such as 500ms, 2m or 1h30m, found \"1h?[2J\"",
         "expected a number followed by a unit", ""},
        {"5 m", "expected a duration such as 500ms, 2m or 1h30m, found \"5 m\"",
         "expected a unit after the number", ""},
        {"1s1h", "expected a duration such as 500ms, 2m or 1h30m, found \"1s1h\"",
         "units go from the largest to the smallest, each at most once",
         "the units are w, d, h, m, s and ms"},
        {"0.5ms", "expected a duration such as 500ms, 2m or 1h30m, found \"0.5ms\"",
         "finer than a millisecond", ""},
        {"1.5h30m", "expected a duration such as 500ms, 2m or 1h30m, found \"1.5h30m\"",
         "only the last part may have a fraction", ""},
        {"P1Y", "expected a duration such as 500ms, 2m or 1h30m, found \"P1Y\"",
         "unknown unit \"Y\"", "after P: W or D; after T: H, M and S"},
        {"P1W1D", "expected a duration such as 500ms, 2m or 1h30m, found \"P1W1D\"",
         "weeks stand alone in ISO 8601", ""},
        {"a text that is much too long to be shown in full",
         "expected a duration such as 500ms, 2m or 1h30m, found \"a text that is much too long "
         "to be sh...\"",
         "expected a number followed by a unit", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct redrive_err err;
        assert_int_equal(parse(str_of(cases[i].text), NULL, &err), REDRIVE_E_PARSE);
        assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.detail, cases[i].detail);
        assert_string_equal(err.hint, cases[i].hint);
    }
}

TEST(durations_are_written_largest_unit_first)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {500, "500ms"},
        {999, "999ms"},
        {1000, "1s"},
        {1001, "1.001s"},
        {1010, "1.01s"},
        {1500, "1.5s"},
        {MINUTE, "1m"},
        {MINUTE + 1, "1m1ms"},
        {90 * SECOND, "1m30s"},
        {2 * MINUTE, "2m"},
        {HOUR + 30 * MINUTE, "1h30m"},
        {HOUR + 1, "1h1ms"},
        {DAY, "1d"},
        {WEEK, "7d"},
        {2 * WEEK, "14d"},
        {DAY + 12 * HOUR + 1500, "1d12h1.5s"},
        {DURATION_MAX_MS, "36500d"},
        {-1500, "-1.5s"},
        {INT64_MAX, "106751991167d7h12m55.807s"},
        {INT64_MIN, "-106751991167d7h12m55.808s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[DURATION_TEXT_MAX];
        assert_string_equal(duration_format(cases[i].ms, out), cases[i].text);
    }
}

TEST(what_was_written_reads_back)
{
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 200000; i++) {
        char out[DURATION_TEXT_MAX];
        int64_t back = -1;
        int64_t ms = (int64_t)(rng_below(&rng, DURATION_MAX_MS + 1) >> rng_below(&rng, 42));
        if (i % 3 == 0)
            ms -= ms % SECOND;
        assert_int_equal(parse(str_of(duration_format(ms, out)), &back, NULL), 0);
        assert_true(back == ms);
    }
}
