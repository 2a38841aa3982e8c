/* How often the server is waited for: the linker puts the counting of this file before the call
 * that ends what was sent. */
#include <libpq-fe.h>

#include "kit.h"

#define MANY 100

static unsigned round_trips;

int __real_PQpipelineSync(PGconn *conn);
int __wrap_PQpipelineSync(PGconn *conn);
int __wrap_PQpipelineSync(PGconn *conn)
{
    round_trips++;
    return __real_PQpipelineSync(conn);
}

/* In a unit that is no news to anybody, or a notice would be counted too. */
static void begin(struct kit *k)
{
    kit_begin(k);
    store_tell(k->store, 0);
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

static void a_hundred_heartbeats_are_one_round_trip_beside_the_unit(void **state)
{
    struct kit *k = *state;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    struct extend_move moves[MANY];
    struct move_result results[MANY];
    start_many(k, seqs, tokens);
    for (int i = 0; i < MANY; i++)
        moves[i] = (struct extend_move){seqs[i], tokens[i], k->now_ms + 90000};
    round_trips = 0;
    begin(k);
    assert_int_equal(store_ops(k->store)->extend(k->store, moves, MANY, results, NULL), 0);
    kit_commit(k);
    assert_int_equal(round_trips, 3);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_job(k, seqs[MANY - 1])->status.lease_until_ms, k->now_ms + 90000);
}

/* The rows of jobs that this handle has started are still known after a heartbeat. */
static void what_was_extended_is_settled_unseen(void **state)
{
    struct kit *k = *state;
    int64_t seqs[MANY];
    uint64_t tokens[MANY];
    struct extend_move moves[MANY];
    struct settle_move settles[MANY];
    struct move_result results[MANY];
    struct decision done = decision_completed();
    start_many(k, seqs, tokens);
    for (int i = 0; i < MANY; i++) {
        moves[i] = (struct extend_move){seqs[i], tokens[i], k->now_ms + 90000};
        settles[i] = (struct settle_move){.seq = seqs[i], .token = tokens[i], .decision = &done};
    }
    kit_begin(k);
    assert_int_equal(store_ops(k->store)->extend(k->store, moves, MANY, results, NULL), 0);
    kit_commit(k);
    begin(k);
    round_trips = 0;
    assert_int_equal(store_ops(k->store)->settle(k->store, settles, MANY, results, NULL), 0);
    assert_int_equal(round_trips, 0);
    kit_commit(k);
    for (int i = 0; i < MANY; i++)
        check_move(results[i], 0, REDRIVE_STATE_COMPLETED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        F(a_hundred_heartbeats_are_one_round_trip_beside_the_unit),
        F(what_was_extended_is_settled_unseen),
    };
    return cmocka_run_group_tests_name("postgres round trips", tests, NULL, NULL);
}
