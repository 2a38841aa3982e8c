/* client.c - HTTP requests, one after another, through libcurl. */
#include "run/http/client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <curl/curl.h>

#include "base/err.h"
#include "run/http/multi.h"

#define CONNECT_MS    10000L
#define URL_MAX_BYTES (64u * 1024)

struct http_client {
    CURL *easy;
    struct curl_slist *headers;
    char *base;
    bool (*gives_up)(void *ctx);
    void *gives_up_ctx;
    char curl_error[CURL_ERROR_SIZE];
};

/* ---- Answers --------------------------------------------------------------------------------- */

void http_answer_init(struct http_answer *answer)
{
    *answer = (struct http_answer){0};
    buf_init(&answer->body, HTTP_CLIENT_BODY_MAX);
}

void http_answer_release(struct http_answer *answer)
{
    buf_release(&answer->body);
}

/* curl's CURLOPT_WRITEFUNCTION; ctx is the body. */
static size_t take_body(char *bytes, size_t size, size_t n, void *ctx)
{
    return buf_add(ctx, bytes, size * n) < 0 ? CURL_WRITEFUNC_ERROR : size * n;
}

/* ---- The client ------------------------------------------------------------------------------ */

/* curl's own sockets are not CLOEXEC, and a command may run an editor. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)ctx, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* curl's CURLOPT_XFERINFOFUNCTION; ctx is the client. */
static int look_whether_to_go_on(void *ctx, curl_off_t down_total, curl_off_t down,
                                 curl_off_t up_total, curl_off_t up)
{
    const struct http_client *client = ctx;
    (void)down_total, (void)down, (void)up_total, (void)up;
    return client->gives_up(client->gives_up_ctx);
}

static int add_header(struct http_client *client, const char *name, const char *value)
{
    char *line;
    if (asprintf(&line, "%s: %s", name, value) < 0)
        return -1;
    struct curl_slist *longer = curl_slist_append(client->headers, line);
    free(line);
    if (!longer)
        return -1;
    client->headers = longer;
    return 0;
}

/* False: there was no memory for the strings. */
static bool set_options(struct http_client *client, const struct http_client_options *options)
{
    CURL *easy = client->easy;
    bool is_set = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->curl_error);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "redrive/" REDRIVE_VERSION);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    if (options->gives_up) {
        client->gives_up = options->gives_up;
        client->gives_up_ctx = options->gives_up_ctx;
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* do not wait for the resolver's thread */
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_whether_to_go_on);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, client);
    }
    if (options->ca_file)
        is_set &= curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file) == CURLE_OK;
    if (options->no_proxy)
        is_set &= curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK;
    return is_set;
}

int http_client_new(const struct http_client_options *options, struct http_client **ret,
                    struct redrive_err *err)
{
    struct http_client *client = calloc(1, sizeof *client);
    char *bearer = NULL;
    int rc = -1;
    *ret = NULL;
    if (client && (client->base = str_dup(str_of(options->base))) &&
        (client->easy = curl_easy_init()))
        rc = add_header(client, "Accept", "application/json");
    if (rc == 0)
        rc = add_header(client, "Content-Type", "application/json");
    /* Without it curl waits for "100 Continue" before a large body. */
    if (rc == 0)
        rc = add_header(client, "Expect", "");
    if (rc == 0 && options->token) {
        rc = asprintf(&bearer, "Bearer %s", options->token) < 0 ? -1 : 0;
        if (rc == 0)
            rc = add_header(client, "Authorization", bearer);
    }
    free(bearer);
    for (size_t i = 0; i < options->n_headers && rc == 0; i++)
        rc = add_header(client, options->headers[i].name, options->headers[i].value);
    if (rc < 0 || !set_options(client, options)) {
        http_client_free(client);
        return err_nomem(err);
    }
    *ret = client;
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    curl_slist_free_all(client->headers);
    free(client->base);
    free(client);
}

/* ---- A request ------------------------------------------------------------------------------- */

static int no_answer(const struct http_client *client, CURLcode code, struct redrive_err *err)
{
    const char *why = client->curl_error[0] ? client->curl_error : curl_easy_strerror(code);
    int rc = REDRIVE_E_IO;
    const char *what = "the server does not answer";
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        rc = REDRIVE_E_DENIED;
        what = "the certificate of the server is not trusted";
        break;
    case CURLE_SSL_CACERT_BADFILE:
        rc = REDRIVE_E_CONFIG;
        what = "the file with the trusted certificates cannot be used";
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT: what = "the server cannot be reached"; break;
    case CURLE_OPERATION_TIMEDOUT: what = "the server does not answer in time"; break;
    case CURLE_SSL_CONNECT_ERROR: what = "the server does not answer with TLS"; break;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: what = "the server does not answer with HTTP"; break;
    case CURLE_OUT_OF_MEMORY: return err_nomem(err);
    default: break;
    }
    (void)err_set(err, rc, "%s", what);
    err_detail(err, "%s: %s", client->base, why);
    return rc;
}

int http_client_call(struct http_client *client, const char *method, const char *path,
                     struct str body, int64_t timeout_ms, struct http_answer *ret,
                     struct redrive_err *err)
{
    CURL *easy = client->easy;
    long status = 0;
    RELEASED_BY(buf_release) struct buf url = BUF_MAX(URL_MAX_BYTES);
    buf_puts(&url, client->base);
    buf_puts(&url, path);
    if (buf_failed(&url))
        return err_full(err, buf_failed(&url), "the request is over %u bytes", URL_MAX_BYTES);
    buf_reset(&ret->body);
    client->curl_error[0] = '\0';
    bool is_set = curl_easy_setopt(easy, CURLOPT_URL, buf_cstr(&url)) == CURLE_OK;
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &ret->body);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    /* On a connection that was kept, and turns out to be closed, libcurl sends the request once
     * more. The server may have done it the first time. */
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, strcmp(method, "GET") == 0 ? 0L : 1L);
    if (body.ptr) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.ptr);
    } else {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    is_set &= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
    const CURLcode code = is_set ? curl_easy_perform(easy) : CURLE_OUT_OF_MEMORY;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    ret->status = (int)status;
    ret->retry_after_ms = code == CURLE_OK ? curl_retry_after_ms(easy) : 0;
    if (code == CURLE_OK)
        return 0;
    return buf_failed(&ret->body)
               ? err_full(err, buf_failed(&ret->body), "the answer of the server is too large")
               : no_answer(client, code, err);
}
