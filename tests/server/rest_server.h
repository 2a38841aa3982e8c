/* rest_server.h - a REST server under test: a configuration, a store, a committer, the resources,
 * and an HTTP server on a free port of loopback.
 */
#ifndef TESTS_SERVER_REST_SERVER_H
#define TESTS_SERVER_REST_SERVER_H

#include <stdatomic.h>

#include "client.h"
#include "server/rest/rest.h"

struct rest_server {
    char dir[64];
    char url[128];
    struct config *config;
    struct committer *committer;
    struct rest *rest;
    struct http_server *http;
    uint16_t port;
};

/* The store is of the kind that REDRIVE_TEST_STORE names, memory if none. NULL tables: those of the
 * program. */
void rest_server_open(struct rest_server *server, const char *yaml,
                      const struct rest_route *const *tables);
void rest_server_close(struct rest_server *server);

#define REST_TEST(test, ...)                                                         \
    TEST_OF(test, struct rest_server, server, rest_server_open(server, __VA_ARGS__), \
            rest_server_close(server))
/* Another configuration; the caller frees it, after the server has been closed. */
struct config *rest_server_config(struct rest_server *server, const char *yaml);

/* Sends a request, and gives the status of its answer. A NULL body is none; a NULL token too. */
int rest_server_ask(struct client *client, const char *method, const char *path, const char *token,
                    const char *body);

/* For a route: hands in an operation that is refused with REDRIVE_E_STATE, and counts it. */
void rest_server_refuse(struct rest_call *call);
extern atomic_uint rest_server_refused;

#endif
