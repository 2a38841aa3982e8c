/* query.c - reads parameters by tables of fields. */
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
