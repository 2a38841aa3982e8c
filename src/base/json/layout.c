/* layout.c - copies JSON token by token, with or without the white space between. */
#include "base/json/layout.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_mark(char c)
{
    return c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',';
}

/* The next token at `at`, spaces passed over: a string with its quotes, one mark, or a run of other
 * bytes (a number, true, false, null). Empty at the end. */
static struct str next_token(struct str text, size_t *at)
{
    size_t i = *at;
    while (i < text.len && is_space(text.ptr[i]))
        i++;
    size_t start = i;
    if (i < text.len && text.ptr[i] == '"') {
        for (i++; i < text.len && text.ptr[i] != '"'; i++)
            i += text.ptr[i] == '\\';
        i++;
    } else if (i < text.len && is_mark(text.ptr[i])) {
        i++;
    } else {
        while (i < text.len && !is_space(text.ptr[i]) && !is_mark(text.ptr[i]))
            i++;
    }
    *at = i < text.len ? i : text.len;
    return (struct str){text.ptr + start, *at - start};
}

void json_compact(struct str text, struct buf *out)
{
    size_t at = 0;
    for (struct str t = next_token(text, &at); t.len > 0; t = next_token(text, &at))
        buf_add_str(out, t);
}

static void new_line(struct buf *out, size_t spaces)
{
    buf_putc(out, '\n');
    for (size_t i = 0; i < spaces; i++)
        buf_putc(out, ' ');
}

void json_indent(struct str text, size_t indent, struct buf *out)
{
    size_t at = 0, depth = 0;
    char before = 0;
    for (struct str t = next_token(text, &at); t.len > 0; t = next_token(text, &at)) {
        char mark = t.ptr[0];
        bool closes = mark == '}' || mark == ']';
        bool after_open = before == '{' || before == '[';
        depth -= closes;
        /* There is nothing between the brackets of an empty container. */
        if (before == ',' || closes != after_open)
            new_line(out, indent + 2 * depth);
        buf_add_str(out, t);
        if (mark == ':')
            buf_putc(out, ' ');
        depth += mark == '{' || mark == '[';
        before = mark;
    }
}
