/* A store whose slot is moved to another node of a cluster, at every moment that matters. */
#include "store_for_test.h"
#include "server.h"
#include "waiting.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

/* Two nodes, the first of which serves all slots in the beginning. */
struct cluster {
    struct server a, b;
    char id_a[64], id_b[64];
    int slot; /* of the store */
    struct test_store ts;
};

static void must(const struct server *s, const char *command)
{
    const char *said = server_call(s, "%s", command);
    if (strcmp(said, "OK") != 0)
        fail_msg("%s: %s", command, said);
}

static int set_up(void **state)
{
    static struct cluster c;
    static const char *const SETTINGS[] = {"--cluster-enabled", "yes", NULL};
    char command[256];
    c = (struct cluster){0};
    server_start(&c.a, SETTINGS);
    server_start(&c.b, SETTINGS);
    snprintf(c.id_a, sizeof c.id_a, "%s", server_call(&c.a, "CLUSTER MYID"));
    snprintf(c.id_b, sizeof c.id_b, "%s", server_call(&c.b, "CLUSTER MYID"));
    must(&c.b, "CLUSTER SET-CONFIG-EPOCH 2");
    must(&c.a, "CLUSTER ADDSLOTSRANGE 0 16383");
    snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %d", c.b.port);
    must(&c.a, command);
    WAIT_FOR(strstr(server_call(&c.a, "CLUSTER INFO"), "cluster_state:ok"));
    WAIT_FOR(strstr(server_call(&c.b, "CLUSTER INFO"), "cluster_state:ok"));
    WAIT_FOR(strstr(server_call(&c.b, "CLUSTER NODES"), "0-16383"));
    setenv("REDRIVE_TEST_REDIS", c.b.url, 1);
    ts_open(&c.ts, "redis");
    c.slot = atoi(server_call(&c.a, "CLUSTER KEYSLOT {%s}", strchr(c.ts.url, '=') + 1));
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    struct cluster *c = *state;
    ts_close(&c->ts);
    server_stop(&c->a);
    server_stop(&c->b);
    return 0;
}

static void set_slot(const struct server *s, int slot, const char *how, const char *id)
{
    char command[128];
    snprintf(command, sizeof command, "CLUSTER SETSLOT %d %s %s", slot, how, id);
    must(s, command);
}

static void start_move(const struct cluster *c)
{
    set_slot(&c->b, c->slot, "IMPORTING", c->id_a);
    set_slot(&c->a, c->slot, "MIGRATING", c->id_b);
}

static void move_keys(const struct cluster *c)
{
    redisContext *link = redisConnect("127.0.0.1", c->a.port);
    for (bool more = true; more;) {
        redisReply *keys = redisCommand(link, "CLUSTER GETKEYSINSLOT %d 100", c->slot);
        assert_non_null(keys);
        more = keys->elements > 0;
        for (size_t i = 0; i < keys->elements; i++) {
            redisReply *reply = redisCommand(link, "MIGRATE 127.0.0.1 %d %b 0 5000", c->b.port,
                                             keys->element[i]->str, keys->element[i]->len);
            assert_non_null(reply);
            assert_string_equal(reply->str, "OK");
            freeReplyObject(reply);
        }
        freeReplyObject(keys);
    }
    redisFree(link);
}

static void end_move(const struct cluster *c)
{
    set_slot(&c->b, c->slot, "NODE", c->id_b);
    set_slot(&c->a, c->slot, "NODE", c->id_b);
}

/* Until a handle asks again where the store is when a transaction begins. */
static void wait_for_begin_to_ask(void)
{
    pass_ms(1100);
}

static void move(const struct cluster *c)
{
    start_move(c);
    move_keys(c);
    end_move(c);
    wait_for_begin_to_ask();
}

static void check_whole(struct test_store *ts, size_t n)
{
    struct redrive_err err = {0};
    assert_int_equal(LIST(ts, .limit = 100)->n, n);
    if (store_ops(ts->store)->verify(ts->store, NULL, NULL, &err) != 0)
        fail_msg("%s", err.message);
}

static int commit(struct test_store *ts, struct redrive_err *err)
{
    int rc = store_ops(ts->store)->commit(ts->store, err);
    ts_rollback(ts);
    return rc;
}

#define CLUSTER_TEST(test) TEST_WITH(test, set_up, tear_down, struct cluster *c)

/* Some of its keys are there, new ones would be refused: it may not be made by half. */
CLUSTER_TEST(a_transaction_in_a_slot_that_is_being_moved_is_made_wholly_or_not)
{
    struct test_store *ts = &c->ts;
    struct redrive_err err = {0};
    const int64_t seq = PUT(ts);
    ts_begin(ts);
    ts_start(ts, seq);
    PUT(ts, .queue = STR("another"));
    start_move(c);
    assert_int_equal(commit(ts, &err), REDRIVE_E_CANCELLED);
    assert_non_null(strstr(err.detail, "none"));

    /* The move is given up. */
    set_slot(&c->a, c->slot, "STABLE", "");
    check_whole(ts, 1);
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_QUEUED);
    PUT(ts);
    check_whole(ts, 2);
}

/* Its reservations and the seqs that it was given move as well, and mean nothing there. */
CLUSTER_TEST(a_transaction_that_has_begun_on_another_node_is_refused)
{
    struct test_store *ts = &c->ts;
    struct redrive_err err = {0};
    PUT(ts);
    ts_begin(ts);
    assert_int_equal(READY(ts, .limit = 10)->n, 1);
    PUT(ts);
    move(c);
    assert_int_equal(commit(ts, &err), REDRIVE_E_CANCELLED);
    check_whole(ts, 1);
    PUT(ts);
    check_whole(ts, 2);
}

CLUSTER_TEST(who_asks_during_the_move_is_told_to_try_again)
{
    struct test_store *ts = &c->ts;
    struct redrive_err err = {0};
    struct job_page page = {0};
    int64_t now_ms, version;
    PUT(ts);
    start_move(c);
    wait_for_begin_to_ask();
    assert_int_equal(store_ops(ts->store)->begin(ts->store, 1, &now_ms, &version, &err),
                     REDRIVE_E_IO);
    assert_non_null(strstr(err.message, "moved"));
    move_keys(c);
    const struct job_filter all = {.limit = 10};
    assert_int_equal(store_ops(ts->store)->list(ts->store, &all, &page, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "ASK"));
    end_move(c);
    check_whole(ts, 1);
}

CLUSTER_TEST(a_handle_follows_its_store_and_brings_the_functions_along)
{
    struct test_store *ts = &c->ts, other;
    PUT(ts);
    ts_join(&other, ts);
    move(c);
    PUT(ts);
    check_whole(ts, 2);
    PUT(&other, .id = STR("of another"));
    check_whole(&other, 3);
    assert_string_equal(server_call(&c->a, "CLUSTER COUNTKEYSINSLOT %d", c->slot), "0");
    ts_close(&other);
}

static void check_told(struct test_store *ts, const struct server *node)
{
    struct store_facts facts = {0};
    char text[64];
    snprintf(text, sizeof text, ", a cluster; the store is on the node 127.0.0.1:%d", node->port);
    assert_int_equal(LIST(ts, .limit = 1)->n, 0);
    assert_int_equal(store_ops(ts->store)->facts(ts->store, &facts, NULL), 0);
    assert_non_null(strstr(facts.server, text));
}

CLUSTER_TEST(facts_name_the_node_that_has_the_store)
{
    check_told(&c->ts, &c->a);
    move(c);
    check_told(&c->ts, &c->b);
}

/* The node that the URL names is gone; the store is on the other one. */
CLUSTER_TEST(a_node_that_is_gone_is_not_missed)
{
    struct test_store *ts = &c->ts;
    PUT(ts);
    must(&c->a, "CONFIG SET cluster-require-full-coverage no");
    server_kill(&c->b);
    server_call(&c->a, "CLIENT KILL TYPE normal");
    PUT(ts);
    check_whole(ts, 2);
}

/* The store has moved, and its old node leaves the cluster, but goes on by itself. */
static void leave_cluster(const struct cluster *c)
{
    char command[128];
    must(&c->a, "CONFIG SET cluster-require-full-coverage no");
    must(&c->b, "CONFIG SET cluster-require-full-coverage no");
    must(&c->a, "CLUSTER RESET SOFT");
    snprintf(command, sizeof command, "CLUSTER FORGET %s", c->id_a);
    must(&c->b, command);
    WAIT_FOR(strstr(server_call(&c->b, "CLUSTER INFO"), "cluster_state:ok"));
}

CLUSTER_TEST(a_handle_leaves_a_node_that_is_no_longer_of_the_cluster)
{
    struct test_store *ts = &c->ts;
    PUT(ts);
    move(c);
    leave_cluster(c);
    PUT(ts);
    check_whole(ts, 2);
}

static uint32_t wait_for_notification(struct test_store *ts, int64_t timeout_ms)
{
    uint32_t notification;
    assert_int_equal(store_ops(ts->store)->wait(ts->store, timeout_ms, &notification, NULL), 0);
    return notification;
}

/* What it would be told there it would never hear. */
CLUSTER_TEST(one_who_waits_leaves_such_a_node_as_well)
{
    struct test_store *ts = &c->ts, other;
    PUT(ts);
    ts_join(&other, ts);
    while (wait_for_notification(&other, 1) != 0)
        continue;
    move(c);
    PUT(ts);
    leave_cluster(c);
    while (wait_for_notification(&other, 1) != 0)
        continue;
    PUT(ts);
    assert_int_not_equal(wait_for_notification(&other, WAIT_LIMIT_MS), 0);
    ts_close(&other);
}
