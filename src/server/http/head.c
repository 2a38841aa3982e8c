/* head.c - checks headers, and how the length of a body is given. */
#include "server/http/head.h"

static bool is_token(struct str name)
{
    static const char OTHERS[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr(OTHERS, c)))
            return false;
    }
    return name.len > 0;
}

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
    if (!is_token(header->name) || !is_printable(header->value))
        head->why = "a header is malformed";
    if (str_eq_nocase(header->name, STR("content-length"))) {
        head->n_lengths++;
        head->length = header->value;
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
    else if (head->n_lengths && !read_length(head->length, ret_length))
        *ret_why = "a Content-Length that is no number";
    return *ret_why ? 400 : 0;
}
