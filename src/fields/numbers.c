/* numbers.c - the kinds of values that are numbers, rates, times, true or false. */
#include "fields/field.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "core/limit/limit.h"
#include "core/time/civil.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool is_bounded(const struct field *f)
{
    return f->min != 0 || f->max != 0;
}

static int out_of_range(struct field_reader *r, const struct field *f)
{
    return field_wrong(r, f, REDRIVE_E_RANGE, "is out of range");
}

/* 010 is 8 to some readers, and 10 to others. */
static bool has_leading_zero(struct str text)
{
    const size_t at = text.len > 0 && text.ptr[0] == '-';
    return text.len > at + 1 && text.ptr[at] == '0' && str_is_digit(text.ptr[at + 1]);
}

/* A script that passes space or a plus has a mistake, so that strtoll is not asked. */
static int parse_whole(struct str text, int64_t *ret)
{
    const bool is_negative = text.len > 0 && text.ptr[0] == '-';
    bool fits = true;
    size_t i = is_negative;
    for (*ret = 0; i < text.len && str_is_digit(text.ptr[i]); i++) {
        const int digit = text.ptr[i] - '0';
        fits = fits && !__builtin_mul_overflow(*ret, 10, ret) &&
               !__builtin_add_overflow(*ret, is_negative ? -digit : digit, ret);
    }
    if (i < text.len || i == is_negative || has_leading_zero(text))
        return REDRIVE_E_INVALID;
    return fits ? 0 : REDRIVE_E_RANGE;
}

static int read_whole(struct field_reader *r, const struct field *f, int64_t *ret)
{
    int rc;
    if (field_reads_text(r))
        rc = parse_whole(r->text, ret);
    else if (field_next_is(r, JSON_TYPE_NUMBER))
        rc = json_read_int(&r->json, ret);
    else
        return field_wrong_type(r, f);
    if (rc == REDRIVE_E_RANGE || (rc == 0 && is_bounded(f) && (*ret < f->min || *ret > f->max)))
        return out_of_range(r, f);
    return rc < 0 ? field_wrong(r, f, REDRIVE_E_INVALID, "is not a whole number") : 0;
}

static int int_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t n = 0;
    int rc = read_whole(r, f, &n);
    if (rc == 0)
        *(int64_t *)to = n;
    return rc;
}

static int uint_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t n = 0;
    int rc = read_whole(r, f, &n);
    if (rc == 0)
        *(uint32_t *)to = (uint32_t)n;
    return rc;
}

static int count_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t n = 0;
    int rc = read_whole(r, f, &n);
    if (rc == 0)
        *(size_t *)to = (size_t)n;
    return rc;
}

/* How a bound is written: a plain number, or a duration. */
typedef const char *(*bound_fn)(int64_t bound, char out[DURATION_TEXT_MAX]);

static const char *plain_bound(int64_t bound, char out[DURATION_TEXT_MAX])
{
    (void)snprintf(out, DURATION_TEXT_MAX, "%" PRId64, bound);
    return out;
}

static void describe_bounds(const struct field *f, bound_fn write, const char *comma,
                            struct buf *out)
{
    char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
    if (!is_bounded(f))
        return;
    if (f->max == INT64_MAX)
        buf_printf(out, ", at least %s", write(f->min, least));
    else
        buf_printf(out, "%s from %s to %s", comma, write(f->min, least), write(f->max, most));
}

void field_describe_whole(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    buf_puts(out, "a whole number");
    describe_bounds(f, plain_bound, "", out);
}

/* A number as JSON writes it, whatever the locale of the process says. */
static int parse_double(struct str text, double *ret)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    /* The reader would pass over space around it. */
    const bool is_bare = text.len > 0 && (text.ptr[0] == '-' || str_is_digit(text.ptr[0])) &&
                         str_is_digit(text.ptr[text.len - 1]);
    json_reader_init(&r, text, NULL);
    int rc = is_bare ? json_read_double(&r, ret) : REDRIVE_E_INVALID;
    if (rc == 0)
        rc = json_end(&r);
    return rc == 0 || rc == REDRIVE_E_RANGE ? rc : REDRIVE_E_INVALID;
}

static int double_read(struct field_reader *r, const struct field *f, void *to)
{
    const bool is_limited = f->min_double != 0 || f->max_double != 0;
    double n = 0;
    int rc;
    if (field_reads_text(r))
        rc = parse_double(r->text, &n);
    else if (field_next_is(r, JSON_TYPE_NUMBER))
        rc = json_read_double(&r->json, &n);
    else
        return field_wrong_type(r, f);
    if (rc == REDRIVE_E_RANGE ||
        (rc == 0 && is_limited && (n < f->min_double || n > f->max_double)))
        return out_of_range(r, f);
    if (rc < 0)
        return field_wrong(r, f, REDRIVE_E_INVALID, "is not a number");
    *(double *)to = n;
    return 0;
}

void field_describe_double(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    if (f->min_double != 0 || f->max_double != 0)
        buf_printf(out, "a number from %.*g to %.*g", DBL_DIG, f->min_double, DBL_DIG,
                   f->max_double);
    else
        buf_puts(out, "a number such as 20 or 0.5");
}

/* A number alone means so many a second. */
static int rate_read(struct field_reader *r, const struct field *f, void *to)
{
    const struct field number = {.name = f->name, .kind = f->kind, .min = 1, .max = RATE_MAX_COUNT};
    struct redrive_err why = {0};
    struct str text = {0};
    int64_t n = 0;
    int rc = field_next_is(r, JSON_TYPE_NUMBER) ? 0 : field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    if (!text.ptr || (field_reads_text(r) && parse_whole(text, &n) != REDRIVE_E_INVALID)) {
        rc = read_whole(r, &number, &n);
        if (rc == 0)
            *(struct rate *)to = (struct rate){.count = (uint32_t)n, .period_s = 1};
        return rc;
    }
    rc = rate_parse(text, to, &why);
    if (rc == 0)
        return 0;
    rc = field_wrong(r, f, REDRIVE_E_INVALID, "is not a rate");
    err_hint(r->err, "%s", why.hint);
    return rc;
}

static void rate_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    (void)f;
    buf_printf(out, "jobs a second, 1 to %u, or a text such as 10/s, 90/min, 1000/h or 5000/d",
               RATE_MAX_COUNT);
}

int field_truth(struct str text)
{
    static const char *const WORDS[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
    for (int i = 0; i < 6; i++)
        if (str_is(text, WORDS[i]))
            return i >= 3;
    return -1;
}

static int no_truth(struct field_reader *r, const struct field *f)
{
    static const char *const WORDS[] = {"yes", "on", "1", "true", "no", "off", "0", "false"};
    int rc = field_wrong(r, f, REDRIVE_E_INVALID, "is neither true nor false");
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (str_eq_nocase(r->text, str_of(WORDS[i])))
            err_hint(r->err, "did you mean '%s'?", i < 4 ? "true" : "false");
    return rc;
}

static int bool_read(struct field_reader *r, const struct field *f, void *to)
{
    if (!field_reads_text(r)) {
        if (!field_next_is(r, JSON_TYPE_TRUE) && !field_next_is(r, JSON_TYPE_FALSE))
            return field_wrong_type(r, f);
        return json_read_bool(&r->json, to) < 0 ? field_not_json(r) : 0;
    }
    int truth = field_truth(r->text);
    if (r->is_parameter && (r->text.len == 0 || str_is(r->text, "1")))
        truth = 1;
    else if (r->is_parameter && str_is(r->text, "0"))
        truth = 0;
    if (truth < 0)
        return no_truth(r, f);
    *(bool *)to = truth == 1;
    return 0;
}

static void uint_write(const struct field *f, const void *member, struct json_writer *w)
{
    const int32_t number = *(const int32_t *)member;
    if (number > 0 || (number == 0 && !f->sparse))
        json_field_int(w, f->name, number);
}

static void double_write(const struct field *f, const void *member, struct json_writer *w)
{
    json_field_double(w, f->name, *(const double *)member);
}

static void rate_write(const struct field *f, const void *member, struct json_writer *w)
{
    const struct rate *rate = member;
    char text[32];
    if (rate->count == 0)
        return;
    (void)snprintf(text, sizeof text, "%u/%s", (unsigned)rate->count, rate_unit(rate));
    json_field_cstr(w, f->name, text);
}

static void bool_write(const struct field *f, const void *member, struct json_writer *w)
{
    if (*(const bool *)member || !f->sparse)
        json_field_bool(w, f->name, *(const bool *)member);
}

const struct field_kind FIELD_INT = {
    .name = "int", .read = int_read, .describe = field_describe_whole, .is_plain = true};
const struct field_kind FIELD_UINT = {.name = "int",
                                      .read = uint_read,
                                      .describe = field_describe_whole,
                                      .is_plain = true,
                                      .write = uint_write};
const struct field_kind FIELD_COUNT = {
    .name = "int", .read = count_read, .describe = field_describe_whole, .is_plain = true};
const struct field_kind FIELD_DOUBLE = {.name = "double",
                                        .read = double_read,
                                        .describe = field_describe_double,
                                        .is_plain = true,
                                        .write = double_write};
const struct field_kind FIELD_RATE = {
    .name = "rate", .read = rate_read, .describe = rate_describe, .write = rate_write};
const struct field_kind FIELD_BOOL = {.name = "flag",
                                      .read = bool_read,
                                      .expects = "true or false",
                                      .takes_nothing = true,
                                      .is_plain = true,
                                      .write = bool_write};

/* ---- Times ----------------------------------------------------------------------------------- */

/* Seconds as a JSON number; what is less than a millisecond counts as one. */
static int read_seconds(struct field_reader *r, const struct field *f, int64_t *ret_ms)
{
    double seconds = 0;
    if (json_read_double(&r->json, &seconds) < 0)
        return field_wrong(r, f, REDRIVE_E_INVALID, "is not a number that fits");
    if (!(seconds >= 0 && seconds * 1000 <= (double)DURATION_MAX_MS))
        return out_of_range(r, f);
    *ret_ms = (int64_t)ceil(seconds * 1000);
    return 0;
}

static const char *whats_wrong_with_duration(struct str text)
{
    double number;
    if (text.len > 0 && text.ptr[0] == '-')
        return "is negative";
    return parse_double(text, &number) == 0 ? "has no unit" : "is not a duration";
}

/* What duration_parse has to say is kept: which unit is missing, or what a duration cannot have. */
static int parse_duration(struct field_reader *r, const struct field *f, struct str text,
                          int64_t *ret_ms)
{
    struct redrive_err why = {0};
    struct field bounded = *f;
    int rc = duration_parse(text, ret_ms, &why);
    if (rc == 0)
        return 0;
    if (!is_bounded(f))
        bounded.max = DURATION_MAX_MS;
    rc = rc == REDRIVE_E_RANGE
             ? out_of_range(r, &bounded)
             : field_wrong(r, f, REDRIVE_E_INVALID, whats_wrong_with_duration(text));
    if (text.len > 0 && text.ptr[0] != '-')
        err_hint(r->err, "%s", *why.hint ? why.hint : why.detail);
    return rc;
}

static int read_duration(struct field_reader *r, const struct field *f, int64_t *ret_ms)
{
    struct str text = {0};
    if (field_next_is(r, JSON_TYPE_NUMBER))
        return read_seconds(r, f, ret_ms);
    int rc = field_read_text(r, f, FIELD_NAME_MAX, &text);
    return rc < 0 ? rc : parse_duration(r, f, text, ret_ms);
}

static int span_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t ms = 0;
    int rc = read_duration(r, f, &ms);
    if (rc == 0 && is_bounded(f) && (ms < f->min || ms > f->max))
        rc = out_of_range(r, f);
    if (rc == 0)
        *(int64_t *)to = ms;
    return rc;
}

static void span_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    buf_printf(out, "%sa duration such as 500ms, 2m or 1h30m",
               field_reads_text(r) ? "" : "seconds or ");
    describe_bounds(f, duration_format, ",", out);
}

/* At least 1: 0 would mean no bound. */
static int age_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t ms = 0;
    int rc = read_duration(r, f, &ms);
    if (rc == 0)
        *(int64_t *)to = r->now_ms > ms ? r->now_ms - ms : 1;
    return rc;
}

static int time_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    int rc = field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc == 0 && !moment_parse(text, to))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "is not a time");
    return rc;
}

static int when_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    int64_t ms = 0;
    const bool is_number = field_next_is(r, JSON_TYPE_NUMBER);
    int rc = is_number ? read_seconds(r, f, &ms) : field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    if (!is_number && moment_looks_like_one(text))
        return moment_parse(text, to) ? 0 : field_wrong(r, f, REDRIVE_E_INVALID, "is not a time");
    if (!is_number && duration_parse(text, &ms, NULL) < 0)
        return field_wrong(r, f, REDRIVE_E_INVALID, "is neither a time nor a duration");
    *(int64_t *)to = r->now_ms + ms;
    return 0;
}

static void span_write(const struct field *f, const void *member, struct json_writer *w)
{
    char text[DURATION_TEXT_MAX];
    if (*(const int64_t *)member != 0 || !f->sparse)
        json_field_cstr(w, f->name, duration_format(*(const int64_t *)member, text));
}

const struct field_kind FIELD_SPAN = {
    .name = "duration", .read = span_read, .describe = span_describe, .write = span_write};
const struct field_kind FIELD_AGE = {.name = "duration",
                                     .read = age_read,
                                     .expects = "a duration such as 90m, 24h or 30d, up to 36500d"};
const struct field_kind FIELD_TIME = {
    .name = "time", .read = time_read, .expects = MOMENT_EXPECTED};
const struct field_kind FIELD_WHEN = {
    .name = "time", .read = when_read, .expects = MOMENT_EXPECTED ", or a duration such as 1h30m"};
