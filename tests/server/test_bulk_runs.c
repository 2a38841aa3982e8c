/* Runs over many jobs while their server stops, or the store is away. */
#include "rest_server.h"

#include <stdatomic.h>

#include "base/err.h"
#include "waiting.h"

#define CANCEL_ALL "{\"verb\": \"cancel\", \"all\": true}"

/* The chunk that the committer is working on, until the test hands it on. */
static struct op *_Atomic chunk;
static atomic_bool holds_chunks;

void __real_committer_submit(struct committer *committer, struct op *op);
void __wrap_committer_submit(struct committer *committer, struct op *op);

void __wrap_committer_submit(struct committer *committer, struct op *op)
{
    if (!holds_chunks) {
        __real_committer_submit(committer, op);
        return;
    }
    chunk = op;
}

/* A server with one job and a run that cancels it, whose first chunk has not reached the committer.
 */
static void open_with_chunk(struct rest_server *server, struct client *client)
{
    chunk = NULL;
    rest_server_open(server, "{}", NULL);
    client_connect(client, server->port);
    assert_int_equal(
        rest_server_ask(client, "POST", "/v1/jobs", NULL, "{\"task\": \"a\", \"delay\": \"1h\"}"),
        201);
    holds_chunks = true;
    assert_int_equal(rest_server_ask(client, "POST", "/v1/bulk", NULL, CANCEL_ALL), 202);
    WAIT_FOR(chunk);
    holds_chunks = false;
}

TEST(a_server_about_to_stop_does_not_wait_for_a_chunk)
{
    struct rest_server server;
    struct client client;
    open_with_chunk(&server, &client);
    rest_quiesce(server.rest);
    assert_int_equal(client_get(&client, "/v1/bulk"), 200);
    assert_int_equal(rest_server_ask(&client, "POST", "/v1/bulk", NULL, CANCEL_ALL), 503);
    assert_non_null(strstr(buf_cstr(&client.body), "shutting down"));
    __real_committer_submit(server.committer, chunk);
    client_close(&client);
    rest_server_close(&server);
}

static bool is_running(struct client *client)
{
    assert_int_equal(client_get(client, "/v1/bulk"), 200);
    return strstr(buf_cstr(&client->body), "\"running\"") != NULL;
}

TEST(a_run_outlives_a_store_that_was_away)
{
    struct rest_server server;
    struct client client;
    open_with_chunk(&server, &client);
    chunk->code = err_set(&chunk->err, REDRIVE_E_IO, "the store is away");
    chunk->done(chunk, chunk->done_ctx);
    WAIT_FOR(!is_running(&client));
    assert_non_null(strstr(buf_cstr(&client.body), "\"state\":\"finished\",\"changed\":1"));
    client_close(&client);
    rest_server_close(&server);
}
