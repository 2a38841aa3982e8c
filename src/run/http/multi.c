/* multi.c - curl's sockets and timer as libuv handles. */
#include "run/http/multi.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "core/retry/policy.h"

struct socket_watch {
    uv_poll_t poll;
    struct multi *multi;
    curl_socket_t fd;
};

static void one_less(struct multi *multi)
{
    if (--multi->n_open == 0)
        multi->closed(multi);
}

/* Not called from inside curl: `done` may add and remove transfers. */
static void report_done(struct multi *multi)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi->curl, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        /* The message is freed when the transfer is removed. */
        CURLcode code = message->data.result;
        void *transfer = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        multi->done(transfer, code);
    }
}

/* Lets curl do what it can do now. If that fails, it does not say which transfer it could not watch
 * the socket of. */
static void go_on(struct multi *multi, curl_socket_t fd, int flags)
{
    int running;
    const CURLMcode code = curl_multi_socket_action(multi->curl, fd, flags, &running);
    report_done(multi);
    if (code != CURLM_OK)
        multi->lost(multi);
}

static void on_timer(uv_timer_t *timer)
{
    go_on(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    const struct socket_watch *watch = poll->data;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    go_on(watch->multi, watch->fd, flags);
}

static void on_watch_closed(uv_handle_t *poll)
{
    struct socket_watch *watch = poll->data;
    struct multi *multi = watch->multi;
    free(watch);
    one_less(multi);
}

static struct socket_watch *watch_new(struct multi *multi, curl_socket_t fd)
{
    struct socket_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    if (uv_poll_init_socket(multi->loop, &watch->poll, fd) < 0) {
        free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->multi = multi;
    watch->fd = fd;
    multi->n_open++;
    curl_multi_assign(multi->curl, fd, watch);
    return watch;
}

/* curl calls this before it closes a socket, so that the loop lets go of it in time. */
static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct multi *multi = ctx;
    struct socket_watch *watch = socket_ctx;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch) {
            curl_multi_assign(multi->curl, fd, NULL);
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        return 0;
    }
    if (!watch)
        watch = watch_new(multi, fd);
    if (!watch)
        return -1; /* the transfers are lost */
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    uv_poll_start(&watch->poll, events, on_socket);
    return 0;
}

/* curl may not be called from inside here, so that "now" means the loop's next turn. */
static int on_curl_timeout(CURLM *curl, long timeout_ms, void *ctx)
{
    struct multi *multi = ctx;
    (void)curl;
    if (uv_is_closing((uv_handle_t *)&multi->timer))
        return 0;
    if (timeout_ms < 0)
        return uv_timer_stop(&multi->timer);
    uv_update_time(multi->loop);
    uv_timer_start(&multi->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

int multi_init(struct multi *multi, uv_loop_t *loop, void (*done)(void *transfer, CURLcode code),
               void (*lost)(struct multi *multi), struct redrive_err *err)
{
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, start_curl);
    *multi = (struct multi){.loop = loop, .done = done, .lost = lost};
    multi->curl = curl_multi_init();
    if (!multi->curl)
        return err_nomem(err);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, on_curl_timeout);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
    uv_timer_init(loop, &multi->timer);
    multi->timer.data = multi;
    multi->n_open = 1;
    return 0;
}

static void on_timer_closed(uv_handle_t *timer)
{
    one_less(timer->data);
}

void multi_close(struct multi *multi, void (*closed)(struct multi *multi))
{
    multi->closed = closed;
    uv_close((uv_handle_t *)&multi->timer, on_timer_closed);
    curl_multi_cleanup(multi->curl);
}

int64_t curl_retry_after_ms(CURL *easy)
{
    struct curl_header *header;
    int64_t ms = 0;
    if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &header) != CURLHE_OK ||
        !retry_after_parse(str_of(header->value), clock_wall_ms(), &ms))
        return 0;
    return ms;
}
