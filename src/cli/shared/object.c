/* object.c - reads the members of JSON objects. */
#include "cli/shared/object.h"

#include <math.h>

#include "core/time/civil.h"
#include "store/page.h"

const struct json_limits OBJECT_LIMITS = {.max_bytes = UINT32_MAX, .max_depth = JSON_DEPTH_LIMIT};

struct object object_of(struct str json, struct arena *arena)
{
    struct json_member *members = NULL;
    size_t n = 0;
    if (json_read_members(json, &OBJECT_LIMITS, arena, &members, &n, NULL) == REDRIVE_E_NOMEM)
        arena->failed = true;
    return (struct object){n > 0 ? members : NULL, n, arena};
}

int object_read_array(struct json_reader *r, struct arena *arena, struct object **ret,
                      size_t *ret_n)
{
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        struct json_member *members = NULL;
        size_t n = 0;
        struct object *grown = page_grow(arena, *ret, *ret_n, sizeof *grown);
        if (!grown)
            return REDRIVE_E_NOMEM;
        rc = json_peek(r) == JSON_TYPE_OBJECT ? json_read_object(r, arena, &members, &n)
                                              : json_skip(r, NULL);
        grown[(*ret_n)++] = (struct object){n > 0 ? members : NULL, n, arena};
        *ret = grown;
    }
    return rc;
}

/* The value of a member; absent: it is not there. */
static struct str value_of(const struct object *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (str_is(o->members[i].name, name))
            return o->members[i].value;
    return (struct str){0};
}

/* Starts on it; false: it is not there. */
static bool find(const struct object *o, const char *name, struct json_reader *r)
{
    const struct str value = value_of(o, name);
    json_reader_init(r, value, &OBJECT_LIMITS);
    return value.ptr != NULL;
}

struct str object_text(const struct object *o, const char *name)
{
    struct json_reader r;
    struct str text = value_of(o, name);
    if (text.len >= 2 && text.ptr[0] == '"' && !memchr(text.ptr, '\\', text.len))
        return (struct str){text.ptr + 1, text.len - 2};
    return find(o, name, &r) && json_read_text(&r, o->arena, &text) == 0 ? text : (struct str){0};
}

int64_t object_int(const struct object *o, const char *name)
{
    struct json_reader r;
    int64_t number = 0;
    return find(o, name, &r) && json_read_int(&r, &number) == 0 ? number : 0;
}

double object_double(const struct object *o, const char *name, double otherwise)
{
    struct json_reader r;
    double number = 0;
    return find(o, name, &r) && json_read_double(&r, &number) == 0 ? number : otherwise;
}

bool object_bool(const struct object *o, const char *name)
{
    return str_is(value_of(o, name), "true");
}

int64_t object_time(const struct object *o, const char *name)
{
    int64_t at_ms = 0;
    return moment_parse(object_text(o, name), &at_ms) ? at_ms : 0;
}

int64_t object_span(const struct object *o, const char *name)
{
    return llround(object_double(o, name, 0) * 1000);
}

struct object object_object(const struct object *o, const char *name)
{
    const struct str value = value_of(o, name);
    return value.ptr ? object_of(value, o->arena) : (struct object){.arena = o->arena};
}

size_t object_objects(const struct object *o, const char *name, struct object **ret)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    size_t n = 0;
    *ret = NULL;
    if (find(o, name, &r) && json_peek(&r) == JSON_TYPE_ARRAY)
        (void)object_read_array(&r, o->arena, ret, &n);
    return n;
}

struct str object_json(const struct object *o, const char *name)
{
    const struct str value = value_of(o, name);
    return !str_is(value, "null") ? value : (struct str){0};
}

/* The value null is like an absent one, but for its length. A text is longer in JSON than it was,
 * and JSON is not: space around it was left out. */
struct str object_value(const struct object *o, const char *name, const char *bytes)
{
    struct json_reader r;
    struct str value = value_of(o, name), text;
    const int64_t length = object_int(o, bytes);
    if (str_is(value, "null"))
        return length > 0 ? value : (struct str){0};
    if (value.len == 0 || value.ptr[0] != '"' || length >= (int64_t)value.len ||
        !value_of(o, bytes).ptr)
        return value;
    json_reader_init(&r, value, NULL);
    return json_read_text(&r, o->arena, &text) == 0 ? text : value;
}
