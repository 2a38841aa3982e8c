/* Requests that wait: for a reader, for the committer, or for the end of the server. */
#include "rest_server.h"

#include <pthread.h>
#include <semaphore.h>

#include "server/rest/private.h"
#include "store/store.h"
#include "waiting.h"

static sem_t started, go_on;

static int setup(void **state)
{
    (void)state;
    return sem_init(&started, 0, 0) | sem_init(&go_on, 0, 0);
}

static int teardown(void **state)
{
    (void)state;
    return sem_destroy(&started) | sem_destroy(&go_on);
}

static void wait_to_go_on(struct rest_call *call)
{
    sem_post(&started);
    sem_wait(&go_on);
    rest_send_empty(call, 204);
}

static void wait_and_commit(struct rest_call *call)
{
    sem_post(&started);
    sem_wait(&go_on);
    rest_server_refuse(call);
}

static void wait_and_tell_config(struct rest_call *call)
{
    sem_post(&started);
    sem_wait(&go_on);
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_cstr(w, "task", call->config->tasks[0].name);
    json_end_object(w);
    rest_send(call, 200);
}

static const struct rest_route ROUTES[] = {
    {HTTP_POST, "/things", CONFIG_SCOPE_ENQUEUE, false, rest_server_refuse},
    {HTTP_GET, "/slow", 0, true, wait_to_go_on},
    {HTTP_GET, "/slow-commit", 0, true, wait_and_commit},
    {HTTP_GET, "/config", 0, true, wait_and_tell_config},
    {0},
};
static const struct rest_route *const TABLES[] = {ROUTES, NULL};

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

FIXTURE_TEST(a_request_keeps_the_configuration_it_began_with)
{
    struct rest_server server;
    struct client client;
    rest_server_open(&server, "tasks: {first: {}}", TABLES);
    struct config *former = server.config;
    client_connect(&client, server.port);
    client_say(&client, "GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n");
    sem_wait(&started);
    server.config = rest_server_config(&server, "tasks: {second: {}}");
    rest_reload(server.rest, server.config);
    /* The engine of this server has one still. */
    const unsigned held = config_holders(former);
    assert_int_equal(held, 3);
    config_free(former);
    sem_post(&go_on);
    assert_int_equal(client_read(&client, false), 200);
    assert_non_null(strstr(buf_cstr(&client.body), "\"task\":\"first\""));
    sem_post(&go_on);
    assert_int_equal(rest_server_ask(&client, "GET", "/config", NULL, NULL), 200);
    assert_non_null(strstr(buf_cstr(&client.body), "\"task\":\"second\""));
    /* By now the connection is through with the first one. */
    assert_int_equal(config_holders(former), 1);
    client_close(&client);
    rest_server_close(&server);
}

FIXTURE_TEST(slow_reads_hold_up_neither_others_nor_a_stop)
{
    struct rest_server server;
    struct client slow[4], client;
    rest_server_open(&server, "{}", TABLES);
    for (int i = 0; i < 4; i++) {
        client_connect(&slow[i], server.port);
        client_say(&slow[i], "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    sem_wait(&started);
    sem_wait(&started);
    client_connect(&client, server.port);
    assert_int_equal(rest_server_ask(&client, "POST", "/things", NULL, "{}"), 409);
    http_server_stop(server.http);
    server.http = NULL;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(client_read(&slow[i], false), 503);
        client_close(&slow[i]);
        sem_post(&go_on);
    }
    client_close(&client);
    rest_server_close(&server);
}

static void *close_house(void *server)
{
    rest_server_close(server);
    return NULL;
}

/* A reader that has an operation for the committer while everything comes to its end. */
FIXTURE_TEST(a_late_operation_is_answered_before_the_committer_goes)
{
    struct rest_server server;
    struct client client;
    pthread_t closing;
    rest_server_open(&server, "{}", TABLES);
    rest_server_refused = 0;
    client_connect(&client, server.port);
    client_say(&client, "GET /slow-commit HTTP/1.1\r\nHost: localhost\r\n\r\n");
    sem_wait(&started);
    http_server_stop(server.http);
    server.http = NULL;
    assert_int_equal(client_read(&client, false), 503);
    assert_int_equal(pthread_create(&closing, NULL, close_house, &server), 0);
    WAIT_FOR_REST(); /* the committer would have ended if it did not wait for the reader */
    assert_int_equal(rest_server_refused, 0);
    sem_post(&go_on);
    (void)pthread_join(closing, NULL);
    assert_int_equal(rest_server_refused, 1);
    client_close(&client);
}

static int hold_up(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)op, (void)err;
    sem_wait(&go_on);
    return 0;
}

static void hand_in_claim(struct rest_call *call)
{
    REST_WORK[0].own_run(call);
    sem_post(&started);
}

static void hand_in_job(struct rest_call *call)
{
    const struct rest_route *route = REST_JOBS;
    while (rest_route_method(route) != HTTP_POST || strcmp(rest_route_path(route), "/jobs") != 0)
        route++;
    call->route = route;
    rest_route_run(call);
    sem_post(&started);
}

static void nothing_more(struct op *op, void *ctx)
{
    (void)op, (void)ctx;
}

/* The store is slow, and the server stops before the claim has its answer. */
FIXTURE_TEST(a_claim_that_a_stop_was_faster_than_keeps_nothing)
{
    static const struct rest_route CLAIM[] = {
        {HTTP_POST, "/claim", CONFIG_SCOPE_WORK, false, hand_in_claim}, {0}};
    static const struct rest_route *const CLAIM_TABLES[] = {REST_JOBS, CLAIM, NULL};
    const struct store_options options = {0};
    const struct job_filter all = {.limit = 2};
    struct op slow = {.apply = hold_up, .done = nothing_more};
    struct job_page page = {0};
    struct rest_server server;
    struct client client;
    struct store *store;
    pthread_t closing;
    rest_server_open(&server, "{}", CLAIM_TABLES);
    assert_int_equal(store_open(server.url, &options, &store, NULL), 0);
    client_connect(&client, server.port);
    assert_int_equal(rest_server_ask(&client, "POST", "/jobs", NULL, "{\"task\": \"mail\"}"), 201);
    committer_submit(server.committer, &slow);
    client_say(&client, "POST /claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
    sem_wait(&started);
    http_server_stop(server.http);
    server.http = NULL;
    assert_int_equal(client_read(&client, false), 503);
    assert_non_null(strstr(buf_cstr(&client.body), "it may or may not have happened"));
    assert_int_equal(pthread_create(&closing, NULL, close_house, &server), 0);
    WAIT_FOR_REST(); /* all threads are on the way out */
    sem_post(&go_on);
    (void)pthread_join(closing, NULL);
    assert_int_equal(store_ops(store)->list(store, &all, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.jobs[0].status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(page.jobs[0].status.attempts, 0);
    assert_int_equal(page.jobs[0].status.deferrals, 1);
    job_page_release(&page);
    store_close(store);
    client_close(&client);
}

/* A client that is told 503 sends its job again. */
FIXTURE_TEST(a_job_that_a_stop_finds_on_its_way_to_the_store_is_answered)
{
    static const struct rest_route SUBMIT[] = {
        {HTTP_POST, "/jobs", CONFIG_SCOPE_ENQUEUE, false, hand_in_job}, {0}};
    static const struct rest_route *const SUBMIT_TABLES[] = {SUBMIT, NULL};
    struct op slow = {.apply = hold_up, .done = nothing_more};
    struct rest_server server;
    struct client client;
    pthread_t closing;
    rest_server_open(&server, "{}", SUBMIT_TABLES);
    client_connect(&client, server.port);
    committer_submit(server.committer, &slow);
    client_say(&client, "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                        "\r\nContent-Length: 16\r\n\r\n{\"task\": \"mail\"}");
    sem_wait(&started);
    assert_int_equal(pthread_create(&closing, NULL, close_house, &server), 0);
    WAIT_FOR_REST();
    sem_post(&go_on);
    assert_int_equal(client_read(&client, false), 201);
    (void)pthread_join(closing, NULL);
    client_close(&client);
}
