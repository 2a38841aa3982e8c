/* Many moves in one call: made in their order, as if each came alone. */
#include "kit.h"

#define MANY 300

static void must(int rc)
{
    assert_int_equal(rc, 0);
}

static void put_many(struct kit *k, int64_t *seqs, size_t n)
{
    kit_begin(k);
    for (size_t i = 0; i < n; i++)
        seqs[i] = PUT(k, .id = (struct str){0});
    kit_commit(k);
}

static void start_all(struct kit *k, const struct start_move *moves, size_t n,
                      struct move_result *ret)
{
    kit_begin(k);
    must(store_ops(k->store)->move(k->store, STARTS(moves, n), ret, NULL));
    kit_commit(k);
}

KIT_TEST(a_large_batch_starts_and_settles)
{
    static int64_t seqs[MANY];
    static struct start_move starts[MANY];
    static struct settle_move settles[MANY];
    static struct move_result results[MANY];
    struct decision done = decision_completed(), later = decision_retrying(1000);
    put_many(k, seqs, MANY);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){.seq = seqs[i],
                                        .token = 1000 + i,
                                        .lease_until_ms = k->now_ms + 30000,
                                        .worker = i % 2 ? STR("odd") : STR("even")};
    start_all(k, starts, MANY, results);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(results[i].code, 0);
        settles[i] = (struct settle_move){
            .seq = seqs[i],
            .token = 1000 + i,
            .decision = i % 3 ? &done : &later,
            .error = {.class_ = i % 3 ? REDRIVE_CLASS_SUCCESS : REDRIVE_CLASS_NETWORK,
                      .message = STR("refused")}};
    }
    kit_begin(k);
    must(store_ops(k->store)->move(k->store, SETTLES(settles, MANY), results, NULL));
    kit_commit(k);
    for (size_t i = 0; i < MANY; i++) {
        check_move(results[i], 0, i % 3 ? REDRIVE_STATE_COMPLETED : REDRIVE_STATE_RETRYING);
        const struct job_status *s = &kit_job(k, seqs[i])->status;
        assert_int_equal(s->state, results[i].state);
        check_str(s->worker, i % 2 ? "odd" : "even");
        assert_int_equal(kit_history(k, seqs[i])->n, 1);
    }
}

KIT_TEST(of_two_starts_of_a_job_the_first_counts)
{
    int64_t seq = PUT(k, .id = STR("x"));
    const struct start_move moves[] = {
        {.seq = seq, .token = 11, .lease_until_ms = k->now_ms + 1000, .worker = STR("a")},
        {.seq = seq + 1, .token = 12, .lease_until_ms = k->now_ms + 1000, .worker = STR("b")},
        {.seq = seq, .token = 13, .lease_until_ms = k->now_ms + 1000, .worker = STR("c")},
    };
    struct move_result results[3];
    start_all(k, moves, 3, results);
    check_move(results[0], 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(results[1].code, REDRIVE_E_NOT_FOUND);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_job(k, seq)->status.token, 11);
    assert_int_equal(kit_job(k, seq)->status.attempts, 1);
}

KIT_TEST(of_two_settlements_of_a_job_the_first_counts)
{
    int64_t a = PUT(k, .id = STR("a")), b = PUT(k, .id = STR("b"));
    uint64_t token_a = kit_start(k, a), token_b = kit_start(k, b);
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
    kit_begin(k);
    must(store_ops(k->store)->move(k->store, SETTLES(moves, 4), results, NULL));
    kit_commit(k);
    check_move(results[0], REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    check_move(results[1], 0, REDRIVE_STATE_RETRYING);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_RETRYING);
    check_move(results[3], 0, REDRIVE_STATE_COMPLETED);
    assert_int_equal(kit_state(k, a), REDRIVE_STATE_RETRYING);
    assert_int_equal(kit_history(k, a)->n, 1);
}

KIT_TEST(of_two_parks_of_a_job_the_first_counts)
{
    int64_t a = PUT(k, .breaker_key = STR("gate")), b = PUT(k, .breaker_key = STR("gate"));
    const int64_t seqs[] = {a, b, a, b + 100};
    struct move_result results[4];
    kit_begin(k);
    must(store_ops(k->store)->move(k->store, PARKS(seqs, 4, false), results, NULL));
    check_move(results[0], 0, REDRIVE_STATE_PARKED);
    check_move(results[1], 0, REDRIVE_STATE_PARKED);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_PARKED);
    assert_int_equal(results[3].code, REDRIVE_E_NOT_FOUND);
    must(store_ops(k->store)->move(k->store, UNPARKS(seqs, 4), results, NULL));
    kit_commit(k);
    check_move(results[0], 0, REDRIVE_STATE_QUEUED);
    check_move(results[1], 0, REDRIVE_STATE_QUEUED);
    check_move(results[2], REDRIVE_E_STATE, REDRIVE_STATE_QUEUED);
    assert_int_equal(results[3].code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(kit_job(k, a)->status.deferrals, 1);
}

static void extend_all(struct kit *k, const struct extend_move *moves, size_t n,
                       struct move_result *ret)
{
    kit_begin(k);
    must(store_ops(k->store)->move(k->store, EXTENDS(moves, n), ret, NULL));
    kit_commit(k);
}

KIT_TEST(a_large_batch_of_leases_is_extended)
{
    static int64_t seqs[MANY];
    static struct start_move starts[MANY];
    static struct extend_move moves[MANY];
    static struct move_result results[MANY];
    put_many(k, seqs, MANY);
    for (size_t i = 0; i < MANY; i++)
        starts[i] = (struct start_move){
            .seq = seqs[i], .token = 1000 + i, .lease_until_ms = k->now_ms + 30000};
    start_all(k, starts, MANY, results);
    k->now_ms += 500;
    for (size_t i = 0; i < MANY; i++)
        moves[i] =
            (struct extend_move){seqs[i], i % 3 ? 1000 + i : 7, k->now_ms + 60000 + (int64_t)i};
    extend_all(k, moves, MANY, results);
    for (size_t i = 0; i < MANY; i++) {
        check_move(results[i], i % 3 ? 0 : REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
        const struct job_status *s = &kit_job(k, seqs[i])->status;
        assert_int_equal(s->lease_until_ms,
                         i % 3 ? moves[i].lease_until_ms : starts[i].lease_until_ms);
        assert_int_equal(s->updated_ms, i % 3 ? k->now_ms : k->now_ms - 500);
        assert_int_equal(s->token, starts[i].token);
    }
}

KIT_TEST(of_two_extensions_of_a_lease_the_longer_counts)
{
    int64_t a = PUT(k, .id = STR("a")), b = PUT(k, .id = STR("b")), t = k->now_ms;
    uint64_t token_a = kit_start(k, a), token_b = kit_start(k, b);
    const struct extend_move moves[] = {
        {a, token_a, t + 40000}, {b, token_b, t + 50000}, {a, token_a, t + 70000},
        {b, token_b, t + 1},     {b + 100, 1, t + 1},
    };
    struct move_result results[5];
    extend_all(k, moves, 5, results);
    for (int i = 0; i < 4; i++)
        check_move(results[i], 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(results[4].code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(kit_job(k, a)->status.lease_until_ms, t + 70000);
    assert_int_equal(kit_job(k, b)->status.lease_until_ms, t + 50000);
    extend_all(k, moves, 0, NULL);
}
