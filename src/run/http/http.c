/* http.c - the runner that sends an HTTP request for each job: what is sent, what comes back. */
#include "run/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/text/encode.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "config/config.h"
#include "run/http/multi.h"
#include "run/http/url.h"

#define URL_MAX_BYTES    8192
#define HEADER_MAX_BYTES 8192

/* Reading on keeps the connection for the next job; at some point a new one is cheaper. */
#define DRAIN_MAX_BYTES (16u * 1024 * 1024)

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
    bool is_tried;      /* another one was */
    const char *status; /* of a run that never began */
    struct redrive_err err;
    char curl_error[CURL_ERROR_SIZE];
};

/* ---- The request ----------------------------------------------------------------------------- */

/* curl's CURLOPT_WRITEFUNCTION; ctx is the run. */
static size_t take_body(char *bytes, size_t size, size_t n, void *ctx)
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

/* Appends the value of webhook-signature. The time is text so that what is signed is what is
 * sent. */
static void signature_write(const struct config_secret *secrets, size_t n, struct str id,
                            const char *timestamp, struct str body, struct buf *out)
{
    const struct str parts[] = {id, STR("."), str_of(timestamp), STR("."), body};
    for (size_t i = 0; i < n; i++) {
        uint8_t hash[SHA256_BYTES];
        char text[BASE64_TEXT_SIZE(SHA256_BYTES)];
        const struct str key = {(const char *)secrets[i].bytes, secrets[i].len};
        hmac_sha256(key, parts, sizeof parts / sizeof parts[0], hash);
        buf_printf(out, "%sv1,%s", i > 0 ? " " : "", base64_encode(hash, sizeof hash, text));
    }
}

/* curl calls this for each address that it is about to connect to, and connects to no other. Its
 * own sockets are not CLOEXEC. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_run *run = ctx;
    const struct http_runner *runner = (struct http_runner *)run->base.runner;
    if (purpose != CURLSOCKTYPE_IPCXN ||
        (runner->is_checked && !address_is_public(&address->addr))) {
        run->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    run->is_tried = true;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* A value that contains a line end would be a header of its own. */
static int add_header(struct http_run *run, const char *name, const char *value)
{
    if (!value)
        return 0;
    RELEASED_BY(buf_release) struct buf line = BUF_MAX(HEADER_MAX_BYTES);
    buf_printf(&line, "%s: ", name);
    for (; *value; value++) {
        bool is_control = (unsigned char)*value < 0x20 || *value == 0x7f;
        buf_add(&line, is_control ? "?" : value, 1);
    }
    struct curl_slist *longer =
        buf_failed(&line) ? NULL : curl_slist_append(run->headers, buf_cstr(&line));
    if (!longer)
        return -1;
    run->headers = longer;
    return 0;
}

static int add_signature(struct http_run *run, const struct config_http *sends)
{
    const struct run_request *request = &run->base.request;
    char timestamp[24];
    snprintf(timestamp, sizeof timestamp, "%" PRId64, clock_wall_ms() / 1000);
    RELEASED_BY(buf_release) struct buf signature = BUF_MAX(1024);
    signature_write(sends->secrets, sends->n_secrets, str_of(request->job_id), timestamp,
                    request->payload, &signature);
    int rc = buf_failed(&signature) ? -1 : 0;
    if (rc == 0)
        rc = add_header(run, "webhook-id", request->job_id);
    if (rc == 0)
        rc = add_header(run, "webhook-timestamp", timestamp);
    return rc == 0 ? add_header(run, "webhook-signature", buf_cstr(&signature)) : rc;
}

static int add_configured(struct http_run *run, const struct config_http *sends)
{
    for (size_t i = 0; i < sends->n_headers; i++)
        if (add_header(run, sends->headers[i].name, sends->headers[i].value) < 0)
            return -1;
    return sends->n_secrets > 0 ? add_signature(run, sends) : 0;
}

static int add_headers(struct http_run *run, const struct config_http *sends)
{
    const struct run_request *request = &run->base.request;
    char attempt[16], max_attempts[16];
    snprintf(attempt, sizeof attempt, "%" PRIu32, request->attempt);
    snprintf(max_attempts, sizeof max_attempts, "%" PRIu32, request->max_attempts);
    const char *const headers[][2] = {
        {"Content-Type", "application/json"},   {"Redrive-Job-Id", request->job_id},
        {"Redrive-Task", request->task},        {"Redrive-Queue", request->queue},
        {"Redrive-Tenant", request->tenant},    {"Redrive-Attempt", attempt},
        {"Redrive-Max-Attempts", max_attempts}, {"traceparent", request->traceparent},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (add_header(run, headers[i][0], headers[i][1]) < 0)
            return -1;
    if (sends && add_configured(run, sends) < 0)
        return -1;
    /* Without it curl waits for "100 Continue" before a large body. */
    struct curl_slist *longer = curl_slist_append(run->headers, "Expect:");
    if (!longer)
        return -1;
    run->headers = longer;
    return 0;
}

/* curl copies these: without memory they are not set, and the request would be another one. */
static bool set_texts(CURL *easy, const char *url, bool is_checked)
{
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "redrive/" REDRIVE_VERSION) == CURLE_OK &&
           (!is_checked || curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK);
}

static void set_options(struct http_run *run, const struct http_runner *runner)
{
    CURL *easy = run->easy;
    struct str payload = run->base.request.payload;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, run);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, run->curl_error);
    /* Where it leads is what the URL says, not what is left of it without its dots. */
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Else a transfer that is given up while its name is being resolved would hold the loop until
     * the resolver's thread returns. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)runner->options.connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)payload.len);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, payload.len > 0 ? payload.ptr : "");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, run->headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, run);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, run);
}

/* On failure run->status is set if it is the job's fault, and NULL if memory is out. */
static int prepare_request(struct http_run *run, const struct http_runner *runner,
                           struct redrive_err *err)
{
    buf_init(&run->url, URL_MAX_BYTES);
    buf_init(&run->body, RUN_RESULT_MAX_BYTES);
    int rc = url_expand(runner->options.url, &run->base.request, &run->url, err);
    if (rc < 0) {
        run->status = rc == REDRIVE_E_NOMEM ? NULL : "validation";
        return rc;
    }
    if (add_headers(run, runner->options.sends) < 0 || !(run->easy = curl_easy_init()) ||
        !set_texts(run->easy, buf_cstr(&run->url), runner->is_checked))
        return err_nomem(err);
    set_options(run, runner);
    return 0;
}

/* Frees what was prepared; the transfer is not in the multi any more. */
static void release_request(struct http_run *run)
{
    curl_easy_cleanup(run->easy);
    curl_slist_free_all(run->headers);
    buf_release(&run->url);
    buf_release(&run->body);
}

/* ---- The answer ------------------------------------------------------------------------------ */

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
        outcome.outcome.failure.retry_after_ms = curl_retry_after_ms(run->easy);
    }
    run_finish(&run->base, &outcome);
}

static void finish_unanswered(struct http_run *run)
{
    struct redrive_failure failure = {.failed = true};
    if (!run->easy) {
        failure.status = run->status;
        failure.message = run->err.message;
    } else if (run->is_refused && !run->is_tried) {
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

static void finish_run(struct http_run *run)
{
    bool is_answered = run->easy && (run->code == CURLE_OK || run->is_cut);
    if (is_answered)
        finish_answered(run);
    else
        finish_unanswered(run);
    release_request(run);
}

/* ---- The runner ------------------------------------------------------------------------------ */

static struct http_runner *runner_of(const struct http_run *run)
{
    return (struct http_runner *)run->base.runner;
}

static void leave_multi(struct http_run *run)
{
    if (run->is_added)
        curl_multi_remove_handle(runner_of(run)->multi.curl, run->easy);
    run->is_added = false;
}

static void on_done(void *transfer, CURLcode code)
{
    struct http_run *run = transfer;
    run->code = code;
    leave_multi(run);
    finish_run(run);
}

static void finish_later(struct run *base)
{
    finish_run((struct http_run *)base);
}

static int http_start(struct run *base, struct redrive_err *err)
{
    struct http_run *run = (struct http_run *)base;
    struct http_runner *runner = (struct http_runner *)base->runner;
    int rc = prepare_request(run, runner, &run->err);
    if (rc < 0 && run->status) {
        run_later(base, finish_later);
        return 0;
    }
    if (rc == 0 && curl_multi_add_handle(runner->multi.curl, run->easy) == CURLM_OK) {
        run->is_added = true;
        return 0;
    }
    release_request(run);
    return err_nomem(err);
}

static void http_end(struct run *base)
{
    leave_multi((struct http_run *)base);
    run_later(base, finish_later);
}

static struct http_runner *runner_with(struct multi *multi)
{
    return (struct http_runner *)(void *)((char *)multi - offsetof(struct http_runner, multi));
}

static void on_lost(struct multi *multi)
{
    LIST_FOREACH (&runner_with(multi)->base.runs, link) {
        struct http_run *run = (struct http_run *)LIST_ENTRY(link, struct run, link);
        if (!run->is_added)
            continue;
        run->code = CURLE_OUT_OF_MEMORY;
        http_end(&run->base);
    }
}

static void on_multi_closed(struct multi *multi)
{
    runner_closed(&runner_with(multi)->base);
}

static void http_close(struct runner *base)
{
    multi_close(&((struct http_runner *)base)->multi, on_multi_closed);
}

static void http_free(struct runner *runner)
{
    free(runner);
}

static const struct runner_ops HTTP_OPS = {
    .name = "http",
    .run_size = sizeof(struct http_run),
    .start = http_start,
    .end = http_end,
    .close = http_close,
    .free = http_free,
};

int http_runner_new(uv_loop_t *loop, const struct log *log, const struct http_options *options,
                    struct runner **ret, struct redrive_err *err)
{
    struct http_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return err_nomem(err);
    runner->options = *options;
    if (runner->options.connect_timeout_ms == 0)
        runner->options.connect_timeout_ms = HTTP_CONNECT_MS;
    runner->is_checked = url_host_is_made_by_jobs(options->url) && !options->allow_private;
    int rc = multi_init(&runner->multi, loop, on_done, on_lost, err);
    if (rc < 0) {
        free(runner);
        return rc;
    }
    runner_init(&runner->base, &HTTP_OPS, loop, log);
    *ret = &runner->base;
    return 0;
}
