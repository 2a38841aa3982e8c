/* private.h - what http/http.c (the runner), http/request.c (what is sent) and http/reply.c (what
 * comes back) share. */
#ifndef RUN_HTTP_PRIVATE_H
#define RUN_HTTP_PRIVATE_H

#include "base/text/buf.h"
#include "run/http/http.h"
#include "run/http/multi.h"

struct http_runner {
    struct runner base;
    struct http_options options;
    bool is_checked; /* public addresses only */
    struct multi multi;
};

struct http_run {
    struct run base;
    CURL *easy; /* NULL: it never began, see err */
    bool is_added;
    CURLcode code;
    struct curl_slist *headers;
    struct buf url;
    struct buf body;
    uint64_t dropped_bytes;
    bool is_cut;        /* the body was too long, and we closed the connection */
    bool is_refused;    /* an address was not public */
    const char *status; /* of a run that never began */
    struct redrive_err err;
    char curl_error[CURL_ERROR_SIZE];
};

/* Prepares the transfer. On failure run->status is set if it is the job's fault, and NULL if memory
 * is out. */
int http_request_prepare(struct http_run *run, const struct http_runner *runner,
                         struct redrive_err *err);
/* Frees what was prepared; the transfer is not in the multi any more. */
void http_request_release(struct http_run *run);

/* curl's CURLOPT_WRITEFUNCTION; ctx is the run. */
size_t http_reply_write(char *bytes, size_t size, size_t n, void *ctx);
/* Ends the run by the answer. */
void http_reply_finish(struct http_run *run);

#endif
