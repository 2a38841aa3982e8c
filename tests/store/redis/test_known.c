/* What a handle knows from one transaction to the next, and when it must forget it. */
#include "handles.h"
#include "store_for_test.h"
#include "replica.h"
#include "server.h"
#include "store/redis/private.h"

SERVER_TEST(what_a_handle_has_started_it_knows_until_a_commit_is_refused, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    for (int i = 1; i <= 4; i++) {
        put_committed(store, (char[]){(char)('a' + i), '\0'});
        start_committed(store, i, 7);
    }
    put_committed(other, "elsewhere");
    assert_int_equal(begin(store, NULL), 0);
    long before = calls(s);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(calls(s), before);
    rollback(store);
    put_committed(other, "elsewhere again");
    assert_int_equal(begin(store, NULL), 0);
    before = calls(s);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(settle(store, 2, 7), 0);
    assert_int_equal(calls(s), before);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);

    /* What it knows is compared by the commit: then it reads, and goes on with the rest. */
    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(cancel(other, 3), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 3, 7), 0);
    assert_int_equal(settle(store, 4, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 3, 7), REDRIVE_E_STATE);
    assert_int_equal(settle(store, 4, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

TEST(what_others_change_after_a_fail_over_is_noticed)
{
    struct server primary, replica;
    server_start(&primary, PRIMARY);
    server_start(&replica, PRIMARY);
    server_call(&replica, "REPLICAOF 127.0.0.1 %d", primary.port);
    wait_for_replica(&replica, &primary); /* the first to come begins a history */
    struct store *store = open_at(&primary);
    put_committed(store, "a");
    start_committed(store, 1, 7);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(begin(store, NULL), 0);
        rollback(store);
    }
    fail_over(&primary, &replica);
    struct store *other = open_at(&replica);
    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(cancel(other, 1), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    store_close(other);
    fail_over(&replica, &primary);
    other = open_at(&primary);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(begin(other, NULL), 0);
        rollback(other);
    }
    assert_int_equal(settle_committed(store, 1, 7), REDRIVE_E_STATE);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
    server_stop(&primary);
    server_stop(&replica);
}

/* Takes a job from whoever runs it, and starts it itself, in one transaction. */
static void take_over(struct store *store, int64_t seq, uint64_t from, uint64_t to)
{
    static const struct decision AGAIN = {.state = REDRIVE_STATE_QUEUED, .uses_attempt = true};
    const struct settle_move end = {.seq = seq, .token = from, .decision = &AGAIN};
    const struct start_move start = {.seq = seq, .token = to, .lease_until_ms = INT64_MAX / 4};
    struct move_result result;
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, SETTLES(&end, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->move(store, STARTS(&start, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
}

SERVER_TEST(a_job_that_was_taken_over_is_the_others, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "taken");
    put_committed(store, "almost taken");
    start_committed(store, 1, 7);
    start_committed(store, 2, 7);
    take_over(other, 1, 7, 8);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    take_over(other, 2, 7, 8);
    rollback(other);

    assert_int_equal(settle_committed(store, 1, 7), REDRIVE_E_STATE);
    assert_int_equal(settle_committed(store, 2, 7), 0);
    assert_int_equal(settle_committed(other, 1, 8), 0);
    assert_int_equal(settle_committed(other, 2, 7), REDRIVE_E_STATE);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

/* Ends a job as a dead letter, with the token of the handle that has started it. */
static void make_dead(struct store *store, int64_t seq, uint64_t token)
{
    static const struct decision DEAD = {.state = REDRIVE_STATE_DEAD_LETTER, .uses_attempt = true};
    const struct settle_move end = {.seq = seq, .token = token, .decision = &DEAD};
    struct move_result result;
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, SETTLES(&end, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

/* The handle has the row of the attempt before, which would refuse all of them, and a refusal is
 * nothing that a commit could check. */
SERVER_TEST(the_row_of_an_earlier_attempt_refuses_nothing, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    for (int i = 1; i <= 3; i++) {
        put_committed(store, (char[]){(char)('a' + i), '\0'});
        start_committed(store, i, 7);
    }
    take_over(other, 1, 7, 8);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(settle_committed(store, 1, 8), 0);

    take_over(other, 2, 7, 8);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    const struct extend_move longer = {2, 8, INT64_MAX / 2};
    struct move_result result;
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, EXTENDS(&longer, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);

    make_dead(other, 3, 7);
    const struct change_move again = {.seq = 3, .kind = MOVE_REDRIVE};
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, CHANGES(&again, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

/* What it is told of the job that has the id or the key is as of now. */
SERVER_TEST(a_submit_meets_a_job_as_it_is_now, NULL)
{
    struct arena arena;
    struct submit_result result;
    struct store *store = open_at(s), *other = open_at(s);
    const struct job_spec spec = {.tenant = STR("acme"),
                                  .id = STR("a"),
                                  .task = STR("mail"),
                                  .queue = STR("main"),
                                  .unique_key = STR("k"),
                                  .payload = STR("{}")};
    arena_init(&arena);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    start_committed(store, 1, 7);
    make_dead(other, 1, 7);

    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
    assert_int_equal(result.code, REDRIVE_E_EXISTS);
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    rollback(store);
    arena_release(&arena);
    store_close(store);
    store_close(other);
}

/* Ends a transaction that has changed something, after which only what is kept is there. */
static size_t count_kept(struct store *store)
{
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "never committed", NULL), 0);
    rollback(store);
    return store->entries.count;
}

SERVER_TEST(a_row_is_kept_until_its_lease_has_ended, NULL)
{
    struct move_result result;
    int64_t now, version;
    size_t kept = 0;
    int64_t lease_ms = 1000;
    struct store *store = open_at(s);
    put_committed(store, "long");
    put_committed(store, "short");
    start_committed(store, 1, 7);
    assert_int_equal(store_ops(store)->begin(store, 0, &now, &version, NULL), 0);
    const struct start_move start = {.seq = 2, .token = 7, .lease_until_ms = now + lease_ms};
    assert_int_equal(store_ops(store)->move(store, STARTS(&start, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    /* On a slow machine the lease may be over before one can look. */
    for (kept = count_kept(store); kept != 2; kept = count_kept(store)) {
        assert_true(lease_ms < WAIT_LIMIT_MS);
        lease_ms *= 2;
        assert_int_equal(store_ops(store)->begin(store, 0, &now, &version, NULL), 0);
        const struct extend_move extend = {.seq = 2, .token = 7, .lease_until_ms = now + lease_ms};
        assert_int_equal(store_ops(store)->move(store, EXTENDS(&extend, 1), &result, NULL), 0);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    }
    pass_ms(lease_ms + 100);
    assert_int_equal(count_kept(store), 1);

    /* It is read then: no other process has taken the job back. */
    assert_int_equal(settle_committed(store, 2, 7), 0);
    assert_int_equal(settle_committed(store, 1, 7), 0);
    store_close(store);
}

/* As if this handle had started another job like job 1, at that time. */
static void learn_started(struct store *store, int64_t seq, int64_t started_ms)
{
    const struct entry *first = rd_entry_known(store, 1);
    struct entry *e;
    assert_non_null(first);
    assert_int_equal(rd_entry_learn(store, seq, first->stored, &e, NULL), 0);
    e->is_mine = true;
    e->now.job.status.started_ms = started_ms;
}

SERVER_TEST(the_rows_that_are_kept_are_bounded, NULL)
{
    struct store *store = open_at(s);
    put_committed(store, "a");
    start_committed(store, 1, 7);
    const struct entry *first = rd_entry_known(store, 1);
    assert_non_null(first);
    const size_t most = RD_RUNNING_BYTES_MAX / (sizeof *first + first->stored.len);
    for (size_t i = 1; i < most; i++)
        learn_started(store, 1000 + (int64_t)i, (int64_t)i);
    assert_int_equal(count_kept(store), most);
    learn_started(store, 1000, 0);
    for (size_t i = 1; i < most; i++)
        learn_started(store, 1000 + (int64_t)i, (int64_t)i);
    assert_int_equal(count_kept(store), most / 2);
    /* Those that have started last; job 1 has the time of today. */
    assert_non_null(rd_entry_known(store, 1));
    assert_non_null(rd_entry_known(store, 1000 + (int64_t)most - 1));
    assert_null(rd_entry_known(store, 1000));
    assert_null(rd_entry_known(store, 1001));
    assert_int_equal(settle_committed(store, 1, 7), 0);
    store_close(store);
}

SERVER_TEST(rows_that_are_kept_are_not_copied_with_every_commit, NULL)
{
    struct entry *e;
    struct store *store = open_at(s);
    put_committed(store, "a");
    start_committed(store, 1, 7);
    const struct entry *first = rd_entry_known(store, 1);
    assert_non_null(first);
    for (int64_t i = 0; i < 10000; i++) {
        assert_int_equal(rd_entry_learn(store, 1000 + i, first->stored, &e, NULL), 0);
        e->is_mine = true;
    }
    assert_int_equal(count_kept(store), 10001);
    for (unsigned i = 1; i <= 3; i++) {
        put_committed(store, (char[]){(char)('b' + i), '\0'});
        assert_int_equal(store->n_kept, i);
    }
    store_close(store);
}

/* A primary with commits that its replica never got follows it, and then takes over again. `store`
 * has its connection to the first one all the time. With `meanwhile` others write on the second
 * one, else on the first one when it is back. */
static void lose_and_come_back(const struct server *first, const struct server *second,
                               bool meanwhile)
{
    server_call(first, "REPLICAOF 127.0.0.1 %d", second->port);
    wait_for_replica(first, second);
    struct store *other = meanwhile ? open_at(second) : NULL;
    if (other)
        put_committed(other, "another");
    if (other)
        start_committed(other, 2, 8);
    store_close(other);
    fail_over(second, first);
    other = meanwhile ? NULL : open_at(first);
    if (other)
        put_committed(other, "another");
    if (other)
        start_committed(other, 2, 8);
    store_close(other);
}

/* Commits are as many as before, but they are others. */
TEST(a_commit_that_a_fail_over_has_lost_is_not_known_any_more)
{
    for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
        struct server first, second;
        int64_t now, before, after;
        server_start(&first, PRIMARY);
        server_start(&second, PRIMARY);
        server_call(&second, "REPLICAOF 127.0.0.1 %d", first.port);
        wait_for_replica(&second, &first); /* the first to come begins a history */
        struct store *store = open_at(&first);
        put_committed(store, "kept");
        wait_for_replica(&second, &first);
        server_call(&second, "REPLICAOF NO ONE");
        assert_int_equal(store_ops(store)->begin(store, 0, &now, &before, NULL), 0);
        assert_int_equal(put(store, "lost", NULL), 0);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
        start_committed(store, 2, 7);
        lose_and_come_back(&first, &second, meanwhile);

        /* It has heard nothing of it yet, or has: one of them, as soon as a second is over. */
        pass_ms(1100);
        assert_int_equal(store_ops(store)->begin(store, 0, &now, &after, NULL), 0);
        assert_true(before > 0 && after < 0);
        rollback(store);
        assert_int_equal(settle_committed(store, 2, 7), REDRIVE_E_STATE);
        assert_int_equal(settle_committed(store, 2, 8), 0);
        assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
        store_close(store);
        server_stop(&first);
        server_stop(&second);
    }
}
