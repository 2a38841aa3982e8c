/* wire.c - a socket with hiredis' reader of replies, and TLS between them if that is asked for. */
#include "store/redis/net/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "store/redis/net/socket.h"
#include "store/redis/net/tls.h"

/* The requests that may wait to be sent, and how much memory is kept for the next ones. */
#define OUT_MAX  ((size_t)1 << 30)
#define OUT_KEPT ((size_t)1 << 20)

/* A record of TLS has no more. */
#define TAKEN_MAX 16384

/* The first byte of a TLS alert: what a server with TLS answers to a request without it. */
#define TLS_ALERT 0x15

struct rd_wire {
    struct node at;
    int fd;
    struct rd_tls *tls; /* NULL: without */
    redisReader *reader;
    struct buf out;
    bool is_broken;
    bool has_answered;   /* something has come, */
    unsigned char first; /* beginning with this byte */
    char error[128];
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int cannot_reach(const struct node *at, const char *why, struct redrive_err *err)
{
    char where[NODE_TEXT_MAX];
    int rc = err_set(err, REDRIVE_E_IO, "cannot reach the Redis server");
    err_detail(err, "%s: %s", rd_node_text(at, where), why);
    err_hint(err, "is it running, and is this its address?");
    return rc;
}

/* hiredis looks up the name and connects, with a time limit; the socket is used without it. */
static redisContext *reach(const struct node *at, int64_t wait_ms)
{
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    return at->port == 0 ? redisConnectUnixWithTimeout(at->host, wait)
                         : redisConnectWithTimeout(at->host, at->port, wait);
}

static int connect_socket(const struct node *at, int64_t wait_ms, int *ret, struct redrive_err *err)
{
    redisContext *c = reach(at, wait_ms);
    if (!c)
        return err_nomem(err);
    if (c->err) {
        int rc = cannot_reach(at, c->errstr, err);
        redisFree(c);
        return rc;
    }
    if (at->port != 0)
        redisEnableKeepAlive(c); /* to a socket on this machine it is an error */
    *ret = redisFreeKeepFd(c);
    (void)fcntl(*ret, F_SETFD, FD_CLOEXEC);
    return 0;
}

/* A server without TLS takes a greeting for the beginning of a request, and waits for its end. */
static bool answers_plainly(const struct node *at, int64_t wait_ms)
{
    char request[] = "PING\r\n", first = 0;
    struct iovec part = {.iov_base = request, .iov_len = sizeof request - 1};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int fd = -1;
    if (connect_socket(at, wait_ms, &fd, NULL) != 0)
        return false;
    rd_socket_set_limit(fd, wait_ms);
    (void)(rd_socket_send(fd, &message, true) > 0 && rd_socket_receive(fd, &first, 1, true) > 0);
    close(fd);
    return first == '+' || first == '-';
}

static int start_tls(struct rd_wire *wire, const struct tls_settings *settings, int64_t wait_ms,
                     struct redrive_err *err)
{
    bool is_silent = false;
    int rc = rd_tls_new(wire->fd, &wire->at, settings, &wire->tls, err);
    if (rc == 0)
        rc = rd_tls_greet(wire->tls, clock_monotonic_ms() + wait_ms, &is_silent, err);
    if (is_silent && answers_plainly(&wire->at, wait_ms))
        rc = rd_tls_refuse_plain(&wire->at, err);
    return rc;
}

int rd_wire_open(const struct node *at, const struct tls_settings *tls, int64_t wait_ms,
                 struct rd_wire **ret, struct redrive_err *err)
{
    struct rd_wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return err_nomem(err);
    wire->at = *at;
    wire->fd = -1;
    buf_init(&wire->out, OUT_MAX);
    wire->reader = redisReaderCreate();
    int rc = wire->reader ? connect_socket(at, wait_ms, &wire->fd, err) : err_nomem(err);
    if (rc == 0)
        rd_wire_set_limit(wire, wait_ms);
    if (rc == 0 && tls->is_on)
        rc = start_tls(wire, tls, wait_ms, err);
    if (rc != 0) {
        rd_wire_close(wire);
        return rc;
    }
    *ret = wire;
    return 0;
}

void rd_wire_close(struct rd_wire *wire)
{
    if (!wire)
        return;
    rd_tls_free(wire->tls);
    if (wire->fd >= 0)
        close(wire->fd);
    if (wire->reader)
        redisReaderFree(wire->reader);
    buf_release(&wire->out);
    free(wire);
}

void rd_wire_set_limit(struct rd_wire *wire, int64_t limit_ms)
{
    rd_socket_set_limit(wire->fd, limit_ms);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool broken(struct rd_wire *wire, const char *why)
{
    wire->is_broken = true;
    snprintf(wire->error, sizeof wire->error, "%s", why);
    return false;
}

static const char *why_not(const struct rd_wire *wire)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return "it has not answered within the time limit";
    return wire->tls && errno == EPROTO ? rd_tls_error(wire->tls) : strerror(errno);
}

static ssize_t receive(struct rd_wire *wire, char *to, size_t size, bool waits)
{
    return wire->tls ? rd_tls_read(wire->tls, to, size, waits)
                     : rd_socket_receive(wire->fd, to, size, waits);
}

/* *ret_came: there was something. */
static bool take(struct rd_wire *wire, bool waits, bool *ret_came)
{
    char bytes[TAKEN_MAX];
    const ssize_t n = receive(wire, bytes, sizeof bytes, waits);
    *ret_came = n > 0;
    if (n == 0)
        return broken(wire, "Server closed the connection");
    if (n < 0)
        return (!waits && (errno == EAGAIN || errno == EWOULDBLOCK)) || broken(wire, why_not(wire));
    if (!wire->has_answered)
        wire->first = (unsigned char)bytes[0];
    wire->has_answered = true;
    return redisReaderFeed(wire->reader, bytes, (size_t)n) == REDIS_OK ||
           broken(wire, "out of memory");
}

static ssize_t send_some(struct rd_wire *wire, const char *bytes, size_t n)
{
    struct iovec part = {.iov_base = (char *)bytes, .iov_len = n};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return wire->tls ? rd_tls_write(wire->tls, bytes, n) : rd_socket_send(wire->fd, &message, true);
}

bool rd_wire_add(struct rd_wire *wire, struct str bytes)
{
    return buf_add_str(&wire->out, bytes) == 0 || broken(wire, "the requests are too big");
}

bool rd_wire_send(struct rd_wire *wire)
{
    bool came;
    for (size_t sent = 0; !wire->is_broken && sent < wire->out.len;) {
        const ssize_t n = send_some(wire, wire->out.data + sent, wire->out.len - sent);
        if (n < 0) {
            broken(wire, why_not(wire));
            (void)take(wire, false, &came); /* the server may have said why before it closed */
        } else {
            sent += (size_t)n;
        }
    }
    buf_reset_kept(&wire->out, OUT_KEPT);
    return !wire->is_broken;
}

/* ---- Replies --------------------------------------------------------------------------------- */

bool rd_wire_next(struct rd_wire *wire, redisReply **ret)
{
    *ret = NULL;
    return redisReaderGetReply(wire->reader, (void **)ret) == REDIS_OK ||
           broken(wire, wire->reader->errstr);
}

bool rd_wire_reply(struct rd_wire *wire, redisReply **ret)
{
    bool came, ok = !wire->is_broken && rd_wire_next(wire, ret);
    if (!ok || *ret)
        return ok;
    ok = rd_wire_send(wire);
    while (ok && !*ret)
        ok = take(wire, true, &came) && rd_wire_next(wire, ret);
    return ok;
}

redisReply *rd_wire_command(struct rd_wire *wire, const char *format, ...)
{
    redisReply *reply = NULL;
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int len = redisvFormatCommand(&text, format, args);
    va_end(args);
    if (len < 0)
        (void)broken(wire, "out of memory");
    else if (!rd_wire_add(wire, (struct str){text, (size_t)len}) || !rd_wire_reply(wire, &reply))
        reply = NULL;
    if (len >= 0)
        redisFreeCommand(text);
    return reply;
}

int rd_wire_wait(struct rd_wire *wire, int timeout_ms)
{
    struct pollfd at = {.fd = wire->fd, .events = POLLIN};
    return poll(&at, 1, timeout_ms);
}

bool rd_wire_take(struct rd_wire *wire)
{
    bool came = true, ok = !wire->is_broken;
    while (ok && came)
        ok = take(wire, false, &came);
    return ok;
}

const char *rd_wire_tls(const struct rd_wire *wire)
{
    return wire->tls ? rd_tls_version(wire->tls) : NULL;
}

/* ---- Failures -------------------------------------------------------------------------------- */

const char *rd_wire_error(const struct rd_wire *wire)
{
    return wire->error;
}

int rd_wire_explain(const struct rd_wire *wire, struct redrive_err *err)
{
    char where[NODE_TEXT_MAX];
    rd_node_text(&wire->at, where);
    int rc = wire->tls ? rd_tls_refusal(wire->tls, err) : 0;
    if (rc != 0)
        return rc;
    if (!wire->tls && wire->has_answered && wire->first == TLS_ALERT) {
        rc = err_set(err, REDRIVE_E_INVALID, "the Redis server at %s speaks TLS", where);
        err_detail(err, "it has answered a request without TLS with an alert");
        err_hint(err, "write rediss:// instead of redis://");
        return rc;
    }
    rc = err_set(err, REDRIVE_E_IO, "the Redis server does not answer: %s", wire->error);
    err_detail(err, "its address is %s", where);
    if (!wire->tls && !wire->has_answered && wire->at.port != 0)
        err_hint(err, "if this port is one for TLS, write rediss:// instead of redis://");
    return rc;
}
