/* What a transaction does is seen by nobody else before its commit, and is gone after a rollback.
 */
#include <stdio.h>

#include "dump.h"
#include "store_for_test.h"
#include "random_transaction.h"
#include "wrap.h"

#define TRANSACTIONS 400

/* Before each end of a transaction another handle looks: it must find what was there before it
 * began. */
struct watched {
    struct wrap wrap;
    struct store *other;
    struct buf before;
    struct buf seen;
    bool rolled_back;
};

static void look(struct watched *w)
{
    dump_store(w->other, &w->seen);
    assert_string_equal(buf_cstr(&w->seen), buf_cstr(&w->before));
}

static int commit(struct store *store, struct redrive_err *err)
{
    struct watched *w = (struct watched *)(void *)store;
    look(w);
    return store_ops(w->wrap.inner)->commit(w->wrap.inner, err);
}

static void rollback(struct store *store)
{
    struct watched *w = (struct watched *)(void *)store;
    look(w);
    store_ops(w->wrap.inner)->rollback(w->wrap.inner);
    w->rolled_back = true;
}

STORE_TEST(nobody_sees_a_transaction_and_a_rollback_takes_all_of_it_back)
{
    struct test_store other;
    struct watched w = {0};
    struct random_side side;
    struct buf answers;
    ts_join(&other, ts);
    wrap_init(&w.wrap, ts->store);
    w.wrap.ops.commit = commit;
    w.wrap.ops.rollback = rollback;
    w.other = other.store;
    buf_init(&answers, 1 << 20);
    buf_init(&w.before, 1 << 22);
    buf_init(&w.seen, 1 << 22);
    random_side_init(&side, wrap_store(&w.wrap), &answers);
    for (uint64_t transaction = 0; transaction < TRANSACTIONS; transaction++) {
        dump_store(ts->store, &w.before);
        w.rolled_back = false;
        random_transaction(&side, rng_mix(transaction + 77));
        if (w.rolled_back)
            look(&w);
    }
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
    random_side_release(&side);
    buf_release(&answers);
    buf_release(&w.before);
    buf_release(&w.seen);
    ts_close(&other);
}

/* Long parts of a job stand beside its row. */
STORE_TEST(long_texts_come_back_whole)
{
    char text[5000];
    memset(text, 'x', sizeof text);
    const struct str big = {text, sizeof text};
    const struct job_error error = {.class_ = REDRIVE_CLASS_SYSTEM, .stacktrace = big};
    int64_t seq = PUT(ts, .id = STR("big"), .payload = big);
    struct decision dead = decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED);
    uint64_t token = ts_start(ts, seq);
    const struct settle_move move = {
        .seq = seq, .token = token, .decision = &dead, .error = error, .result = big};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_DEAD_LETTER);
    ts_begin(ts);
    CHANGE(ts, .seq = seq, .kind = MOVE_EDIT, .payload = STR("{}"));
    assert_int_equal(ts_job(ts, seq)->spec.payload.len, 2);
    ts_rollback(ts);
    assert_true(str_eq(ts_job(ts, seq)->spec.payload, big));
    assert_true(str_eq(ts_job(ts, seq)->status.result, big));
    assert_true(str_eq(ts_job(ts, seq)->status.error.stacktrace, big));
    ts_begin(ts);
    CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE);
    assert_null(ts_job(ts, seq));
    ts_rollback(ts);
    assert_true(str_eq(ts_job(ts, seq)->spec.payload, big));
    CHANGE(ts, .seq = seq, .kind = MOVE_EDIT, .payload = STR("{}"));
    assert_int_equal(ts_job(ts, seq)->spec.payload.len, 2);
    CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE);
    assert_null(ts_job(ts, seq));
}

/* Commands take some thousand words at most. */
STORE_TEST(a_large_transaction_is_one_transaction)
{
    enum {
        N = 5000
    };
    static struct job_spec specs[N];
    static struct submit_result results[N];
    static char ids[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%d", i);
        specs[i] = (struct job_spec){.tenant = STR("acme"),
                                     .id = str_of(ids[i]),
                                     .task = STR("mail"),
                                     .queue = STR("main"),
                                     .payload = STR("{}")};
    }
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->submit(ts->store, specs, N, results, &ts->arena, NULL),
                     0);
    ts_rollback(ts);
    assert_int_equal(LIST(ts, .limit = 10)->n, 0);
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->submit(ts->store, specs, N, results, &ts->arena, NULL),
                     0);
    ts_commit(ts);
    assert_int_equal(ts_queues(ts, STR("acme"))->counts[0].by_state[REDRIVE_STATE_QUEUED], N);
    for (int i = 0; i < N; i += 500)
        CHANGE(ts, .seq = results[i].seq, .kind = MOVE_CANCEL);
    assert_int_equal(ts_sweep(ts, STATE_BIT(CANCELLED), INT64_MAX, 100), N / 500);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}
