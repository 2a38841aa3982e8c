/* place.h - what the URL of a Redis store says: servers, user, database, prefix, TLS. */
#ifndef STORE_REDIS_NET_PLACE_H
#define STORE_REDIS_NET_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/str.h"
#include "redrive.h"

#define PREFIX_MAX 64

/* The address of a server. */
#define HOST_MAX 256
struct node {
    char host[HOST_MAX]; /* or the path of a socket */
    int port;            /* 0: it is a socket */
};

/* TLS, as rediss:// asks for it. Files are in PEM form; NULL: not given. */
struct tls_settings {
    bool is_on;
    char *ca;          /* the file of the authorities to trust; NULL: those of the system */
    char *cert;        /* the file of this client's certificate, */
    char *key;         /* and that of its key */
    char *server_name; /* that the server's certificate must have; NULL: its host in the URL */
};

/* What a URL says, and which servers it leads to. */
#define NODES_MAX       16
#define NODES_GIVEN_MAX 8
struct place {
    char *user;
    char *password;
    int db;
    char prefix[PREFIX_MAX];
    struct tls_settings tls;
    char *sentinel;               /* the primary's name: the servers of the URL are Sentinels */
    struct node at;               /* where the store is, as far as is known */
    struct node nodes[NODES_MAX]; /* to ask for the store: those of the URL, then a cluster's */
    size_t n_given;
    size_t n_nodes;
};

/* Reads what follows redis:, or rediss: if `is_tls`. *ret is released in any case. */
int rd_place_parse(struct str text, bool is_tls, struct place *ret, struct redrive_err *err);
void rd_place_release(struct place *place);

/* Whether there may be another server that takes over: then a slow one is left sooner. */
bool rd_place_has_others(const struct place *place);
bool rd_node_is(const struct node *a, const struct node *b);
/* host:port, or the path of a socket. */
#define NODE_TEXT_MAX (HOST_MAX + 16)
const char *rd_node_text(const struct node *node, char ret[NODE_TEXT_MAX]);

#endif
