/* auth.c - compares tokens; without tokens, looks where a request comes from. */
#include "server/auth/auth.h"

#include <arpa/inet.h>
#include <assert.h>

#include "base/sha256.h"
#include "engine/engine.h"
#include "server/auth/session.h"

#define ALL_SCOPES \
    (CONFIG_SCOPE_ENQUEUE | CONFIG_SCOPE_WORK | CONFIG_SCOPE_READ | CONFIG_SCOPE_ADMIN)

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

bool auth_still_holds(const struct config *in_force, const struct principal *principal,
                      enum config_scope scope)
{
    const struct config_token *former = principal->token;
    if (scope == 0)
        return true;
    if (!former)
        return in_force->n_tokens == 0;
    for (size_t i = 0; i < in_force->n_tokens; i++) {
        const struct config_token *token = &in_force->tokens[i];
        if (memcmp(token->hash, former->hash, sizeof token->hash) == 0)
            return (token->scopes & scope) && str_is(principal->tenant, token->tenant);
    }
    return false;
}

const char *auth_scope_name(enum config_scope scope)
{
    switch (scope) {
    case CONFIG_SCOPE_ENQUEUE: return "enqueue";
    case CONFIG_SCOPE_WORK: return "work";
    case CONFIG_SCOPE_READ: return "read";
    case CONFIG_SCOPE_ADMIN: return "admin";
    }
    return "";
}
