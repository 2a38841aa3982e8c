/* rest.h - the resources behind the paths, and what all of them share.
 *
 *     http_server ──► rest_admit ──► route ──► auth ──► the body is read
 *                 ──► rest_handle ──► routes_*.c ──► committer or a read
 *                 ◄──────────────── http_reply / problem ◄───────────
 *
 * A route is a row: method, path with {placeholders}, scope, function. From the tables come 404 (no
 * such path), 405 (with Allow), OPTIONS, HEAD, 401 and 403, and what `redrive help http-routes`
 * prints, against which a test holds docs/openapi.yaml. `/v1` in front of a path is accepted and
 * means the same. Where two paths fit, the one with fewer placeholders counts, for every method.
 *
 * Reads (lists, one job, statistics) are done by a few reader threads with store handles of their
 * own, so that a slow list does not delay other requests; writes are operations for the committer
 * and answered from its `done`. Nothing waits on the server's thread.
 *
 * Every tenant sees its own: the principal's tenant goes into each filter and operation; there is
 * no other way to name one.
 *
 * A route's function answers its call exactly once, by rest_send, rest_send_empty, rest_fail, or
 * http_reply or http_stream_open on its request; nothing of the call may be used afterwards.
 */
#ifndef SERVER_REST_REST_H
#define SERVER_REST_REST_H

#include "api/api.h"
#include "base/json/writer.h"
#include "base/mem/list.h"
#include "config/config.h"
#include "core/trace/span.h"
#include "engine/committer.h"
#include "server/auth/auth.h"
#include "server/http/server.h"

#define REST_MAX_PARAMS  4
#define REST_MAX_HEADERS 4

struct bulk_runs;
struct claim_waits;
struct rest;
struct rest_call;
struct store;
struct event_hub;
struct remote_workers;
struct run_times;

typedef void (*rest_fn)(struct rest_call *call);

struct rest_route {
    enum http_method own_method;
    const char *own_path;        /* "/jobs/{id}/retry" */
    enum config_scope own_scope; /* 0: every client */
    bool own_reads;              /* runs on a reader thread: it may use rest_store and may wait */
    rest_fn own_run;             /* else it runs on the server's thread and must not wait */
    bool outlives_store; /* it has an answer of its own while the store is known to be away */
    /* In place of what is its own: method and scope are those of the operation, the path unless the
     * route has another, and the answer unless the route has an `own_run`. */
    const struct operation *operation;
    /* Adds headers of the request to the input of a change that is about to begin; NULL: none. */
    void (*before)(struct rest_call *call, struct api_input *input);
    /* Looks at a change after its commit; NULL: does nothing. */
    void (*after)(struct rest_call *call, const struct api_change *change);
    const char *own_summary; /* one line, as docs/openapi.yaml has it; else that of the operation */
    struct field_part own_parameters; /* as those of an operation, */
    struct field_part own_body;       /* which a route with an operation has from it */
};

static inline enum http_method rest_route_method(const struct rest_route *route)
{
    static const enum http_method OF[] = {[API_GET] = HTTP_GET,
                                          [API_POST] = HTTP_POST,
                                          [API_PUT] = HTTP_PUT,
                                          [API_PATCH] = HTTP_PATCH,
                                          [API_DELETE] = HTTP_DELETE};
    return route->operation ? OF[route->operation->method] : route->own_method;
}

static inline const char *rest_route_path(const struct rest_route *route)
{
    return route->own_path || !route->operation ? route->own_path : route->operation->path;
}
static inline enum config_scope rest_route_scope(const struct rest_route *route)
{
    return route->operation ? route->operation->scope : route->own_scope;
}
static inline bool rest_route_reads(const struct rest_route *route)
{
    const struct operation *operation = route->own_run ? NULL : route->operation;
    return operation ? operation->read || operation->begin_waits : route->own_reads;
}
static inline const char *rest_route_summary(const struct rest_route *route)
{
    return route->own_summary || !route->operation ? route->own_summary : route->operation->summary;
}
/* Answers the call as its route does. */
void rest_route_run(struct rest_call *call);

/* A request that is not answered yet. It is in the request's arena. */
struct rest_call {
    struct rest *rest;
    struct http_request *request;
    const struct config *config; /* as it was when the request came */
    const struct rest_route *route;
    struct principal principal;         /* empty when the route needs no token */
    const char *client;                 /* its address, for the log */
    struct str params[REST_MAX_PARAMS]; /* the placeholders of the path, decoded, in order */

    /* Shared by all routes_*.c. */
    struct list link;
    struct store *store;
    struct buf body;
    struct json_writer writer;
    struct http_header headers[REST_MAX_HEADERS];
    size_t n_headers;
    bool is_refused;         /* its token, or the lack of one */
    bool is_dry_run;         /* counts what it would change: not an action for the audit log */
    struct trace_span *span; /* of the request; NULL: it is none */
    void (*then)(struct rest_call *call, struct op *op);
};

struct rest_options {
    struct committer *committer;   /* borrowed */
    const struct config *config;   /* is held; another one by rest_reload */
    const struct log *log;         /* borrowed */
    const char *store_url;         /* for the readers' handles; NULL: the configuration's */
    unsigned n_readers;            /* 0: 2 */
    struct event_hub *hub;         /* borrowed; NULL: there is no /events */
    struct run_times *run_times;   /* borrowed; NULL: /metrics has no histogram */
    struct remote_workers *remote; /* borrowed; NULL: workers and jobs here are not recorded */
    const struct tracing *tracing; /* borrowed; NULL: requests and attempts are no spans */
    const struct rest_route *const *tables; /* NULL: REST_TABLES */
    int64_t certificate_end_ms;             /* for /metrics; 0: there is none */
    bool read_only; /* no client has another scope than `read`, whatever its token has */
};

/* All routes as a table of Markdown, and as JSON, by which docs/openapi.yaml is tested
 * (reference.c). */
void rest_reference(struct buf *out);
void rest_reference_json(struct json_writer *w);

int rest_new(const struct rest_options *options, struct rest **ret, struct redrive_err *err);
/* For http_server_options, both: the first refuses clients without access before a body has been
 * read; their context is the struct rest. */
enum http_admission rest_admit(struct http_request *request, void *ctx);
void rest_handle(struct http_request *request, void *ctx);
/* The tokens and definitions of another configuration, from the next request on. Requests under way
 * hold the one before; it is freed with the last of them. Claims that wait end
 * if their token is not there any more or may not do this any more, streams of events also if it
 * may do anything less than before. */
void rest_reload(struct rest *rest, const struct config *config);
/* When the certificate ends that is in force now. Any thread. */
void rest_set_certificate(struct rest *rest, int64_t end_ms);
/* What /ready answers: true from the start, false for a server that is about to stop. */
void rest_set_ready(struct rest *rest, bool ready);
/* An engine_event_fn, but for its context's type: what the dashboard keeps of it. */
void rest_event(struct rest *rest, const struct engine_event *event);
/* For the committer's on_ready: claims that wait for work ask again. */
void rest_jobs_ready(struct rest *rest);
/* Answers the claims that wait, and lets what goes on after its request was answered end; waits for
 * nothing. Before the committer is stopped; requests are still served, but none waits any more. */
void rest_quiesce(struct rest *rest);
/* Ends the reader threads; requests that are still queued are answered with 503. Waits for what
 * rest_quiesce has let end. To be called after the HTTP server has been stopped, so that no
 * requests come any more. The committer stops later: a reader may have an operation for it, and
 * jobs whose claim came too late are given back. NULL does nothing. */
void rest_stop(struct rest *rest);
/* After the committer has been stopped: every operation has been answered. NULL does nothing. */
void rest_free(struct rest *rest);

/* The clock of jobs: the store's, where it has one. */
int64_t rest_now_ms(const struct rest_call *call);

/* Whether the configuration in force still lets a client do what it was allowed to. Any thread. */
bool rest_still_admits(struct rest *rest, const struct principal *principal,
                       enum config_scope scope);
/* Whether it may do all that it might when it came. Any thread. */
bool rest_keeps_scopes(struct rest *rest, const struct principal *principal);

/* Whether the configuration in force hides values of jobs from such a client. Any thread. */
bool rest_redacts(struct rest *rest, const struct principal *principal);

/* ---- For routes_*.c ----------------------------------------------------------------------------
 */

/* The reader thread's store handle; only in a route that `reads`. */
struct store *rest_store(const struct rest_call *call);

/* Answers with JSON: fill what this gives, then rest_send. It returns false when the answer is not
 * sent: the client has gone, a stop has answered instead, or it was too long. */
struct json_writer *rest_json(struct rest_call *call);
bool rest_send(struct rest_call *call, int status);
/* 204, or another status without a body. */
void rest_send_empty(struct rest_call *call, int status);
/* A header of the answer; both strings are valid at least as long as the request. At most
 * REST_MAX_HEADERS. */
void rest_header(struct rest_call *call, const char *name, const char *value);

/* Answers with a problem document (problem_write); what has been written so far is dropped.
 * `field` is the parameter or member that is at fault, or NULL. The status is the code's, or
 * `status`. */
void rest_fail(struct rest_call *call, const struct redrive_err *err, const char *field);
void rest_fail_as(struct rest_call *call, int status, const struct redrive_err *err,
                  const char *field);

/* Hands an operation to the committer; `then` is called with it on the committer's thread, and
 * answers. The operation must be valid until then (http_arena). While the store is known to be away
 * (engine/store_status.h) the operation has failed at once, and `then` is called on this thread. */
void rest_commit(struct rest_call *call, struct op *op,
                 void (*then)(struct rest_call *call, struct op *op));
/* In `then`: whether the operation as a whole was refused or failed; then it has been answered. */
bool rest_refused(struct rest_call *call, const struct op *op);

#endif
