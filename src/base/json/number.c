/* number.c - numbers of the JSON reader: checking, whole numbers, doubles. */
#include "base/json/private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && str_is_digit(*p))
        p++;
    return p;
}

/* One digit or more. */
static const char *scan_digits(struct json_reader *r, const char *p)
{
    const char *end = skip_digits(p, r->end);
    if (end == p) {
        json_unexpected(r, p, "a digit");
        return NULL;
    }
    return end;
}

const char *json_scan_number(struct json_reader *r, const char *p)
{
    if (*p == '-')
        p++;
    if (p < r->end && *p == '0') {
        p++;
        if (p < r->end && str_is_digit(*p)) {
            json_unexpected(r, p, "no digit after a leading zero");
            return NULL;
        }
    } else if (!(p = scan_digits(r, p))) {
        return NULL;
    }
    if (p < r->end && *p == '.' && !(p = scan_digits(r, p + 1)))
        return NULL;
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < r->end && (*p == '+' || *p == '-'))
            p++;
        p = scan_digits(r, p);
    }
    return p;
}

/* Steps to a number and checks it; it goes from r->p to the end that is returned. */
static const char *start_number(struct json_reader *r, const char *expected)
{
    if (json_start_value(r) < 0)
        return NULL;
    if (json_is_number_start(*r->p))
        return json_scan_number(r, r->p);
    json_wrong_type(r, expected);
    return NULL;
}

static int refuse(struct json_reader *r, const char *end, int code, const char *expected)
{
    int len = end - r->p < 40 ? (int)(end - r->p) : 40;
    return json_fail_at(r, r->p, code, "expected %s, found %.*s%s", expected, len, r->p,
                        end - r->p > 40 ? "..." : "");
}

int json_read_int(struct json_reader *r, int64_t *ret)
{
    const char *end = start_number(r, "a whole number");
    if (!end)
        return r->error;

    const bool negative = *r->p == '-';
    const char *digits = r->p + negative;
    const uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t magnitude = 0;

    if (skip_digits(digits, end) != end)
        return refuse(r, end, REDRIVE_E_INVALID, "a whole number");
    /* 19 digits cannot overflow 64 bits; more cannot be in range, as there are no leading zeros. */
    for (const char *p = digits; p < end && p < digits + 19; p++)
        magnitude = magnitude * 10 + (uint64_t)(*p - '0');
    if (end - digits > 19 || magnitude > limit)
        return refuse(r, end, REDRIVE_E_RANGE, "a whole number of 64 bits");

    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    json_finish_value(r, end);
    return 0;
}

/* ---- Doubles --------------------------------------------------------------------------------- */

/* The value halfway between two doubles has at most 767 significant digits; what follows them
 * matters only in whether it is zero. */
#define MAX_DIGITS 768

/* Saturates far beyond what the digits of any text can make up for. */
static int64_t read_exponent(const char *p, const char *end)
{
    const int64_t most = INT64_C(1000000000000);
    const bool negative = *p == '-';
    int64_t exponent = 0;

    if (*p == '-' || *p == '+')
        p++;
    for (; p < end && exponent < most; p++)
        exponent = exponent * 10 + (*p - '0');
    return negative ? -exponent : exponent;
}

/* Up to 15 digits and powers of ten up to 22 are exact in a double, so that a single operation
 * rounds correctly. */
static bool convert_exactly(const char *digits, size_t n, int64_t exponent, double *ret)
{
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t value = 0;

    if (n > 15 || exponent < -22 || exponent > 22)
        return false;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (uint64_t)(digits[i] - '0');
    *ret = exponent < 0 ? (double)value / POWERS[-exponent] : (double)value * POWERS[exponent];
    return true;
}

/* The number without its sign is written anew as `digits`e`exponent`: bounded, and without a
 * decimal point, which strtod would take from the locale. */
static double convert(const char *p, const char *end)
{
    char text[MAX_DIGITS + 32];
    size_t n = 0;
    int64_t exponent = 0;
    bool fraction = false, rest = false;
    double value;

    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        exponent -= fraction;
        if (n == 0 && *p == '0')
            continue;
        if (n < MAX_DIGITS) {
            text[n++] = *p;
        } else {
            exponent++;
            rest |= *p != '0';
        }
    }
    if (rest) {
        text[n++] = '1';
        exponent--;
    }
    if (p < end)
        exponent += read_exponent(p + 1, end);

    if (n == 0)
        return 0;
    if (convert_exactly(text, n, exponent, &value))
        return value;
    snprintf(text + n, sizeof text - n, "e%" PRId64, exponent);
    return strtod(text, NULL);
}

int json_read_double(struct json_reader *r, double *ret)
{
    const char *end = start_number(r, "a number");
    if (!end)
        return r->error;
    const bool negative = *r->p == '-';
    double value = convert(r->p + negative, end);
    if (isinf(value))
        return refuse(r, end, REDRIVE_E_RANGE, "a number within the range of a double");
    *ret = negative ? -value : value;
    json_finish_value(r, end);
    return 0;
}
