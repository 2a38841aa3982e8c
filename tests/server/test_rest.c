/* Paths, methods, tokens and scopes: what every resource gets from the frame. */
#include "rest_server.h"

#include <stdio.h>

#include "base/err.h"
#include "engine/report/stats.h"
#include "server/rest/private.h"

/* ---- A few resources of the test's own ------------------------------------------------------- */

static void tell(struct rest_call *call)
{
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_cstr(w, "route", call->route->path);
    json_field_string(w, "tenant", call->principal.tenant);
    json_field_string(w, "first", call->params[0]);
    json_field_string(w, "second", call->params[1]);
    json_end_object(w);
    rest_header(call, "X-Told", "yes");
    rest_send(call, 200);
}

static void read_store(struct rest_call *call)
{
    struct worker_page page = {0};
    assert_int_equal(workers_read(rest_store(call), (struct str){0}, 0, &page, NULL), 0);
    worker_page_release(&page);
    tell(call);
}

static void remove_it(struct rest_call *call)
{
    rest_send_empty(call, 204);
}

static void complain(struct rest_call *call)
{
    struct redrive_err err;
    err_set(&err, REDRIVE_E_RANGE, "limit is out of range");
    err_detail(&err, "expected a number from 1 to 1000");
    err_hint(&err, "leave it out");
    rest_fail(call, &err, "limit");
}

static const struct rest_route ROUTES[] = {
    {HTTP_GET, "/things", CONFIG_SCOPE_READ, true, read_store},
    {HTTP_POST, "/things", CONFIG_SCOPE_ENQUEUE, false, rest_server_refuse},
    {HTTP_GET, "/things/{id}", CONFIG_SCOPE_READ, false, tell},
    {HTTP_DELETE, "/things/{id}", CONFIG_SCOPE_ADMIN, false, remove_it},
    {HTTP_GET, "/things/groups", CONFIG_SCOPE_READ, false, tell},
    {HTTP_POST, "/things/{id}/parts/{part}", CONFIG_SCOPE_WORK, false, tell},
    {HTTP_GET, "/wrong", 0, false, complain},
    {0},
};
static const struct rest_route *const TABLES[] = {REST_SERVICE, ROUTES, NULL};

/* SHA-256 of "secret-a", which may read and enqueue, and of "secret-b". */
static const char TOKENS[] =
    "tokens:\n"
    "  - name: a\n"
    "    hash: sha256:8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1\n"
    "    scopes: [read, enqueue]\n"
    "    tenant: ta\n"
    "  - name: b\n"
    "    hash: sha256:ff492ef788c89b555e6f738b33d2422f57dbb6656af2402155672c5f123a90af\n"
    "    scopes: [admin]\n";

#define CHECK_BODY(client, text) assert_non_null(strstr(buf_cstr(&(client).body), text))

/* ---- Tests ----------------------------------------------------------------------------------- */

REST_TEST(paths_lead_to_routes, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/a%2Fb%20c", NULL, NULL), 200);
    CHECK_BODY(client, "\"first\":\"a/b c\"");
    CHECK_BODY(client, "\"tenant\":\"default\"");
    check_str(client_header(&client, "X-Told"), "yes");
    check_str(client_header(&client, "Content-Type"), "application/json");
    assert_int_equal(rest_server_ask(&client, "POST", "/things/1/parts/2", NULL, ""), 200);
    CHECK_BODY(client, "\"first\":\"1\",\"second\":\"2\"");
    assert_int_equal(rest_server_ask(&client, "GET", "/things", NULL, NULL), 200);
    CHECK_BODY(client, "\"route\":\"/things\"");
    assert_int_equal(rest_server_ask(&client, "DELETE", "/things/1", NULL, NULL), 204);
    client_close(&client);
}

REST_TEST(a_literal_path_comes_before_a_placeholder, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/groups", NULL, NULL), 200);
    CHECK_BODY(client, "\"route\":\"/things/groups\"");
    assert_int_equal(rest_server_ask(&client, "DELETE", "/things/groups", NULL, NULL), 405);
    check_str(client_header(&client, "Allow"), "GET, HEAD, OPTIONS");
    client_close(&client);
}

REST_TEST(v1_in_front_means_the_same, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "GET", "/v1/things/7", NULL, NULL), 200);
    CHECK_BODY(client, "\"first\":\"7\"");
    assert_int_equal(rest_server_ask(&client, "GET", "/v1things", NULL, NULL), 404);
    assert_int_equal(rest_server_ask(&client, "GET", "/v2/things", NULL, NULL), 404);
    assert_int_equal(rest_server_ask(&client, "GET", "/v1", NULL, NULL), 404);
    assert_int_equal(rest_server_ask(&client, "GET", "/v1/v1/things", NULL, NULL), 404);
    client_close(&client);
}

REST_TEST(unknown_paths_are_404_with_a_problem, "{}", TABLES)
{
    static const char *const PATHS[] = {
        "/", "/thing", "/things/", "/things/1/", "/things/1/x", "//things", "/things/1/parts/2/3"};
    struct client client;
    client_connect(&client, server->port);
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++) {
        assert_int_equal(rest_server_ask(&client, "GET", PATHS[i], NULL, NULL), 404);
        check_str(client_header(&client, "Content-Type"), "application/problem+json");
        CHECK_BODY(client, "\"type\":\"urn:redrive:not-found\",\"title\":\"not found\"");
    }
    client_close(&client);
}

REST_TEST(other_methods_are_405_with_allow, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "PUT", "/things/1", NULL, ""), 405);
    check_str(client_header(&client, "Allow"), "GET, HEAD, DELETE, OPTIONS");
    CHECK_BODY(client, "\"status\":405");
    assert_int_equal(rest_server_ask(&client, "BREW", "/things", NULL, NULL), 405);
    check_str(client_header(&client, "Allow"), "GET, HEAD, POST, OPTIONS");
    assert_int_equal(rest_server_ask(&client, "OPTIONS", "/things/1", NULL, NULL), 204);
    check_str(client_header(&client, "Allow"), "GET, HEAD, DELETE, OPTIONS");
    assert_int_equal(rest_server_ask(&client, "HEAD", "/things/1", NULL, NULL), 200);
    check_str(client_header(&client, "Content-Type"), "application/json");
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", NULL, NULL), 200);
    client_close(&client);
}

REST_TEST(a_problem_names_the_field_and_what_was_expected, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "GET", "/wrong", NULL, NULL), 400);
    check_str(buf_str(&client.body),
              "{\"type\":\"urn:redrive:range\",\"title\":\"value is out of range\",\"status\":400,"
              "\"detail\":\"limit is out of range\",\"expected\":\"a number from 1 to 1000\","
              "\"hint\":\"leave it out\",\"field\":\"limit\"}");
    client_close(&client);
}

REST_TEST(an_operation_that_is_refused_is_answered_by_its_code, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "POST", "/things", NULL, "{}"), 409);
    CHECK_BODY(client, "\"detail\":\"not now\"");
    client_close(&client);
}

REST_TEST(tokens_open_what_their_scopes_allow, TOKENS, TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", NULL, NULL), 401);
    check_str(client_header(&client, "WWW-Authenticate"), "Bearer realm=\"redrive\"");
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", "secret-x", NULL), 401);
    check_str(client_header(&client, "WWW-Authenticate"),
              "Bearer realm=\"redrive\", error=\"invalid_token\"");
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", "secret-a", NULL), 200);
    CHECK_BODY(client, "\"tenant\":\"ta\"");
    assert_int_equal(rest_server_ask(&client, "DELETE", "/things/1", "secret-a", NULL), 403);
    CHECK_BODY(client, "lacks the scope admin");
    check_str(client_header(&client, "WWW-Authenticate"),
              "Bearer realm=\"redrive\", error=\"insufficient_scope\", scope=\"admin\"");
    assert_int_equal(rest_server_ask(&client, "DELETE", "/things/1", "secret-b", NULL), 204);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", "secret-b", NULL), 403);
    assert_int_equal(rest_server_ask(&client, "GET", "/health", NULL, NULL), 200);
    client_close(&client);
}

TEST(other_tokens_count_after_a_reload)
{
    struct rest_server server;
    struct client client;
    rest_server_open(&server, TOKENS, TABLES);
    struct config *other = rest_server_config(&server, "{}");
    client_connect(&client, server.port);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", NULL, NULL), 401);
    rest_reload(server.rest, other);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", NULL, NULL), 200);
    rest_reload(server.rest, server.config);
    assert_int_equal(rest_server_ask(&client, "GET", "/things/1", NULL, NULL), 401);
    client_close(&client);
    rest_server_close(&server);
    config_free(other);
}

static int ask_as_browser(struct client *client, const char *host, const char *origin)
{
    char text[300];
    snprintf(text, sizeof text, "GET /things/1 HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", host,
             origin ? "Origin: " : "", origin ? origin : "", origin ? "\r\n" : "");
    client_say(client, text);
    return client_read(client, false);
}

REST_TEST(without_tokens_web_pages_of_others_are_refused, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(ask_as_browser(&client, "localhost:7070", NULL), 200);
    assert_int_equal(ask_as_browser(&client, "127.0.0.1:7070", "http://127.0.0.1:7070"), 200);
    assert_int_equal(ask_as_browser(&client, "[::1]:7070", NULL), 200);
    assert_int_equal(ask_as_browser(&client, "evil.example:7070", NULL), 403);
    assert_int_equal(ask_as_browser(&client, "127.0.0.1.evil.example", NULL), 403);
    assert_int_equal(ask_as_browser(&client, "localhost", "http://evil.example"), 403);
    assert_int_equal(ask_as_browser(&client, "localhost", "null"), 403);
    /* The oldest HTTP needs no Host; an Origin of nobody is not that of this server. */
    client_say(&client, "GET /things/1 HTTP/1.0\r\nOrigin: http://\r\n\r\n");
    assert_int_equal(client_read(&client, false), 403);
    client_close(&client);
}

static int ask_with(struct client *client, const char *path, const char *host, const char *header)
{
    char text[300];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, header);
    client_say(client, text);
    return client_read(client, false);
}

/* What a proxy or a browser adds. */
static const char *const FOREIGN[] = {
    "Forwarded: for=10.0.0.1\r\n",   "X-Forwarded-For: 10.0.0.1\r\n",
    "x-forwarded-proto: https\r\n",  "Via: 1.1 proxy\r\n",
    "X-Real-IP: 10.0.0.1\r\n",       "Sec-Fetch-Site: cross-site\r\n",
    "Sec-Fetch-Site: same-site\r\n",
};

REST_TEST(without_tokens_what_a_proxy_passes_on_is_refused, "{}", NULL)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(ask_with(&client, "/jobs", "localhost", "Sec-Fetch-Site: none\r\n"), 200);
    assert_int_equal(ask_with(&client, "/jobs", "localhost", "Sec-Fetch-Site: same-origin\r\n"),
                     200);
    for (size_t i = 0; i < sizeof FOREIGN / sizeof FOREIGN[0]; i++)
        assert_int_equal(ask_with(&client, "/jobs", "localhost", FOREIGN[i]), 403);
    CHECK_BODY(client, "without tokens only programs of this machine are served");
    client_close(&client);
}

REST_TEST(health_and_readiness_look_at_the_host, "{}", NULL)
{
    static const char *const PATHS[] = {"/health", "/ready", "/openapi.yaml"};
    struct client client;
    client_connect(&client, server->port);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask_with(&client, PATHS[i], "localhost", ""), 200);
        assert_int_equal(ask_with(&client, PATHS[i], "evil.example", ""), 403);
        assert_int_equal(ask_with(&client, PATHS[i], "localhost", FOREIGN[0]), 403);
    }
    client_close(&client);
    rest_server_close(server);

    /* Tokens keep strangers out of everything else: a probe may come from another machine. */
    rest_server_open(server, TOKENS, NULL);
    client_connect(&client, server->port);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask_with(&client, PATHS[i], "10.0.0.7:7070", ""), 200);
        assert_int_equal(ask_with(&client, PATHS[i], "redrive.example", FOREIGN[0]), 200);
    }
    client_close(&client);
}

REST_TEST(health_is_told, "{}", NULL)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(client_get(&client, "/health"), 200);
    CHECK_BODY(client, "\"status\":\"healthy\"");
    CHECK_BODY(client, "\"health_score\":1");
    CHECK_BODY(client, "\"success_rate\":1");
    client_close(&client);
}

REST_TEST(ready_until_told_otherwise, "{}", NULL)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(client_get(&client, "/ready"), 200);
    rest_set_ready(server->rest, false);
    assert_int_equal(client_get(&client, "/ready"), 503);
    assert_int_equal(client_get(&client, "/health"), 200);
    client_close(&client);
}

/* Below the path's own line, and before the next path. */
static bool documents(const char *text, const struct rest_route *route)
{
    char line[200], method[16];
    const char *name = http_method_name(route->method);
    snprintf(line, sizeof line, "\n  %s:\n", route->path);
    const char *at = strstr(text, line);
    if (!at)
        return false;
    const char *end = strstr(at + strlen(line), "\n  /");
    snprintf(method, sizeof method, "\n    %s:", name);
    for (char *p = method; *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
    const char *found = strstr(at, method);
    return found && (!end || found < end);
}

REST_TEST(openapi_names_every_route, "{}", NULL)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(client_get(&client, "/openapi.yaml"), 200);
    check_str(buf_str(&client.body), OPENAPI_TEXTS[0]);
    for (size_t i = 0; REST_TABLES[i]; i++)
        for (const struct rest_route *route = REST_TABLES[i]; route->path; route++)
            if (!documents(OPENAPI_TEXTS[0], route))
                fail_msg("docs/openapi.yaml lacks %s %s", http_method_name(route->method),
                         route->path);
    client_close(&client);
}
