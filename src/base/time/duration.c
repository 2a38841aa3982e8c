/* duration.c - parses and writes durations. */
#include "base/time/duration.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/encode.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define WEEK   (7 * DAY)

struct unit {
    const char *name;
    int64_t ms;
};

static const struct unit UNITS[] = {
    {"w", WEEK},     {"d", DAY},    {"h", HOUR}, {"m", MINUTE},
    {"min", MINUTE}, {"s", SECOND}, {"ms", 1},   {NULL},
};
static const struct unit ISO_DATE_UNITS[] = {{"W", WEEK}, {"D", DAY}, {NULL}};
static const struct unit ISO_TIME_UNITS[] = {{"H", HOUR}, {"M", MINUTE}, {"S", SECOND}, {NULL}};

struct parser {
    struct str text;
    size_t at;
    int64_t total_ms;
    int64_t last_unit_ms; /* of the part before; 0 at the start */
    bool last_had_fraction;
    struct redrive_err *err;
};

/* A number before its unit: whole + numerator / scale. */
struct number {
    int64_t whole;
    int64_t numerator;
    int64_t scale;
};

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Room for the text to be cut, not for it to crowd out the rest of the message. */
struct excerpt {
    char text[41];
};

static struct excerpt excerpt(struct str s)
{
    struct excerpt e = {""};
    if (!str_copy(e.text, sizeof e.text, s))
        memcpy(e.text + sizeof e.text - 4, "...", 4);
    utf8_make_printable(e.text);
    return e;
}

static int refuse(const struct parser *p, const char *detail)
{
    err_set(p->err, REDRIVE_E_PARSE, "expected a duration such as 500ms, 2m or 1h30m, found \"%s\"",
            excerpt(p->text).text);
    err_detail(p->err, "%s", detail);
    return REDRIVE_E_PARSE;
}

static int refuse_length(const struct parser *p)
{
    err_set(p->err, REDRIVE_E_RANGE, "expected a duration of at most %" PRId64 "d, found \"%s\"",
            DURATION_MAX_MS / DAY, excerpt(p->text).text);
    return REDRIVE_E_RANGE;
}

/* The unit that was most likely meant: seconds, or what usually follows the part before. */
static int refuse_without_unit(const struct parser *p)
{
    const struct unit *next = UNITS;
    while (next->name && next->ms >= p->last_unit_ms)
        next++;
    refuse(p, "a number without a unit");
    if (p->last_unit_ms == 0)
        err_hint(p->err, "add a unit: %ss", excerpt(p->text).text);
    else if (next->name)
        err_hint(p->err, "add a unit: %s%s", excerpt(p->text).text, next->name);
    return REDRIVE_E_PARSE;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool at_end(const struct parser *p)
{
    return p->at == p->text.len;
}

static bool at_digit(const struct parser *p)
{
    return !at_end(p) && str_is_digit(p->text.ptr[p->at]);
}

/* Of a fraction of k digits, the last not zero, all of 2^k or all of 5^k must go into the unit for
 * the result to be whole. No unit has more of either than the week, 2^10: ten digits are enough. */
static int read_fraction(struct parser *p, struct number *n)
{
    size_t start = p->at;
    while (at_digit(p))
        p->at++;
    size_t len = p->at - start;
    if (len == 0)
        return refuse(p, "expected a digit after the point");
    while (len > 0 && p->text.ptr[start + len - 1] == '0')
        len--;
    if (len > 10)
        return refuse(p, "finer than a millisecond");
    for (size_t i = start; i < start + len; i++) {
        n->numerator = n->numerator * 10 + (p->text.ptr[i] - '0');
        n->scale *= 10;
    }
    return 0;
}

static int read_number(struct parser *p, struct number *ret)
{
    *ret = (struct number){.scale = 1};

    if (!at_digit(p))
        return refuse(p, "expected a number followed by a unit");
    if (p->last_had_fraction)
        return refuse(p, "only the last part may have a fraction");
    for (; at_digit(p); p->at++) {
        ret->whole = ret->whole * 10 + (p->text.ptr[p->at] - '0');
        if (ret->whole > DURATION_MAX_MS)
            return refuse_length(p);
    }
    if (!at_end(p) && p->text.ptr[p->at] == '.') {
        p->at++;
        p->last_had_fraction = true;
        if (read_fraction(p, ret) < 0)
            return REDRIVE_E_PARSE;
    }
    return 0;
}

static int read_unit(struct parser *p, const struct unit *units, size_t len,
                     const struct unit **ret)
{
    struct str name = {p->text.ptr + p->at, len};
    p->at += len;
    for (const struct unit *u = units; u->name; u++) {
        if (!str_is(name, u->name))
            continue;
        if (p->last_unit_ms != 0 && u->ms >= p->last_unit_ms)
            return refuse(p, "units go from the largest to the smallest, each at most once");
        p->last_unit_ms = u->ms;
        *ret = u;
        return 0;
    }
    refuse(p, "");
    err_detail(p->err, "unknown unit \"%s\"", excerpt(name).text);
    return REDRIVE_E_PARSE;
}

/* Product and sum stay in 64 bits: the numerator is below 10^10 and no unit above 10^9. */
static int add_part(struct parser *p, const struct number *n, const struct unit *unit)
{
    if (n->numerator * unit->ms % n->scale != 0)
        return refuse(p, "finer than a millisecond");
    if (n->whole > DURATION_MAX_MS / unit->ms)
        return refuse_length(p);
    p->total_ms += n->whole * unit->ms + n->numerator * unit->ms / n->scale;
    return p->total_ms > DURATION_MAX_MS ? refuse_length(p) : 0;
}

/* ---- The two notations ----------------------------------------------------------------------- */

static int parse_plain(struct parser *p)
{
    do {
        struct number number;
        const struct unit *unit;
        size_t len = 0;
        int rc = read_number(p, &number);
        if (rc < 0)
            return rc;
        if (at_end(p))
            return refuse_without_unit(p);
        while (p->at + len < p->text.len && is_letter(p->text.ptr[p->at + len]))
            len++;
        if (len == 0)
            return refuse(p, "expected a unit after the number");
        if ((rc = read_unit(p, UNITS, len, &unit)) < 0) {
            err_hint(p->err, "the units are w, d, h, m, s and ms");
            return rc;
        }
        if ((rc = add_part(p, &number, unit)) < 0)
            return rc;
    } while (!at_end(p));
    return 0;
}

static int parse_iso(struct parser *p)
{
    const struct unit *units = ISO_DATE_UNITS;
    const struct unit *unit = NULL;

    p->at = 1;
    do {
        struct number number;
        if (units == ISO_DATE_UNITS && !at_end(p) && p->text.ptr[p->at] == 'T') {
            units = ISO_TIME_UNITS;
            p->at++;
        }
        if (unit && unit->ms == WEEK)
            return refuse(p, "weeks stand alone in ISO 8601");
        int rc = read_number(p, &number);
        if (rc < 0)
            return rc;
        if (at_end(p))
            return refuse(p, "a number without a unit");
        if ((rc = read_unit(p, units, 1, &unit)) < 0) {
            err_hint(p->err, "after P: W or D; after T: H, M and S");
            return rc;
        }
        if ((rc = add_part(p, &number, unit)) < 0)
            return rc;
    } while (!at_end(p));
    return 0;
}

int duration_parse(struct str text, int64_t *ret_ms, struct redrive_err *err)
{
    struct parser p = {.text = text, .err = err};
    int rc = 0;

    if (text.len > 0 && text.ptr[0] == 'P')
        rc = parse_iso(&p);
    else if (!str_is(text, "0"))
        rc = parse_plain(&p);
    if (rc == 0)
        *ret_ms = p.total_ms;
    return rc;
}

const char *duration_format(int64_t ms, char out[DURATION_TEXT_MAX])
{
    static const struct unit WHOLE_UNITS[] = {{"d", DAY}, {"h", HOUR}, {"m", MINUTE}, {NULL}};
    uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    int len = snprintf(out, DURATION_TEXT_MAX, "%s", ms < 0 ? "-" : "");

    for (const struct unit *u = WHOLE_UNITS; u->name; u++) {
        uint64_t n = left / (uint64_t)u->ms;
        left %= (uint64_t)u->ms;
        if (n > 0)
            len +=
                snprintf(out + len, DURATION_TEXT_MAX - (size_t)len, "%" PRIu64 "%s", n, u->name);
    }
    const unsigned seconds = (unsigned)(left / 1000), rest = (unsigned)(left % 1000);
    const size_t room = DURATION_TEXT_MAX - (size_t)len;
    if (seconds == 0 && rest > 0) {
        snprintf(out + len, room, "%ums", rest);
    } else if (rest > 0) {
        /* A fraction without its closing zeros. */
        int width = rest % 100 == 0 ? 1 : rest % 10 == 0 ? 2 : 3;
        unsigned fraction = width == 1 ? rest / 100 : width == 2 ? rest / 10 : rest;
        snprintf(out + len, room, "%u.%0*us", seconds, width, fraction);
    } else if (seconds > 0 || ms == 0) {
        snprintf(out + len, room, "%us", seconds);
    }
    return out;
}
