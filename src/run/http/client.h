/* client.h - HTTP requests for a program that waits for each answer.
 *
 * One client asks one server, one request after another, and keeps the connection between those
 * that only read. What changes something has a connection of its own, and is sent once. Redirects
 * are not followed, so that a token goes to no other server than the one that was named.
 */
#ifndef RUN_HTTP_CLIENT_H
#define RUN_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

struct http_client;

struct http_client_header {
    const char *name;
    const char *value;
};

struct http_client_options {
    const char *base;    /* https://host:7070, without a slash at the end */
    const char *token;   /* sent as `Authorization: Bearer`; NULL: none */
    const char *ca_file; /* the certificates that are trusted; NULL: those of the system */
    bool no_proxy;       /* ask the server itself, whatever the environment says */
    const struct http_client_header *headers; /* sent with each request, after those above */
    size_t n_headers;
    bool (*gives_up)(void *ctx); /* asked about once a second while a request is under way; true
                                    ends it without an answer; NULL: none does */
    void *gives_up_ctx;          /* borrowed */
};

/* Copies the options. */
int http_client_new(const struct http_client_options *options, struct http_client **ret,
                    struct redrive_err *err);
void http_client_free(struct http_client *client);

/* What the server answered. */
struct http_answer {
    int status;
    int64_t retry_after_ms; /* how long the server asks to wait; 0: it does not say */
    struct buf body;
};
/* Answers of up to this size are read. */
#define HTTP_CLIENT_BODY_MAX (512u * 1024 * 1024)

void http_answer_init(struct http_answer *answer);
void http_answer_release(struct http_answer *answer);

/* Sends a request and waits for its answer, `timeout_ms` at the most. `path` begins with a slash; a
 * body without a pointer is none. Any answer is a success here, whatever its status says. What the
 * answer held before is dropped.
 *
 * REDRIVE_E_DENIED: the certificate of the server is not trusted, or does not fit its name.
 * REDRIVE_E_CONFIG: the file with the certificates cannot be used. REDRIVE_E_TOO_BIG: so is the
 * answer. REDRIVE_E_IO: there was no answer. */
int http_client_call(struct http_client *client, const char *method, const char *path,
                     struct str body, int64_t timeout_ms, struct http_answer *ret,
                     struct redrive_err *err);

#endif
