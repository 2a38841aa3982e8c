/* server.h - a Redis server of a test's own, which it may stop, kill, fill up and start again.
 *
 * It ends with the test. What fails fails the test.
 */
#ifndef TESTS_STORE_REDIS_SERVER_H
#define TESTS_STORE_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct server {
    char folder[128];
    char url[64]; /* redis://127.0.0.1:PORT */
    int port;
    pid_t pid;
    const char *const *settings; /* words for its command line, NULL at the end; borrowed */
};

void server_start(struct server *server, const char *const *settings);
/* kill -9, and up again with the same folder. */
void server_kill(struct server *server);
void server_restart(struct server *server);
void server_stop(struct server *server);

#define SERVER_TEST(test, ...) \
    TEST_OF(test, struct server, s, server_start(s, __VA_ARGS__), server_stop(s))

/* Sends a command; gives the reply as text, which lives until the next call. */
const char *server_call(const struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A number in a section of what the server says of itself, by its name with the colon; -1: there is
 * none. */
long server_number(const struct server *server, const char *section, const char *name);

#endif
