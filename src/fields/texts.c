/* texts.c - the kinds of values that are texts, words, or JSON as it is. */
#include "fields/field.h"

#include <inttypes.h>

#include "base/err.h"
#include "core/check.h"
#include "core/classify/fingerprint.h"

/* ---- Texts ----------------------------------------------------------------------------------- */

static int decode(struct field_reader *r, const struct field *f, size_t max, struct str *ret)
{
    struct json_string s;
    if (json_peek(&r->json) != JSON_TYPE_STRING)
        return field_wrong_type(r, f);
    if (json_read_string(&r->json, &s) < 0)
        return field_not_json(r);
    *ret = s.raw;
    if (!s.escaped)
        return s.raw.len > max ? field_too_long(r, f, REDRIVE_E_TOO_BIG) : 0;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(max);
    int rc = json_unescape(s, &text);
    if (rc == REDRIVE_E_TOO_BIG)
        return field_too_long(r, f, REDRIVE_E_TOO_BIG);
    *ret = arena_str(r->arena, buf_str(&text));
    return rc < 0 || !ret->ptr ? err_nomem(r->err) : 0;
}

int field_read_text(struct field_reader *r, const struct field *f, size_t max, struct str *ret)
{
    struct str text = r->text;
    int rc = field_reads_text(r) ? 0 : decode(r, f, max, &text);
    if (rc == 0 && text.len > max)
        rc = field_too_long(r, f, REDRIVE_E_INVALID);
    if (rc == 0 && text.len > 0 && memchr(text.ptr, '\0', text.len))
        rc = field_wrong(r, f, REDRIVE_E_INVALID, "has a NUL character");
    if (rc == 0)
        *ret = text;
    return rc;
}

static size_t longest(const struct field *f)
{
    return f->max > 0 ? (size_t)f->max : FIELD_TEXT_MAX;
}

static int text_read(struct field_reader *r, const struct field *f, void *to)
{
    struct str text = {0};
    int rc = field_read_text(r, f, longest(f), &text);
    if (rc == 0)
        *(const char **)to = arena_dup(r->arena, text);
    return rc == 0 && r->arena->failed ? err_nomem(r->err) : rc;
}

static void text_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    (void)r;
    buf_printf(out, "a text of up to %zu bytes", longest(f));
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

void field_write_text(const struct field *f, const void *member, struct json_writer *w)
{
    const char *text = *(const char *const *)member;
    if (text)
        json_field_cstr(w, f->name, text);
}

const struct field_kind FIELD_TEXT = {
    .name = "string", .read = text_read, .describe = text_describe, .write = field_write_text};
const struct field_kind FIELD_WORDING = {
    .name = "string", .read = wording_read, .expects = "a text"};
const struct field_kind FIELD_NAME = {
    .name = "string", .read = name_read, .expects = NAME_EXPECTED};
const struct field_kind FIELD_QUEUE = {
    .name = "string", .read = queue_read, .expects = NAME_EXPECTED};

/* ---- Lists of names -------------------------------------------------------------------------- */

static int read_names(struct field_reader *r, const struct field *f, void *to,
                      int (*read_one)(struct field_reader *r, const struct field *f, void *to))
{
    struct field_names *ret = to;
    int rc;
    if (!field_next_is(r, JSON_TYPE_ARRAY))
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

const struct field_kind FIELD_NAMES = {
    .name = "strings", .read = names_read, .describe = names_describe, .is_json = true};
const struct field_kind FIELD_QUEUES = {
    .name = "strings", .read = queues_read, .describe = names_describe, .is_json = true};

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

static void word_write(const struct field *f, const void *member, struct json_writer *w)
{
    const int number = *(const int *)member;
    for (int i = 0; f->words[i]; i++)
        if (i == number)
            json_field_cstr(w, f->name, f->words[i]);
}

static void term_write(const struct field *f, const void *member, struct json_writer *w)
{
    size_t n;
    const char *const *words = vocabulary_words(f->vocabulary, &n);
    const int first = vocabulary_find(f->vocabulary, str_of(words[0]));
    const int number = *(const int *)member;
    if (number >= first && (size_t)(number - first) < n)
        json_field_cstr(w, f->name, words[number - first]);
}

const struct field_kind FIELD_WORD = {
    .name = "choice", .read = word_read, .describe = word_describe, .write = word_write};
const struct field_kind FIELD_TERM = {
    .name = "choice", .read = term_read, .describe = term_describe, .write = term_write};
const struct field_kind FIELD_TERMS = {
    .name = "choices", .read = terms_read, .describe = term_describe, .is_list = true};
const struct field_kind FIELD_FINGERPRINT = {
    .name = "fingerprint",
    .read = fingerprint_read,
    .expects = "16 hexadecimal digits, as groups of errors have them"};

/* ---- JSON as it is --------------------------------------------------------------------------- */

static int json_read(struct field_reader *r, const struct field *f, void *to)
{
    (void)f;
    return json_skip(&r->json, to) < 0 ? field_not_json(r) : 0;
}

static int object_read(struct field_reader *r, const struct field *f, void *to)
{
    return field_next_is(r, JSON_TYPE_OBJECT) ? json_read(r, f, to) : field_wrong_type(r, f);
}

const struct field_kind FIELD_JSON = {
    .name = "json", .read = json_read, .takes_null = true, .is_json = true};
const struct field_kind FIELD_OBJECT = {
    .name = "object", .read = object_read, .expects = "an object", .is_json = true};
