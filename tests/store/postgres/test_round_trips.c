/* How often the server is waited for. */
#include "round_trips.h"

#include <limits.h>

#include "engine/engine.h"
#include "stores_postgres.h"

#define MANY 100

/* In a transaction that concerns no other process. The begin is not waited for: an answer came a
 * moment ago.
 */
static void begin(struct test_store *ts)
{
    round_trips = 0;
    ts_begin(ts);
    store_notify(ts->store, 0);
    assert_int_equal(round_trips, 0);
}

static void start_many(struct test_store *ts, int64_t seqs[MANY], uint64_t tokens[MANY])
{
    ts_begin(ts);
    for (int i = 0; i < MANY; i++)
        seqs[i] = PUT(ts, .priority = 0);
    ts_commit(ts);
    ts_begin(ts);
    for (int i = 0; i < MANY; i++)
        tokens[i] = ts_start(ts, seqs[i]);
    ts_commit(ts);
}

static void settle_many(struct test_store *ts, const int64_t seqs[MANY],
                        const uint64_t tokens[MANY])
{
    struct settle_move moves[MANY];
    struct move_result results[MANY];
    struct decision done = decision_completed();
    for (int i = 0; i < MANY; i++)
        moves[i] = (struct settle_move){.seq = seqs[i], .token = tokens[i], .decision = &done};
    assert_int_equal(store_ops(ts->store)->move(ts->store, SETTLES(moves, MANY), results, NULL), 0);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_COMPLETED);
}

static void extend_many(struct test_store *ts, const int64_t seqs[MANY],
                        const uint64_t tokens[MANY])
{
    struct extend_move moves[MANY];
    struct move_result results[MANY];
    for (int i = 0; i < MANY; i++)
        moves[i] = (struct extend_move){seqs[i], tokens[i], ts->now_ms + 90000};
    assert_int_equal(store_ops(ts->store)->move(ts->store, EXTENDS(moves, MANY), results, NULL), 0);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_RUNNING);
}

static void count(struct test_store *ts)
{
    const struct counter counter = {STR("acme"), STR("completed"), STR("mail"), MANY};
    assert_int_equal(store_ops(ts->store)->counters_add(ts->store, &counter, 1, NULL), 0);
}

static void put_breaker(struct test_store *ts, int64_t version)
{
    const struct shared_row row = {.kind = SHARED_BREAKER,
                                   .tenant = STR("acme"),
                                   .key = STR("mail"),
                                   .value = STR("closed"),
                                   .version = version};
    struct move_result result;
    assert_int_equal(store_ops(ts->store)->shared_put(ts->store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
}

static void put_limit(struct test_store *ts)
{
    const struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    assert_int_equal(ts_shared_put(ts, &row), 0);
}

static void add_slots(struct test_store *ts, int64_t used, struct merged_gate *ret)
{
    const struct shared_row row = {.kind = SHARED_LIMIT,
                                   .tenant = STR("acme"),
                                   .key = STR("l"),
                                   .is_delta = true,
                                   .add = {used, 0},
                                   .max_used = 2 * MANY,
                                   .merged = ret};
    assert_int_equal(ts_shared_put(ts, &row), 0);
}

STORE_TEST(a_settle_alone_is_one_round_trip)
{
    struct merged_gate sums;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    ts_begin(ts);
    put_breaker(ts, 0);
    ts_commit(ts);
    put_limit(ts);
    add_slots(ts, MANY + 1, &sums);
    start_many(ts, seqs, tokens);
    begin(ts);
    settle_many(ts, seqs, tokens);
    count(ts);
    put_breaker(ts, 1);
    add_slots(ts, -MANY, &sums);
    check_round_trips(0);
    ts_commit(ts);
    check_round_trips(1);
    assert_int_equal(sums.sums.used, 1);
    assert_int_equal(ts_state(ts, seqs[MANY - 1]), REDRIVE_STATE_COMPLETED);
    assert_int_equal(ts_shared(ts, SHARED_BREAKER, STR("acme"))->rows[0].version, 2);
}

STORE_TEST(a_settle_and_a_claim_are_two_round_trips)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    struct start_move starts[MANY];
    struct move_result results[MANY];
    struct merged_gate sums;
    put_limit(ts);
    add_slots(ts, 3, &sums);
    start_many(ts, seqs, tokens);
    ts_begin(ts);
    for (int i = 0; i < MANY; i++)
        PUT(ts, .priority = 0, .limit_key = STR("l"));
    ts_commit(ts);
    begin(ts);
    settle_many(ts, seqs, tokens);
    const struct job_page *page = READY(ts, .limit = MANY);
    assert_int_equal(page->n, MANY);
    assert_int_equal(page->n_limits, 1);
    assert_int_equal(page->limits[0].sums.used, 3);
    check_round_trips(1);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){page->jobs[i].status.seq, 5000 + i, ts->now_ms + 30000};
    assert_int_equal(store_ops(ts->store)->move(ts->store, STARTS(starts, MANY), results, NULL), 0);
    count(ts);
    add_slots(ts, MANY, &sums);
    ts_commit(ts);
    check_round_trips(2);
    assert_int_equal(sums.sums.used, MANY + 3);
    assert_int_equal(ts_state(ts, starts[MANY - 1].seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_state(ts, seqs[0]), REDRIVE_STATE_COMPLETED);
}

/* The claim has come with the commit before. */
STORE_TEST(with_a_look_ahead_they_are_one_round_trip)
{
    const struct claim_filter filter = {.limit = 2};
    clock_stands_at_ns = __real_clock_monotonic_ns();
    ts_begin(ts);
    for (int i = 0; i < MANY; i++)
        PUT(ts, .priority = 0);
    ts_commit(ts);
    for (int i = 0; i < 5; i++) {
        store_look(ts->store, true);
        begin(ts);
        const struct job_page *page = ts_ready(ts, &filter);
        const int64_t seq = page->jobs[0].status.seq;
        assert_int_equal(page->n, 2);
        check_round_trips(i == 0);
        const uint64_t token = ts_start(ts, seq);
        store_ops(ts->store)->look_ahead(ts->store, &filter);
        round_trips = 0;
        ts_commit(ts);
        check_round_trips(1);
        store_look(ts->store, true);
        begin(ts);
        assert_int_equal(ts_settle(ts, seq, token, decision_completed()).code, 0);
        assert_int_equal(ts_ready(ts, &filter)->n, 2);
        check_round_trips(0);
        store_ops(ts->store)->look_ahead(ts->store, &filter);
        ts_commit(ts);
        check_round_trips(1);
    }
    clock_stands_at_ns = 0;
}

STORE_TEST(a_submit_is_two_round_trips)
{
    PUT(ts, .id = STR("first in line"));
    begin(ts);
    PUT(ts, .id = STR("x"));
    count(ts);
    ts_commit(ts);
    check_round_trips(2);
    begin(ts);
    PUT(ts, .id = STR("y"), .unique_key = STR("k"));
    ts_commit(ts);
    check_round_trips(2);
}

/* However many they are. */
STORE_TEST(a_promotion_is_two_round_trips)
{
    int64_t next_ms;
    ts_begin(ts);
    for (int i = 0; i < MANY; i++)
        PUT(ts, .process_after_ms = ts->now_ms + 10);
    ts_commit(ts);
    ts->now_ms += 20;
    begin(ts);
    assert_int_equal(ts_promote(ts, MANY, &next_ms), MANY);
    check_round_trips(1);
    ts_commit(ts);
    check_round_trips(2);
}

static const struct scan TICK[] = {{.index = SCAN_LEASES, .limit = 2},
                                   {.index = SCAN_DEADLINES, .limit = 2},
                                   {.index = SCAN_DUE, .limit = 2}};

static void scan_ahead(struct test_store *ts)
{
    assert_int_equal(store_ops(ts->store)->scan_ahead(ts->store, TICK, 3, true, NULL), 0);
}

/* Makes a scan of the tick, and gives what it has found. */
static size_t scan_one(struct test_store *ts, size_t which, int64_t *ret_seq, int64_t *ret_next_ms)
{
    struct scan scan = TICK[which];
    struct job_page page = {0};
    assert_int_equal(store_ops(ts->store)->scan(ts->store, &scan, &page, NULL), 0);
    const size_t n = page.n;
    *ret_seq = n > 0 ? page.jobs[0].status.seq : 0;
    *ret_next_ms = scan.next_ms;
    job_page_release(&page);
    return n;
}

STORE_TEST(what_was_scanned_ahead_is_found)
{
    const struct shared_row cancel = {
        .kind = SHARED_CANCEL, .tenant = STR("acme"), .key = STR("x"), .value = STR("1")};
    struct shared_page page = {0};
    int64_t seq, next_ms;
    assert_int_equal(ts_shared_put(ts, &cancel), 0);
    ts_begin(ts);
    const int64_t due = PUT(ts, .process_after_ms = ts->now_ms + 10);
    const int64_t overdue = PUT(ts, .deadline_ms = ts->now_ms + 10);
    (void)PUT(ts, .process_after_ms = ts->now_ms + 5000);
    const int64_t lost = PUT(ts, .priority = 1);
    ts_commit(ts);
    ts_begin(ts);
    (void)ts_start(ts, lost);
    ts_commit(ts);
    ts->now_ms += 40000;
    const int64_t expected[] = {lost, overdue, due};
    begin(ts);
    scan_ahead(ts);
    check_round_trips(1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(scan_one(ts, i, &seq, &next_ms), i == 2 ? 2 : 1);
        assert_int_equal(seq, expected[i]);
    }
    assert_int_equal(
        store_ops(ts->store)->shared_list(ts->store, SHARED_CANCEL, (struct str){0}, &page, NULL),
        0);
    assert_int_equal(page.n, 1);
    check_str(page.rows[0].key, "x");
    shared_page_release(&page);
    check_round_trips(1);

    /* Each answer is for one scan, with that limit. */
    (void)scan_one(ts, 0, &seq, &next_ms);
    assert_int_equal(seq, lost);
    check_round_trips(2);
    ts_rollback(ts);
}

/* A job that has two reasons to be found is found once. */
STORE_TEST(what_was_scanned_ahead_is_read_again_after_a_move)
{
    int64_t seq, next_ms;
    ts_begin(ts);
    const int64_t both =
        PUT(ts, .process_after_ms = ts->now_ms + 10, .deadline_ms = ts->now_ms + 10);
    ts_commit(ts);
    ts->now_ms += 20;
    begin(ts);
    scan_ahead(ts);
    assert_int_equal(scan_one(ts, 1, &seq, &next_ms), 1);
    assert_int_equal(seq, both);
    check_round_trips(1);
    const struct change_move end = {.seq = both,
                                    .kind = MOVE_END,
                                    .to = REDRIVE_STATE_DEAD_LETTER,
                                    .reason = REDRIVE_REASON_DEADLINE};
    struct move_result result;
    assert_int_equal(store_ops(ts->store)->move(ts->store, CHANGES(&end, 1), &result, NULL), 0);
    check_move(result, 0, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(scan_one(ts, 2, &seq, &next_ms), 0);
    ts_commit(ts);
    assert_int_equal(ts_state(ts, both), REDRIVE_STATE_DEAD_LETTER);
}

STORE_TEST(a_sweep_is_three_round_trips)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(ts, seqs, tokens);
    ts_begin(ts);
    settle_many(ts, seqs, tokens);
    ts_commit(ts);
    begin(ts);
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), ts->now_ms + 1, MANY), MANY);
    check_round_trips(2);
    ts_commit(ts);
    check_round_trips(3);
    assert_null(ts_job(ts, seqs[MANY - 1]));
}

/* However many jobs and parents they are. */
STORE_TEST(the_parents_of_claimed_jobs_are_one_round_trip_more)
{
    const struct claim_filter filter = {.limit = MANY};
    struct job_page page = {0};
    struct parent_page parents = {0};
    struct job_edge edges[MANY];
    int64_t seqs[MANY];
    ts_begin(ts);
    for (int i = 0; i < MANY; i++)
        seqs[i] = PUT(ts, .priority = 0, .parents = (uint32_t)i);
    for (int i = 1; i < MANY; i++)
        edges[i] = (struct job_edge){.parent = seqs[0], .child = seqs[i]};
    assert_int_equal(store_ops(ts->store)->edges_put(ts->store, edges + 1, MANY - 1, NULL), 0);
    ts_commit(ts);
    begin(ts);
    assert_int_equal(store_ops(ts->store)->ready(ts->store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, MANY);
    assert_int_equal(store_ops(ts->store)->parents(ts->store, seqs + 1, MANY - 1, &parents, NULL),
                     0);
    assert_int_equal(parents.n, MANY - 1);
    parent_page_release(&parents);
    job_page_release(&page);
    for (int i = 0; i < MANY; i++)
        (void)ts_start(ts, seqs[i]);
    ts_commit(ts);
    check_round_trips(3);
}

STORE_TEST(an_empty_claim_is_one_round_trip)
{
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    for (int i = 0; i < 3; i++) {
        begin(ts);
        assert_int_equal(READY(ts, .limit = MANY)->n, 0);
        ts_rollback(ts);
        check_round_trips(1);
    }
}

STORE_TEST(a_hundred_heartbeats_are_one_round_trip)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(ts, seqs, tokens);
    begin(ts);
    extend_many(ts, seqs, tokens);
    ts_commit(ts);
    check_round_trips(1);
    assert_int_equal(ts_job(ts, seqs[MANY - 1])->status.lease_until_ms, ts->now_ms + 90000);
}

/* The rows of jobs that this handle has started are still known after a heartbeat. */
STORE_TEST(what_was_extended_is_settled_unseen)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(ts, seqs, tokens);
    begin(ts);
    extend_many(ts, seqs, tokens);
    ts_commit(ts);
    begin(ts);
    settle_many(ts, seqs, tokens);
    ts_commit(ts);
    check_round_trips(1);
    assert_int_equal(ts_state(ts, seqs[0]), REDRIVE_STATE_COMPLETED);
}

/* What others have started has to be read. */
STORE_TEST(heartbeats_by_another_handle_are_two_round_trips)
{
    struct test_store other;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    ts_join(&other, ts);
    start_many(ts, seqs, tokens);
    PUT(&other, .id = STR("x"));
    begin(&other);
    extend_many(&other, seqs, tokens);
    ts_commit(&other);
    check_round_trips(2);
    ts_close(&other);
}

/* A transaction that was told by the last answer what processes share. */
STORE_TEST(a_transaction_that_was_not_committed_leaves_known_rows_known)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(ts, seqs, tokens);
    for (int i = 0; i < 2; i++) {
        begin(ts);
        settle_many(ts, seqs, tokens);
        check_round_trips(0);
        ts_rollback(ts);
        check_round_trips(0);
    }
}

/* ---- What is shared -------------------------------------------------------------------------- */

/* An engine reads all kinds that it keeps copies of, one after the other. */
STORE_TEST(all_that_is_shared_is_read_in_one_round_trip)
{
    struct shared_page page = {0};
    struct shared_row row = {.tenant = STR("acme"), .key = STR("k"), .value = STR("1")};
    for (int kind = SHARED_BREAKER; shared_is_cached((enum shared_kind)kind); kind++) {
        row.kind = (enum shared_kind)kind;
        assert_int_equal(ts_shared_put(ts, &row), 0);
    }
    begin(ts);
    for (int kind = SHARED_BREAKER; shared_is_cached((enum shared_kind)kind); kind++) {
        assert_int_equal(store_ops(ts->store)->shared_list(ts->store, (enum shared_kind)kind,
                                                           (struct str){0}, &page, NULL),
                         0);
        assert_int_equal(page.n, 1);
        assert_int_equal(page.rows[0].kind, kind);
        check_str(page.rows[0].value, "1");
    }
    check_round_trips(1);

    /* The transaction's own puts are seen all the same. */
    row = (struct shared_row){SHARED_CRON, STR("acme"), STR("k"), STR("2"), 1, false};
    assert_int_equal(ts_shared_put(ts, &row), 0);
    check_str(ts_shared(ts, SHARED_CRON, STR("acme"))->rows[0].value, "2");
    check_str(ts_shared(ts, SHARED_CRON, (struct str){0})->rows[0].value, "2");
    ts_rollback(ts);
    check_str(ts_shared(ts, SHARED_CRON, (struct str){0})->rows[0].value, "1");
    shared_page_release(&page);
}

/* ---- As an engine makes it ------------------------------------------------------------------- */

/* The first tick learns what is shared, and removes what is old. Later ones ask first if the last
 * answer is older than a second: this machine may be slow. */
STORE_TEST(a_tick_that_finds_nothing_is_one_round_trip)
{
    struct engine_options options = {0};
    struct engine *engine;
    unsigned least = UINT_MAX;
    int64_t next_ms;
    (void)PUT(ts, .process_after_ms = clock_wall_ms() + 3600000);
    (void)PUT(ts, .deadline_ms = clock_wall_ms() + 3600000);
    assert_int_equal(store_open(ts->url, &(struct store_options){0}, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &engine, NULL), 0);
    assert_int_equal(engine_tick(engine, &next_ms, NULL), 0);
    for (int i = 0; i < 5; i++) {
        pass_ms(110); /* so that it looks for cancels, too */
        round_trips = 0;
        assert_int_equal(engine_tick(engine, &next_ms, NULL), 0);
        assert_true(round_trips <= 2);
        least = round_trips < least ? round_trips : least;
    }
    assert_int_equal(least, 1);
    engine_close(engine);
}
