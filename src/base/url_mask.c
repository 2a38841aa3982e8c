#include "base/url_mask.h"

#define HIDDEN "***"

static struct str until(struct str text, const char *set)
{
    size_t len = 0;
    while (len < text.len && !(text.ptr[len] && strchr(set, text.ptr[len])))
        len++;
    return (struct str){text.ptr, len};
}

static struct str after(struct str text, size_t len)
{
    return text.ptr ? (struct str){text.ptr + len, text.len - len} : text;
}

/* Writes the scheme and gives what follows; {NULL, 0}: there is no authority, all is written. */
static struct str put_scheme(struct buf *out, struct str url)
{
    struct str scheme = until(url, ":");
    if (!str_starts_with(after(url, scheme.len), STR("://"))) {
        buf_add_str(out, url);
        return (struct str){NULL, 0};
    }
    scheme.len += 3;
    buf_add_str(out, scheme);
    return after(url, scheme.len);
}

/* The name and the password: up to the last at sign before the query, whatever stands before the
 * first one. On the web an at sign after the first slash is part of the path, for all clients. */
static struct str login_of(struct str rest, bool is_web)
{
    rest = is_web ? until(rest, "/?#") : rest;
    struct str first = until(rest, "@");
    if (first.len == rest.len)
        return (struct str){rest.ptr, 0};
    size_t end = first.len + until(after(rest, first.len), "?#").len;
    return (struct str){rest.ptr, (size_t)((char *)memrchr(rest.ptr, '@', end) - rest.ptr)};
}

void url_mask(struct buf *out, struct str url)
{
    struct str rest = put_scheme(out, url);
    if (!rest.ptr)
        return;
    struct str login = login_of(rest, str_starts_with(url, STR("http")));
    struct str user = until(login, ":");
    buf_add_str(out, user);
    if (user.len < login.len)
        buf_puts(out, ":" HIDDEN);
    rest = after(rest, login.len);
    struct str shown = until(rest, "?#");
    buf_add_str(out, shown);
    if (shown.len < rest.len)
        buf_puts(out, "?" HIDDEN);
}

void url_mask_path(struct buf *out, struct str url)
{
    struct str rest = put_scheme(out, url);
    if (!rest.ptr)
        return;
    struct str authority = until(rest, "/?#");
    const char *at = memrchr(authority.ptr, '@', authority.len);
    size_t login = at ? (size_t)(at - authority.ptr) : 0;
    if (at)
        buf_puts(out, HIDDEN);
    buf_add_str(out, after(authority, login));
    if (rest.len - authority.len > 1)
        buf_puts(out, "/" HIDDEN);
    else
        buf_add_str(out, after(rest, authority.len));
}
