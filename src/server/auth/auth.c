/* auth.c - compares tokens or looks where a request comes from, reads and writes the cookie of a
 * login, and logs what administrators did. */
#include "server/auth/auth.h"

#include <arpa/inet.h>
#include <assert.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/text/encode.h"
#include "base/time/clock.h"
#include "engine/engine.h"

#define ALL_SCOPES \
    (CONFIG_SCOPE_ENQUEUE | CONFIG_SCOPE_WORK | CONFIG_SCOPE_READ | CONFIG_SCOPE_ADMIN)

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

/* The token of the request's cookie, in `out`; {NULL, 0}: it has none, or one that is none. */
static struct str session_token(const struct http_request *request, uint8_t out[SESSION_TOKEN_MAX])
{
    const struct str value = find_cookie(http_header(request, "Cookie"), STR(SESSION_COOKIE));
    const ptrdiff_t len = value.len > 0 ? base64_decode(value, out, SESSION_TOKEN_MAX) : -1;
    return len > 0 ? (struct str){(const char *)out, (size_t)len} : (struct str){NULL, 0};
}

/* ---- Which page sent it ---------------------------------------------------------------------- */

/* Whether an Origin is that of the Host, if there is one: with either scheme, since a proxy may end
 * TLS. */
static bool session_is_origin_of(struct str origin, struct str host)
{
    static const struct str SCHEMES[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < 2 && host.len > 0; i++)
        if (str_starts_with(origin, SCHEMES[i]) &&
            str_eq_nocase((struct str){origin.ptr + SCHEMES[i].len, origin.len - SCHEMES[i].len},
                          host))
            return true;
    return false;
}

/* Whether a page of this server had the browser send it, as far as the headers say. */
static bool session_is_own_page(const struct http_request *request)
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

/* ---- With tokens ----------------------------------------------------------------------------- */

struct str auth_bearer(const struct http_request *request)
{
    static const struct str SCHEME = {"bearer ", 7};
    struct str value = http_header(request, "Authorization");
    if (value.len <= SCHEME.len || !str_eq_nocase((struct str){value.ptr, SCHEME.len}, SCHEME))
        return (struct str){NULL, 0};
    return str_trim((struct str){value.ptr + SCHEME.len, value.len - SCHEME.len});
}

/* Looks at every token, found or not. */
static const struct config_token *find_token(const struct config *config, struct str presented)
{
    uint8_t hash[SHA256_BYTES];
    const struct config_token *found = NULL;
    static_assert(SHA256_BYTES == CONFIG_TOKEN_HASH_BYTES, "both are SHA-256");
    sha256(presented.ptr, presented.len, hash);
    for (size_t i = 0; i < config->n_tokens; i++)
        if (mem_equal_ct(hash, config->tokens[i].hash, sizeof hash) && !found)
            found = &config->tokens[i];
    return found;
}

static enum auth_verdict check_token(const struct config *config,
                                     const struct http_request *request, struct principal *ret)
{
    uint8_t from_cookie[SESSION_TOKEN_MAX];
    struct str presented = auth_bearer(request);
    const bool is_session = !presented.ptr;
    if (is_session)
        presented = session_token(request, from_cookie);
    if (!presented.ptr)
        return AUTH_NO_TOKEN;
    const struct config_token *token = find_token(config, presented);
    if (!token)
        return AUTH_WRONG_TOKEN;
    if (is_session && !session_is_own_page(request))
        return AUTH_CROSS_SITE;
    *ret = (struct principal){
        .tenant = str_of(token->tenant),
        .scopes = token->scopes,
        .name = token->name,
        .token = token,
    };
    return AUTH_OK;
}

/* ---- Without --------------------------------------------------------------------------------- */

static struct str without_port(struct str host)
{
    size_t len = host.len;
    while (len > 0 && host.ptr[len - 1] >= '0' && host.ptr[len - 1] <= '9')
        len--;
    bool has_port = len > 0 && len < host.len && host.ptr[len - 1] == ':';
    return has_port ? (struct str){host.ptr, len - 1} : host;
}

static bool is_this_machine(struct str host)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr v4;
    host = without_port(host);
    if (str_eq_nocase(host, STR("localhost")) || str_is(host, "[::1]"))
        return true;
    return str_copy(text, sizeof text, host) && inet_pton(AF_INET, text, &v4) == 1 &&
           ntohl(v4.s_addr) >> 24 == 127;
}

/* The headers that a proxy adds. */
static bool is_forwarded(const struct http_request *request)
{
    return http_header(request, "Forwarded").ptr || http_header(request, "Via").ptr ||
           http_header(request, "X-Real-IP").ptr || http_header_prefix(request, "X-Forwarded-").ptr;
}

/* What a browser says of the page that had it send the request. */
static bool is_of_another_site(const struct http_request *request)
{
    const struct str site = http_header(request, "Sec-Fetch-Site");
    return str_eq_nocase(site, STR("cross-site")) || str_eq_nocase(site, STR("same-site"));
}

/* The Host says nothing about a Unix socket, which no browser can reach. */
static enum auth_verdict check_neighbour(const struct http_request *request, struct principal *ret)
{
    struct str host = http_header(request, "Host");
    struct str origin = http_header(request, "Origin");
    if (is_forwarded(request))
        return AUTH_FORWARDED;
    if (is_of_another_site(request))
        return AUTH_FOREIGN_SITE;
    if (host.ptr && !is_this_machine(host) && !http_is_unix(request))
        return AUTH_FOREIGN_HOST;
    if (origin.ptr && !session_is_origin_of(origin, host))
        return AUTH_FOREIGN_ORIGIN;
    *ret = (struct principal){
        .tenant = STR(ENGINE_TENANT_DEFAULT),
        .scopes = ALL_SCOPES,
        .name = "anonymous",
    };
    return AUTH_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

enum auth_verdict auth_check(const struct config *config, const struct http_request *request,
                             struct principal *ret)
{
    return config->n_tokens > 0 ? check_token(config, request, ret) : check_neighbour(request, ret);
}

uint32_t auth_scopes_now(const struct config *in_force, const struct principal *principal)
{
    const struct config_token *former = principal->token;
    if (!former)
        return in_force->n_tokens == 0 ? ALL_SCOPES : 0;
    for (size_t i = 0; i < in_force->n_tokens; i++) {
        const struct config_token *token = &in_force->tokens[i];
        if (memcmp(token->hash, former->hash, sizeof token->hash) == 0)
            return str_is(principal->tenant, token->tenant) ? token->scopes : 0;
    }
    return 0;
}

/* ---- The cookie that goes -------------------------------------------------------------------- */

/* How long a browser keeps a login. */
#define LASTS_S "43200"

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

/* ---- Errors of the store --------------------------------------------------------------------- */

/* Errors of these codes come from the store if they have a detail; others do if the detail has an
 * address or the path of a file. */
static bool is_of_store(const struct redrive_err *err)
{
    switch (err->code) {
    case REDRIVE_E_IO:
    case REDRIVE_E_INTERNAL:
    case REDRIVE_E_CORRUPT: return err->detail[0] != '\0';
    default:
        return strstr(err->detail, "://") || str_starts_with(str_of(err->detail), STR("path "));
    }
}

struct redrive_err auth_shown_error(const struct redrive_err *err, uint32_t scopes)
{
    struct redrive_err shown = *err;
    if (!is_of_store(err))
        return shown;
    if (!strstr(err->message, "store"))
        (void)err_set(&shown, err->code, "the store cannot be used: %s", err->message);
    err_detail(&shown, "%s", scopes & CONFIG_SCOPE_ADMIN ? err->detail : "");
    err_hint(&shown, "%s", err->hint);
    return shown;
}

/* ---- The audit log --------------------------------------------------------------------------- */

#define REFUSAL_EVERY_MS 1000

void audit_action(const struct log *log, const struct audit *what, const char *result)
{
    log_event(log, LOG_LEVEL_INFO, clock_wall_ms(), "admin_action",
              LOG_S("interface", what->interface), LOG_S("token", what->token ? what->token : ""),
              LOG_STR("tenant", what->tenant), LOG_S("client", what->client),
              LOG_S("action", what->action), LOG_STR("target", what->target),
              LOG_S("result", result));
}

void audit_refusal(const struct log *log, struct log_pace *pace, const struct audit *what,
                   const char *why)
{
    int64_t held_back;
    if (!log_pace_allows(pace, clock_monotonic_ms(), REFUSAL_EVERY_MS, &held_back))
        return;
    log_event(log, LOG_LEVEL_WARNING, clock_wall_ms(), "access_refused",
              LOG_S("interface", what->interface), LOG_S("token", what->token ? what->token : ""),
              LOG_S("client", what->client), LOG_S("action", what->action), LOG_S("error", why),
              LOG_I("more", held_back));
}
