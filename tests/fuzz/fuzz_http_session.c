/* Whole sessions over HTTP (session/session.h), to the resources, the dashboard and the metrics:
 * the server survives them and still serves, every answer is HTTP with a body of the length and the
 * kind that its head says, each request that was taken has one answer in its place, a job that was
 * answered 201 or 202 is in the store, the store is sound, and nothing is left of connections and
 * requests. */
#include "session/session.h"

#include <poll.h>

#include "base/json/json.h"
#include "base/text/encode.h"
#include "server/http/private.h"
#include "server/rest/rest.h"
#include "session/threadless_http.h"

#define MAX_TURNS    100000
#define MAX_REQUESTS (SESSION_MAX_BYTES / 16)
#define HOUR_MS      (INT64_C(3600) * 1000)

static struct http_server *server; /* as long as the process runs */
static struct rest *rest;          /* of one input */
static struct session session;
static bool may_remove; /* a client has asked for what takes jobs out of the store */

/* What a client has asked, as far as the server has taken it. */
static struct asked {
    const struct http_connection *connection; /* NULL: it is over */
    size_t n;
    struct {
        enum http_method method;
        bool submits;
    } requests[MAX_REQUESTS];
} asked[SESSION_MAX_CLIENTS];

/* ---- The server ------------------------------------------------------------------------------ */

static bool has_more(void)
{
    MHD_UNSIGNED_LONG_LONG ms;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd events = {.fd = info->epoll_fd, .events = POLLIN};
    return server->loop_called || poll(&events, 1, 0) > 0 ||
           (MHD_get_timeout(server->daemon, &ms) == MHD_YES && ms == 0);
}

static void turn(bool commits)
{
    bool goes_on = true;
    for (int i = 0; goes_on; i++) {
        FUZZ_CHECK(i < MAX_TURNS);
        const bool fired = threadless_http_fire();
        server->loop_called = false;
        (void)http_accept(server);
        (void)MHD_run(server->daemon);
        const bool has_read = session_read(&session);
        const bool committed = commits && session_commit();
        goes_on = fired || has_read || committed || has_more();
    }
}

static void pass(int64_t ms)
{
    for (int half = 0; half < 2; half++) {
        session_move_clock(half ? ms - ms / 2 : ms / 2);
        turn(true);
        threadless_http_sweep(server);
        turn(true);
    }
}

static void connected(struct client *client)
{
    const size_t i = (size_t)(client - session.clients);
    FUZZ_CHECK(!list_empty(&server->connections));
    asked[i].connection = LIST_ENTRY(server->connections.prev, struct http_connection, link);
    asked[i].n = 0;
    client->ctx = &asked[i];
    for (size_t j = 0; j < i; j++)
        if (asked[j].connection == asked[i].connection)
            asked[j].connection = NULL;
}

static void note_request(struct http_request *request)
{
    const struct str path = http_raw_path(request);
    const struct str short_path =
        str_starts_with(path, STR("/v1/")) ? (struct str){path.ptr + 3, path.len - 3} : path;
    struct asked *by = asked;
    while (by < asked + session.n_clients && by->connection != request->connection)
        by++;
    FUZZ_CHECK(by < asked + session.n_clients && by->n < MAX_REQUESTS);
    by->requests[by->n].method = http_method(request);
    by->requests[by->n++].submits =
        http_method(request) == HTTP_POST &&
        (str_is(short_path, "/jobs") || str_starts_with(short_path, STR("/tasks/")));
    may_remove |= str_contains(path, STR("dead"));
}

static enum http_admission admit(struct http_request *request, void *ctx)
{
    (void)ctx;
    note_request(request);
    return rest_admit(request, rest);
}

static void handle(struct http_request *request, void *ctx)
{
    (void)ctx;
    rest_handle(request, rest);
}

static void on_ready(void)
{
    rest_jobs_ready(rest);
}

static void write_nowhere(struct str line, void *ctx)
{
    (void)ctx;
    FUZZ_CHECK(line.len > 0 && line.ptr[line.len - 1] == '\n');
}

static const struct log QUIET = {.level = LOG_LEVEL_DEBUG, .sink = write_nowhere};

static void start_server(void)
{
    const struct http_server_options options = {
        .address = "127.0.0.1:0",
        .admit = admit,
        .handler = handle,
        .log = &QUIET,
        .max_body_bytes = 4096,
    };
    FUZZ_CHECK(http_server_start(&options, &server, NULL) == 0);
}

static void start(void)
{
    static const struct config *config;
    if (!config)
        config = session_config(
            "tasks: {mail: {retry: {max_retries: 1}}, report: {limits: {concurrency: 1}}}\n"
            "redact: [secret]\n");
    session_open(config, on_ready);
    const struct rest_options options = {
        .committer = session_committer(),
        .config = config,
        .log = &QUIET,
        .store_url = SESSION_STORE,
        .n_readers = 1,
    };
    FUZZ_CHECK(rest_new(&options, &rest, NULL) == 0);
    may_remove = false;
    if (!server)
        start_server();
}

/* The clients have left: the server notices it at its second look at the latest. */
static void see_them_off(void)
{
    for (int look = 0; look < 3; look++) {
        threadless_http_sweep(server);
        turn(true);
    }
}

static void finish(void)
{
    FUZZ_CHECK(server->n_connections == 0 && server->n_cut == 0 && server->refs == 1);
    FUZZ_CHECK(server->n_busy == 0 && server->n_unanswered == 0 && server->body_bytes == 0);
    rest_quiesce(rest);
    turn(true);
    rest_stop(rest);
    rest_free(rest);
    session_close();
}

/* ---- Answers --------------------------------------------------------------------------------- */

struct answer {
    int status;
    struct str length; /* absent: none */
    struct str type;
    bool closes;
    struct str body;
};

static bool next_line(struct str *rest_of, struct str *ret)
{
    const char *end = rest_of->len ? memchr(rest_of->ptr, '\n', rest_of->len) : NULL;
    if (!end)
        return false;
    FUZZ_CHECK(end > rest_of->ptr && end[-1] == '\r');
    *ret = (struct str){rest_of->ptr, (size_t)(end - rest_of->ptr) - 1};
    FUZZ_CHECK(!str_has_control(*ret));
    rest_of->ptr += ret->len + 2;
    rest_of->len -= ret->len + 2;
    return true;
}

static void read_status(struct str line, struct answer *ret)
{
    FUZZ_CHECK(line.len > 13 && (str_starts_with(line, STR("HTTP/1.1 ")) ||
                                 str_starts_with(line, STR("HTTP/1.0 "))));
    ret->status = (line.ptr[9] - '0') * 100 + (line.ptr[10] - '0') * 10 + line.ptr[11] - '0';
    FUZZ_CHECK(ret->status >= 200 && ret->status < 600 && line.ptr[12] == ' ');
}

static void read_header(struct str line, struct answer *ret)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    FUZZ_CHECK(colon && colon > line.ptr);
    const struct str name = {line.ptr, (size_t)(colon - line.ptr)};
    const struct str value = str_trim((struct str){colon + 1, line.len - name.len - 1});
    FUZZ_CHECK(str_is_token(name) && utf8_valid(value));
    if (str_eq_nocase(name, STR("Content-Length"))) {
        FUZZ_CHECK(!ret->length.ptr && value.len > 0);
        ret->length = value;
    }
    if (str_eq_nocase(name, STR("Content-Type")))
        ret->type = value;
    ret->closes |= str_eq_nocase(name, STR("Connection")) && str_eq_nocase(value, STR("close"));
    FUZZ_CHECK(!str_eq_nocase(name, STR("Transfer-Encoding"))); /* nothing here goes on */
}

/* What follows a `100 Continue`, after which the answer may never come. */
static struct str behind_continue(struct str got)
{
    const struct str go_on = STR("HTTP/1.1 100 Continue\r\n\r\n");
    return str_starts_with(got, go_on) ? (struct str){got.ptr + go_on.len, got.len - go_on.len}
                                       : got;
}

/* Takes the next answer off the front, which is to a request with this method; false: it is not
 * whole. */
static bool next_answer(struct str *got, bool is_head, struct answer *ret)
{
    struct str line;
    *ret = (struct answer){0};
    *got = behind_continue(*got);
    if (!next_line(got, &line))
        return false;
    read_status(line, ret);
    while (next_line(got, &line) && line.len > 0)
        read_header(line, ret);
    if (line.len > 0)
        return false;
    const bool has_body = !is_head && ret->status != 204 && ret->status != 304;
    FUZZ_CHECK(!has_body || ret->length.ptr);
    const size_t n = has_body ? strtoul(ret->length.ptr, NULL, 10) : 0;
    if (got->len < n)
        return false;
    ret->body = (struct str){got->ptr, n};
    got->ptr += n;
    got->len -= n;
    return true;
}

static void check_ids(struct str json)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct json_string key;
    struct str id = {0}, item;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0) {
        if (json_string_is(key, "id")) {
            rc = json_read_text(&r, &arena, &id);
            FUZZ_CHECK(rc == 0 && (may_remove || session_has_job(id)));
        } else if (json_string_is(key, "items")) {
            rc = json_enter_array(&r);
            while (rc == 0 && (rc = json_next_item(&r)) > 0) {
                rc = json_skip(&r, &item);
                check_ids(item);
            }
        } else {
            rc = json_skip(&r, NULL);
        }
    }
    FUZZ_CHECK(rc == 0);
}

static void check_answer(const struct answer *answer, bool submits, bool has_body)
{
    if (has_body && (str_is(answer->type, "application/json") ||
                     str_is(answer->type, "application/problem+json")))
        FUZZ_CHECK(json_check(answer->body, NULL, NULL) == 0);
    if (submits && (answer->status == 201 || answer->status == 202))
        check_ids(answer->body);
}

/* An answer to a request that the server has not taken, perhaps a HEAD: it is the last.
 * libmicrohttpd refuses some of them itself, and up to 0.9.75 sends the head of such an answer
 * twice. */
static void check_refusal(struct str got)
{
    const struct str all = got;
    struct answer answer;
    FUZZ_CHECK(next_answer(&got, true, &answer) && answer.closes && answer.status >= 400);
    const struct str head = {all.ptr, all.len - got.len};
    if (!answer.type.ptr && str_starts_with(got, head))
        got = (struct str){got.ptr + head.len, got.len - head.len};
    FUZZ_CHECK(got.len == 0 || got.len == strtoul(answer.length.ptr, NULL, 10));
}

static void check_client(const struct client *client)
{
    const struct asked *by = client->ctx;
    struct str got = buf_str(&client->got);
    struct answer answer = {0};
    size_t n = 0;
    bool is_whole = true;
    while (is_whole && behind_continue(got).len > 0 && n < by->n) {
        FUZZ_CHECK(!answer.closes);
        const bool is_head = by->requests[n].method == HTTP_HEAD;
        is_whole = next_answer(&got, is_head, &answer);
        if (is_whole)
            check_answer(&answer, by->requests[n].submits, !is_head);
        n += is_whole;
    }
    FUZZ_CHECK(is_whole || client->is_reset);
    if (is_whole && behind_continue(got).len > 0) {
        FUZZ_CHECK(!answer.closes);
        check_refusal(got);
    }
}

/* ---- One input ------------------------------------------------------------------------------- */

/* Before anyone leaves: a connection that waits for its next request has answered all others. */
static void check_answered(void)
{
    LIST_FOREACH (&server->connections, link) {
        const struct http_connection *c = LIST_ENTRY(link, struct http_connection, link);
        const struct asked *by = asked;
        while (by < asked + session.n_clients && by->connection != c)
            by++;
        FUZZ_CHECK(by < asked + session.n_clients);
        const struct client *client = &session.clients[by - asked];
        struct str got = buf_str(&client->got);
        struct answer answer;
        size_t n = 0;
        while (n < by->n && got.len > 0 &&
               next_answer(&got, by->requests[n].method == HTTP_HEAD, &answer))
            n++;
        FUZZ_CHECK(c->phase != HTTP_WAITING || n == by->n || client->fd < 0);
    }
}

static void check_alive(void)
{
    static const struct str ASKS = STR("GET /v1/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                       "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
                                       "Content-Length: 31\r\nConnection: close\r\n\r\n"
                                       "{\"id\":\"still-alive\",\"task\":\"x\"}");
    const struct client *client = session_ask(&session, ASKS);
    FUZZ_CHECK(client && str_starts_with(buf_str(&client->got), STR("HTTP/1.1 200 OK\r\n")));
    FUZZ_CHECK(str_contains(buf_str(&client->got), STR("HTTP/1.1 201 Created\r\n")));
    FUZZ_CHECK(session_has_job(STR("still-alive")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct session_server SERVER = {
        .turn = turn, .pass = pass, .connected = connected};
    if (size > SESSION_MAX_BYTES)
        return 0;
    start();
    session_play(&session, &SERVER, data, size);
    check_answered();
    session_leave(&session);
    check_alive();
    see_them_off();
    for (size_t i = 0; i < session.n_clients; i++)
        FUZZ_CHECK(session.clients[i].is_over || session.clients[i].is_reset);
    may_remove |= session.passed_ms > HOUR_MS;
    for (size_t i = 0; i < session.n_clients; i++)
        check_client(&session.clients[i]);
    session_check_store(NULL);
    session_release(&session);
    finish();
    return 0;
}
