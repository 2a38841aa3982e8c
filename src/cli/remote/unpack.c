/* unpack.c - reads JSON objects into structs, by tables. */
#include "cli/remote/unpack.h"

#include <string.h>

#include "base/err.h"
#include "core/time/civil.h"
#include "store/page.h"

static int unpack_error(const struct json_reader *r, struct redrive_err *err)
{
    struct redrive_err why = {0};
    const int rc = json_error(r, &why);
    if (rc == 0 || rc == REDRIVE_E_NOMEM)
        return rc == 0 ? 0 : err_nomem(err);
    (void)err_set(err, REDRIVE_E_PARSE, "the answer of the server cannot be read");
    err_detail(err, "%s", why.message);
    return REDRIVE_E_PARSE;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int read_text(struct json_reader *r, struct arena *arena, struct str *ret)
{
    struct str text;
    int rc = json_read_text(r, arena, &text);
    if (rc == 0)
        *ret = arena_str(arena, text);
    return rc;
}

static int read_u64(struct json_reader *r, uint64_t *ret)
{
    int64_t n = 0;
    int rc = json_read_int(r, &n);
    if (rc == 0 && n < 0)
        rc = json_fail(r, REDRIVE_E_RANGE, "a number is out of range");
    *ret = (uint64_t)n;
    return rc;
}

static int read_time(struct json_reader *r, int64_t *ret)
{
    struct json_string s;
    int rc = json_read_string(r, &s);
    if (rc == 0 && !moment_parse(s.raw, ret))
        rc = json_fail(r, REDRIVE_E_PARSE, "expected " MOMENT_EXPECTED);
    return rc;
}

static int read_word(struct json_reader *r, enum vocabulary words, int *ret)
{
    struct json_string s;
    int rc = json_read_string(r, &s);
    if (rc < 0)
        return rc;
    const int number = vocabulary_find(words, s.raw);
    size_t n_words;
    (void)vocabulary_words(words, &n_words);
    *ret = number < 0 ? (int)n_words : number;
    return 0;
}

static int read_value(struct json_reader *r, const struct unpack *b, struct arena *arena, void *to)
{
    struct str raw;
    int rc;
    switch (b->type) {
    case UNPACK_STR: return read_text(r, arena, to);
    case UNPACK_JSON:
        rc = json_skip(r, &raw);
        *(struct str *)to = rc == 0 ? arena_str(arena, raw) : (struct str){0};
        return rc;
    case UNPACK_BOOL: return json_read_bool(r, to);
    case UNPACK_TIME: return read_time(r, to);
    case UNPACK_WORD: return read_word(r, b->words, to);
    case UNPACK_U64: return read_u64(r, to);
    case UNPACK_OBJECT:
    default: return unpack_members(r, b->object, arena, to);
    }
}

/* ---- Objects and arrays ---------------------------------------------------------------------- */

static const struct unpack *find_row(const struct unpack *table, struct json_string key)
{
    for (const struct unpack *b = table; b->key; b++)
        if (json_string_is(key, b->key))
            return b;
    return NULL;
}

int unpack_members(struct json_reader *r, const struct unpack *table, struct arena *arena, void *to)
{
    struct json_string key;
    int rc = json_enter_object(r);
    if (rc < 0)
        return rc;
    while ((rc = json_next_key(r, &key)) > 0) {
        const struct unpack *b = find_row(table, key);
        if (!b || json_peek(r) == JSON_TYPE_NULL)
            rc = json_skip(r, NULL);
        else
            rc = read_value(r, b, arena, (char *)to + b->offset);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc : arena->failed ? REDRIVE_E_NOMEM : 0;
}

static int read_items(struct json_reader *r, const struct unpack *table, size_t size,
                      const void *blank, struct arena *arena, struct unpack_list *list)
{
    int rc = json_enter_array(r);
    if (rc < 0)
        return rc;
    while ((rc = json_next_item(r)) > 0) {
        char *rows = page_grow(arena, list->rows, list->n, size);
        if (!rows)
            return REDRIVE_E_NOMEM;
        list->rows = rows;
        if (blank)
            memcpy(rows + list->n * size, blank, size);
        else
            memset(rows + list->n * size, 0, size);
        rc = unpack_members(r, table, arena, rows + list->n * size);
        if (rc < 0)
            return rc;
        list->n++;
    }
    return rc;
}

/* Either the reader knows what was wrong, or memory is out. */
static int finish(struct json_reader *r, int rc, struct redrive_err *err)
{
    if (rc == 0)
        rc = json_end(r);
    if (rc < 0 && unpack_error(r, err) == 0)
        (void)err_nomem(err);
    json_reader_release(r);
    return rc < 0 && rc != REDRIVE_E_NOMEM ? REDRIVE_E_PARSE : rc;
}

int unpack_object(struct str text, const struct unpack *table, struct arena *arena, void *to,
                  struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = UINT32_MAX};
    struct json_reader r;
    json_reader_init(&r, text, &limits);
    return finish(&r, unpack_members(&r, table, arena, to), err);
}

static int read_list(struct json_reader *r, const struct unpack *table, size_t size,
                     const void *blank, struct arena *arena, struct unpack_list *list)
{
    struct json_string key;
    bool has_items = false;
    int rc = json_enter_object(r);
    list->next = (struct str){0};
    if (rc < 0)
        return rc;
    while ((rc = json_next_key(r, &key)) > 0) {
        if (json_string_is(key, "items")) {
            has_items = true;
            rc = read_items(r, table, size, blank, arena, list);
        } else if (json_string_is(key, "next") && json_peek(r) == JSON_TYPE_STRING) {
            rc = read_text(r, arena, &list->next);
        } else if (json_string_is(key, "unreadable") && json_peek(r) == JSON_TYPE_NUMBER) {
            rc = json_read_int(r, &list->n_unreadable);
        } else if (json_string_is(key, "unreadable_first") && json_peek(r) == JSON_TYPE_STRING) {
            rc = read_text(r, arena, &list->unreadable_first);
        } else {
            rc = json_skip(r, NULL);
        }
        if (rc < 0)
            return rc;
    }
    return rc == 0 && !has_items ? json_fail(r, REDRIVE_E_PARSE, "expected a list of items") : rc;
}

int unpack_list(struct str text, const struct unpack *table, size_t size, const void *blank,
                struct arena *arena, struct unpack_list *list, struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = UINT32_MAX};
    struct json_reader r;
    json_reader_init(&r, text, &limits);
    return finish(&r, read_list(&r, table, size, blank, arena, list), err);
}
