/* members.c - an object as a list of its members. */
#include "base/json/json.h"

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

static int read_all(struct json_reader *r, struct arena *arena, struct json_member *members,
                    size_t *ret_n)
{
    struct json_string key;
    size_t n = 0;
    int rc = json_enter_object(r);
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
        struct json_member member = {0};
        rc = members ? decode(key, arena, &member.name) : 0;
        if (rc == 0)
            rc = json_skip(r, &member.value);
        if (members)
            members[n] = member;
        n++;
    }
    *ret_n = n;
    return rc == 0 ? json_end(r) : rc;
}

int json_read_members(struct str json, struct arena *arena, struct json_member **ret, size_t *ret_n,
                      struct redrive_err *err)
{
    struct json_member *members = NULL;
    size_t n = 0;
    int rc = 0;
    /* Once to count them, and once more to keep them. */
    for (int round = 0; round < 2 && rc == 0; round++) {
        struct json_reader r;
        json_reader_init(&r, json, NULL);
        rc = read_all(&r, arena, members, &n);
        if (rc < 0 && rc != REDRIVE_E_NOMEM)
            rc = json_error(&r, err);
        json_reader_release(&r);
        if (rc == 0 && round == 0) {
            members = arena_array(arena, n + 1, sizeof *members);
            rc = members ? 0 : REDRIVE_E_NOMEM;
        }
    }
    *ret = members;
    *ret_n = rc == 0 ? n : 0;
    return rc == REDRIVE_E_NOMEM ? err_nomem(err) : rc;
}
