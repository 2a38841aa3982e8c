/* threadless_http.h - an HTTP server and its resources without threads of their own.
 *
 * The threads of libmicrohttpd, of the sweeper, of the readers and of timers are not started
 * (meson.build lists what stands in the place of what): the target runs the daemon, reads are made
 * where they are asked for, timers go by the session's clock. The one that reads the health is
 * started when it is asked, and waited for.
 */
#ifndef TESTS_FUZZ_SESSION_THREADLESS_HTTP_H
#define TESTS_FUZZ_SESSION_THREADLESS_HTTP_H

#include <stdbool.h>

struct http_server;

/* Fires one of the timers whose time has come; false: there is none. */
bool threadless_http_fire(void);
/* Looks at every connection once, as the sweeper does twice a second. */
void threadless_http_sweep(struct http_server *server);

#endif
