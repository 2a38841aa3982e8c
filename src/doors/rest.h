/* rest.h - the resources behind the paths, and what all of them share.
 *
 *     http_server ──► rest_handle ──► auth ──► route ──► rest_*.c ──► committer or a read
 *                 ◄──────────────── http_reply / problem ◄───────────
 *
 * A route is a row: method, path with {placeholders}, scope, function. From the table come 404 (no
 * such path), 405 (with Allow), OPTIONS, HEAD, and the test that docs/openapi.yaml names every one.
 * `/v1` in front of a path is accepted and means the same.
 *
 * Reads (lists, one job, statistics) are done by a few reader threads with store handles of their
 * own, so that a slow list holds up nobody; writes are operations for the committer and answered
 * from its `done`. Nothing waits on the server's thread.
 *
 * Every tenant sees its own: the principal's tenant goes into each filter and operation; there is
 * no other way to name one.
 */
#ifndef DOORS_REST_H
#define DOORS_REST_H

#include "base/json_writer.h"
#include "config/config.h"
#include "doors/http_server.h"
#include "engine/committer.h"

/* Who asks. Without tokens in the configuration everybody is `default` with every scope, and the
 * server listens on loopback only. */
struct principal {
    struct str tenant;
    uint32_t scopes; /* bits of enum config_scope */
    const char *name;
};

struct rest;
struct rest_call;

/* A request on its way to an answer. Freed when it has been answered. */
struct rest_call {
    struct rest *rest;
    struct http_request *request;
    struct principal principal;
    struct str params[4]; /* the placeholders of the path, decoded, in order */
};

typedef void (*rest_fn)(struct rest_call *call);

struct rest_route {
    enum http_method method;
    const char *path;        /* "/jobs/{id}/retry" */
    enum config_scope scope; /* 0: anybody */
    bool reads;              /* runs on a reader thread: it may use rest_store and may wait */
    rest_fn run;
};

/* Ends with an empty row; each rest_*.c has its own, rest_routes.c lists them. */
extern const struct rest_route *const REST_TABLES[];

struct rest_options {
    struct committer *committer; /* borrowed */
    const struct config *config; /* borrowed; another one by rest_reload */
    const struct log *log;
    const char *store_url; /* for the readers' handles */
    unsigned n_readers;    /* 0: 2 */
};

int rest_new(const struct rest_options *options, struct rest **ret, struct redrive_err *err);
/* For http_server_options: handler and its context is the struct rest. */
void rest_handle(struct http_request *request, void *rest);
/* The tokens and definitions of another configuration, from the next request on. */
void rest_reload(struct rest *rest, const struct config *config);
/* After the HTTP server has been stopped. NULL does nothing. */
void rest_free(struct rest *rest);

/* ---- For rest_*.c -----------------------------------------------------------------------------
 */

/* The reader thread's store handle; only in a route that `reads`. */
struct store *rest_store(const struct rest_call *call);

/* Answers with JSON: fill `w`, then rest_send. */
struct json_writer *rest_json(struct rest_call *call);
void rest_send(struct rest_call *call, int status);
/* 204, or a status without a body. */
void rest_send_empty(struct rest_call *call, int status);

/* Answers with application/problem+json: type, title, status, detail, and `field` (may be NULL) and
 * `expected` where a parameter or member is at fault. The status is the code's. */
void rest_fail(struct rest_call *call, const struct redrive_err *err, const char *field);

/* Hands an operation to the committer; `then` is called with it on the committer's thread, and
 * answers. The operation must live until then (http_arena). */
struct op;
void rest_commit(struct rest_call *call, struct op *op,
                 void (*then)(struct rest_call *call, struct op *op));

#endif
