/* session.h - the login of a browser: a cookie in place of the header Authorization.
 *
 * A page cannot make the browser send a header with an event stream, and a token in the page's own
 * memory could be read by code that got into it. So the dashboard exchanges the token, once, for a
 * cookie that scripts cannot see: HttpOnly, SameSite=Strict, Secure under TLS, gone from the
 * browser after twelve hours.
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
#ifndef SERVER_AUTH_SESSION_H
#define SERVER_AUTH_SESSION_H

#include "base/mem/arena.h"
#include "server/http/server.h"

#define SESSION_COOKIE    "redrive_session"
#define SESSION_TOKEN_MAX 1024

/* The token of the request's cookie, in `out`; {NULL, 0}: it has none, or one that is none. */
struct str session_token(const struct http_request *request, uint8_t out[SESSION_TOKEN_MAX]);

/* Whether a page of this server had the browser send it, as far as the headers say. */
bool session_is_own_page(const struct http_request *request);

/* Whether an Origin is that of the Host, if there is one: with either scheme, since a proxy may end
 * TLS. */
bool session_is_origin_of(struct str origin, struct str host);

/* The value of Set-Cookie that begins a session; one with no token ends it. NULL: no memory, or the
 * token is longer than SESSION_TOKEN_MAX. */
const char *session_cookie(struct http_request *request, struct str token);

#endif
