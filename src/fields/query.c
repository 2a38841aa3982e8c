/* query.c - reads parameters, and texts of options, by tables of fields. */
#include "fields/query.h"

#include <assert.h>

#include "base/err.h"
#include "base/text/encode.h"

void fields_query_open(struct field_reader *r, unsigned uses, struct arena *arena, int64_t now_ms,
                       struct redrive_err *err)
{
    r->text = STR("");
    r->arena = arena;
    r->now_ms = now_ms;
    r->uses = uses;
    r->is_parameter = true;
    r->is_option = false;
    r->err = err;
    r->at[0] = r->place[0] = '\0';
    r->list = NULL;
}

static int is_empty(struct field_reader *r, const struct field *f)
{
    const int rc = field_wrong(r, f, REDRIVE_E_INVALID, "is empty");
    if (r->is_option)
        err_hint(r->err, FIELD_EMPTY_HINT);
    return rc;
}

int fields_query_add(struct field_reader *r, const struct field *fields, struct str name,
                     struct str value, void *ret, uint64_t *given)
{
    size_t i = 0;
    while (fields[i].name && !(field_is_allowed(r, &fields[i]) && str_is(name, fields[i].name)))
        i++;
    const struct field *f = &fields[i];
    const uint64_t bit = UINT64_C(1) << i;
    if (!f->name)
        return field_unknown(r, fields, name, "parameter");
    assert(!f->kind->is_json);
    r->text = value.ptr ? value : STR("");
    if (value.len == 0 && !f->kind->takes_nothing)
        return is_empty(r, f);
    if (!utf8_valid(value))
        return field_fault(r, f->name, REDRIVE_E_INVALID, "it is not UTF-8");
    if ((*given & bit) && !f->kind->is_list)
        return field_fault(r, f->name, REDRIVE_E_INVALID, "it is given twice");
    *given |= bit;
    return f->kind->read(r, f, (char *)ret + f->offset);
}

/* ---- Texts that are sent on ------------------------------------------------------------------ */

static int check_json(struct field_reader *r, const struct field *f, struct str text, void *to)
{
    struct redrive_err why = {0};
    int rc = json_check(text, NULL, &why);
    if (rc < 0) {
        (void)field_fault(r, f->name, rc, "it is not JSON");
        err_detail(r->err, "%s", why.message);
        return rc;
    }
    r->text = (struct str){0};
    json_reader_init(&r->json, text, NULL);
    rc = f->kind->read(r, f, to);
    json_reader_release(&r->json);
    return rc;
}

int fields_check_text(const struct field *field, const char *label, struct str text,
                      struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct field named = *field;
    struct field_reader r;
    _Alignas(max_align_t) char ignored[64];
    named.name = label;
    fields_query_open(&r, 0, &arena, 0, err);
    r.text = text.ptr ? text : STR("");
    if (text.len == 0)
        return is_empty(&r, &named);
    if (!utf8_valid(text))
        return field_fault(&r, label, REDRIVE_E_INVALID, "it is not UTF-8");
    return named.kind->is_json ? check_json(&r, &named, text, ignored)
                               : named.kind->read(&r, &named, ignored);
}

void fields_write_text(const struct field *field, struct str text, struct json_writer *w)
{
    if (!field->kind->is_json && !field->kind->is_plain) {
        json_field_string(w, field->name, text);
        return;
    }
    json_key(w, field->name);
    json_put_raw(w, text);
}
