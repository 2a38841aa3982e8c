/* field.c - messages for values that are refused. */
#include "fields/field.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/encode.h"

#define FIELDS_MAX   64 /* in a table: a bit for each says which were given */
#define EXPECTED_MAX 480
#define SHOWN_MAX    64 /* bytes of a wrong text that a message repeats */
#define CUT          "…"

const char *field_at(struct field_reader *r)
{
    if (!r->at[0] && r->list)
        (void)snprintf(r->at, sizeof r->at, "%s[%zu].", r->list, r->item);
    return r->at;
}

/* Where a value stands, as its user has written it. */
static const char *write_place(struct field_reader *r, const char *name, char out[FIELD_PLACE_MAX])
{
    (void)snprintf(out, FIELD_PLACE_MAX, "%s%s%s", r->is_option ? "--" : "", field_at(r), name);
    for (char *c = out; r->is_option && *c; c++)
        if (*c == '_')
            *c = '-';
    return out;
}

int field_fault(struct field_reader *r, const char *name, int code, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)write_place(r, name, r->place);
    return err_set(r->err, code, "%s: %s", r->place, text);
}

int field_excludes(struct field_reader *r, const char *name, const char *other)
{
    char place[FIELD_PLACE_MAX];
    int rc = field_fault(r, name, REDRIVE_E_INVALID, "it and '%s' exclude each other",
                         r->is_option ? write_place(r, other, place) : other);
    err_hint(r->err, "give one of them");
    return rc;
}

int field_missing(struct field_reader *r, const char *name, const char *expected)
{
    int rc = field_fault(r, name, REDRIVE_E_INVALID, "it is missing");
    err_detail(r->err, "expected %s", expected);
    return rc;
}

void field_list_words(const char *const *words, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "one of ", words[i]);
}

void field_suggest(struct redrive_err *err, struct str word, const char *const *words, size_t n)
{
    RELEASED_BY(buf_release) struct buf list = BUF_MAX(EXPECTED_MAX);
    if (n == 0)
        return;
    field_list_words(words, n, &list);
    err_detail(err, "expected %s", buf_cstr(&list));
    err_suggest(err, suggest(word, words, n));
}

/* As much of a text as a message repeats, harmless on a terminal; a cut is marked. */
static const char *shorten(struct str text, char out[SHOWN_MAX])
{
    if (!str_copy(out, SHOWN_MAX - strlen(CUT), text))
        memcpy(out + strlen(out), CUT, sizeof CUT);
    utf8_make_printable(out);
    return out;
}

int field_no_such_word(struct field_reader *r, const char *name, struct str word,
                       const char *const *words, size_t n)
{
    char shown[SHOWN_MAX];
    int rc = field_fault(r, name, REDRIVE_E_INVALID, "there is no '%s'", shorten(word, shown));
    field_suggest(r->err, word, words, n);
    return rc;
}

int field_unknown(struct field_reader *r, const struct field *fields, struct str name,
                  const char *what)
{
    const char *names[FIELDS_MAX];
    char shown[SHOWN_MAX];
    size_t n = 0;
    for (const struct field *f = fields; f->name; f++)
        if (field_is_allowed(r, f))
            names[n++] = f->name;
    int rc = field_fault(r, shorten(name, shown), REDRIVE_E_UNKNOWN, "there is no such %s", what);
    field_suggest(r->err, name, names, n);
    return rc;
}

void field_describe(const struct field_reader *r, const struct field *f, struct buf *out)
{
    if (f->expects)
        buf_puts(out, f->expects);
    else if (f->kind->describe)
        f->kind->describe(r, f, out);
    else if (f->kind->expects)
        buf_puts(out, f->kind->expects);
}

int field_wrong(struct field_reader *r, const struct field *f, int code, const char *what)
{
    RELEASED_BY(buf_release) struct buf expected = BUF_MAX(EXPECTED_MAX);
    char shown[SHOWN_MAX];
    int rc = r->text.len > 0 && !f->secret
                 ? field_fault(r, f->name, code, "'%s' %s", shorten(r->text, shown), what)
                 : field_fault(r, f->name, code, "it %s", what);
    field_describe(r, f, &expected);
    if (expected.len > 0)
        err_detail(r->err, "expected %s", buf_cstr(&expected));
    return rc;
}

int field_too_long(struct field_reader *r, const struct field *f, int code)
{
    struct field silent = *f;
    silent.secret = true;
    return field_wrong(r, &silent, code, "is too long");
}

int field_not_json(struct field_reader *r)
{
    int rc = json_error(&r->json, r->err);
    return rc < 0 ? rc : err_nomem(r->err);
}

int field_wrong_type(struct field_reader *r, const struct field *f)
{
    char text[64];
    const int type = json_peek(&r->json);
    if (type < 0)
        return field_not_json(r);
    const char *name = json_type_name((enum json_type)type);
    (void)snprintf(text, sizeof text, "is %s%s",
                   type == JSON_TYPE_ARRAY || type == JSON_TYPE_OBJECT ? "an "
                   : type >= JSON_TYPE_NUMBER                          ? "a "
                                                                       : "",
                   name);
    return field_wrong(r, f, REDRIVE_E_INVALID, text);
}
