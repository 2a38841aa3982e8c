/* What a repair takes out of the server: all that names a job whose row cannot be read, and nothing
 * else. */
#include "store_for_test.h"
#include "repairing.h"
#include "server.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

#include <stdlib.h>
#include <string.h>

#include "core/state.h"

/* A store on a server of its own, in which something can be spoilt. */
static void start(struct server *s, struct test_store *ts)
{
    const struct store_options options = {.create = true};
    struct test_store place = {0};
    struct store *store;
    server_start(s, NULL);
    assert_int_equal(store_open(s->url, &options, &store, NULL), 0);
    store_close(store);
    snprintf(place.url, sizeof place.url, "%s", s->url);
    ts_join(ts, &place);
}

/* Runs a script with a job's number and a row; gives the number that it returns. */
static long long run_script(const struct server *s, const char *script, int64_t seq,
                            const char *row)
{
    redisContext *c = redisConnect("127.0.0.1", s->port);
    redisReply *reply = redisCommand(c, "EVAL %s 0 %lld %s", script, (long long)seq, row);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    const long long number = reply->integer;
    freeReplyObject(reply);
    redisFree(c);
    return number;
}

#define ROW "'{redrive}:j:' .. math.floor(ARGV[1] / 256), string.char(ARGV[1] % 256)"

static void damage(const struct server *s, int64_t seq, const char *row)
{
    run_script(s, "return redis.call('HSET', " ROW ", ARGV[2])", seq, row);
}

static void lose(const struct server *s, int64_t seq)
{
    assert_int_equal(run_script(s, "return redis.call('HDEL', " ROW ")", seq, ""), 1);
}

/* How many keys there are that name jobs: all but those of the store, its partitions and its
 * handles. */
static long long keys_of_jobs(const struct server *s)
{
    return run_script(s,
                      "local n, others = 0, {root = 1, partitions = 1, partition_ids = 1, "
                      "tenant_ids = 1, claimers = 1, reserved = 1, idle = 1, m = 1} "
                      "for _, key in ipairs(redis.call('KEYS', '{redrive}:*')) do "
                      "if not others[string.match(key, ':(%a[%a_]*)')] then n = n + 1 end end "
                      "return n",
                      0, "");
}

static uint64_t jobs_counted(struct test_store *ts)
{
    uint64_t n = 0;
    const struct count_page *page = ts_queues(ts, (struct str){0});
    for (size_t i = 0; i < page->n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            n += page->counts[i].by_state[state];
    return n;
}

/* One job of each state, each with a key of its own and a deadline. */
static void put_each(struct test_store *ts, const char *name, int64_t ret[REDRIVE_STATE_COUNT])
{
    char key[REDRIVE_STATE_COUNT][32], payload[700];
    memset(payload, 'x', sizeof payload); /* kept beside the row */
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        snprintf(key[state], sizeof key[state], "%s-%d", name, state);
        const struct job_spec spec = {.id = str_of(key[state]),
                                      .unique_key = str_of(key[state]),
                                      .breaker_key = STR("gate"),
                                      .payload = {payload, sizeof payload},
                                      .priority = state,
                                      .deadline_ms = ts->now_ms + 3600000};
        ret[state] = ts_put_in(ts, (enum redrive_state)state, &spec);
    }
}

static void check_whole(struct test_store *ts, uint64_t jobs)
{
    struct redrive_err err = {0};
    if (store_ops(ts->store)->verify(ts->store, NULL, NULL, &err) != 0)
        fail_msg("%s; %s", err.message, err.detail);
    assert_int_equal(jobs_counted(ts), jobs);
    const struct job_filter all = {.limit = STORE_PAGE_MAX};
    assert_int_equal(ts_list(ts, &all)->n, jobs);
}

static void remove_all(struct test_store *ts)
{
    const struct job_filter all = {.limit = STORE_PAGE_MAX};
    struct job_page page = {0};
    assert_int_equal(store_ops(ts->store)->list(ts->store, &all, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++) {
        if (!state_has_ended(page.jobs[i].status.state))
            CHANGE(ts, .seq = page.jobs[i].status.seq, .kind = MOVE_CANCEL);
        assert_int_equal(CHANGE(ts, .seq = page.jobs[i].status.seq, .kind = MOVE_REMOVE).code, 0);
    }
    job_page_release(&page);
}

/* Rows are overwritten with something, or lost, of jobs in every state. */
static void check_nothing_is_left(const char *row)
{
    int64_t good[REDRIVE_STATE_COUNT], bad[REDRIVE_STATE_COUNT];
    struct store_repaired did;
    struct server s;
    struct test_store ts;
    struct taken t = TAKEN;
    start(&s, &ts);
    put_each(&ts, "good", good);
    put_each(&ts, "bad", bad);
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        if (row)
            damage(&s, bad[state], row);
        else
            lose(&s, bad[state]);
    }
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    /* Of all of them the payload is left, beside the row. */
    assert_int_equal(did.jobs, REDRIVE_STATE_COUNT);
    assert_int_equal(count_lines(&t), REDRIVE_STATE_COUNT);
    assert_int_equal(t.n_left, REDRIVE_STATE_COUNT);
    assert_true(did.entries > 0 && did.counts > 0);
    check_whole(&ts, REDRIVE_STATE_COUNT);
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        assert_int_equal(ts_state(&ts, good[state]), state);
    assert_int_equal(ts_gates(&ts, (struct str){0})->counts[0].jobs, 1);
    /* Their ids and their keys are free. */
    put_each(&ts, "bad", bad);
    check_whole(&ts, 2 * REDRIVE_STATE_COUNT);
    /* There is nothing more to do. */
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    assert_int_equal(did.jobs + did.entries + did.counts, 0);
    assert_int_equal(count_lines(&t), REDRIVE_STATE_COUNT);
    remove_all(&ts);
    assert_int_equal(keys_of_jobs(&s), 0);
    buf_release(&t.lines);
    ts_close(&ts);
    server_stop(&s);
}

TEST(nothing_names_a_job_whose_row_is_noise)
{
    check_nothing_is_left("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

TEST(nothing_names_a_job_whose_row_is_cut_off)
{
    check_nothing_is_left("x");
}

TEST(nothing_names_a_job_whose_row_is_gone)
{
    check_nothing_is_left(NULL);
}

/* What cannot be kept stays; what was kept, and not removed, is removed the next time. */
TEST(a_job_is_removed_only_when_it_is_kept)
{
    struct server s;
    struct test_store ts;
    struct store_repaired did;
    struct taken t = TAKEN;
    t.keep_code = REDRIVE_E_IO;
    start(&s, &ts);
    for (int i = 0; i < 120; i++)
        damage(&s, PUT(&ts), "xxxxxxxxxxxxxxxxxxxx");
    PUT(&ts);
    assert_int_equal(ts_repair(&ts, &t, &did), REDRIVE_E_IO);
    assert_int_equal(did.jobs, 0);
    t.keep_code = 0;
    t.leave_code = REDRIVE_E_IO;
    assert_int_equal(ts_repair(&ts, &t, &did), REDRIVE_E_IO);
    assert_int_equal(did.jobs, 0);
    assert_true(count_lines(&t) > 0);
    const struct job_filter all = {.limit = 10, .skips_unreadable = true};
    assert_int_equal(ts_list(&ts, &all)->n, 1);
    assert_int_equal(ts.page.n_unreadable, 120);
    t.leave_code = 0;
    buf_reset(&t.lines);
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    assert_int_equal(did.jobs, 120);
    assert_int_equal(count_lines(&t), 120);
    check_whole(&ts, 1);
    buf_release(&t.lines);
    ts_close(&ts);
    server_stop(&s);
}

static void damage_first(void *ctx)
{
    damage(ctx, 1, "yyyyyyyyyyyyyyyyyyyyyyyyy");
}

TEST(a_row_that_was_written_meanwhile_stays)
{
    struct server s;
    struct test_store ts;
    struct store_repaired did;
    struct taken t = TAKEN;
    t.meanwhile = damage_first;
    t.ctx = &s;
    start(&s, &ts);
    damage(&s, PUT(&ts), "xxxxxxxxxxxxxxxxxxxx");
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    assert_int_equal(did.jobs, 0);
    t.meanwhile = NULL;
    assert_int_equal(ts_repair(&ts, &t, &did), 0);
    assert_int_equal(did.jobs, 1);
    assert_non_null(strstr(buf_cstr(&t.lines), "xxxxx"));
    assert_non_null(strstr(buf_cstr(&t.lines), "yyyyy"));
    buf_release(&t.lines);
    ts_close(&ts);
    server_stop(&s);
}

/* A handle that has started a job does not settle it once it was set aside, nor does its commit
 * bring anything of it back. */
TEST(a_running_job_that_was_set_aside_is_not_settled)
{
    struct server s;
    struct test_store ts, other;
    struct store_repaired did;
    struct taken t = TAKEN;
    start(&s, &ts);
    ts_join(&other, &ts);
    const int64_t seq = PUT(&ts);
    const uint64_t token = ts_start(&ts, seq);
    damage(&s, seq, "xxxxxxxxxxxxxxxxxxxx");
    assert_int_equal(ts_repair(&other, &t, &did), 0);
    assert_int_equal(did.jobs, 1);
    struct move_result result = {0};
    const struct decision completed = decision_completed();
    const struct settle_move settle = {.seq = seq, .token = token, .decision = &completed};
    for (int tries = 0; tries < 3 && result.code == 0; tries++) {
        ts_begin(&ts);
        assert_int_equal(store_ops(ts.store)->move(ts.store, SETTLES(&settle, 1), &result, NULL),
                         0);
        const int rc = store_ops(ts.store)->commit(ts.store, NULL);
        assert_true(rc == 0 || rc == REDRIVE_E_CANCELLED);
        ts_rollback(&ts);
    }
    assert_int_equal(result.code, REDRIVE_E_NOT_FOUND);
    check_whole(&ts, 0);
    assert_int_equal(keys_of_jobs(&s), 0);
    buf_release(&t.lines);
    ts_close(&other);
    ts_close(&ts);
    server_stop(&s);
}
