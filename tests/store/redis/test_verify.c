/* Whether a store is whole is found out while others write to it. */
#include "store_for_test.h"
#include "server.h"

#include <stdio.h>

/* More than are looked at in one transaction. */
#define JOBS 1200

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

static void fill(struct server *s, struct test_store *ts)
{
    start(s, ts);
    ts_begin(ts);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        snprintf(id, sizeof id, "job-%d", i);
        PUT(ts, .id = str_of(id));
    }
    ts_commit(ts);
}

static int verify(struct test_store *ts, struct redrive_err *err)
{
    return store_ops(ts->store)->verify(ts->store, NULL, NULL, err);
}

struct busy {
    struct test_store *ts;
    int64_t victim;
    unsigned transactions;
};

/* One job comes, another one goes. */
static void write_something(void *ctx)
{
    struct busy *busy = ctx;
    char id[16];
    snprintf(id, sizeof id, "more-%u", busy->transactions++);
    PUT(busy->ts, .id = str_of(id));
    check_move(CHANGE(busy->ts, .seq = busy->victim, .kind = MOVE_END,
                      .to = REDRIVE_STATE_DEAD_LETTER, .reason = REDRIVE_REASON_MANUAL),
               0, REDRIVE_STATE_DEAD_LETTER);
    check_move(CHANGE(busy->ts, .seq = busy->victim--, .kind = MOVE_REMOVE), 0,
               REDRIVE_STATE_DEAD_LETTER);
}

TEST(others_go_on_meanwhile)
{
    struct server s;
    struct test_store ts, other;
    fill(&s, &ts);
    ts_join(&other, &ts);
    struct busy busy = {.ts = &other, .victim = JOBS};
    assert_int_equal(store_ops(ts.store)->verify(ts.store, write_something, &busy, NULL), 0);
    assert_true(busy.transactions > 2);
    ts_close(&other);
    ts_close(&ts);
    server_stop(&s);
}

TEST(what_is_wrong_is_named)
{
    struct server s;
    struct test_store ts;
    struct redrive_err err = {0};
    fill(&s, &ts);
    assert_int_equal(verify(&ts, &err), 0);
    server_call(&s, "HINCRBY {redrive}:n:1 %d 1", REDRIVE_STATE_QUEUED);
    assert_int_equal(verify(&ts, &err), REDRIVE_E_CORRUPT);
    assert_string_equal(err.message, "1201 jobs are counted, 1200 are there");
    server_call(&s, "HINCRBY {redrive}:n:1 %d -1", REDRIVE_STATE_QUEUED);
    assert_int_equal(verify(&ts, &err), 0);
    char payload[600];
    memset(payload, 'x', sizeof payload);
    const long long seq = PUT(&ts, .payload = {payload, sizeof payload});
    assert_int_equal(verify(&ts, &err), 0);
    server_call(&s, "DEL {redrive}:o:%lld", seq / 256);
    assert_int_equal(verify(&ts, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.message, "has lost its payload"));
    CHANGE(&ts, .seq = seq, .kind = MOVE_CANCEL);
    CHANGE(&ts, .seq = seq, .kind = MOVE_REMOVE);
    assert_int_equal(verify(&ts, &err), 0);
    for (int i = 0; i < 100; i++) /* of 16384, among which the ids are spread */
        server_call(&s, "DEL {redrive}:i:%d", i);
    assert_int_equal(verify(&ts, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.message, "is not found by its id"));
    ts_close(&ts);
    server_stop(&s);
}

/* Jobs by the low byte of their numbers: a damaged row, and one that is gone. */
static void spoil(struct server *s, char damaged, const char *row, char gone)
{
    server_call(s, "HSET {redrive}:j:0 %c %s", damaged, row);
    server_call(s, "HDEL {redrive}:j:0 %c", gone);
}

static void put_until(struct test_store *ts, char last, enum redrive_state state,
                      const struct job_spec *spec)
{
    while (ts_put_in(ts, state, spec) < last)
        ;
}

static void check_that_others_go_on(const char *row)
{
    const struct job_spec urgent = {.priority = 10}, gated = {.breaker_key = STR("b")};
    struct server s;
    struct test_store ts;
    int64_t next_ms;
    start(&s, &ts);
    put_until(&ts, 'A' - 1, REDRIVE_STATE_QUEUED, NULL);
    put_until(&ts, 'C', REDRIVE_STATE_QUEUED, &urgent);
    put_until(&ts, 'F', REDRIVE_STATE_SCHEDULED, NULL);
    put_until(&ts, 'I', REDRIVE_STATE_RUNNING, NULL);
    put_until(&ts, 'L', REDRIVE_STATE_PARKED, &gated);
    put_until(&ts, 'O', REDRIVE_STATE_COMPLETED, NULL);
    for (char first = 'A'; first < 'O'; first += 3)
        spoil(&s, first, row, (char)(first + 1));
    for (size_t limit = 1; limit < 4; limit++) {
        assert_int_equal(READY(&ts, .limit = limit)->n, limit);
        assert_int_equal(ts.page.jobs[0].status.seq, 'C');
        assert_int_equal(ts.page.n_unreadable, 2);
        assert_non_null(strstr(ts.page.unreadable->message, "job 65 "));
    }
    assert_int_equal(READY(&ts, .limit = 100)->n, 'A');
    assert_int_equal(ts_parked(&ts, STR("b"), SCAN_PARKED_OLDEST, 10)->n, 1);
    assert_int_equal(ts_parked(&ts, STR("b"), SCAN_PARKED_PROBES, 10)->n, 1);
    assert_int_equal(ts_parked(&ts, STR("b"), SCAN_PARKED_NEWEST, 10)->n, 1);
    ts.now_ms += 3600000;
    assert_int_equal(ts_promote(&ts, 10, &next_ms), 1);
    assert_int_equal(ts_expired(&ts, 10, &next_ms)->n, 1);
    assert_int_equal(ts_sweep(&ts, 1u << REDRIVE_STATE_COMPLETED, ts.now_ms, 10), 1);
    assert_int_equal(ts_promote(&ts, 1, &next_ms), 0);
    ts_close(&ts);
    server_stop(&s);
}

TEST(damaged_rows_do_not_stop_the_others)
{
    check_that_others_go_on("xxxxxxxxxxxxxxxxxxxx");
}

TEST(rows_that_are_cut_off_do_not_stop_the_others)
{
    check_that_others_go_on("x");
}

/* Twelve jobs of a state and one that can be read behind them, which a scan finds with a limit of
 * one. */
static int64_t put_behind_damaged(struct server *s, struct test_store *ts, enum redrive_state state,
                                  const struct job_spec *spec)
{
    for (int i = 0; i < 12; i++)
        server_call(s, "HSET {redrive}:j:0 %c xxxxxxxxxxxxxxxxxxxx",
                    (char)ts_put_in(ts, state, spec));
    return ts_put_in(ts, state, spec);
}

TEST(scans_look_past_damaged_rows)
{
    const struct job_spec gated = {.breaker_key = STR("b")}, late = {.deadline_ms = TS_START_MS};
    struct server s;
    struct test_store ts;
    int64_t next_ms;
    start(&s, &ts);
    while (PUT(&ts) < 'A' - 1) /* fields that can be written in a command */
        ;
    ts.now_ms = TS_START_MS;
    const int64_t due = put_behind_damaged(&s, &ts, REDRIVE_STATE_SCHEDULED, NULL);
    const int64_t parked = put_behind_damaged(&s, &ts, REDRIVE_STATE_PARKED, &gated);
    const int64_t overdue = put_behind_damaged(&s, &ts, REDRIVE_STATE_PARKED, &late);
    check_seqs(ts_parked(&ts, STR("b"), SCAN_PARKED_OLDEST, 1), parked);
    check_seqs(ts_parked(&ts, STR("b"), SCAN_PARKED_PROBES, 1), parked);
    assert_false(ts.page.more);
    check_seqs(ts_parked(&ts, STR("b"), SCAN_PARKED_NEWEST, 1), parked);
    ts.now_ms += 3600000;
    check_seqs(ts_overdue(&ts, 1, &next_ms), overdue);
    assert_int_equal(ts_promote(&ts, 1, &next_ms), 1);
    assert_int_equal(ts_state(&ts, due), REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_promote(&ts, 1, &next_ms), 0);
    ts_close(&ts);
    server_stop(&s);
}

/* Each scan goes on behind what the one before has looked at. */
TEST(retention_goes_on_behind_damaged_rows)
{
    struct server s;
    struct test_store ts;
    start(&s, &ts);
    while (PUT(&ts) < 'A' - 1)
        ;
    const int64_t ended = put_behind_damaged(&s, &ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    ts.now_ms += 3600000;
    struct scan scan = {.index = SCAN_FINISHED,
                        .limit = 5,
                        .states = STATE_BIT(DEAD_LETTER) | STATE_BIT(FAILED),
                        .before_ms = ts.now_ms};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ts_scan(&ts, &scan)->n, 0);
        assert_int_equal(ts.page.n_unreadable, 5);
        assert_true(ts.page.more);
    }
    check_seqs(ts_scan(&ts, &scan), ended);
    assert_int_equal(ts.page.n_unreadable, 2);
    assert_false(ts.page.more);
    ts_close(&ts);
    server_stop(&s);
}

/* The neighbours of a damaged job are listed, counted, found and moved. */
TEST(a_damaged_job_stops_only_itself)
{
    struct server s;
    struct test_store ts;
    struct redrive_err err = {0};
    struct job_page page = {0};
    struct move_result results[3];
    start(&s, &ts);
    for (int i = 0; i < 3; i++)
        ts_put_in(&ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    while (PUT(&ts) < 'A' - 1)
        ;
    const int64_t first = PUT(&ts), damaged = PUT(&ts), last = PUT(&ts);
    server_call(&s, "HSET {redrive}:j:0 %c xxxxxxxxxxxxxxxxxxxx", (char)damaged);
    const struct job_filter strict = {.limit = 10, .after_seq = first - 1};
    assert_int_equal(store_ops(ts.store)->list(ts.store, &strict, &page, &err), REDRIVE_E_CORRUPT);
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (size_t limit = 1; limit < 3; limit++) {
            size_t n = 0, n_unreadable = 0;
            struct job_filter filter = {.skips_unreadable = true, .order = order, .limit = limit};
            do {
                assert_true(ts_list(&ts, &filter)->n > 0);
                n += ts.page.n;
                n_unreadable += ts.page.n_unreadable;
                filter.after_seq = ts.page.jobs[ts.page.n - 1].status.seq;
                filter.after_ms = ts.page.jobs[ts.page.n - 1].status.finished_ms;
            } while (ts.page.more);
            assert_int_equal(n, last - 1);
            assert_true(n_unreadable > 0);
        }
    server_call(&s, "HSET {redrive}:j:0 %c xxxxxxxxxxxxxxxxxxxx", 3);
    check_seqs(LIST(&ts, .skips_unreadable = true, .order = ORDER_FINISHED, .limit = 10,
                    .states = STATE_BIT(DEAD_LETTER)),
               2, 1);
    assert_int_equal(ts.page.n_unreadable, 1);
    assert_int_equal(ts_queues(&ts, (struct str){0})->n, 1);
    const int64_t seqs[] = {first, damaged, last};
    assert_int_equal(store_ops(ts.store)->find(ts.store, seqs, 3, &page, &err), 0);
    check_seqs(&page, first, last);
    assert_int_equal(page.n_unreadable, 1);
    job_page_release(&page);
    ts_begin(&ts);
    const struct change_move moves[] = {{.seq = first, .kind = MOVE_CANCEL},
                                        {.seq = damaged, .kind = MOVE_CANCEL},
                                        {.seq = last, .kind = MOVE_CANCEL}};
    assert_int_equal(store_ops(ts.store)->move(ts.store, CHANGES(moves, 3), results, &err), 0);
    check_move(results[0], 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(results[1].code, REDRIVE_E_CORRUPT);
    check_move(results[2], 0, REDRIVE_STATE_CANCELLED);
    ts_commit(&ts);
    ts_close(&ts);
    server_stop(&s);
}

/* An index of the tenant still names it. */
TEST(a_job_whose_row_is_gone_stops_no_list_of_its_tenant)
{
    struct server s;
    struct test_store ts;
    start(&s, &ts);
    while (PUT(&ts) < 'A')
        ;
    const int64_t last = PUT(&ts);
    server_call(&s, "HDEL {redrive}:j:0 A");
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++) {
        assert_int_equal(
            LIST(&ts, .tenant = STR("acme"), .skips_unreadable = true, .order = order, .limit = 100)
                ->n,
            last - 1);
        assert_int_equal(ts.page.n_unreadable, 1);
    }
    ts_close(&ts);
    server_stop(&s);
}
