/* loop.c - the thread that runs libmicrohttpd.
 *
 * It is not libmicrohttpd's own, because that one can stop when a multiple of 128 connections are
 * ready at one moment. It takes events 128 at a time and asks for more as long as it got all 128.
 * Then it waits for more without having looked at any of them. MHD_run never waits; waiting is done
 * here. Run in this way libmicrohttpd does not wake its thread when a connection is resumed, so
 * http_resume calls the loop.
 *
 * MHD_quiesce_daemon is called here as well: it takes the listening socket out of the epoll set, as
 * MHD_run does at its limit of connections, without a lock between the two.
 */
#include "server/http/private.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"

static int wait_ms(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
        return -1;
    return ms < 60000 ? (int)ms : 60000;
}

/* Takes the calls that have come; whether to go on. A thread that resumes a connection from now on
 * calls again. */
static bool take_calls(struct http_server *server, bool *is_quiet)
{
    eventfd_t calls;
    pthread_mutex_lock(&server->lock);
    if (server->loop_called)
        (void)eventfd_read(server->loop_fd, &calls);
    server->loop_called = false;
    const bool goes_on = !server->loop_ended;
    const bool be_quiet = server->quiesced && !*is_quiet;
    pthread_mutex_unlock(&server->lock);
    if (be_quiet)
        (void)MHD_quiesce_daemon(server->daemon);
    *is_quiet |= be_quiet;
    return goes_on;
}

static void *run(void *ctx)
{
    struct http_server *server = ctx;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd events[] = {
        {.fd = info->epoll_fd, .events = POLLIN},
        {.fd = server->loop_fd, .events = POLLIN},
    };
    bool goes_on = true, is_quiet = false;
    while (goes_on) {
        (void)poll(events, 2, wait_ms(server));
        if (events[1].revents != 0)
            goes_on = take_calls(server, &is_quiet);
        (void)MHD_run(server->daemon);
    }
    return NULL;
}

void http_loop_call(struct http_server *server)
{
    if (server->loop_called)
        return;
    server->loop_called = true;
    (void)eventfd_write(server->loop_fd, 1);
}

int http_loop_start(struct http_server *server, struct redrive_err *err)
{
    server->loop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->loop_fd < 0)
        return err_set(err, REDRIVE_E_IO, "cannot open an event");
    if (pthread_create(&server->loop, NULL, run, server) == 0)
        return 0;
    close(server->loop_fd);
    return err_set(err, REDRIVE_E_IO, "cannot start a thread");
}

void http_loop_stop(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->loop_ended = true;
    http_loop_call(server);
    pthread_mutex_unlock(&server->lock);
    (void)pthread_join(server->loop, NULL);
    close(server->loop_fd);
}
