/* Numbers, read and written: limits, rounding, the way back, and what the locale must not change.
 */
#include "base/json/json.h"

#include "check.h"
#include "test_json.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "base/json/writer.h"
#include "base/rng.h"

static int read_int(struct str text, int64_t *ret, struct redrive_err *err)
{
    struct json_reader r;
    struct str copy = exact_copy(text);
    json_reader_init(&r, copy, NULL);
    json_read_int(&r, ret);
    json_end(&r);
    int rc = json_error(&r, err);
    json_reader_release(&r);
    free((char *)copy.ptr);
    return rc;
}

static int read_double(struct str text, double *ret, struct redrive_err *err)
{
    struct json_reader r;
    struct str copy = exact_copy(text);
    json_reader_init(&r, copy, NULL);
    json_read_double(&r, ret);
    json_end(&r);
    int rc = json_error(&r, err);
    json_reader_release(&r);
    free((char *)copy.ptr);
    return rc;
}

static uint64_t bits_of(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* ---- Whole numbers --------------------------------------------------------------------------- */

TEST(whole_numbers_cover_exactly_64_bits)
{
    static const struct {
        const char *text;
        int64_t value;
        int rc;
    } cases[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"7", 7, 0},
        {"-7", -7, 0},
        {"1000000000000000000", 1000000000000000000, 0},
        {"9223372036854775806", INT64_MAX - 1, 0},
        {"9223372036854775807", INT64_MAX, 0},
        {"-9223372036854775807", -INT64_MAX, 0},
        {"-9223372036854775808", INT64_MIN, 0},
        {"9223372036854775808", 0, REDRIVE_E_RANGE},
        {"-9223372036854775809", 0, REDRIVE_E_RANGE},
        {"9999999999999999999", 0, REDRIVE_E_RANGE},
        {"10000000000000000000", 0, REDRIVE_E_RANGE},
        {"18446744073709551615", 0, REDRIVE_E_RANGE},
        {"18446744073709551616", 0, REDRIVE_E_RANGE},
        {"-18446744073709551617", 0, REDRIVE_E_RANGE},
        {"100000000000000000000000000000000", 0, REDRIVE_E_RANGE},
        {"1.0", 0, REDRIVE_E_INVALID},
        {"-0.0", 0, REDRIVE_E_INVALID},
        {"1e3", 0, REDRIVE_E_INVALID},
        {"1E0", 0, REDRIVE_E_INVALID},
        {"01", 0, REDRIVE_E_PARSE},
        {"1.", 0, REDRIVE_E_PARSE},
        {"1 2", 1, REDRIVE_E_PARSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 0;
        assert_int_equal(read_int(str_of(cases[i].text), &value, NULL), cases[i].rc);
        assert_true(value == cases[i].value);
    }
}

TEST(a_refused_number_is_shown)
{
    struct redrive_err err;
    int64_t value;
    double real;
    read_int(STR("1.50"), &value, &err);
    assert_string_equal(err.message, "line 1, column 1: expected a whole number, found 1.50");
    read_int(STR("-9223372036854775809"), &value, &err);
    assert_string_equal(err.message, "line 1, column 1: expected a whole number of 64 bits, found "
                                     "-9223372036854775809");
    read_int(STR("1234567890123456789012345678901234567890123"), &value, &err);
    assert_string_equal(err.message, "line 1, column 1: expected a whole number of 64 bits, found "
                                     "1234567890123456789012345678901234567890...");
    read_double(STR(" 1e999"), &real, &err);
    assert_string_equal(err.message, "line 1, column 2: expected a number within the range of a "
                                     "double, found 1e999");
}

/* ---- Doubles --------------------------------------------------------------------------------- */

TEST(doubles_cover_their_range_and_no_more)
{
    static const struct {
        const char *text;
        double value;
        int rc;
    } cases[] = {
        {"0", 0.0, 0},
        {"-0", -0.0, 0},
        {"-0.0e5", -0.0, 0},
        {"0e999999999999999999999", 0.0, 0},
        {"0.000e-5", 0.0, 0},
        {"1", 1, 0},
        {"-2.5", -2.5, 0},
        {"0.1", 0.1, 0},
        {"1e22", 1e22, 0},
        {"1e23", 1e23, 0},
        {"123456789012345e22", 123456789012345e22, 0},
        {"9007199254740993", 9007199254740992.0, 0},
        {"9007199254740993.0000000000000000000000000000001", 9007199254740994.0, 0},
        {"1.7976931348623157e308", 0x1.fffffffffffffp1023, 0},
        {"1.7976931348623158e308", 0x1.fffffffffffffp1023, 0},
        {"1.7976931348623159e308", 0, REDRIVE_E_RANGE},
        {"1e309", 0, REDRIVE_E_RANGE},
        {"-1e309", 0, REDRIVE_E_RANGE},
        {"1e99999999999999999999999", 0, REDRIVE_E_RANGE},
        {"2.2250738585072014e-308", 0x1p-1022, 0},
        {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022, 0},
        {"4.9e-324", 0x1p-1074, 0},
        {"2.4703282292062328e-324", 0x1p-1074, 0},
        {"2.4703282292062327e-324", 0, 0},
        {"1e-99999999999999999999999", 0, 0},
        {"-1e-400", -0.0, 0},
        {"\"1\"", 0, REDRIVE_E_INVALID},
        {"1e", 0, REDRIVE_E_PARSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 0;
        assert_int_equal(read_double(str_of(cases[i].text), &value, NULL), cases[i].rc);
        assert_true(bits_of(value) == bits_of(cases[i].value));
    }
}

static void check_like_strtod(const char *text)
{
    double value = -1;
    double expected = strtod(text, NULL);
    int rc = read_double(str_of(text), &value, NULL);
    if (isinf(expected)) {
        assert_int_equal(rc, REDRIVE_E_RANGE);
    } else {
        assert_int_equal(rc, 0);
        assert_true(bits_of(value) == bits_of(expected));
    }
}

TEST(random_decimals_are_rounded_like_strtod_does)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < 50000; i++) {
        char text[1200];
        size_t n = 0, digits = 1 + rng_below(&rng, i % 100 == 0 ? 1000 : 22);
        size_t point = 1 + rng_below(&rng, digits);
        for (size_t k = 0; k < digits; k++) {
            if (k == point)
                text[n++] = '.';
            text[n++] =
                (char)('0' + (k == 0 && point > 1 ? 1 + rng_below(&rng, 9) : rng_below(&rng, 10)));
        }
        text[n] = '\0';
        if (rng_below(&rng, 2))
            snprintf(text + n, sizeof text - n, "e%d", (int)rng_below(&rng, 700) - 350);
        check_like_strtod(text);
    }
}

/* The value halfway between two doubles goes to the even one; a digit behind it, however far,
 * tips the balance. */
TEST(ties_are_decided_by_the_last_digit)
{
    static const long double halfway[] = {1.5L * 0x1p-1074L,         2.5L * 0x1p-1074L,
                                          0x1.fffffffffffff8p-1023L, 0x1.00000000000008p0L,
                                          0x1.00000000000018p0L,     0x1.00000000000008p-1000L,
                                          0x1.8p53L + 0.5L};
    for (size_t i = 0; i < sizeof halfway / sizeof halfway[0]; i++) {
        static char text[5000];
        int len = snprintf(text, sizeof text, "%.1000Le", halfway[i]);
        char *e = strchr(text, 'e');
        char exponent[16];
        check_like_strtod(text);
        snprintf(exponent, sizeof exponent, "%s", e);
        assert_true(len < 1100);
        for (int zeros = 0; zeros <= 3000; zeros += 1500) {
            memset(e, '0', (size_t)zeros);
            snprintf(e + zeros, 32, "1%s", exponent);
            check_like_strtod(text);
        }
    }
}

TEST(a_million_digits_are_a_number)
{
    const size_t n = 1000000;
    double value;
    char *text = malloc(n + 20);
    assert_non_null(text);
    memset(text, '0', n);
    memcpy(text, "0.", 2);
    memcpy(text + n, "15e1000000", 11);
    assert_int_equal(read_double(str_of(text), &value, NULL), 0);
    assert_true(value == 15.0);
    memset(text, '9', n);
    memcpy(text + n, "e-1000000", 10);
    assert_int_equal(read_double(str_of(text), &value, NULL), 0);
    assert_true(value == 1.0);
    free(text);
}

/* ---- The way back ---------------------------------------------------------------------------- */

static const char *write_double(double value)
{
    static char text[64];
    struct buf out;
    struct json_writer w;
    buf_init(&out, sizeof text - 1);
    json_writer_init(&w, &out);
    json_put_double(&w, value);
    assert_int_equal(buf_failed(&out), 0);
    assert_true(str_copy(text, sizeof text, buf_str(&out)));
    buf_release(&out);
    return text;
}

TEST(doubles_are_written_with_few_digits)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-1, "-1"},
        {10, "10"},
        {0.1, "0.1"},
        {-2.5, "-2.5"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {100, "100"},
        {123456.75, "123456.75"},
        {1249.95, "1249.95"},
        {1e15, "1000000000000000"},
        {1e16, "10000000000000000"},
        {1e17, "1e17"},
        {12345678901234567.0, "12345678901234568"},
        {9007199254740993.0, "9007199254740992"},
        {0.001, "0.001"},
        {0.00001, "0.00001"},
        {0.000012, "0.000012"},
        {0.000001, "1e-6"},
        {1.25e-7, "1.25e-7"},
        {1.25e30, "1.25e30"},
        {0x1.fffffffffffffp1023, "1.7976931348623157e308"},
        {0x1p-1074, "4.94065645841247e-324"},
        {NAN, "null"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(write_double(cases[i].value), cases[i].text);
}

TEST(every_double_reads_back_as_it_was)
{
    struct rng rng;
    rng_seed(&rng, 2);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = rng_next(&rng);
        double value, back = 0;
        memcpy(&value, &bits, sizeof value);
        if (i % 4 == 0)
            value = (double)(int64_t)bits / 1000;
        if (!isfinite(value))
            continue;
        const char *text = write_double(value);
        assert_true(strlen(text) <= 24);
        assert_int_equal(read_double(str_of(text), &back, NULL), 0);
        assert_true(bits_of(back) == bits_of(value));
    }
}

/* ---- Locale ---------------------------------------------------------------------------------- */

static bool decimal_point_is(const char *point)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    return text[0] == '0' && strncmp(text + 1, point, strlen(point)) == 0;
}

/* One that is installed, or one made for the purpose. */
static bool use_comma_locale(char *dir)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]) && decimal_point_is(","))
            return true;

    char command[200];
    if (!mkdtemp(dir))
        return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
             dir);
    int rc = system(command);
    setenv("LOCPATH", dir, 1);
    return rc == 0 && setlocale(LC_ALL, "de_DE.UTF-8") && decimal_point_is(",");
}

TEST(the_locale_changes_nothing)
{
    char dir[] = "/tmp/redrive-locale-XXXXXX", command[100];
    bool found = use_comma_locale(dir);
    double value = 0;

    if (found) {
        assert_string_equal(write_double(0.1), "0.1");
        assert_string_equal(write_double(0.1 + 0.2), "0.30000000000000004");
        assert_string_equal(write_double(1.25e-7), "1.25e-7");
        assert_int_equal(read_double(STR("0.5"), &value, NULL), 0);
        assert_true(value == 0.5);
        assert_int_equal(read_double(STR("1.2345678901234567890123e2"), &value, NULL), 0);
        assert_true(value == 123.45678901234567890123);
        assert_int_equal(read_double(STR("0,5"), &value, NULL), REDRIVE_E_PARSE);
    }
    setlocale(LC_ALL, "C");
    if (strstr(dir, "XXXXXX") == NULL) {
        snprintf(command, sizeof command, "rm -rf %s", dir);
        assert_int_equal(system(command), 0);
    }
    if (!found)
        skip(); /* no locale with a decimal comma could be had */
}
