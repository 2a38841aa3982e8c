/* client.h - an HTTP client that says exactly what the test wants, right or wrong.
 *
 * Everything waits at most WAIT_LIMIT_MS, and a wait that is over fails the test.
 */
#ifndef TESTS_SERVER_CLIENT_H
#define TESTS_SERVER_CLIENT_H

#include "check.h"

#include "base/text/buf.h"
#include "waiting.h"

struct client {
    int fd;
    struct buf in; /* received and not yet used */
    int status;    /* of the latest answer */
    struct buf head;
    struct buf body;
};

void client_connect(struct client *client, uint16_t port);
/* The same from another address of this machine. */
void client_connect_from(struct client *client, const char *address, uint16_t port);
/* A socket, or -1 when it is refused. */
int client_try_connect(uint16_t port);
void client_close(struct client *client);

void client_send(struct client *client, const void *bytes, size_t n);
/* A text; false when the server does not take it any more. */
bool client_say(struct client *client, const char *text);

/* Reads one answer; `to_head` when it answers a HEAD. Gives the status, or 0 when the connection
 * has been closed instead. */
int client_read(struct client *client, bool to_head);
/* The same for a GET of the path. */
int client_get(struct client *client, const char *path);
/* Reads until so many bytes are waiting in `in`; false when the connection was closed before. */
bool client_wait_for(struct client *client, size_t n);
/* Reads until the text is in `in`. */
bool client_wait_text(struct client *client, const char *text);
/* Reads until the server closes. */
void client_wait_close(struct client *client);
/* A header of the latest answer; absent: {NULL, 0}. */
struct str client_header(const struct client *client, const char *name);

#endif
