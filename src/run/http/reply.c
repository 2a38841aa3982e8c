/* reply.c - reads the answer and ends the run. */
#include <stdio.h>

#include "base/time/clock.h"
#include "core/retry/retry_after.h"
#include "run/http/private.h"

/* Reading on keeps the connection for the next job; at some point a new one is cheaper. */
#define DRAIN_MAX_BYTES (16u * 1024 * 1024)

size_t http_reply_write(char *bytes, size_t size, size_t n, void *ctx)
{
    struct http_run *run = ctx;
    size_t len = size * n;
    size_t room = RUN_RESULT_MAX_BYTES - run->body.len;
    size_t kept = len < room ? len : room;
    if (buf_add(&run->body, bytes, kept) < 0)
        kept = 0;
    run->dropped_bytes += len - kept;
    run->is_cut = run->dropped_bytes > DRAIN_MAX_BYTES;
    return run->is_cut ? CURL_WRITEFUNC_ERROR : len;
}

/* The beginning of the body as a message, or the bare status. */
static void describe(struct http_run *run, int http_status, char *out, size_t size)
{
    struct str body = str_trim(buf_str(&run->body));
    const char *location = NULL;
    curl_easy_getinfo(run->easy, CURLINFO_REDIRECT_URL, &location);
    if (location)
        snprintf(out, size, "HTTP %d: a redirect, which is not followed", http_status);
    else if (body.len == 0)
        snprintf(out, size, "HTTP %d", http_status);
    else
        str_copy(out, size, body);
}

/* The message is a terminated string, and the body any bytes. */
static void blank_nuls(struct buf *body)
{
    for (size_t i = 0; i < body->len && i < HTTP_EXCERPT_MAX_BYTES; i++)
        if (body->data[i] == '\0')
            body->data[i] = ' ';
}

static int64_t retry_after(CURL *easy)
{
    struct curl_header *header;
    int64_t ms = 0;
    if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &header) != CURLHE_OK ||
        !retry_after_parse(str_of(header->value), clock_wall_ms(), &ms))
        return 0;
    return ms;
}

static void finish_answered(struct http_run *run)
{
    char message[HTTP_EXCERPT_MAX_BYTES + 1];
    long http_status = 0;
    curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &http_status);
    struct run_outcome outcome = {.outcome.failure.http_status = (int)http_status};
    if (http_status >= 200 && http_status <= 299) {
        outcome.result = buf_str(&run->body);
        outcome.dropped_bytes = run->dropped_bytes;
    } else {
        blank_nuls(&run->body);
        describe(run, (int)http_status, message, sizeof message);
        outcome.outcome.failure.failed = true;
        outcome.outcome.failure.message = message;
        outcome.outcome.failure.retry_after_ms = retry_after(run->easy);
    }
    run_finish(&run->base, &outcome);
}

static void finish_unanswered(struct http_run *run)
{
    struct redrive_failure failure = {.failed = true};
    if (!run->easy) {
        failure.status = run->status;
        failure.message = run->err.message;
    } else if (run->is_refused) {
        failure.status = "permanent";
        failure.error_type = "PrivateAddress";
        failure.message = "the job's URL leads to an address that is not public "
                          "(run.allow_private of the task would allow it)";
    } else {
        failure.curl_code = (int)run->code;
        failure.message = run->curl_error[0] ? run->curl_error : curl_easy_strerror(run->code);
    }
    run_finish(&run->base, &(struct run_outcome){.outcome.failure = failure});
}

void http_reply_finish(struct http_run *run)
{
    bool is_answered = run->easy && (run->code == CURLE_OK || run->is_cut);
    if (is_answered)
        finish_answered(run);
    else
        finish_unanswered(run);
    http_request_release(run);
}
