/* after_json.c - the member `after` of a new job. */
#include "store/after_json.h"

#include "base/err.h"
#include "base/json/json.h"
#include "store/page.h"

static int read_member(struct json_reader *r, struct arena *arena, struct json_string key,
                       struct job_after *ret)
{
    struct str word = {0};
    int rc = json_read_text(r, arena, &word);
    if (rc < 0)
        return rc;
    if (json_string_is(key, "id"))
        ret->id = word;
    else if (json_string_is(key, "on") && !after_on_find(word, &ret->rule.on))
        rc = json_fail(r, REDRIVE_E_INVALID, "on: expected success, end or failure");
    else if (json_string_is(key, "on_dead") && !after_dead_find(word, &ret->rule.on_dead))
        rc = json_fail(r, REDRIVE_E_INVALID, "on_dead: expected wait, cancel or run");
    else if (!json_string_is(key, "on") && !json_string_is(key, "on_dead"))
        rc = json_fail(r, REDRIVE_E_UNKNOWN, "unknown member '%.*s'; expected id, on or on_dead",
                       (int)(key.raw.len < 40 ? key.raw.len : 40), key.raw.ptr);
    return rc;
}

static int read_item(struct json_reader *r, struct arena *arena, struct job_after *ret)
{
    struct json_string key = {0};
    *ret = (struct job_after){0};
    int rc = 0;
    if (json_peek(r) == JSON_TYPE_STRING) {
        rc = json_read_text(r, arena, &ret->id);
    } else {
        rc = json_enter_object(r);
        while (rc == 0 && (rc = json_next_key(r, &key)) > 0)
            rc = read_member(r, arena, key, ret);
    }
    if (rc == 0 && ret->id.len == 0)
        rc = json_fail(r, REDRIVE_E_INVALID, "expected the id of a job");
    return rc;
}

static int read_all(struct json_reader *r, struct arena *arena, struct job_after **ret,
                    size_t *ret_n)
{
    const int type = json_peek(r);
    const bool is_array = type == JSON_TYPE_ARRAY;
    if (type == JSON_TYPE_NULL)
        return json_read_null(r);
    int rc = is_array ? json_enter_array(r) : 0;
    while (rc == 0 && (!is_array || (rc = json_next_item(r)) > 0)) {
        struct job_after *grown = page_grow(arena, *ret, *ret_n, sizeof *grown);
        if (!grown)
            return json_fail(r, REDRIVE_E_NOMEM, "out of memory");
        *ret = grown;
        rc = read_item(r, arena, &grown[*ret_n]);
        ++*ret_n;
        if (!is_array)
            break;
    }
    return rc;
}

int after_read_json(struct str json, struct arena *arena, const struct job_after **ret,
                    size_t *ret_n, struct redrive_err *err)
{
    struct json_reader r;
    struct job_after *after = NULL;
    *ret_n = 0;
    json_reader_init(&r, json, NULL);
    int rc = read_all(&r, arena, &after, ret_n);
    if (rc == 0)
        rc = json_end(&r);
    if (rc < 0)
        rc = json_error(&r, err);
    json_reader_release(&r);
    *ret = after;
    return rc;
}
