/* multi.h - libcurl's multi interface on a libuv loop.
 *
 * curl names the sockets it waits for and the time by which it wants to be called; the loop watches
 * both. One multi is one cache of connections.
 */
#ifndef RUN_HTTP_MULTI_H
#define RUN_HTTP_MULTI_H

#include <curl/curl.h>
#include <uv.h>

#include "redrive.h"

struct multi {
    CURLM *curl;
    uv_loop_t *loop;
    uv_timer_t timer;
    unsigned n_open; /* handles: the timer, and one for each socket that curl waits for */
    /* A transfer has ended and is to be removed and freed. The pointer is its CURLOPT_PRIVATE. */
    void (*done)(void *transfer, CURLcode code);
    /* curl has no memory to go on with, and no transfer may end by itself: all are to be removed.
     */
    void (*lost)(struct multi *multi);
    void (*closed)(struct multi *multi);
};

/* NOMEM when curl cannot start. */
int multi_init(struct multi *multi, uv_loop_t *loop, void (*done)(void *transfer, CURLcode code),
               void (*lost)(struct multi *multi), struct redrive_err *err);

/* When no transfer is left. Closes all connections, then calls `closed`. */
void multi_close(struct multi *multi, void (*closed)(struct multi *multi));

/* How long a server asks to wait (Retry-After of the answer that a transfer got); 0: it does not
 * say. */
int64_t curl_retry_after_ms(CURL *easy);

#endif
