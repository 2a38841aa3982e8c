/* auth.h - identifies the client of a request, and what it may do.
 *
 * With tokens in the configuration a request names one, `Authorization: Bearer TOKEN`; its SHA-256
 * is compared with every hash of the configuration, in constant time. Without tokens every client
 * that can reach the server is accepted, as tenant `default` with every scope; it then listens on
 * loopback or on a Unix socket only, and a request must look as if a program of this machine had
 * sent it. Any web page can make a browser send one, but then the browser says so: by
 * Sec-Fetch-Site, by a Host with that page's name, or by the Origin. Most proxies say that they
 * have passed a request on (Forwarded, X-Forwarded-For, Via …); one that does not cannot be
 * recognized.
 *
 * A browser may bring its token in a cookie instead (auth/session.h); then a page of this server
 * must have sent the request.
 */
#ifndef SERVER_AUTH_AUTH_H
#define SERVER_AUTH_AUTH_H

#include "config/config.h"
#include "server/http/server.h"

struct principal {
    struct str tenant;
    uint32_t scopes; /* bits of enum config_scope */
    const char *name;
    const struct config_token *token; /* NULL: it has none */
};

enum auth_verdict {
    AUTH_OK,
    AUTH_NO_TOKEN,
    AUTH_WRONG_TOKEN,
    AUTH_CROSS_SITE,   /* with a login of the browser, but not from a page of this server */
    AUTH_FORWARDED,    /* a proxy has passed it on: its client may be anywhere */
    AUTH_FOREIGN_SITE, /* a web page had a browser send it */
    AUTH_FOREIGN_HOST,
    AUTH_FOREIGN_ORIGIN,
};

/* The principal's strings are the configuration's. */
enum auth_verdict auth_check(const struct config *config, const struct http_request *request,
                             struct principal *ret);

/* The token of the header Authorization; {NULL, 0}: there is none. */
struct str auth_bearer(const struct http_request *request);

/* Whether a client that an earlier configuration accepted may still do what needs the scope: its
 * token is there, of the same tenant and with the scope; or there were no tokens, and are none now.
 * Scope 0: every client may. */
bool auth_still_holds(const struct config *in_force, const struct principal *principal,
                      enum config_scope scope);

/* "read"; scopes that are none have no name. */
const char *auth_scope_name(enum config_scope scope);

#endif
