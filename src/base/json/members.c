/* members.c - an object as a list of its members. */
#include "base/json/json.h"

#include <string.h>

#include "base/err.h"
#include "base/mem/arena.h"
#include "base/text/buf.h"

static int decode(struct json_string raw, struct arena *arena, struct str *ret)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(raw.raw.len + 1);
    if (!raw.escaped) {
        *ret = raw.raw;
        return 0;
    }
    const char *copy = json_unescape(raw, &text) == 0 ? arena_dup(arena, buf_str(&text)) : NULL;
    *ret = (struct str){copy, text.len};
    return copy ? 0 : REDRIVE_E_NOMEM;
}

#define FIRST_MEMBERS 8

/* Room for one more, in an array twice as large if there is none. */
static struct json_member *grow(struct arena *arena, struct json_member *members, size_t n,
                                size_t *capacity)
{
    if (n < *capacity)
        return members;
    const size_t larger = *capacity ? 2 * *capacity : FIRST_MEMBERS;
    struct json_member *grown = arena_array(arena, larger, sizeof *grown);
    if (grown && n > 0)
        memcpy(grown, members, n * sizeof *members);
    *capacity = larger;
    return grown;
}

int json_read_object(struct json_reader *r, struct arena *arena, struct json_member **ret,
                     size_t *ret_n)
{
    struct json_string key;
    size_t capacity = 0;
    *ret = NULL;
    *ret_n = 0;
    int rc = json_enter_object(r);
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
        *ret = grow(arena, *ret, *ret_n, &capacity);
        if (!*ret)
            return REDRIVE_E_NOMEM;
        struct json_member *member = &(*ret)[(*ret_n)++];
        rc = decode(key, arena, &member->name);
        if (rc == 0)
            rc = json_skip(r, &member->value);
    }
    return rc;
}

int json_read_members(struct str json, const struct json_limits *limits, struct arena *arena,
                      struct json_member **ret, size_t *ret_n, struct redrive_err *err)
{
    struct json_reader r;
    json_reader_init(&r, json, limits);
    int rc = json_read_object(&r, arena, ret, ret_n);
    if (rc == 0)
        rc = json_end(&r);
    if (rc < 0) {
        *ret_n = 0;
        rc = rc == REDRIVE_E_NOMEM ? err_nomem(err) : json_error(&r, err);
    }
    json_reader_release(&r);
    return rc;
}
