/* What every resource gets from the frame, as far as no transcript says it (http-problems.md,
 * http-tenants.md). */
#include "rest_server.h"

#include <stdio.h>

#include "server/rest/private.h"

/* ---- A few resources of the test's own ------------------------------------------------------- */

static void tell(struct rest_call *call)
{
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_string(w, "tenant", call->principal.tenant);
    json_field_string(w, "first", call->params[0]);
    json_field_string(w, "second", call->params[1]);
    json_end_object(w);
    rest_header(call, "X-Told", "yes");
    rest_send(call, 200);
}

static const struct rest_route ROUTES[] = {
    {HTTP_GET, "/things/{id}", CONFIG_SCOPE_READ, false, tell},
    {HTTP_POST, "/things/{id}/parts/{part}", CONFIG_SCOPE_WORK, false, tell},
    {0},
};
static const struct rest_route *const TABLES[] = {REST_SERVICE, ROUTES, NULL};

/* SHA-256 of "secret-a". */
static const char TOKENS[] =
    "tokens:\n"
    "  - name: a\n"
    "    hash: sha256:8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1\n"
    "    scopes: [read]\n";

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

REST_TEST(without_tokens_requests_of_this_machine_are_served, "{}", TABLES)
{
    struct client client;
    client_connect(&client, server->port);
    client_say(&client, "GET /things/1 HTTP/1.1\r\nHost: [::1]:7070\r\n\r\n");
    assert_int_equal(client_read(&client, false), 200);
    /* The oldest HTTP needs no Host; an Origin of nobody is not that of this server. */
    client_say(&client, "GET /things/1 HTTP/1.0\r\nOrigin: http://\r\n\r\n");
    assert_int_equal(client_read(&client, false), 403);
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

REST_TEST(openapi_is_the_document, "{}", NULL)
{
    struct client client;
    client_connect(&client, server->port);
    assert_int_equal(client_get(&client, "/openapi.yaml"), 200);
    check_str(buf_str(&client.body), OPENAPI_TEXTS[0]);
    client_close(&client);
}
