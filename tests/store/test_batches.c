/* Many moves in one call: made in their order, as if each came alone. */
#include "store_for_test.h"

#define MANY 300

static void must(int rc)
{
    assert_int_equal(rc, 0);
}

static void put_many(struct test_store *ts, int64_t *seqs, size_t n)
{
    ts_begin(ts);
    for (size_t i = 0; i < n; i++)
        seqs[i] = PUT(ts, .id = (struct str){0});
    ts_commit(ts);
}

static void start_all(struct test_store *ts, const struct start_move *moves, size_t n,
                      struct move_result *ret)
{
    ts_begin(ts);
    must(store_ops(ts->store)->move(ts->store, STARTS(moves, n), ret, NULL));
    ts_commit(ts);
}

STORE_TEST(a_large_batch_starts_and_settles)
{
    static int64_t seqs[MANY];
    static struct start_move starts[MANY];
    static struct settle_move settles[MANY];
    static struct move_result results[MANY];
    struct decision done = decision_completed(), later = decision_retrying(1000);
    put_many(ts, seqs, MANY);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){.seq = seqs[i],
                                        .token = 1000 + i,
                                        .lease_until_ms = ts->now_ms + 30000,
                                        .worker = i % 2 ? STR("odd") : STR("even")};
    start_all(ts, starts, MANY, results);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(results[i].code, 0);
        settles[i] = (struct settle_move){
            .seq = seqs[i],
            .token = 1000 + i,
            .decision = i % 3 ? &done : &later,
            .error = {.class_ = i % 3 ? REDRIVE_CLASS_SUCCESS : REDRIVE_CLASS_NETWORK,
                      .message = STR("refused")}};
    }
    ts_begin(ts);
    must(store_ops(ts->store)->move(ts->store, SETTLES(settles, MANY), results, NULL));
    ts_commit(ts);
    for (size_t i = 0; i < MANY; i++) {
        check_move(results[i], 0, i % 3 ? REDRIVE_STATE_COMPLETED : REDRIVE_STATE_RETRYING);
        const struct job_status *s = &ts_job(ts, seqs[i])->status;
        assert_int_equal(s->state, results[i].state);
        check_str(s->worker, i % 2 ? "odd" : "even");
        assert_int_equal(ts_history(ts, seqs[i])->n, 1);
    }
}

STORE_TEST(of_two_starts_of_a_job_the_first_counts)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    const struct start_move moves[] = {
        {.seq = seq, .token = 11, .lease_until_ms = ts->now_ms + 1000, .worker = STR("a")},
        {.seq = seq + 1, .token = 12, .lease_until_ms = ts->now_ms + 1000, .worker = STR("b")},
        {.seq = seq, .token = 13, .lease_until_ms = ts->now_ms + 1000, .worker = STR("c")},
    };
    struct move_result results[3];
    start_all(ts, moves, 3, results);
    check_move(results[0], 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(results[1].code, REDRIVE_E_NOT_FOUND);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_job(ts, seq)->status.token, 11);
    assert_int_equal(ts_job(ts, seq)->status.attempts, 1);
}

STORE_TEST(of_two_settlements_of_a_job_the_first_counts)
{
    int64_t a = PUT(ts, .id = STR("a")), b = PUT(ts, .id = STR("b"));
    uint64_t token_a = ts_start(ts, a), token_b = ts_start(ts, b);
    struct decision done = decision_completed(), later = decision_retrying(1000);
    const struct settle_move moves[] = {
        {.seq = b, .token = token_b + 1000, .decision = &done},
        {.seq = a,
         .token = token_a,
         .decision = &later,
         .error = {.class_ = REDRIVE_CLASS_NETWORK}},
        {.seq = a, .token = token_a, .decision = &done},
        {.seq = b, .token = token_b, .decision = &done},
    };
    struct move_result results[4];
    ts_begin(ts);
    must(store_ops(ts->store)->move(ts->store, SETTLES(moves, 4), results, NULL));
    ts_commit(ts);
    check_move(results[0], REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    check_move(results[1], 0, REDRIVE_STATE_RETRYING);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_RETRYING);
    check_move(results[3], 0, REDRIVE_STATE_COMPLETED);
    assert_int_equal(ts_state(ts, a), REDRIVE_STATE_RETRYING);
    assert_int_equal(ts_history(ts, a)->n, 1);
}

STORE_TEST(of_two_parks_of_a_job_the_first_counts)
{
    int64_t a = PUT(ts, .breaker_key = STR("gate")), b = PUT(ts, .breaker_key = STR("gate"));
    const int64_t seqs[] = {a, b, a, b + 100};
    struct move_result results[4];
    ts_begin(ts);
    must(store_ops(ts->store)->move(ts->store, PARKS(seqs, 4, false), results, NULL));
    check_move(results[0], 0, REDRIVE_STATE_PARKED);
    check_move(results[1], 0, REDRIVE_STATE_PARKED);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_PARKED);
    assert_int_equal(results[3].code, REDRIVE_E_NOT_FOUND);
    must(store_ops(ts->store)->move(ts->store, UNPARKS(seqs, 4), results, NULL));
    ts_commit(ts);
    check_move(results[0], 0, REDRIVE_STATE_QUEUED);
    check_move(results[1], 0, REDRIVE_STATE_QUEUED);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_QUEUED);
    assert_int_equal(results[3].code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_job(ts, a)->status.deferrals, 1);
}

static void extend_all(struct test_store *ts, const struct extend_move *moves, size_t n,
                       struct move_result *ret)
{
    ts_begin(ts);
    must(store_ops(ts->store)->move(ts->store, EXTENDS(moves, n), ret, NULL));
    ts_commit(ts);
}

STORE_TEST(a_large_batch_of_leases_is_extended)
{
    static int64_t seqs[MANY];
    static struct start_move starts[MANY];
    static struct extend_move moves[MANY];
    static struct move_result results[MANY];
    put_many(ts, seqs, MANY);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){
            .seq = seqs[i], .token = 1000 + i, .lease_until_ms = ts->now_ms + 30000};
    start_all(ts, starts, MANY, results);
    ts->now_ms += 500;
    for (size_t i = 0; i < MANY; i++)
        moves[i] =
            (struct extend_move){seqs[i], i % 3 ? 1000 + i : 7, ts->now_ms + 60000 + (int64_t)i};
    extend_all(ts, moves, MANY, results);
    for (size_t i = 0; i < MANY; i++) {
        check_move(results[i], i % 3 ? 0 : REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
        const struct job_status *s = &ts_job(ts, seqs[i])->status;
        assert_int_equal(s->lease_until_ms,
                         i % 3 ? moves[i].lease_until_ms : starts[i].lease_until_ms);
        assert_int_equal(s->updated_ms, i % 3 ? ts->now_ms : ts->now_ms - 500);
        assert_int_equal(s->token, starts[i].token);
    }
}

STORE_TEST(of_two_extensions_of_a_lease_the_longer_counts)
{
    int64_t a = PUT(ts, .id = STR("a")), b = PUT(ts, .id = STR("b")), t = ts->now_ms;
    uint64_t token_a = ts_start(ts, a), token_b = ts_start(ts, b);
    const struct extend_move moves[] = {
        {a, token_a, t + 40000}, {b, token_b, t + 50000}, {a, token_a, t + 70000},
        {b, token_b, t + 1},     {b + 100, 1, t + 1},
    };
    struct move_result results[5];
    extend_all(ts, moves, 5, results);
    for (int i = 0; i < 4; i++)
        check_move(results[i], 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(results[4].code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_job(ts, a)->status.lease_until_ms, t + 70000);
    assert_int_equal(ts_job(ts, b)->status.lease_until_ms, t + 50000);
    extend_all(ts, moves, 0, NULL);
}
