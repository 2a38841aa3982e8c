/* How often the server is waited for. */
#include "round_trips.h"

#include <limits.h>

#include "engine/engine.h"
#include "stores_postgres.h"

#define MANY 100

/* In a transaction that concerns no other process. The begin is not waited for: an answer came a
 * moment ago.
 */
static void begin(struct kit *k)
{
    round_trips = 0;
    kit_begin(k);
    store_notify(k->store, 0);
    assert_int_equal(round_trips, 0);
}

static void start_many(struct kit *k, int64_t seqs[MANY], uint64_t tokens[MANY])
{
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        seqs[i] = PUT(k, .priority = 0);
    kit_commit(k);
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        tokens[i] = kit_start(k, seqs[i]);
    kit_commit(k);
}

static void settle_many(struct kit *k, const int64_t seqs[MANY], const uint64_t tokens[MANY])
{
    struct settle_move moves[MANY];
    struct move_result results[MANY];
    struct decision done = decision_completed();
    for (int i = 0; i < MANY; i++)
        moves[i] = (struct settle_move){.seq = seqs[i], .token = tokens[i], .decision = &done};
    assert_int_equal(store_ops(k->store)->move(k->store, SETTLES(moves, MANY), results, NULL), 0);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_COMPLETED);
}

static void extend_many(struct kit *k, const int64_t seqs[MANY], const uint64_t tokens[MANY])
{
    struct extend_move moves[MANY];
    struct move_result results[MANY];
    for (int i = 0; i < MANY; i++)
        moves[i] = (struct extend_move){seqs[i], tokens[i], k->now_ms + 90000};
    assert_int_equal(store_ops(k->store)->move(k->store, EXTENDS(moves, MANY), results, NULL), 0);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_RUNNING);
}

static void count(struct kit *k)
{
    const struct counter counter = {STR("acme"), STR("completed"), STR("mail"), MANY};
    assert_int_equal(store_ops(k->store)->counters_add(k->store, &counter, 1, NULL), 0);
}

static void put_breaker(struct kit *k, int64_t version)
{
    const struct shared_row row = {.kind = SHARED_BREAKER,
                                   .tenant = STR("acme"),
                                   .key = STR("mail"),
                                   .value = STR("closed"),
                                   .version = version};
    struct move_result result;
    assert_int_equal(store_ops(k->store)->shared_put(k->store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
}

static void put_limit(struct kit *k)
{
    const struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    assert_int_equal(kit_shared_put(k, &row), 0);
}

static void add_slots(struct kit *k, int64_t used, struct merged_gate *ret)
{
    const struct shared_row row = {.kind = SHARED_LIMIT,
                                   .tenant = STR("acme"),
                                   .key = STR("l"),
                                   .is_delta = true,
                                   .add = {used, 0},
                                   .max_used = 2 * MANY,
                                   .merged = ret};
    assert_int_equal(kit_shared_put(k, &row), 0);
}

KIT_TEST(a_settle_alone_is_one_round_trip)
{
    struct merged_gate sums;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    kit_begin(k);
    put_breaker(k, 0);
    kit_commit(k);
    put_limit(k);
    add_slots(k, MANY + 1, &sums);
    start_many(k, seqs, tokens);
    begin(k);
    settle_many(k, seqs, tokens);
    count(k);
    put_breaker(k, 1);
    add_slots(k, -MANY, &sums);
    check_round_trips(0);
    kit_commit(k);
    check_round_trips(1);
    assert_int_equal(sums.sums.used, 1);
    assert_int_equal(kit_state(k, seqs[MANY - 1]), REDRIVE_STATE_COMPLETED);
    assert_int_equal(kit_shared(k, SHARED_BREAKER, STR("acme"))->rows[0].version, 2);
}

KIT_TEST(a_settle_and_a_claim_are_two_round_trips)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    struct start_move starts[MANY];
    struct move_result results[MANY];
    struct merged_gate sums;
    put_limit(k);
    add_slots(k, 3, &sums);
    start_many(k, seqs, tokens);
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        PUT(k, .priority = 0, .limit_key = STR("l"));
    kit_commit(k);
    begin(k);
    settle_many(k, seqs, tokens);
    const struct job_page *page = READY(k, .limit = MANY);
    assert_int_equal(page->n, MANY);
    assert_int_equal(page->n_limits, 1);
    assert_int_equal(page->limits[0].sums.used, 3);
    check_round_trips(1);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){page->jobs[i].status.seq, 5000 + i, k->now_ms + 30000};
    assert_int_equal(store_ops(k->store)->move(k->store, STARTS(starts, MANY), results, NULL), 0);
    count(k);
    add_slots(k, MANY, &sums);
    kit_commit(k);
    check_round_trips(2);
    assert_int_equal(sums.sums.used, MANY + 3);
    assert_int_equal(kit_state(k, starts[MANY - 1].seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_state(k, seqs[0]), REDRIVE_STATE_COMPLETED);
}

/* The claim has come with the commit before. */
KIT_TEST(with_a_look_ahead_they_are_one_round_trip)
{
    const struct claim_filter filter = {.limit = 2};
    clock_stands_at_ns = __real_clock_monotonic_ns();
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        PUT(k, .priority = 0);
    kit_commit(k);
    for (int i = 0; i < 5; i++) {
        store_look(k->store, true);
        begin(k);
        const struct job_page *page = kit_ready(k, &filter);
        const int64_t seq = page->jobs[0].status.seq;
        assert_int_equal(page->n, 2);
        check_round_trips(i == 0);
        const uint64_t token = kit_start(k, seq);
        store_ops(k->store)->look_ahead(k->store, &filter);
        round_trips = 0;
        kit_commit(k);
        check_round_trips(1);
        store_look(k->store, true);
        begin(k);
        assert_int_equal(kit_settle(k, seq, token, decision_completed()).code, 0);
        assert_int_equal(kit_ready(k, &filter)->n, 2);
        check_round_trips(0);
        store_ops(k->store)->look_ahead(k->store, &filter);
        kit_commit(k);
        check_round_trips(1);
    }
    clock_stands_at_ns = 0;
}

KIT_TEST(a_submit_is_two_round_trips)
{
    PUT(k, .id = STR("first in line"));
    begin(k);
    PUT(k, .id = STR("x"));
    count(k);
    kit_commit(k);
    check_round_trips(2);
    begin(k);
    PUT(k, .id = STR("y"), .unique_key = STR("k"));
    kit_commit(k);
    check_round_trips(2);
}

/* However many they are. */
KIT_TEST(a_promotion_is_two_round_trips)
{
    int64_t next_ms;
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        PUT(k, .process_after_ms = k->now_ms + 10);
    kit_commit(k);
    k->now_ms += 20;
    begin(k);
    assert_int_equal(kit_promote(k, MANY, &next_ms), MANY);
    check_round_trips(1);
    kit_commit(k);
    check_round_trips(2);
}

static const struct scan TICK[] = {{.index = SCAN_LEASES, .limit = 2},
                                   {.index = SCAN_DEADLINES, .limit = 2},
                                   {.index = SCAN_DUE, .limit = 2}};

static void scan_ahead(struct kit *k)
{
    assert_int_equal(store_ops(k->store)->scan_ahead(k->store, TICK, 3, true, NULL), 0);
}

/* Makes a scan of the tick, and gives what it has found. */
static size_t scan_one(struct kit *k, size_t which, int64_t *ret_seq, int64_t *ret_next_ms)
{
    struct scan scan = TICK[which];
    struct job_page page = {0};
    assert_int_equal(store_ops(k->store)->scan(k->store, &scan, &page, NULL), 0);
    const size_t n = page.n;
    *ret_seq = n > 0 ? page.jobs[0].status.seq : 0;
    *ret_next_ms = scan.next_ms;
    job_page_release(&page);
    return n;
}

KIT_TEST(what_was_scanned_ahead_is_found)
{
    const struct shared_row cancel = {
        .kind = SHARED_CANCEL, .tenant = STR("acme"), .key = STR("x"), .value = STR("1")};
    struct shared_page page = {0};
    int64_t seq, next_ms;
    assert_int_equal(kit_shared_put(k, &cancel), 0);
    kit_begin(k);
    const int64_t due = PUT(k, .process_after_ms = k->now_ms + 10);
    const int64_t overdue = PUT(k, .deadline_ms = k->now_ms + 10);
    (void)PUT(k, .process_after_ms = k->now_ms + 5000);
    const int64_t lost = PUT(k, .priority = 1);
    kit_commit(k);
    kit_begin(k);
    (void)kit_start(k, lost);
    kit_commit(k);
    k->now_ms += 40000;
    const int64_t expected[] = {lost, overdue, due};
    begin(k);
    scan_ahead(k);
    check_round_trips(1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(scan_one(k, i, &seq, &next_ms), i == 2 ? 2 : 1);
        assert_int_equal(seq, expected[i]);
    }
    assert_int_equal(
        store_ops(k->store)->shared_list(k->store, SHARED_CANCEL, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    check_str(page.rows[0].key, "x");
    shared_page_release(&page);
    check_round_trips(1);

    /* Each answer is for one scan, with that limit. */
    (void)scan_one(k, 0, &seq, &next_ms);
    assert_int_equal(seq, lost);
    check_round_trips(2);
    kit_rollback(k);
}

/* A job that has two reasons to be found is found once. */
KIT_TEST(what_was_scanned_ahead_is_read_again_after_a_move)
{
    int64_t seq, next_ms;
    kit_begin(k);
    const int64_t both = PUT(k, .process_after_ms = k->now_ms + 10, .deadline_ms = k->now_ms + 10);
    kit_commit(k);
    k->now_ms += 20;
    begin(k);
    scan_ahead(k);
    assert_int_equal(scan_one(k, 1, &seq, &next_ms), 1);
    assert_int_equal(seq, both);
    check_round_trips(1);
    const struct change_move end = {.seq = both,
                                    .kind = MOVE_END,
                                    .to = REDRIVE_STATE_DEAD_LETTER,
                                    .reason = REDRIVE_REASON_DEADLINE};
    struct move_result result;
    assert_int_equal(store_ops(k->store)->move(k->store, CHANGES(&end, 1), &result, NULL), 0);
    check_move(result, 0, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(scan_one(k, 2, &seq, &next_ms), 0);
    kit_commit(k);
    assert_int_equal(kit_state(k, both), REDRIVE_STATE_DEAD_LETTER);
}

KIT_TEST(a_sweep_is_three_round_trips)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(k, seqs, tokens);
    kit_begin(k);
    settle_many(k, seqs, tokens);
    kit_commit(k);
    begin(k);
    assert_int_equal(kit_sweep(k, STATE_BIT(COMPLETED), k->now_ms + 1, MANY), MANY);
    check_round_trips(2);
    kit_commit(k);
    check_round_trips(3);
    assert_null(kit_job(k, seqs[MANY - 1]));
}

/* However many jobs and parents they are. */
KIT_TEST(the_parents_of_claimed_jobs_are_one_round_trip_more)
{
    const struct claim_filter filter = {.limit = MANY};
    struct job_page page = {0};
    struct parent_page parents = {0};
    struct job_edge edges[MANY];
    int64_t seqs[MANY];
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        seqs[i] = PUT(k, .priority = 0, .parents = (uint32_t)i);
    for (int i = 1; i < MANY; i++)
        edges[i] = (struct job_edge){.parent = seqs[0], .child = seqs[i]};
    assert_int_equal(store_ops(k->store)->edges_put(k->store, edges + 1, MANY - 1, NULL), 0);
    kit_commit(k);
    begin(k);
    assert_int_equal(store_ops(k->store)->ready(k->store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, MANY);
    assert_int_equal(store_ops(k->store)->parents(k->store, seqs + 1, MANY - 1, &parents, NULL), 0);
    assert_int_equal(parents.n, MANY - 1);
    parent_page_release(&parents);
    job_page_release(&page);
    for (int i = 0; i < MANY; i++)
        (void)kit_start(k, seqs[i]);
    kit_commit(k);
    check_round_trips(3);
}

KIT_TEST(an_empty_claim_is_one_round_trip)
{
    kit_put_in(k, REDRIVE_STATE_COMPLETED, NULL);
    for (int i = 0; i < 3; i++) {
        begin(k);
        assert_int_equal(READY(k, .limit = MANY)->n, 0);
        kit_rollback(k);
        check_round_trips(1);
    }
}

KIT_TEST(a_hundred_heartbeats_are_one_round_trip)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(k, seqs, tokens);
    begin(k);
    extend_many(k, seqs, tokens);
    kit_commit(k);
    check_round_trips(1);
    assert_int_equal(kit_job(k, seqs[MANY - 1])->status.lease_until_ms, k->now_ms + 90000);
}

/* The rows of jobs that this handle has started are still known after a heartbeat. */
KIT_TEST(what_was_extended_is_settled_unseen)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(k, seqs, tokens);
    begin(k);
    extend_many(k, seqs, tokens);
    kit_commit(k);
    begin(k);
    settle_many(k, seqs, tokens);
    kit_commit(k);
    check_round_trips(1);
    assert_int_equal(kit_state(k, seqs[0]), REDRIVE_STATE_COMPLETED);
}

/* What others have started has to be read. */
KIT_TEST(heartbeats_by_another_handle_are_two_round_trips)
{
    struct kit other;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    kit_join(&other, k);
    start_many(k, seqs, tokens);
    PUT(&other, .id = STR("x"));
    begin(&other);
    extend_many(&other, seqs, tokens);
    kit_commit(&other);
    check_round_trips(2);
    kit_close(&other);
}

/* A transaction that was told by the last answer what processes share. */
KIT_TEST(a_transaction_that_was_not_committed_leaves_known_rows_known)
{
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    start_many(k, seqs, tokens);
    for (int i = 0; i < 2; i++) {
        begin(k);
        settle_many(k, seqs, tokens);
        check_round_trips(0);
        kit_rollback(k);
        check_round_trips(0);
    }
}

/* ---- What is shared -------------------------------------------------------------------------- */

/* An engine reads all kinds that it keeps copies of, one after the other. */
KIT_TEST(all_that_is_shared_is_read_in_one_round_trip)
{
    struct shared_page page = {0};
    struct shared_row row = {.tenant = STR("acme"), .key = STR("k"), .value = STR("1")};
    for (int kind = SHARED_BREAKER; shared_is_cached((enum shared_kind)kind); kind++) {
        row.kind = (enum shared_kind)kind;
        assert_int_equal(kit_shared_put(k, &row), 0);
    }
    begin(k);
    for (int kind = SHARED_BREAKER; shared_is_cached((enum shared_kind)kind); kind++) {
        assert_int_equal(store_ops(k->store)->shared_list(k->store, (enum shared_kind)kind,
                                                          (struct str){0}, &page, NULL),
                         0);
        assert_int_equal(page.n, 1);
        assert_int_equal(page.rows[0].kind, kind);
        check_str(page.rows[0].value, "1");
    }
    check_round_trips(1);

    /* The transaction's own puts are seen all the same. */
    row = (struct shared_row){SHARED_CRON, STR("acme"), STR("k"), STR("2"), 1, false};
    assert_int_equal(kit_shared_put(k, &row), 0);
    check_str(kit_shared(k, SHARED_CRON, STR("acme"))->rows[0].value, "2");
    check_str(kit_shared(k, SHARED_CRON, (struct str){0})->rows[0].value, "2");
    kit_rollback(k);
    check_str(kit_shared(k, SHARED_CRON, (struct str){0})->rows[0].value, "1");
    shared_page_release(&page);
}

/* ---- As an engine makes it ------------------------------------------------------------------- */

/* The first tick learns what is shared, and removes what is old. Later ones ask first if the last
 * answer is older than a second: this machine may be slow. */
KIT_TEST(a_tick_that_finds_nothing_is_one_round_trip)
{
    struct engine_options options = {0};
    struct engine *engine;
    unsigned least = UINT_MAX;
    int64_t next_ms;
    (void)PUT(k, .process_after_ms = clock_wall_ms() + 3600000);
    (void)PUT(k, .deadline_ms = clock_wall_ms() + 3600000);
    assert_int_equal(store_open(k->url, &(struct store_options){0}, &options.store, NULL), 0);
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
