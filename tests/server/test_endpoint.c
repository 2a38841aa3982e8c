/* Addresses to listen on. */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/listen/endpoint.h"

/* Called in the C library's place, and call it. */
static bool is_without_memory;
static int closes_after_bind = -1; /* by a bind that finds its address taken */

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return is_without_memory ? EAI_MEMORY : real(host, port, hints, ret);
}

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

TEST(loopback_is_told_from_the_rest)
{
    static const char *const LOOPBACK[] = {"127.0.0.1:1", "127.9.9.9:0", "[::1]:80",
                                           "[::ffff:127.0.0.1]:1", "localhost:7070"};
    static const char *const OTHERS[] = {
        "0.0.0.0:1", "[::]:1",     "10.0.0.1:1",  "127.0.0.1", "[::1]", "::1:80",
        ":80",       "127.0.0.1:", "127.0.0.1:x", "",          "[]:1",  "8.8.8.8:53"};
    for (size_t i = 0; i < sizeof LOOPBACK / sizeof LOOPBACK[0]; i++)
        if (!endpoint_is_loopback(LOOPBACK[i]))
            fail_msg("%s is loopback", LOOPBACK[i]);
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        if (endpoint_is_loopback(OTHERS[i]))
            fail_msg("%s is not loopback", OTHERS[i]);
    assert_false(endpoint_is_loopback(NULL));
}

TEST(loopback_only_refuses_the_world)
{
    struct redrive_err err = {0};
    int fd = -1;
    assert_int_equal(endpoint_listen("0.0.0.0:0", true, &fd, &err), REDRIVE_E_DENIED);
    assert_string_equal(err.message, "will not listen on 0.0.0.0:0");
    assert_int_equal(fd, -1);
    assert_int_equal(endpoint_listen("127.0.0.1:0", true, &fd, &err), 0);
    assert_int_not_equal(endpoint_port(fd), 0);
    close(fd);
}

TEST(a_port_that_is_taken_is_told)
{
    struct redrive_err err = {0};
    char address[32];
    int fd, second = -1;
    assert_int_equal(endpoint_listen("127.0.0.1:0", false, &fd, &err), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", endpoint_port(fd));
    assert_int_equal(endpoint_listen(address, false, &second, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.message, address));
    assert_string_equal(err.detail, "Address already in use");
    assert_non_null(strstr(err.hint, "port"));
    close(fd);
}

TEST(a_port_that_is_about_to_be_free_is_waited_for)
{
    struct redrive_err err = {0};
    char address[32];
    int second = -1;
    assert_int_equal(endpoint_listen("127.0.0.1:0", false, &closes_after_bind, &err), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", endpoint_port(closes_after_bind));
    assert_int_equal(endpoint_listen(address, false, &second, &err), 0);
    assert_int_equal(closes_after_bind, -1);
    close(second);
}

TEST(what_is_no_address_is_told)
{
    struct redrive_err err = {0};
    int fd;
    assert_int_equal(endpoint_listen("nonsense", false, &fd, &err), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.detail, "host:port"));
    assert_int_equal(endpoint_listen("127.0.0.1:65536", false, &fd, &err), REDRIVE_E_INVALID);
    assert_int_equal(endpoint_listen("no-such-host.invalid:1", false, &fd, &err), REDRIVE_E_IO);
}

/* ---- Unix sockets ---------------------------------------------------------------------------- */

struct place {
    char dir[32];
    char path[64];
    char address[80];
};

static void make_place(struct place *place)
{
    strcpy(place->dir, "/tmp/redrive-socket-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->path, sizeof place->path, "%s/s.sock", place->dir);
    snprintf(place->address, sizeof place->address, "unix:%s", place->path);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_mode & 0777 : 0;
}

TEST(a_socket_file_has_its_mode_and_goes_with_its_server)
{
    struct place place;
    struct unix_socket first, second;
    struct redrive_err err = {0};
    make_place(&place);
    assert_int_equal(unix_socket_listen(place.address, 0660, &first, &err), 0);
    assert_int_equal(mode_of(place.path), 0660);
    assert_true(endpoint_is_loopback(place.address));
    /* A server answers there. */
    assert_int_equal(unix_socket_listen(place.address, 0600, &second, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.hint, "another server answers there"));
    /* It was killed: the file is still there. */
    close(first.fd);
    assert_int_equal(unix_socket_listen(place.address, 0600, &second, &err), 0);
    assert_int_equal(mode_of(place.path), 0600);
    unix_socket_remove(place.path); /* another server answers there */
    assert_int_equal(mode_of(place.path), 0600);
    close(second.fd);
    unix_socket_remove(place.path);
    assert_int_equal(mode_of(place.path), 0);
    rmdir(place.dir);
}

TEST(what_is_no_socket_is_left_alone)
{
    struct place place;
    struct unix_socket socket;
    struct redrive_err err = {0};
    char address[300];
    make_place(&place);
    fclose(fopen(place.path, "w"));
    assert_int_equal(unix_socket_listen(place.address, 0600, &socket, &err), REDRIVE_E_IO);
    assert_string_equal(err.detail, "there is a file that is not a socket");
    assert_int_not_equal(mode_of(place.path), 0);
    unlink(place.path);
    rmdir(place.dir);
    assert_int_equal(unix_socket_listen(place.address, 0600, &socket, &err), REDRIVE_E_IO);
    assert_string_equal(err.hint, "make the directory first");
    assert_int_equal(unix_socket_listen("unix:", 0600, &socket, &err), REDRIVE_E_INVALID);
    snprintf(address, sizeof address, "unix:/%0200d", 1);
    assert_int_equal(unix_socket_listen(address, 0600, &socket, &err), REDRIVE_E_INVALID);
}

TEST(a_want_of_memory_is_told_as_such)
{
    struct redrive_err err = {0};
    int fd = -1;
    is_without_memory = true;
    assert_int_equal(endpoint_listen("127.0.0.1:0", true, &fd, &err), REDRIVE_E_NOMEM);
    is_without_memory = false;
    assert_string_equal(err.message, "out of memory");
    assert_int_equal(fd, -1);
}
