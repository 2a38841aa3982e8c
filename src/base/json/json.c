/* json.c - reads values and containers, and the punctuation between them.
 *
 * json_skip is built on the same two steps, json_next_key and json_next_item, as a walk by the
 * caller, so that both hold a text to the same rules.
 */
#include "base/json/private.h"

#include <assert.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/encode.h"

void json_reader_init(struct json_reader *r, struct str text, const struct json_limits *limits)
{
    size_t max_bytes = limits && limits->max_bytes ? limits->max_bytes : JSON_MAX_BYTES;
    unsigned max_depth = limits && limits->max_depth ? limits->max_depth : JSON_MAX_DEPTH;

    if (!text.ptr)
        text = STR("");
    r->text = r->p = r->token_at = text.ptr;
    r->end = text.ptr + text.len;
    r->depth = 0;
    r->max_depth = max_depth < JSON_DEPTH_LIMIT ? max_depth : JSON_DEPTH_LIMIT;
    r->due = JSON_DUE_VALUE;
    r->error = 0;
    /* The hash seed: the author of the text knows neither address. */
    r->key_seed = rng_mix((uintptr_t)text.ptr ^ rng_mix((uintptr_t)r));
    r->n_slots = 0;

    if (max_bytes > UINT32_MAX)
        max_bytes = UINT32_MAX;
    if (text.len > max_bytes)
        json_fail_at(r, NULL, REDRIVE_E_TOO_BIG, "expected at most %zu bytes, found %zu", max_bytes,
                     text.len);
}

static bool in_object(const struct json_reader *r)
{
    return r->is_object[r->depth - 1];
}

void json_reader_release(struct json_reader *r)
{
    for (; r->depth > 0; r->depth--)
        if (in_object(r))
            json_keys_leave(r);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int read_word(struct json_reader *r, struct str word)
{
    if ((size_t)(r->end - r->p) >= word.len && memcmp(r->p, word.ptr, word.len) == 0) {
        json_finish_value(r, r->p + word.len);
        return 0;
    }
    const char *p = r->p;
    while (p < r->end && *p == word.ptr[p - r->p])
        p++;
    return json_unexpected(r, p, word.ptr);
}

static int read_string(struct json_reader *r, struct json_string *ret)
{
    const char *start = r->p + 1;
    const char *quote = json_scan_string(r, start, &ret->escaped);
    if (!quote)
        return r->error;
    ret->raw = (struct str){start, (size_t)(quote - start)};
    json_finish_value(r, quote + 1);
    return 0;
}

int json_read_null(struct json_reader *r)
{
    if (json_start_value(r) < 0)
        return r->error;
    return *r->p == 'n' ? read_word(r, STR("null")) : json_wrong_type(r, "null");
}

int json_read_bool(struct json_reader *r, bool *ret)
{
    if (json_start_value(r) < 0)
        return r->error;
    bool value = *r->p == 't';
    if (!value && *r->p != 'f')
        return json_wrong_type(r, "true or false");
    if (read_word(r, value ? STR("true") : STR("false")) < 0)
        return r->error;
    *ret = value;
    return 0;
}

int json_read_string(struct json_reader *r, struct json_string *ret)
{
    if (json_start_value(r) < 0)
        return r->error;
    return *r->p == '"' ? read_string(r, ret) : json_wrong_type(r, "a string");
}

/* ---- Containers ------------------------------------------------------------------------------ */

static int enter(struct json_reader *r, bool object)
{
    if (r->depth == r->max_depth)
        return json_fail_at(r, r->p, REDRIVE_E_TOO_DEEP,
                            "expected at most %u levels of nesting, found one more", r->max_depth);
    r->is_object[r->depth++] = object;
    if (object)
        json_keys_enter(r);
    r->p++;
    r->due = JSON_DUE_FIRST;
    return 0;
}

static int leave(struct json_reader *r, const char *bracket)
{
    if (in_object(r))
        json_keys_leave(r);
    r->depth--;
    r->token_at = bracket;
    json_finish_value(r, bracket + 1);
    return 0;
}

int json_enter_object(struct json_reader *r)
{
    if (json_start_value(r) < 0)
        return r->error;
    return *r->p == '{' ? enter(r, true) : json_wrong_type(r, "an object");
}

int json_enter_array(struct json_reader *r)
{
    if (json_start_value(r) < 0)
        return r->error;
    return *r->p == '[' ? enter(r, false) : json_wrong_type(r, "an array");
}

int json_next_key(struct json_reader *r, struct json_string *ret)
{
    if (r->error)
        return r->error;
    assert(r->depth > 0 && in_object(r) && r->due != JSON_DUE_VALUE);
    const char *p = json_skip_space(r->p, r->end);
    if (p < r->end && *p == '}')
        return leave(r, p);
    if (r->due == JSON_DUE_NEXT) {
        if (p == r->end || *p != ',')
            return json_unexpected(r, p, "',' or '}'");
        p = json_skip_space(p + 1, r->end);
    }
    if (p == r->end || *p != '"')
        return json_unexpected(r, p, r->due == JSON_DUE_FIRST ? "a key or '}'" : "a key");

    r->p = r->token_at = p;
    if (read_string(r, ret) < 0 || json_keys_add(r, ret->raw, ret->escaped) < 0)
        return r->error;
    p = json_skip_space(r->p, r->end);
    if (p == r->end || *p != ':')
        return json_unexpected(r, p, "':'");
    r->p = p + 1;
    r->due = JSON_DUE_VALUE;
    return 1;
}

int json_next_item(struct json_reader *r)
{
    if (r->error)
        return r->error;
    assert(r->depth > 0 && !in_object(r) && r->due != JSON_DUE_VALUE);
    const char *p = json_skip_space(r->p, r->end);
    if (p < r->end && *p == ']')
        return leave(r, p);
    if (r->due == JSON_DUE_NEXT) {
        if (p == r->end || *p != ',')
            return json_unexpected(r, p, "',' or ']'");
        p++;
    } else if (p == r->end) {
        return json_unexpected(r, p, "a value or ']'");
    }
    r->p = p;
    r->due = JSON_DUE_VALUE;
    return 1;
}

/* ---- Whole values and texts ------------------------------------------------------------------ */

/* Reads a scalar, or steps into a container. */
static int skip_one(struct json_reader *r)
{
    struct json_string ignored;
    const char *end;

    if (json_start_value(r) < 0)
        return r->error;
    switch (*r->p) {
    case '{': return enter(r, true);
    case '[': return enter(r, false);
    case '"': return read_string(r, &ignored);
    case 't': return read_word(r, STR("true"));
    case 'f': return read_word(r, STR("false"));
    case 'n': return read_word(r, STR("null"));
    default:
        if (!json_is_number_start(*r->p))
            return json_unexpected(r, r->p, "a value");
        end = json_scan_number(r, r->p);
        if (!end)
            return r->error;
        json_finish_value(r, end);
        return 0;
    }
}

int json_skip(struct json_reader *r, struct str *ret)
{
    const unsigned outside = r->depth;
    struct json_string key;

    int rc = skip_one(r);
    const char *start = r->token_at;
    while (rc >= 0 && r->depth > outside) {
        rc = in_object(r) ? json_next_key(r, &key) : json_next_item(r);
        if (rc > 0)
            rc = skip_one(r);
    }
    if (rc < 0)
        return rc;

    r->token_at = start;
    if (ret)
        *ret = (struct str){start, (size_t)(r->p - start)};
    return 0;
}

int json_end(struct json_reader *r)
{
    if (r->error)
        return r->error;
    assert(r->depth == 0 && r->due == JSON_DUE_NEXT);
    r->p = json_skip_space(r->p, r->end);
    return r->p == r->end ? 0 : json_unexpected(r, r->p, "the end of the text");
}

int json_check(struct str text, const struct json_limits *limits, struct redrive_err *err)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, text, limits);
    json_skip(&r, NULL);
    json_end(&r);
    return json_error(&r, err);
}
