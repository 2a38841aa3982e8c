#include "check.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/faktory/private.h"
#include "server/listen/endpoint.h"
#include "waiting.h"

#define N_CLIENTS 3

/* ---- Memory that is gone for connections only ------------------------------------------------ */

static bool has_memory = true;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return size == sizeof(struct faktory_conn) && !has_memory ? NULL : __real_calloc(n, size);
}

/* ---- A server without an engine -------------------------------------------------------------- */

static int start(uv_loop_t *loop, const char *address, struct faktory_server **ret,
                 struct redrive_err *err)
{
    const struct faktory_options options = {.loop = loop, .address = address};
    assert_int_equal(uv_loop_init(loop), 0);
    return faktory_server_start(&options, ret, err);
}

static void stop(uv_loop_t *loop, struct faktory_server *server)
{
    if (server)
        faktory_server_stop(server, NULL, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    faktory_server_free(server);
    assert_int_equal(uv_loop_close(loop), 0);
}

static int connect_to(const struct faktory_server *server)
{
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons(faktory_server_port(server)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&where, sizeof where), 0);
    return fd;
}

/* What comes first: a number of bytes, or 0 when the connection was closed. */
static ssize_t first_bytes(uv_loop_t *loop, int fd, char *bytes, size_t size)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    WAIT_RUNNING(poll(&look, 1, 1) != 0, (void)uv_run(loop, UV_RUN_NOWAIT));
    return recv(fd, bytes, size, 0);
}

TEST(clients_without_memory_are_closed_and_later_ones_served)
{
    uv_loop_t loop;
    struct faktory_server *server;
    int fds[N_CLIENTS];
    char bytes[64];
    assert_int_equal(start(&loop, "127.0.0.1:0", &server, NULL), 0);
    has_memory = false;
    for (int i = 0; i < N_CLIENTS; i++)
        fds[i] = connect_to(server);
    for (int i = 0; i < N_CLIENTS; i++) {
        assert_int_equal(first_bytes(&loop, fds[i], bytes, sizeof bytes), 0);
        close(fds[i]);
    }
    has_memory = true;
    int fd = connect_to(server);
    assert_true(first_bytes(&loop, fd, bytes, sizeof bytes) > 3);
    assert_memory_equal(bytes, "+HI", 3);
    close(fd);
    stop(&loop, server);
}

TEST(a_stop_waits_for_a_client_that_is_turned_away)
{
    uv_loop_t loop;
    struct faktory_server *server;
    assert_int_equal(start(&loop, "127.0.0.1:0", &server, NULL), 0);
    has_memory = false;
    int first = connect_to(server), second = connect_to(server);
    WAIT_RUNNING(server->is_spare_used, (void)uv_run(&loop, UV_RUN_NOWAIT));
    stop(&loop, server);
    has_memory = true;
    close(first);
    close(second);
}

/* ---- The address ----------------------------------------------------------------------------- */

/* Called in the C library's place, and calls it. */
static int closes_after_bind = -1; /* by a bind that finds its address taken */

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    int (*real)(int, const struct sockaddr *, socklen_t);
    *(void **)&real = dlsym(RTLD_NEXT, "bind");
    const int rc = real(fd, address, size);
    if (rc != 0 && errno == EADDRINUSE && closes_after_bind >= 0) {
        close(closes_after_bind);
        closes_after_bind = -1;
        errno = EADDRINUSE;
    }
    return rc;
}

TEST(a_port_that_is_about_to_be_free_is_waited_for)
{
    uv_loop_t loop;
    struct faktory_server *server;
    char address[32];
    assert_int_equal(endpoint_listen("127.0.0.1:0", false, &closes_after_bind, NULL), 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", endpoint_port(closes_after_bind));
    assert_int_equal(start(&loop, address, &server, NULL), 0);
    assert_int_equal(closes_after_bind, -1);
    stop(&loop, server);
}

TEST(an_address_is_refused_as_at_the_other_door)
{
    static const struct {
        const char *address;
        int code;
    } WRONG[] = {
        {"0.0.0.0:0", REDRIVE_E_CONFIG},
        {"127.0.0.1", REDRIVE_E_INVALID},
        {"::1:7419", REDRIVE_E_INVALID},
        {"127.0.0.1:faktory", REDRIVE_E_INVALID},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        uv_loop_t loop;
        struct faktory_server *server;
        struct redrive_err err = {0};
        assert_int_equal(start(&loop, WRONG[i].address, &server, &err), WRONG[i].code);
        assert_int_equal(err.code, WRONG[i].code);
        assert_null(server);
        stop(&loop, NULL);
    }
}
