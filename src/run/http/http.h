/* http.h - an HTTP request for each job.
 *
 * POST of the payload as application/json, with Redrive-Job-Id, Redrive-Task, Redrive-Queue,
 * Redrive-Tenant, Redrive-Attempt and Redrive-Max-Attempts, traceparent if the job is part of a
 * trace, and the headers of the configuration.
 * If there is a secret, the request is signed by the Standard Webhooks specification, which has
 * verifying libraries in most languages:
 *
 *   webhook-id          the job's id: the same for every attempt
 *   webhook-timestamp   seconds since 1970, of this attempt
 *   webhook-signature   "v1," and the base64 of HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"); one for
 *                       each secret, with a space between
 *
 * What the answer means:
 *
 *   2xx          success; the body is the result, up to RUN_RESULT_MAX_BYTES
 *   all else     http_status; the body's first 4 KiB are the message, Retry-After is the wait
 *                that the server asks for
 *   no answer    curl_code, and curl's text as the message
 *
 * Redirects are not followed: a POST that is turned into a GET does nothing, and the target is not
 * in the configuration. Only http and https are allowed. Connections are kept and used again.
 *
 * A host that is written out in the URL comes from the configuration, and may be any, also when
 * placeholders follow in path or query (http/url.h). One that is made of placeholders is
 * chosen by the client that submits the job, and so may have public addresses only,
 * unless `allow_private` is set. Each address is checked when its socket is made,
 * after all resolving, so that a name whose address changes cannot get around the check. For the
 * same reason no proxy is used, and no connection is shared with another runner.
 */
#ifndef RUN_HTTP_HTTP_H
#define RUN_HTTP_HTTP_H

#include "config/config.h"
#include "run/runner.h"

#define HTTP_EXCERPT_MAX_BYTES 4096
#define HTTP_CONNECT_MS        10000

struct http_options {
    const char *url;                 /* borrowed */
    const struct config_http *sends; /* borrowed; its secrets and headers; may be NULL */
    bool allow_private;              /* of URLs whose host is made of placeholders */
    int64_t connect_timeout_ms;      /* 0: HTTP_CONNECT_MS */
};

/* NOMEM. A URL that curl cannot use fails each job with curl's code. */
int http_runner_new(uv_loop_t *loop, const struct log *log, const struct http_options *options,
                    struct runner **ret, struct redrive_err *err);

#endif
