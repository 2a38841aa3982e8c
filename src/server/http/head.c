/* head.c - checks headers and how the length of a body is given, decodes path and query. */
#include "server/http/private.h"

#include "base/text/encode.h"

static bool is_printable(struct str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (((unsigned char)value.ptr[i] < ' ' && value.ptr[i] != '\t') || value.ptr[i] == 127)
            return false;
    return true;
}

bool http_head_add(struct http_head *head, struct arena *arena, struct str name, struct str value)
{
    const char *name_copy = arena_dup(arena, name);
    const char *value_copy = arena_dup(arena, value);
    if (!name_copy || !value_copy)
        return false;
    struct http_param *header = &head->headers[head->n++];
    header->name = (struct str){name_copy, name.len};
    header->value = str_trim((struct str){value_copy, value.len});
    if (!str_is_token(header->name) || !is_printable(header->value))
        head->why = "a header is malformed";
    if (str_eq_nocase(header->name, STR("content-length"))) {
        head->n_lengths++;
        head->length = header->value;
    } else if (str_eq_nocase(header->name, STR("host"))) {
        head->n_hosts++;
    } else if (str_eq_nocase(header->name, STR("transfer-encoding"))) {
        head->n_encodings++;
        head->encoding = header->value;
    }
    return true;
}

static bool read_length(struct str text, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *ret = *ret * 10 + (uint64_t)(text.ptr[i] - '0');
        if (*ret > UINT32_MAX)
            *ret = UINT32_MAX;
    }
    return text.len > 0;
}

int http_head_finish(const struct http_head *head, uint64_t *ret_length, const char **ret_why)
{
    *ret_length = 0;
    *ret_why = head->why;
    if (head->why)
        return 400;
    if (head->n_lengths > 1)
        *ret_why = "more than one Content-Length";
    else if (head->n_encodings > 1)
        *ret_why = "more than one Transfer-Encoding";
    else if (head->n_lengths && head->n_encodings)
        *ret_why = "both Content-Length and Transfer-Encoding";
    else if (head->n_encodings && !str_eq_nocase(head->encoding, STR("chunked")))
        *ret_why = "a Transfer-Encoding other than chunked";
    else if (head->n_hosts > 1)
        *ret_why = "more than one Host";
    else if (head->needs_host && head->n_hosts == 0)
        *ret_why = "there is no Host";
    else if (head->n_lengths && !read_length(head->length, ret_length))
        *ret_why = "a Content-Length that is no number";
    return *ret_why ? 400 : 0;
}

/* ---- Escapes --------------------------------------------------------------------------------- */

static struct str decode(struct arena *arena, struct str text, bool plus_is_space)
{
    char *out = arena_alloc(arena, text.len + 1);
    size_t n = 0;
    if (!out)
        return (struct str){NULL, 0};
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            bool whole = text.len - i > 2;
            int high = whole ? str_hex_digit(text.ptr[i + 1]) : -1;
            int low = whole ? str_hex_digit(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return (struct str){NULL, 0};
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0')
            return (struct str){NULL, 0};
        out[n++] = c;
    }
    struct str decoded = {out, n};
    return utf8_valid(decoded) ? decoded : (struct str){NULL, 0};
}

struct str http_decode(struct http_request *request, struct str text)
{
    return decode(&request->arena, text, false);
}

/* ---- The request line ------------------------------------------------------------------------ */

static struct str cut_before(struct str text, char end, struct str *ret_rest)
{
    const char *at = text.len ? memchr(text.ptr, end, text.len) : NULL;
    if (!at) {
        *ret_rest = (struct str){NULL, 0};
        return text;
    }
    struct str before = {text.ptr, (size_t)(at - text.ptr)};
    *ret_rest = (struct str){at + 1, text.len - before.len - 1};
    return before;
}

static size_t count(struct str text, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == c;
    return n;
}

static bool read_query(struct http_request *r, struct str query)
{
    r->query = arena_array(&r->arena, count(query, '&') + 1, sizeof *r->query);
    while (r->query && query.len > 0) {
        struct str value, rest;
        struct str name = cut_before(cut_before(query, '&', &rest), '=', &value);
        query = rest;
        if (name.len == 0 && value.len == 0)
            continue;
        struct http_param *param = &r->query[r->n_query++];
        param->name = decode(&r->arena, name, true);
        param->value = value.ptr ? decode(&r->arena, value, true) : STR("");
        if (!param->name.ptr || !param->value.ptr)
            return false;
    }
    return r->query != NULL;
}

/* http://host/path is as good as /path. */
static struct str without_authority(struct str target)
{
    const char *slashes = memmem(target.ptr, target.len, "://", 3);
    if (target.len == 0 || target.ptr[0] == '/' || !slashes)
        return target;
    struct str rest = {slashes + 3, target.len - (size_t)(slashes + 3 - target.ptr)};
    const char *path = memchr(rest.ptr, '/', rest.len);
    if (!path)
        return STR("/");
    return (struct str){path, rest.len - (size_t)(path - rest.ptr)};
}

static bool has_blank(const char *uri)
{
    for (; *uri; uri++)
        if ((unsigned char)*uri <= ' ' || *uri == 127)
            return true;
    return false;
}

void http_read_target(struct http_request *r, const char *uri)
{
    const char *copy = arena_dup(&r->arena, str_of(uri));
    struct str query;
    if (!copy)
        return;
    if (has_blank(copy)) {
        r->refusal = "the path has a space or a control character";
        return;
    }
    r->raw_path = cut_before(without_authority(str_of(copy)), '?', &query);
    if (r->raw_path.len == 0 || r->raw_path.ptr[0] != '/') {
        r->refusal = "the path does not start with '/'";
        return;
    }
    r->path = decode(&r->arena, r->raw_path, false);
    if (!r->path.ptr)
        r->refusal = "the path has an escape that is none, a NUL, or text that is not UTF-8";
    else if (!read_query(r, query))
        r->refusal = "the query has an escape that is none, a NUL, or text that is not UTF-8";
}
