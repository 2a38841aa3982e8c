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
 * A browser may bring its token in a cookie instead (see below); then a page of this server
 * must have sent the request.
 */
#ifndef SERVER_AUTH_AUTH_H
#define SERVER_AUTH_AUTH_H

#include "base/mem/arena.h"
#include "base/os/log.h"
#include "base/text/str.h"
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

/* The scopes that a client which an earlier configuration accepted has now: those of its token, if
 * that is there and of the same tenant; or all, if there were no tokens, and are none now. */
uint32_t auth_scopes_now(const struct config *in_force, const struct principal *principal);

/* ---- The login of a browser ------------------------------------------------------------------ */

/* A cookie in place of the header Authorization. A page cannot make the browser send a header with
 * an event stream, and a token in the page's own memory could be read by code that got into it. So
 * the dashboard exchanges the token, once, for a cookie that scripts cannot see: HttpOnly,
 * SameSite=Strict, Secure under TLS, gone from the browser after twelve hours.
 *
 * The cookie holds the token, in base64. So nothing has to be remembered: any server with the same
 * configuration takes it, also after a restart, and a token that is removed from the configuration
 * ends its logins. Cookies know no ports: other services of the same host name get it from a
 * browser that visits them, as docs/dashboard.md says.
 *
 * A browser sends cookies whatever page has it send the request. A request that comes with one is
 * served only if a page of this server had it sent: Sec-Fetch-Site says so, or the Origin in
 * browsers that do not send it (plain HTTP to another machine). A request that changes nothing may
 * lack both.
 */

#define SESSION_COOKIE    "redrive_session"
#define SESSION_TOKEN_MAX 1024

/* The value of Set-Cookie that begins a session; one with no token ends it. NULL: no memory, or the
 * token is longer than SESSION_TOKEN_MAX. */
const char *session_cookie(struct http_request *request, struct str token);

/* ---- Errors of the store --------------------------------------------------------------------- */

/* An error as a client with these scopes may see it. The detail of an error of the store has its
 * address or its path, which only clients with the scope admin get; the log has it for all. The
 * message says that the store is meant, since `the server` of a store is not the server that
 * answers. Every other error stays as it is. */
struct redrive_err auth_shown_error(const struct redrive_err *err, uint32_t scopes);

/* ---- The audit log --------------------------------------------------------------------------- */

/* Log lines about what administrators did and which clients were refused.
 *
 *     INFO  admin_action interface=http token=ops tenant=default client=10.0.0.7
 *           action="POST /queues/{queue}/pause" target=mail result=done
 *     WARN  access_refused interface=http token="" client=10.0.0.9 action="GET /jobs"
 *           error="the token is not known" more=0
 *
 * Actions are those that need the scope admin; each has a line. Any client can cause refusals, so
 * they are written at most once a second, with the number of those in between.
 */

struct audit {
    const char *interface; /* "http" or "faktory" */
    const char *token;     /* name of the token or password; "" or NULL: none */
    struct str tenant;     /* of actions */
    const char *client;    /* address as text (listen/endpoint.h) */
    const char *action;    /* method and route, or a verb */
    struct str target;     /* what it is about; may be empty */
};

/* `result`: "done" or "failed", or "asked" where the outcome comes later. */
void audit_action(const struct log *log, const struct audit *what, const char *result);
/* One thread at a time for each pace. */
void audit_refusal(const struct log *log, struct log_pace *pace, const struct audit *what,
                   const char *why);

#endif
