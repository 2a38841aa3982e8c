/* How often the server is waited for: the linker puts the counting of this file before the calls
 * that end what was sent and that read an answer. */
#include <libpq-fe.h>

#include "kit.h"
#include "stores_postgres.h"

#define MANY 100

static unsigned round_trips;
static bool is_sent; /* something whose answer has not been read */

int __real_PQpipelineSync(PGconn *conn);
int __wrap_PQpipelineSync(PGconn *conn);
int __wrap_PQpipelineSync(PGconn *conn)
{
    is_sent = true;
    return __real_PQpipelineSync(conn);
}

PGresult *__real_PQgetResult(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn)
{
    round_trips += is_sent;
    is_sent = false;
    return __real_PQgetResult(conn);
}

/* In a unit that is no news to anybody. The begin is not waited for: an answer came a moment ago.
 */
static void begin(struct kit *k)
{
    round_trips = 0;
    kit_begin(k);
    store_tell(k->store, 0);
    assert_int_equal(round_trips, 0);
}

static void check_round_trips(unsigned expected)
{
    assert_int_equal(round_trips, expected);
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
    assert_int_equal(store_ops(k->store)->settle(k->store, moves, MANY, results, NULL), 0);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_COMPLETED);
}

static void extend_many(struct kit *k, const int64_t seqs[MANY], const uint64_t tokens[MANY])
{
    struct extend_move moves[MANY];
    struct move_result results[MANY];
    for (int i = 0; i < MANY; i++)
        moves[i] = (struct extend_move){seqs[i], tokens[i], k->now_ms + 90000};
    assert_int_equal(store_ops(k->store)->extend(k->store, moves, MANY, results, NULL), 0);
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

static void a_settle_alone_is_one_round_trip(void **state)
{
    struct kit *k = *state;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    kit_begin(k);
    put_breaker(k, 0);
    kit_commit(k);
    start_many(k, seqs, tokens);
    begin(k);
    settle_many(k, seqs, tokens);
    count(k);
    put_breaker(k, 1);
    check_round_trips(0);
    kit_commit(k);
    check_round_trips(1);
    assert_int_equal(kit_state(k, seqs[MANY - 1]), REDRIVE_STATE_COMPLETED);
    assert_int_equal(kit_shared(k, SHARED_BREAKER, STR("acme"))->rows[0].version, 2);
}

static void a_settle_and_a_claim_are_two_round_trips(void **state)
{
    struct kit *k = *state;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    struct start_move starts[MANY];
    struct move_result results[MANY];
    start_many(k, seqs, tokens);
    kit_begin(k);
    for (int i = 0; i < MANY; i++)
        PUT(k, .priority = 0);
    kit_commit(k);
    begin(k);
    settle_many(k, seqs, tokens);
    const struct job_page *page = READY(k, .limit = MANY);
    assert_int_equal(page->n, MANY);
    check_round_trips(1);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){page->jobs[i].status.seq, 5000 + i, k->now_ms + 30000};
    assert_int_equal(store_ops(k->store)->start(k->store, starts, MANY, results, NULL), 0);
    count(k);
    kit_commit(k);
    check_round_trips(2);
    assert_int_equal(kit_state(k, starts[MANY - 1].seq), REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_state(k, seqs[0]), REDRIVE_STATE_COMPLETED);
}

static void a_submit_is_two_round_trips(void **state)
{
    struct kit *k = *state;
    PUT(k, .id = STR("first of its line"));
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

static void an_empty_claim_is_one_round_trip(void **state)
{
    struct kit *k = *state;
    kit_put_in(k, REDRIVE_STATE_COMPLETED, NULL);
    for (int i = 0; i < 3; i++) {
        begin(k);
        assert_int_equal(READY(k, .limit = MANY)->n, 0);
        kit_rollback(k);
        check_round_trips(1);
    }
}

static void a_hundred_heartbeats_are_one_round_trip(void **state)
{
    struct kit *k = *state;
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
static void what_was_extended_is_settled_unseen(void **state)
{
    struct kit *k = *state;
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
static void heartbeats_by_another_handle_are_two_round_trips(void **state)
{
    struct kit *k = *state, other;
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

/* A unit that was told by the last answer what processes share. */
static void a_unit_that_was_not_committed_leaves_known_rows_known(void **state)
{
    struct kit *k = *state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        F(a_settle_alone_is_one_round_trip),
        F(a_settle_and_a_claim_are_two_round_trips),
        F(a_submit_is_two_round_trips),
        F(an_empty_claim_is_one_round_trip),
        F(a_hundred_heartbeats_are_one_round_trip),
        F(what_was_extended_is_settled_unseen),
        F(heartbeats_by_another_handle_are_two_round_trips),
        F(a_unit_that_was_not_committed_leaves_known_rows_known),
    };
    return cmocka_run_group_tests_name("postgres round trips", tests, NULL, NULL);
}
