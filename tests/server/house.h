/* house.h - everything behind a door: a configuration, a store, a committer, the resources, and an
 * HTTP server on a free port of loopback.
 */
#ifndef TESTS_SERVER_HOUSE_H
#define TESTS_SERVER_HOUSE_H

#include "client.h"
#include "server/rest/rest.h"

struct house {
    char dir[64];
    char url[128];
    struct config *config;
    struct committer *committer;
    struct rest *rest;
    struct http_server *server;
    uint16_t port;
};

/* The store is of the kind that REDRIVE_TEST_STORE names, memory if none. NULL tables: those of the
 * program. */
void house_open(struct house *house, const char *yaml, const struct rest_route *const *tables);
void house_close(struct house *house);
/* Another configuration; the caller frees it, after the house has been closed. */
struct config *house_config(struct house *house, const char *yaml);

/* Sends a request, and gives the status of its answer. A NULL body is none; a NULL token too. */
int house_ask(struct client *client, const char *method, const char *path, const char *token,
              const char *body);

#endif
