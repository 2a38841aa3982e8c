/* kinds.c - the kinds of values: how each is read, and what is expected of it. */
#include "fields/private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

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
        return field_wrong(r, f, REDRIVE_E_TOO_BIG, "it is too long");
    *ret = arena_str(r->arena, buf_str(&text));
    return rc < 0 || !ret->ptr ? err_nomem(r->err) : 0;
}

static int read_text(struct field_reader *r, const struct field *f, size_t max, struct str *ret)
{
    struct str text = r->text;
    int rc = field_reads_text(r) ? 0 : decode(r, f, max, &text);
    if (rc == 0 && text.len > max)
        rc = field_wrong(r, f, REDRIVE_E_TOO_BIG, "it is too long");
    if (rc == 0 && text.len > 0 && memchr(text.ptr, '\0', text.len))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it has a NUL character");
    if (rc == 0)
        *ret = text;
    return rc;
}

static int text_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text;
    int rc = read_text(r, f, (size_t)f->max, &text);
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
    return read_text(r, f, JSON_MAX_BYTES, to);
}

#define NAME_EXPECTED "a text of 1 to 255 bytes" /* FIELD_NAME_MAX */

static int name_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str name;
    int rc = read_text(r, f, FIELD_NAME_MAX, &name);
    if (rc == 0 && str_has_control(name))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it has a control character");
    if (rc == 0 && name.len == 0)
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it is empty");
    if (rc == 0)
        *(struct str *)to = name;
    return rc;
}

static int queue_read(struct field_reader *r, const struct field *f, void *to)
{
    int rc = name_read(r, f, to);
    if (rc == 0 && (rc = name_check_queue(*(struct str *)to, r->err)) < 0)
        (void)snprintf(r->place, sizeof r->place, "%s%s", r->at, f->name);
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
            return field_wrong(r, f, REDRIVE_E_RANGE, "there are too many");
        rc = read_one(r, f, &ret->items[ret->n++]);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return field_not_json(r);
    return ret->n > 0 ? 0 : field_wrong(r, f, REDRIVE_E_INVALID, "it is empty");
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

/* The text of a number is as JSON has numbers. */
static bool number_follows(struct field_reader *r)
{
    if (field_reads_text(r))
        json_reader_init(&r->json, r->text, NULL);
    return json_peek(&r->json) == JSON_TYPE_NUMBER;
}

static bool number_ends(struct field_reader *r)
{
    return !field_reads_text(r) || json_end(&r->json) == 0;
}

static int not_a_number(struct field_reader *r, const struct field *f, const char *what)
{
    return field_reads_text(r) ? field_wrong(r, f, REDRIVE_E_INVALID, what)
                               : field_wrong_type(r, f);
}

static int out_of_range(struct field_reader *r, const struct field *f)
{
    return field_wrong(r, f, REDRIVE_E_RANGE, "it is out of range");
}

static int read_whole(struct field_reader *r, const struct field *f, int64_t *ret)
{
    if (!number_follows(r))
        return not_a_number(r, f, "it is not a whole number");
    int rc = json_read_int(&r->json, ret);
    if (rc == REDRIVE_E_RANGE)
        return out_of_range(r, f);
    if (rc < 0 || !number_ends(r))
        return field_wrong(r, f, REDRIVE_E_INVALID, "it is not a whole number");
    return *ret < f->min || *ret > f->max ? out_of_range(r, f) : 0;
}

static int int_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t n;
    int rc = read_whole(r, f, &n);
    if (rc == 0)
        *(int64_t *)to = n;
    return rc;
}

static int uint_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t n;
    int rc = read_whole(r, f, &n);
    if (rc == 0)
        *(uint32_t *)to = (uint32_t)n;
    return rc;
}

static int count_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t n;
    int rc = read_whole(r, f, &n);
    if (rc == 0)
        *(size_t *)to = (size_t)n;
    return rc;
}

static void int_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    buf_printf(out, "a whole number from %" PRId64 " to %" PRId64, f->min, f->max);
}

static int double_read(struct field_reader *r, const struct field *f, void *to)
{
    double n;
    if (!number_follows(r))
        return not_a_number(r, f, "it is not a number");
    int rc = json_read_double(&r->json, &n);
    if (rc == REDRIVE_E_RANGE)
        return out_of_range(r, f);
    if (rc < 0 || !number_ends(r))
        return field_wrong(r, f, REDRIVE_E_INVALID, "it is not a number");
    *(double *)to = n;
    return 0;
}

#define PER_SECOND_MAX 1000000

static int rate_read(struct field_reader *r, const struct field *f, void *to)
{
    const struct field number = {.name = f->name, .kind = f->kind, .min = 1, .max = PER_SECOND_MAX};
    struct str text;
    int64_t n;
    int rc;
    if (next_is(r, JSON_TYPE_NUMBER)) {
        rc = read_whole(r, &number, &n);
        if (rc == 0)
            *(struct rate *)to = (struct rate){.count = (uint32_t)n, .period_s = 1};
        return rc;
    }
    rc = read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc == 0 && rate_parse(text, to, NULL) < 0)
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it is not a rate");
    return rc;
}

static void rate_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    (void)f;
    buf_printf(out, "jobs a second, 1 to %d, or a text such as 10/s or 90/min", PER_SECOND_MAX);
}

static int bool_read(struct field_reader *r, const struct field *f, void *to)
{
    bool *ret = to;
    if (!field_reads_text(r)) {
        if (!next_is(r, JSON_TYPE_TRUE) && !next_is(r, JSON_TYPE_FALSE))
            return field_wrong_type(r, f);
        return json_read_bool(&r->json, ret) < 0 ? field_not_json(r) : 0;
    }
    *ret = r->text.len == 0 || str_is(r->text, "true") || str_is(r->text, "1");
    if (*ret || str_is(r->text, "false") || str_is(r->text, "0"))
        return 0;
    return field_wrong(r, f, REDRIVE_E_INVALID, "it is neither true nor false");
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Seconds as a JSON number; what is less than a millisecond counts as one. */
static int read_seconds(struct field_reader *r, const struct field *f, int64_t *ret_ms)
{
    double seconds;
    if (json_read_double(&r->json, &seconds) < 0)
        return field_wrong(r, f, REDRIVE_E_INVALID, "it is not a number that fits");
    if (!(seconds >= 0 && seconds * 1000 <= (double)DURATION_MAX_MS))
        return out_of_range(r, f);
    *ret_ms = (int64_t)ceil(seconds * 1000);
    return 0;
}

static int read_duration(struct field_reader *r, const struct field *f, int64_t *ret_ms)
{
    struct str text;
    if (next_is(r, JSON_TYPE_NUMBER))
        return read_seconds(r, f, ret_ms);
    int rc = read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc == 0 && duration_parse(text, ret_ms, NULL) < 0)
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it is not a duration");
    return rc;
}

static int span_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t ms;
    int rc = read_duration(r, f, &ms);
    if (rc == 0 && (ms < f->min || ms > f->max))
        rc = out_of_range(r, f);
    if (rc == 0)
        *(int64_t *)to = ms;
    return rc;
}

static void span_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
    buf_printf(out, "%sa duration such as 1m30s, from %s to %s",
               field_reads_text(r) ? "" : "seconds or ", duration_format(f->min, least),
               duration_format(f->max, most));
}

/* Before 1970 nothing has happened, and 0 would be no bound. */
static int age_read(struct field_reader *r, const struct field *f, void *to)
{
    int64_t ms;
    int rc = read_duration(r, f, &ms);
    if (rc == 0)
        *(int64_t *)to = r->now_ms > ms ? r->now_ms - ms : 1;
    return rc;
}

static int time_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text;
    int rc = read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc == 0 && !moment_parse(text, to))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it is not a time");
    return rc;
}

static int when_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text;
    int64_t ms = 0;
    int rc = next_is(r, JSON_TYPE_NUMBER) ? read_seconds(r, f, &ms) : 1;
    if (rc <= 0) {
        *(int64_t *)to = r->now_ms + ms;
        return rc;
    }
    rc = read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    if (moment_looks_like_one(text))
        return moment_parse(text, to) ? 0
                                      : field_wrong(r, f, REDRIVE_E_INVALID, "it is not a time");
    if (duration_parse(text, &ms, NULL) < 0)
        return field_wrong(r, f, REDRIVE_E_INVALID, "it is neither a time nor a duration");
    *(int64_t *)to = r->now_ms + ms;
    return 0;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static int word_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text;
    size_t n = 0;
    int rc = read_text(r, f, FIELD_NAME_MAX, &text);
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
    (void)r;
    buf_puts(out, "one of ");
    for (size_t i = 0; f->words[i]; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "", f->words[i]);
}

static int vocabulary_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text, unknown;
    size_t n;
    int rc = read_text(r, f, JSON_MAX_BYTES, &text);
    if (rc < 0 || vocabulary_mask(f->vocabulary, f->skip, text, to, &unknown))
        return rc;
    const char *const *words = vocabulary_words(f->vocabulary, &n);
    return field_no_such_word(r, f->name, unknown, words + f->skip, n - f->skip);
}

static int fingerprint_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text;
    int rc = read_text(r, f, FIELD_NAME_MAX, &text);
    if (rc == 0 && !fingerprint_parse(text, to))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "it is not a fingerprint");
    return rc;
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

const struct field_kind FIELD_NAME = {.read = name_read, .expects = NAME_EXPECTED};
const struct field_kind FIELD_TEXT = {.read = text_read, .describe = text_describe};
const struct field_kind FIELD_WORDING = {.read = wording_read, .expects = "a text"};
const struct field_kind FIELD_NAMES = {.read = names_read, .describe = names_describe};
const struct field_kind FIELD_QUEUES = {.read = queues_read, .describe = names_describe};
const struct field_kind FIELD_INT = {.read = int_read, .describe = int_describe};
const struct field_kind FIELD_UINT = {.read = uint_read, .describe = int_describe};
const struct field_kind FIELD_COUNT = {.read = count_read, .describe = int_describe};
const struct field_kind FIELD_DOUBLE = {.read = double_read,
                                        .expects = "a number such as 20 or 0.5"};
const struct field_kind FIELD_BOOL = {
    .read = bool_read, .expects = "true or false", .takes_nothing = true};
const struct field_kind FIELD_RATE = {.read = rate_read, .describe = rate_describe};
const struct field_kind FIELD_SPAN = {.read = span_read, .describe = span_describe};
const struct field_kind FIELD_AGE = {.read = age_read,
                                     .expects = "a duration such as 90m, 24h or 30d"};
const struct field_kind FIELD_TIME = {.read = time_read, .expects = MOMENT_EXPECTED};
const struct field_kind FIELD_WHEN = {.read = when_read,
                                      .expects = MOMENT_EXPECTED ", or a duration such as 1h30m"};
const struct field_kind FIELD_WORD = {.read = word_read, .describe = word_describe};
const struct field_kind FIELD_VOCABULARY = {
    .read = vocabulary_read, .expects = "a text", .is_list = true};
const struct field_kind FIELD_FINGERPRINT = {
    .read = fingerprint_read, .expects = "16 hexadecimal digits, as groups of errors have them"};
const struct field_kind FIELD_JSON = {.read = json_read, .takes_null = true};
const struct field_kind FIELD_OBJECT = {.read = object_read, .expects = "an object"};
