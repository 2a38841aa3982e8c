/* session.c - reads and writes the cookie of a login. */
#include "server/auth/session.h"

#include "base/text/base64.h"

#define LASTS_S "43200"

/* ---- The cookie that comes ------------------------------------------------------------------- */

/* The value of a cookie in a header like `a=1; b=2`. */
static struct str find_cookie(struct str header, struct str name)
{
    while (header.len > 0) {
        const char *end = memchr(header.ptr, ';', header.len);
        const size_t len = end ? (size_t)(end - header.ptr) : header.len;
        const struct str pair = str_trim((struct str){header.ptr, len});
        if (pair.len > name.len && pair.ptr[name.len] == '=' && str_starts_with(pair, name))
            return (struct str){pair.ptr + name.len + 1, pair.len - name.len - 1};
        header.ptr += len + (end != NULL);
        header.len -= len + (end != NULL);
    }
    return (struct str){NULL, 0};
}

struct str session_token(const struct http_request *request, uint8_t out[SESSION_TOKEN_MAX])
{
    const struct str value = find_cookie(http_header(request, "Cookie"), STR(SESSION_COOKIE));
    const ptrdiff_t len = value.len > 0 ? base64_decode(value, out, SESSION_TOKEN_MAX) : -1;
    return len > 0 ? (struct str){(const char *)out, (size_t)len} : (struct str){NULL, 0};
}

/* ---- Which page sent it ---------------------------------------------------------------------- */

bool session_is_origin_of(struct str origin, struct str host)
{
    static const struct str SCHEMES[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < 2 && host.len > 0; i++)
        if (str_starts_with(origin, SCHEMES[i]) &&
            str_eq_nocase((struct str){origin.ptr + SCHEMES[i].len, origin.len - SCHEMES[i].len},
                          host))
            return true;
    return false;
}

bool session_is_own_page(const struct http_request *request)
{
    const enum http_method method = http_method(request);
    const bool only_reads = method == HTTP_GET || method == HTTP_HEAD;
    const struct str site = http_header(request, "Sec-Fetch-Site");
    const struct str origin = http_header(request, "Origin");
    if (site.ptr)
        return str_eq_nocase(site, STR("same-origin")) ||
               (only_reads && str_eq_nocase(site, STR("none")));
    if (origin.ptr)
        return session_is_origin_of(origin, http_header(request, "Host"));
    return only_reads;
}

/* ---- The cookie that goes -------------------------------------------------------------------- */

/* Behind a proxy that ends TLS the browser uses TLS as well. */
static bool is_secure(const struct http_request *request)
{
    return http_is_tls(request) ||
           str_eq_nocase(http_header(request, "X-Forwarded-Proto"), STR("https"));
}

const char *session_cookie(struct http_request *request, struct str token)
{
    char text[BASE64_TEXT_SIZE(SESSION_TOKEN_MAX)] = "";
    if (token.len > SESSION_TOKEN_MAX)
        return NULL;
    if (token.len > 0)
        base64_encode(token.ptr, token.len, text);
    return arena_printf(http_arena(request),
                        SESSION_COOKIE "=%s; Path=/; Max-Age=%s; HttpOnly; SameSite=Strict%s", text,
                        token.len > 0 ? LASTS_S : "0", is_secure(request) ? "; Secure" : "");
}
