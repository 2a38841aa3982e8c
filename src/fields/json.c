/* json.c - reads JSON objects by tables of fields. */
#include "fields/json.h"

#include <stdio.h>

#include "base/err.h"

void fields_json_open(struct field_reader *r, struct str text, struct arena *arena, int64_t now_ms,
                      struct redrive_err *err)
{
    fields_json_open_deeper(r, text, 0, arena, now_ms, err);
}

void fields_json_open_deeper(struct field_reader *r, struct str text, unsigned levels,
                             struct arena *arena, int64_t now_ms, struct redrive_err *err)
{
    const struct json_limits limits = {.max_depth = JSON_MAX_DEPTH + levels};
    json_reader_init(&r->json, text, &limits);
    r->text = (struct str){0};
    r->arena = arena;
    r->now_ms = now_ms;
    r->uses = 0;
    r->is_parameter = r->is_option = false;
    r->err = err;
    r->at[0] = r->place[0] = '\0';
    r->list = NULL;
}

void fields_json_close(struct field_reader *r)
{
    json_reader_release(&r->json);
}

static int unknown_member(struct field_reader *r, const struct field *fields,
                          struct json_string key)
{
    RELEASED_BY(buf_release) struct buf name = BUF_MAX(FIELD_NAME_MAX);
    (void)json_unescape(key, &name);
    return field_unknown(r, fields, buf_str(&name), "member");
}

static int read_member(struct field_reader *r, const struct field *fields, struct json_string key,
                       void *ret, uint64_t *given)
{
    size_t i = 0;
    while (fields[i].name &&
           !(field_is_allowed(r, &fields[i]) && json_string_is(key, fields[i].name)))
        i++;
    const struct field *f = &fields[i];
    if (!f->name)
        return unknown_member(r, fields, key);
    int type = json_peek(&r->json);
    if (type < 0)
        return field_not_json(r);
    if (type == JSON_TYPE_NULL && !f->kind->takes_null)
        return json_read_null(&r->json) < 0 ? field_not_json(r) : 0;
    *given |= UINT64_C(1) << i;
    return f->kind->read(r, f, (char *)ret + f->offset);
}

static int no_object(struct field_reader *r)
{
    const char *at = field_at(r);
    const int length = (int)strlen(at) - (at[0] != '\0'); /* without its '.' */
    (void)snprintf(r->place, sizeof r->place, "%.*s", length, at);
    int rc = err_set(r->err, REDRIVE_E_INVALID, "%s%sit is no object", r->place,
                     r->place[0] ? ": " : "");
    err_detail(r->err, "expected an object");
    return rc;
}

int fields_json_object(struct field_reader *r, const struct field *fields, void *ret,
                       uint64_t *ret_given)
{
    struct json_string key;
    int rc = json_peek(&r->json);
    *ret_given = 0;
    if (rc >= 0 && rc != JSON_TYPE_OBJECT)
        return no_object(r);
    if (json_enter_object(&r->json) < 0)
        return field_not_json(r);
    while ((rc = json_next_key(&r->json, &key)) > 0) {
        rc = read_member(r, fields, key, ret, ret_given);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? field_not_json(r) : 0;
}

int fields_json_enter(struct field_reader *r, const char *name)
{
    if (json_peek(&r->json) != JSON_TYPE_ARRAY) {
        const struct field list = {.name = name, .kind = &FIELD_JSON};
        int rc = field_wrong_type(r, &list);
        err_detail(r->err, "expected an array");
        return rc;
    }
    return json_enter_array(&r->json) < 0 ? field_not_json(r) : 0;
}

int fields_json_next(struct field_reader *r, const char *name, size_t i)
{
    int rc = json_next_item(&r->json);
    r->at[0] = '\0';
    r->list = rc > 0 ? name : NULL;
    r->item = i;
    return rc < 0 ? field_not_json(r) : rc;
}

size_t fields_json_count(struct str array, size_t max)
{
    size_t n = 0;
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, array, NULL);
    if (json_peek(&r) == JSON_TYPE_ARRAY && json_enter_array(&r) == 0)
        while (n <= max && json_next_item(&r) > 0 && json_skip(&r, NULL) == 0)
            n++;
    return n;
}

int fields_json_end(struct field_reader *r)
{
    return json_end(&r->json) < 0 ? field_not_json(r) : 0;
}

bool fields_json_is_array(struct field_reader *r)
{
    return json_peek(&r->json) == JSON_TYPE_ARRAY;
}
