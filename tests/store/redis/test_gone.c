/* What was in the server and is there no longer: jobs, the store, another one in its place, the
 * functions. */
#include "handles.h"
#include "store_for_test.h"
#include "server.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

SERVER_TEST(a_handle_knows_no_job_that_the_server_has_lost, NULL)
{
    struct store *store = open_at(s);
    put_committed(store, "lost");
    start_committed(store, 1, 7);
    server_restart(s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), REDRIVE_E_NOT_FOUND);
    assert_int_equal(put(store, "new", NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(count_jobs(store), 1);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
}

/* The server goes on: only what is in it tells. */
SERVER_TEST(a_handle_notices_that_another_has_set_up_an_emptied_store, NULL)
{
    int64_t now, before, first, second;
    struct store *other = open_at(s), *store = open_at(s);
    put_committed(store, "lost"); /* in the first partition of the store */
    start_committed(store, 1, 7);
    assert_int_equal(store_ops(store)->begin(store, 0, &now, &before, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    server_call(s, "FLUSHALL");
    put_in_committed(other, "else", "elsewhere");

    /* It may have heard nothing of it yet: then its commit is refused. */
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    assert_int_equal(store_ops(store)->begin(store, 0, &now, &first, NULL), 0);
    assert_int_not_equal(first, before);
    assert_int_equal(settle(store, 1, 7), REDRIVE_E_STATE);
    assert_int_equal(put(store, "new", NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(store_ops(store)->begin(store, 0, &now, &second, NULL), 0);
    assert_int_not_equal(second, before);
    store_ops(store)->rollback(store);
    assert_int_equal(count_in(other, "main"), 1);
    assert_int_equal(count_in(other, "else"), 1);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

/* A library that somebody has thrown away is loaded again. */
SERVER_TEST(functions_that_are_gone_come_back, NULL)
{
    struct store *store = open_at(s);
    put_committed(store, "before");
    server_call(s, "FUNCTION FLUSH");
    put_committed(store, "after");
    assert_int_equal(count_jobs(store), 2);
    store_close(store);
}

/* Every word of a library counts, not only the version of the schema. */
TEST(programs_with_other_scripts_bring_their_own)
{
    static const char OTHER[] =
        "#!lua name=redrive_1\nredis.register_function('redrive_1_begin', function() return 7 end)";
    struct server s;
    server_start(&s, NULL);
    redisContext *c = redisConnect("127.0.0.1", s.port);
    redisReply *reply = redisCommand(c, "FUNCTION LOAD %s", OTHER);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    freeReplyObject(reply);
    redisFree(c);
    struct store *store = open_at(&s);
    put_committed(store, "one");
    assert_int_equal(count_jobs(store), 1);
    assert_int_equal(atoi(server_call(&s, "FCALL redrive_1_begin 0")), 7);
    store_close(store);
    server_stop(&s);
}

/* ---- Reads ----------------------------------------------------------------------------------- */

static int try_queues(struct store *store)
{
    struct count_page page = {0};
    const int rc = store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &page, NULL);
    count_page_release(&page);
    return rc;
}

static int try_counters(struct store *store)
{
    struct counter_page page = {0};
    const int rc = store_ops(store)->counters_list(store, (struct str){0}, &page, NULL);
    counter_page_release(&page);
    return rc;
}

static int try_list(struct store *store, struct redrive_err *err)
{
    struct job_page page = {0};
    const struct job_filter filter = {.limit = 10};
    const int rc = store_ops(store)->list(store, &filter, &page, err);
    job_page_release(&page);
    return rc;
}

/* Nothing is not the answer to what cannot be known. */
SERVER_TEST(a_read_of_a_store_that_is_gone_says_so, NULL)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s), *empty = open_at(s);
    assert_int_equal(try_queues(empty), 0);
    put_committed(store, "lost");
    server_call(s, "FLUSHALL");
    assert_int_equal(try_list(store, &err), REDRIVE_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "gone"));
    assert_int_equal(try_queues(store), REDRIVE_E_NOT_FOUND);
    assert_int_equal(try_counters(store), REDRIVE_E_NOT_FOUND);
    assert_int_equal(try_queues(empty), REDRIVE_E_NOT_FOUND);
    /* A transaction sets it up again, for a handle that may. */
    put_committed(store, "new");
    assert_int_equal(count_jobs(store), 1);
    store_close(store);
    store_close(empty);
}

/* The numbers of its partitions mean others: they are forgotten before anything is said. */
TEST(a_read_notices_that_another_store_is_there)
{
    for (int way = 0; way < 2; way++) {
        struct server s;
        struct redrive_err err = {0};
        server_start(&s, NULL);
        struct store *store = open_at(&s), *other = open_at(&s);
        put_committed(store, "lost");
        server_call(&s, "FLUSHALL");
        put_in_committed(other, "else", "elsewhere");
        if (way == 0) {
            assert_int_equal(try_list(store, &err), REDRIVE_E_CANCELLED);
            assert_non_null(strstr(err.hint, "again"));
        } else {
            assert_int_equal(try_queues(store), REDRIVE_E_CANCELLED);
        }
        assert_int_equal(count_in(store, "main"), 0);
        assert_int_equal(count_in(store, "else"), 1);

        /* What the engine has cached is still of the first one. */
        int64_t now, version;
        assert_int_equal(store_ops(store)->begin(store, 0, &now, &version, NULL), 0);
        assert_true(version < 0);
        rollback(store);
        store_close(store);
        store_close(other);
        server_stop(&s);
    }
}
