/* request.c - builds the request: URL, headers, body, signature. */
#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "run/http/address.h"
#include "run/http/private.h"
#include "run/http/signature.h"
#include "run/http/url_template.h"

#define URL_MAX_BYTES    8192
#define HEADER_MAX_BYTES 8192

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
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* A value that contains a line end would be a header of its own. */
static int add_header(struct http_run *run, const char *name, const char *value)
{
    if (!value)
        return 0;
    struct buf line;
    buf_init(&line, HEADER_MAX_BYTES);
    buf_printf(&line, "%s: ", name);
    for (; *value; value++) {
        bool is_control = (unsigned char)*value < 0x20 || *value == 0x7f;
        buf_add(&line, is_control ? "?" : value, 1);
    }
    struct curl_slist *longer =
        buf_failed(&line) ? NULL : curl_slist_append(run->headers, buf_cstr(&line));
    buf_release(&line);
    if (!longer)
        return -1;
    run->headers = longer;
    return 0;
}

static int add_signature(struct http_run *run, const struct config_http *sends)
{
    const struct run_request *request = &run->base.request;
    char timestamp[24];
    struct buf signature;
    snprintf(timestamp, sizeof timestamp, "%" PRId64, clock_wall_ms() / 1000);
    buf_init(&signature, 1024);
    signature_write(sends->secrets, sends->n_secrets, str_of(request->job_id), timestamp,
                    request->payload, &signature);
    int rc = buf_failed(&signature) ? -1 : 0;
    if (rc == 0)
        rc = add_header(run, "webhook-id", request->job_id);
    if (rc == 0)
        rc = add_header(run, "webhook-timestamp", timestamp);
    if (rc == 0)
        rc = add_header(run, "webhook-signature", buf_cstr(&signature));
    buf_release(&signature);
    return rc;
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
        {"Redrive-Max-Attempts", max_attempts},
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

static void set_options(struct http_run *run, const struct http_runner *runner)
{
    CURL *easy = run->easy;
    struct str payload = run->base.request.payload;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, run);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, run->curl_error);
    curl_easy_setopt(easy, CURLOPT_URL, buf_cstr(&run->url));
    /* Where it leads is what the URL says, not what is left of it without its dots. */
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
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
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "redrive/" REDRIVE_VERSION);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_reply_write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, run);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, run);
    if (runner->is_checked)
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

int http_request_prepare(struct http_run *run, const struct http_runner *runner,
                         struct redrive_err *err)
{
    buf_init(&run->url, URL_MAX_BYTES);
    buf_init(&run->body, RUN_RESULT_MAX_BYTES);
    int rc = url_expand(runner->options.url, &run->base.request, &run->url, err);
    if (rc < 0) {
        run->status = rc == REDRIVE_E_NOMEM ? NULL : "validation";
        return rc;
    }
    if (add_headers(run, runner->options.sends) < 0 || !(run->easy = curl_easy_init()))
        return err_nomem(err);
    set_options(run, runner);
    return 0;
}

void http_request_release(struct http_run *run)
{
    curl_easy_cleanup(run->easy);
    curl_slist_free_all(run->headers);
    buf_release(&run->url);
    buf_release(&run->body);
}
