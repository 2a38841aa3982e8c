/* body.c - reads objects by tables of members, and reports faults. */
#include "server/rest/body/body.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/duration.h"
#include "core/time/civil.h"

#define WORDS_MAX 64

void body_open(struct body *b, struct str text, struct arena *arena, int64_t now_ms,
               struct redrive_err *err)
{
    json_reader_init(&b->reader, text, NULL);
    b->arena = arena;
    b->now_ms = now_ms;
    b->err = err;
    b->at[0] = b->field[0] = '\0';
}

void body_release(struct body *b)
{
    json_reader_release(&b->reader);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void name_field(struct body *b, const char *name)
{
    (void)snprintf(b->field, sizeof b->field, "%s%s", b->at, name);
}

int body_fault(struct body *b, const char *name, int code, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    name_field(b, name);
    return err_set(b->err, code, "%s: %s", b->field, text);
}

int body_missing(struct body *b, const char *name, const char *expected)
{
    int rc = body_fault(b, name, REDRIVE_E_INVALID, "it is missing");
    err_detail(b->err, "expected %s", expected);
    return rc;
}

void body_suggest(struct redrive_err *err, struct str word, const char *const *words, size_t n)
{
    RELEASED_BY(buf_release) struct buf list = BUF_MAX(480);
    for (size_t i = 0; i < n; i++)
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", words[i]);
    err_detail(err, "expected one of %s", buf_cstr(&list));
    err_suggest(err, suggest(word, words, n));
}

/* What the JSON reader has found. */
static int not_json(struct body *b)
{
    int rc = json_error(&b->reader, b->err);
    return rc < 0 ? rc : err_nomem(b->err);
}

static int unknown_member(struct body *b, const struct member *members, struct json_string key)
{
    const char *names[WORDS_MAX];
    size_t n = 0;
    for (; members[n].name; n++)
        names[n] = members[n].name;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(BODY_FIELD_MAX / 2);
    (void)json_unescape(key, &text);
    int rc = body_fault(b, buf_cstr(&text), REDRIVE_E_UNKNOWN, "there is no such member");
    body_suggest(b->err, buf_str(&text), names, n);
    return rc;
}

/* ---- What is expected ------------------------------------------------------------------------ */

static void expect(struct body *b, const struct member *m)
{
    char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
    switch (m->type) {
    case MEMBER_NAME: err_detail(b->err, "expected a text of 1 to %d bytes", BODY_NAME_MAX); break;
    case MEMBER_TEXT:
        err_detail(b->err, "expected a text of up to %" PRId64 " bytes", m->max);
        break;
    case MEMBER_NAMES:
        err_detail(b->err, "expected an array of 1 to %" PRId64 " names", m->max);
        break;
    case MEMBER_INT:
        err_detail(b->err, "expected a whole number from %" PRId64 " to %" PRId64, m->min, m->max);
        break;
    case MEMBER_BOOL: err_detail(b->err, "expected true or false"); break;
    case MEMBER_SPAN:
        err_detail(b->err, "expected seconds or a duration such as 1m30s, from %s to %s",
                   duration_format(m->min, least), duration_format(m->max, most));
        break;
    case MEMBER_TIME: err_detail(b->err, "expected %s", MOMENT_EXPECTED); break;
    case MEMBER_WHEN:
        err_detail(b->err, "expected %s, or a duration such as 1h30m", MOMENT_EXPECTED);
        break;
    case MEMBER_OBJECT: err_detail(b->err, "expected an object"); break;
    case MEMBER_JSON:
    case MEMBER_WORD:
    default: break;
    }
}

static int wrong(struct body *b, const struct member *m, int code, const char *what)
{
    int rc = body_fault(b, m->name, code, "%s", what);
    expect(b, m);
    return rc;
}

static int wrong_type(struct body *b, const struct member *m)
{
    char text[64];
    int type = json_peek(&b->reader);
    if (type < 0)
        return not_json(b);
    const char *name = json_type_name((enum json_type)type);
    (void)snprintf(text, sizeof text, "it is %s %s",
                   type == JSON_TYPE_ARRAY || type == JSON_TYPE_OBJECT ? "an" : "a", name);
    return wrong(b, m, REDRIVE_E_INVALID, type < JSON_TYPE_NUMBER ? "it is not a value" : text);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A decoded string in the arena. */
static int read_text(struct body *b, const struct member *m, size_t max, struct str *ret)
{
    struct json_string s;
    if (json_peek(&b->reader) != JSON_TYPE_STRING)
        return wrong_type(b, m);
    if (json_read_string(&b->reader, &s) < 0)
        return not_json(b);
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(max);
    int rc = json_unescape(s, &text);
    if (rc == REDRIVE_E_TOO_BIG)
        rc = wrong(b, m, REDRIVE_E_TOO_BIG, "it is too long");
    else if (rc < 0)
        rc = err_nomem(b->err);
    else if (rc == 0 && text.len > 0 && memchr(text.data, '\0', text.len))
        rc = wrong(b, m, REDRIVE_E_INVALID, "it has a NUL character");
    else if (rc == 0)
        *ret = arena_str(b->arena, buf_str(&text));
    if (rc == 0 && b->arena->failed)
        rc = err_nomem(b->err);
    return rc;
}

static int read_name(struct body *b, const struct member *m, struct str *ret)
{
    struct str s = {0};
    int rc = read_text(b, m, BODY_NAME_MAX, &s);
    if (rc < 0)
        return rc;
    if (str_has_control(s))
        return wrong(b, m, REDRIVE_E_INVALID, "it has a control character");
    if (s.len == 0)
        return wrong(b, m, REDRIVE_E_INVALID, "it is empty");
    *ret = s;
    return 0;
}

static int read_names(struct body *b, const struct member *m, struct names *ret)
{
    int rc;
    if (json_peek(&b->reader) != JSON_TYPE_ARRAY)
        return wrong_type(b, m);
    (void)json_enter_array(&b->reader);
    ret->items = arena_array(b->arena, (size_t)m->max, sizeof *ret->items);
    ret->n = 0;
    if (!ret->items)
        return err_nomem(b->err);
    while ((rc = json_next_item(&b->reader)) > 0) {
        if (ret->n == (size_t)m->max)
            return wrong(b, m, REDRIVE_E_RANGE, "there are too many");
        rc = read_name(b, m, &ret->items[ret->n++]);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return not_json(b);
    return ret->n > 0 ? 0 : wrong(b, m, REDRIVE_E_INVALID, "it is empty");
}

static int read_int(struct body *b, const struct member *m, int64_t *ret)
{
    int64_t value;
    if (json_peek(&b->reader) != JSON_TYPE_NUMBER)
        return wrong_type(b, m);
    if (json_read_int(&b->reader, &value) < 0)
        return wrong(b, m, REDRIVE_E_INVALID, "it is not a whole number that fits");
    if (value < m->min || value > m->max)
        return wrong(b, m, REDRIVE_E_RANGE, "it is out of range");
    *ret = value;
    return 0;
}

/* Seconds, or a duration. */
static int read_span(struct body *b, const struct member *m, int64_t *ret)
{
    double seconds;
    int64_t ms;
    if (json_peek(&b->reader) == JSON_TYPE_NUMBER) {
        if (json_read_double(&b->reader, &seconds) < 0)
            return wrong(b, m, REDRIVE_E_INVALID, "it is not a number that fits");
        if (!(seconds >= 0 && seconds * 1000 <= (double)DURATION_MAX_MS))
            return wrong(b, m, REDRIVE_E_RANGE, "it is out of range");
        ms = (int64_t)ceil(seconds * 1000);
    } else {
        struct str text = {0};
        int rc = read_text(b, m, BODY_NAME_MAX, &text);
        if (rc < 0)
            return rc;
        if (duration_parse(text, &ms, NULL) < 0)
            return wrong(b, m, REDRIVE_E_INVALID, "it is not a duration");
    }
    if (ms < m->min || ms > m->max)
        return wrong(b, m, REDRIVE_E_RANGE, "it is out of range");
    *ret = ms;
    return 0;
}

static int read_time(struct body *b, const struct member *m, int64_t *ret)
{
    struct str text = {0};
    int64_t ms = 0;
    if (m->type == MEMBER_WHEN && json_peek(&b->reader) == JSON_TYPE_NUMBER) {
        const struct member span = {m->name, MEMBER_SPAN, 0, .min = 0, .max = DURATION_MAX_MS};
        int rc = read_span(b, &span, &ms);
        if (rc == 0)
            *ret = b->now_ms + ms;
        return rc;
    }
    int rc = read_text(b, m, BODY_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    if (m->type == MEMBER_WHEN && !moment_looks_like_one(text)) {
        if (duration_parse(text, &ms, NULL) < 0)
            return wrong(b, m, REDRIVE_E_INVALID, "it is neither a time nor a duration");
        ms += b->now_ms;
    } else if (!moment_parse(text, &ms)) {
        return wrong(b, m, REDRIVE_E_INVALID, "it is not a time");
    }
    *ret = ms;
    return 0;
}

static int read_word(struct body *b, const struct member *m, int *ret)
{
    struct str text = {0};
    size_t n = 0;
    int rc = read_text(b, m, BODY_NAME_MAX, &text);
    if (rc < 0)
        return rc;
    for (; m->words[n]; n++)
        if (str_is(text, m->words[n])) {
            *ret = (int)n;
            return 0;
        }
    rc = body_fault(b, m->name, REDRIVE_E_INVALID, "there is no '%.*s'",
                    (int)(text.len < 60 ? text.len : 60), text.ptr);
    body_suggest(b->err, text, m->words, n);
    return rc;
}

static int read_raw(struct body *b, const struct member *m, struct str *ret)
{
    if (m->type == MEMBER_OBJECT && json_peek(&b->reader) != JSON_TYPE_OBJECT)
        return wrong_type(b, m);
    return json_skip(&b->reader, ret) < 0 ? not_json(b) : 0;
}

static int read_value(struct body *b, const struct member *m, void *to)
{
    struct str text = {0};
    int rc;
    switch (m->type) {
    case MEMBER_NAME: return read_name(b, m, to);
    case MEMBER_TEXT:
        rc = read_text(b, m, (size_t)m->max, &text);
        if (rc == 0)
            *(const char **)to = text.ptr;
        return rc;
    case MEMBER_NAMES: return read_names(b, m, to);
    case MEMBER_INT: return read_int(b, m, to);
    case MEMBER_BOOL:
        rc = json_peek(&b->reader);
        if (rc != JSON_TYPE_TRUE && rc != JSON_TYPE_FALSE)
            return wrong_type(b, m);
        return json_read_bool(&b->reader, to) < 0 ? not_json(b) : 0;
    case MEMBER_SPAN: return read_span(b, m, to);
    case MEMBER_TIME:
    case MEMBER_WHEN: return read_time(b, m, to);
    case MEMBER_WORD: return read_word(b, m, to);
    case MEMBER_JSON:
    case MEMBER_OBJECT:
    default: return read_raw(b, m, to);
    }
}

/* ---- Objects and arrays ---------------------------------------------------------------------- */

static int read_member(struct body *b, const struct member *members, struct json_string key,
                       void *ret, uint64_t *given)
{
    size_t i = 0;
    while (members[i].name && !json_string_is(key, members[i].name))
        i++;
    const struct member *m = &members[i];
    if (!m->name)
        return unknown_member(b, members, key);
    int type = json_peek(&b->reader);
    if (type < 0)
        return not_json(b);
    if (type == JSON_TYPE_NULL && m->type != MEMBER_JSON)
        return json_read_null(&b->reader) < 0 ? not_json(b) : 0;
    *given |= UINT64_C(1) << i;
    return read_value(b, m, (char *)ret + m->offset);
}

int body_object(struct body *b, const struct member *members, void *ret, uint64_t *ret_given)
{
    struct json_string key;
    int rc = json_peek(&b->reader);
    *ret_given = 0;
    if (rc >= 0 && rc != JSON_TYPE_OBJECT) {
        (void)snprintf(b->field, sizeof b->field, "%.*s", (int)strlen(b->at) - (b->at[0] != '\0'),
                       b->at);
        rc = err_set(b->err, REDRIVE_E_INVALID, "%s%sit is no object", b->field,
                     b->field[0] ? ": " : "");
        err_detail(b->err, "expected an object");
        return rc;
    }
    if (json_enter_object(&b->reader) < 0)
        return not_json(b);
    while ((rc = json_next_key(&b->reader, &key)) > 0) {
        rc = read_member(b, members, key, ret, ret_given);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? not_json(b) : 0;
}

int body_enter(struct body *b, const char *name)
{
    static const struct member LIST = {.type = MEMBER_JSON};
    struct member m = LIST;
    m.name = name;
    if (json_peek(&b->reader) != JSON_TYPE_ARRAY) {
        int rc = wrong_type(b, &m);
        err_detail(b->err, "expected an array");
        return rc;
    }
    return json_enter_array(&b->reader) < 0 ? not_json(b) : 0;
}

int body_next(struct body *b, const char *name, size_t i)
{
    int rc = json_next_item(&b->reader);
    b->at[0] = '\0';
    if (rc > 0)
        (void)snprintf(b->at, sizeof b->at, "%s[%zu].", name, i);
    return rc < 0 ? not_json(b) : rc;
}

size_t body_count(struct str array, size_t max)
{
    size_t n = 0;
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, array, NULL);
    if (json_peek(&r) == JSON_TYPE_ARRAY && json_enter_array(&r) == 0)
        while (n <= max && json_next_item(&r) > 0 && json_skip(&r, NULL) == 0)
            n++;
    return n;
}

int body_end(struct body *b)
{
    return json_end(&b->reader) < 0 ? not_json(b) : 0;
}

bool body_is_array(struct body *b)
{
    return json_peek(&b->reader) == JSON_TYPE_ARRAY;
}
