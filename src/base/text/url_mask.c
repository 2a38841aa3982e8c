/* url_mask.c - finds the password and the query of a URL and hides them. */
#include "base/text/url_mask.h"

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

/* The name and the password: up to the last at sign before the query, even if there is another one
 * before it. On the web an at sign after the first slash is part of the path, for all clients. */
static struct str login_of(struct str rest, bool is_web)
{
    rest = is_web ? until(rest, "/?#") : rest;
    struct str first = until(rest, "@");
    if (first.len == rest.len)
        return (struct str){rest.ptr, 0};
    size_t end = first.len + until(after(rest, first.len), "?#").len;
    return (struct str){rest.ptr, (size_t)((char *)memrchr(rest.ptr, '@', end) - rest.ptr)};
}

/* A question mark in what looks like a login may as well begin the query, and then its at sign is
 * one of a value, with secrets on both sides. A name with a slash or a hash is as doubtful. */
static bool is_doubtful(struct str login)
{
    struct str user = until(login, ":");
    return until(login, "?").len < login.len || until(user, "/#").len < user.len;
}

/* Settings of stores whose values are no secret: names, addresses, ways and paths of files, be they
 * those of keys and passwords. Not among them are password and sslpassword, what may hold anything
 * (options), and whatever is not known here. */
static bool is_harmless(struct str name)
{
    static const char *const NAMES[] = {"prefix",
                                        "sentinel",
                                        "server_name",
                                        "host",
                                        "hostaddr",
                                        "port",
                                        "dbname",
                                        "user",
                                        "sslmode",
                                        "sslcert",
                                        "sslkey",
                                        "sslrootcert",
                                        "service",
                                        "connect_timeout",
                                        "passfile",
                                        "sslcrl",
                                        "gssencmode",
                                        "channel_binding",
                                        "application_name",
                                        "target_session_attrs",
                                        "load_balance_hosts"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (str_is(name, NAMES[i]))
            return true;
    return false;
}

static bool is_word(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!(text.ptr[i] >= 'a' && text.ptr[i] <= 'z') && text.ptr[i] != '_')
            return false;
    return text.len > 0;
}

/* name=value: what is no such pair is hidden whole, and so is a value that does not look like one.
 */
static void put_setting(struct buf *out, struct str setting)
{
    struct str name = until(setting, "=");
    struct str value = after(setting, name.len);
    if (value.len == 0 || !is_word(name)) {
        buf_puts(out, HIDDEN);
        return;
    }
    buf_add_str(out, name);
    if (is_harmless(name) && until(value, "?#@").len == value.len)
        buf_add_str(out, value);
    else
        buf_puts(out, "=" HIDDEN);
}

static void put_query(struct buf *out, struct str query)
{
    for (char sign = '?'; query.len > 0; sign = '&') {
        struct str setting = until(after(query, 1), "&");
        buf_putc(out, sign);
        put_setting(out, setting);
        query = after(query, setting.len + 1);
    }
}

/* Several, with spaces between them: each by itself. */
static void mask_list(struct buf *out, struct str list)
{
    while (list.len > 0) {
        struct str url = until(list, " ");
        url_mask(out, url);
        list = after(list, url.len);
        if (list.len > 0) {
            buf_putc(out, ' ');
            list = after(list, 1);
        }
    }
}

void url_mask(struct buf *out, struct str url)
{
    if (str_starts_with(url, STR("shards:"))) {
        buf_puts(out, "shards:");
        mask_list(out, after(url, strlen("shards:")));
        return;
    }
    struct str rest = put_scheme(out, url);
    if (!rest.ptr)
        return;
    const bool is_web = str_starts_with(url, STR("http"));
    struct str login = login_of(rest, is_web);
    if (is_doubtful(login)) {
        buf_puts(out, HIDDEN);
        return;
    }
    struct str user = until(login, ":");
    buf_add_str(out, user);
    if (user.len < login.len)
        buf_puts(out, ":" HIDDEN);
    rest = after(rest, login.len);
    struct str shown = until(rest, "?#");
    buf_add_str(out, shown);
    rest = after(rest, shown.len);
    if (rest.len > 0 && (is_web || rest.ptr[0] == '#'))
        buf_puts(out, "?" HIDDEN);
    else
        put_query(out, rest);
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
