/* kinds.c - the kinds of values: how each is read, and what is expected of it. */
#include "fields/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "core/check.h"
#include "core/classify/fingerprint.h"
#include "core/limit/limit.h"
#include "core/time/civil.h"

static bool next_is(struct field_reader *r, enum json_type type)
{
    return !field_reads_text(r) && json_peek(&r->json) == (int)type;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static int decode(struct field_reader *r, const struct field *f, size_t max, struct str *ret)
{
    struct json_string s;
    if (json_peek(&r->json) != JSON_TYPE_STRING)
        return field_wrong_type(r, f);
    if (json_read_string(&r->json, &s) < 0)
        return field_not_json(r);
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(max);
    int rc = json_unescape(s, &text);
    if (rc == REDRIVE_E_TOO_BIG)
        return field_wrong(r, f, REDRIVE_E_TOO_BIG, "is too long");
    *ret = arena_str(r->arena, buf_str(&text));
    return rc < 0 || !ret->ptr ? err_nomem(r->err) : 0;
}

int field_read_text(struct field_reader *r, const struct field *f, size_t max, struct str *ret)
{
    struct str text = r->text;
    int rc = field_reads_text(r) ? 0 : decode(r, f, max, &text);
    if (rc == 0 && text.len > max)
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "is too long");
    if (rc == 0 && text.len > 0 && memchr(text.ptr, '\0', text.len))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "has a NUL character");
    if (rc == 0)
        *ret = text;
    return rc;
}

static int text_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    int rc = field_read_text(r, f, (size_t)f->max, &text);
    if (rc == 0)
        *(const char **)to = field_reads_text(r) ? arena_dup(r->arena, text) : text.ptr;
    return rc == 0 && r->arena->failed ? err_nomem(r->err) : rc;
}

static void text_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    buf_printf(out, "a text of up to %" PRId64 " bytes", f->max);
}

static int wording_read(struct field_reader *r, const struct field *f, void *to)
{
    return field_read_text(r, f, JSON_MAX_BYTES, to);
}

#define NAME_EXPECTED "a text of 1 to 255 bytes" /* FIELD_NAME_MAX */

static int name_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str name = {0};
    int rc = field_read_text(r, f, FIELD_NAME_MAX, &name);
    if (rc == 0 && str_has_control(name))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "has a control character");
    if (rc == 0 && name.len == 0)
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "is empty");
    if (rc == 0)
        *(struct str *)to = name;
    return rc;
}

static int queue_read(struct field_reader *r, const struct field *f, void *to)
{
    struct redrive_err why = {0};
    int rc = name_read(r, f, to);
    if (rc < 0)
        return rc;
    rc = name_check_queue(*(struct str *)to, &why);
    if (rc < 0) {
        (void)field_fault(r, f->name, rc, "%s", why.message);
        err_detail(r->err, "%s", why.detail);
    }
    return rc;
}

/* ---- Lists of names -------------------------------------------------------------------------- */

static int read_names(struct field_reader *r, const struct field *f, void *to,
                      int (*read_one)(struct field_reader *r, const struct field *f, void *to))
{
    struct field_names *ret = to;
    int rc;
    if (!next_is(r, JSON_TYPE_ARRAY))
        return field_wrong_type(r, f);
    (void)json_enter_array(&r->json);
    *ret = (struct field_names){arena_array(r->arena, (size_t)f->max, sizeof *ret->items), 0};
    if (!ret->items)
        return err_nomem(r->err);
    while ((rc = json_next_item(&r->json)) > 0) {
        if (ret->n == (size_t)f->max)
            return field_wrong(r, f, REDRIVE_E_RANGE, "is too long");
        rc = read_one(r, f, &ret->items[ret->n]);
        if (rc < 0)
            return rc;
        ret->n++;
    }
    if (rc < 0)
        return field_not_json(r);
    return ret->n > 0 ? 0 : field_wrong(r, f, REDRIVE_E_INVALID, "is empty");
}

static int names_read(struct field_reader *r, const struct field *f, void *to)
{
    return read_names(r, f, to, name_read);
}

static int queues_read(struct field_reader *r, const struct field *f, void *to)
{
    return read_names(r, f, to, queue_read);
}

static void names_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    buf_printf(out, "an array of 1 to %" PRId64 " names", f->max);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool is_bounded(const struct field *f)
{
    return f->min != 0 || f->max != 0;
}

static int out_of_range(struct field_reader *r, const struct field *f)
{
    return field_wrong(r, f, REDRIVE_E_RANGE, "is out of range");
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
    if (i < text.len || i == is_negative)
        return REDRIVE_E_INVALID;
    return fits ? 0 : REDRIVE_E_RANGE;
}

static int read_whole(struct field_reader *r, const struct field *f, int64_t *ret)
{
    int rc;
    if (field_reads_text(r))
        rc = parse_whole(r->text, ret);
    else if (next_is(r, JSON_TYPE_NUMBER))
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

static void int_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    buf_puts(out, "a whole number");
    describe_bounds(f, plain_bound, "", out);
}

#define DOUBLE_TEXT_MAX 512 /* more digits than a number needs */

static int parse_double(struct str text, double *ret)
{
    char copy[DOUBLE_TEXT_MAX], *end = copy;
    if (text.len == 0 || text.ptr[0] == '+' || !str_copy(copy, sizeof copy, text) ||
        copy[strspn(copy, "0123456789+-.eE")] != '\0')
        return REDRIVE_E_INVALID;
    *ret = strtod(copy, &end);
    if (end == copy || *end != '\0')
        return REDRIVE_E_INVALID;
    return isfinite(*ret) ? 0 : REDRIVE_E_RANGE;
}

static int double_read(struct field_reader *r, const struct field *f, void *to)
{
    const bool is_limited = f->min_double != 0 || f->max_double != 0;
    double n = 0;
    int rc;
    if (field_reads_text(r))
        rc = parse_double(r->text, &n);
    else if (next_is(r, JSON_TYPE_NUMBER))
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

static void double_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    if (f->min_double != 0 || f->max_double != 0)
        buf_printf(out, "a number from %g to %g", f->min_double, f->max_double);
    else
        buf_puts(out, "a number such as 20 or 0.5");
}

/* A number alone means so many a second. */
static int rate_read(struct field_reader *r, const struct field *f, void *to)
{
    const struct field number = {.name = f->name, .kind = f->kind, .min = 1, .max = RATE_MAX_COUNT};
    struct str text = {0};
    int64_t n = 0;
    int rc = next_is(r, JSON_TYPE_NUMBER) ? 0 : field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    if (!text.ptr || (field_reads_text(r) && parse_whole(text, &n) != REDRIVE_E_INVALID)) {
        rc = read_whole(r, &number, &n);
        if (rc == 0)
            *(struct rate *)to = (struct rate){.count = (uint32_t)n, .period_s = 1};
        return rc;
    }
    return rate_parse(text, to, NULL) < 0 ? field_wrong(r, f, REDRIVE_E_INVALID, "is not a rate")
                                          : 0;
}

static void rate_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    (void)f;
    buf_printf(out, "jobs a second, 1 to %u, or a text such as 10/s or 90/min", RATE_MAX_COUNT);
}

static int bool_read(struct field_reader *r, const struct field *f, void *to)
{
    if (!field_reads_text(r)) {
        if (!next_is(r, JSON_TYPE_TRUE) && !next_is(r, JSON_TYPE_FALSE))
            return field_wrong_type(r, f);
        return json_read_bool(&r->json, to) < 0 ? field_not_json(r) : 0;
    }
    const bool is_true = r->text.len == 0 || str_is(r->text, "true") || str_is(r->text, "1");
    if (!is_true && !str_is(r->text, "false") && !str_is(r->text, "0"))
        return field_wrong(r, f, REDRIVE_E_INVALID, "is neither true nor false");
    *(bool *)to = is_true;
    return 0;
}

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

/* The hint of duration_parse is kept: it may name a missing unit. */
static int parse_duration(struct field_reader *r, const struct field *f, struct str text,
                          int64_t *ret_ms)
{
    struct redrive_err why = {0};
    int rc = duration_parse(text, ret_ms, &why);
    if (rc == 0)
        return 0;
    rc = rc == REDRIVE_E_RANGE ? out_of_range(r, f)
                               : field_wrong(r, f, REDRIVE_E_INVALID, "is not a duration");
    err_hint(r->err, "%s", why.hint);
    return rc;
}

static int read_duration(struct field_reader *r, const struct field *f, int64_t *ret_ms)
{
    struct str text = {0};
    if (next_is(r, JSON_TYPE_NUMBER))
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
    static const struct field ANY = {.min = 0, .max = DURATION_MAX_MS};
    buf_printf(out, "%sa duration such as 500ms, 2m or 1h30m",
               field_reads_text(r) ? "" : "seconds or ");
    describe_bounds(is_bounded(f) ? f : &ANY, duration_format, ",", out);
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
    const bool is_number = next_is(r, JSON_TYPE_NUMBER);
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

/* ---- Words ----------------------------------------------------------------------------------- */

static int word_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    size_t n = 0;
    int rc = field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    for (; f->words[n]; n++)
        if (str_is(text, f->words[n])) {
            *(int *)to = (int)n;
            return 0;
        }
    return field_no_such_word(r, f->name, text, f->words, n);
}

static void word_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    size_t n = 0;
    (void)r;
    while (f->words[n])
        n++;
    field_list_words(f->words, n, out);
}

static int no_such_term(struct field_reader *r, const struct field *f, struct str word)
{
    size_t n;
    const char *const *words = vocabulary_words(f->vocabulary, &n);
    return field_no_such_word(r, f->name, word, words + f->skip, n - f->skip);
}

static int term_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    int rc = field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    const int number = vocabulary_find(f->vocabulary, text);
    if (number < (int)f->skip)
        return no_such_term(r, f, text);
    *(int *)to = number;
    return 0;
}

static void term_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    size_t n;
    const char *const *words = vocabulary_words(f->vocabulary, &n);
    (void)r;
    field_list_words(words + f->skip, n - f->skip, out);
}

static int terms_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0}, unknown = {0};
    uint32_t bits = *(uint32_t *)to;
    int rc = field_read_text(r, f, JSON_MAX_BYTES, &text);
    if (rc < 0)
        return rc;
    if (!vocabulary_mask(f->vocabulary, f->skip, text, &bits, &unknown))
        return no_such_term(r, f, unknown);
    *(uint32_t *)to = bits;
    return 0;
}

static int fingerprint_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    uint64_t fingerprint;
    int rc = field_read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    if (!fingerprint_parse(text, &fingerprint))
        return field_wrong(r, f, REDRIVE_E_INVALID, "is not a fingerprint");
    *(uint64_t *)to = fingerprint;
    return 0;
}

/* ---- JSON as it is --------------------------------------------------------------------------- */

static int json_read(struct field_reader *r, const struct field *f, void *to)
{
    (void)f;
    return json_skip(&r->json, to) < 0 ? field_not_json(r) : 0;
}

static int object_read(struct field_reader *r, const struct field *f, void *to)
{
    return next_is(r, JSON_TYPE_OBJECT) ? json_read(r, f, to) : field_wrong_type(r, f);
}

/* ---- All of them ----------------------------------------------------------------------------- */

const struct field_kind FIELD_NAME = {
    .name = "string", .read = name_read, .expects = NAME_EXPECTED};
const struct field_kind FIELD_TEXT = {
    .name = "string", .read = text_read, .describe = text_describe};
const struct field_kind FIELD_WORDING = {
    .name = "string", .read = wording_read, .expects = "a text"};
const struct field_kind FIELD_NAMES = {
    .name = "strings", .read = names_read, .describe = names_describe, .is_json = true};
const struct field_kind FIELD_QUEUES = {
    .name = "strings", .read = queues_read, .describe = names_describe, .is_json = true};
const struct field_kind FIELD_INT = {.name = "int", .read = int_read, .describe = int_describe};
const struct field_kind FIELD_UINT = {.name = "int", .read = uint_read, .describe = int_describe};
const struct field_kind FIELD_COUNT = {.name = "int", .read = count_read, .describe = int_describe};
const struct field_kind FIELD_DOUBLE = {
    .name = "double", .read = double_read, .describe = double_describe};
const struct field_kind FIELD_BOOL = {
    .name = "flag", .read = bool_read, .expects = "true or false", .takes_nothing = true};
const struct field_kind FIELD_RATE = {.name = "rate", .read = rate_read, .describe = rate_describe};
const struct field_kind FIELD_SPAN = {
    .name = "duration", .read = span_read, .describe = span_describe};
const struct field_kind FIELD_AGE = {
    .name = "duration", .read = age_read, .expects = "a duration such as 90m, 24h or 30d"};
const struct field_kind FIELD_TIME = {
    .name = "time", .read = time_read, .expects = MOMENT_EXPECTED};
const struct field_kind FIELD_WHEN = {
    .name = "time", .read = when_read, .expects = MOMENT_EXPECTED ", or a duration such as 1h30m"};
const struct field_kind FIELD_WORD = {
    .name = "choice", .read = word_read, .describe = word_describe};
const struct field_kind FIELD_TERM = {
    .name = "choice", .read = term_read, .describe = term_describe};
const struct field_kind FIELD_TERMS = {
    .name = "choices", .read = terms_read, .describe = term_describe, .is_list = true};
const struct field_kind FIELD_FINGERPRINT = {
    .name = "fingerprint",
    .read = fingerprint_read,
    .expects = "16 hexadecimal digits, as groups of errors have them"};
const struct field_kind FIELD_JSON = {
    .name = "json", .read = json_read, .takes_null = true, .is_json = true};
const struct field_kind FIELD_OBJECT = {
    .name = "object", .read = object_read, .expects = "an object", .is_json = true};
