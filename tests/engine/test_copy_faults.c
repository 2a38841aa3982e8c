/* A store into another one that fails, or that others get in the way of. */
#include "base/err.h"
#include "fault.h"
#include "pair.h"

/* Wherever the destination fails, before a call or after a commit, and for good. */
TEST(whatever_fails_the_next_run_ends_it)
{
    for (int after_commit = 0; after_commit < 2; after_commit++) {
        for (unsigned long at = 1;; at += at < 40 ? fault_step() : 17) {
            struct pair p;
            struct fault fault;
            pair_open(&p, "memory");
            put_many(&p.from, "job", 70);
            fill(&p.from, 40);
            fault_init(&fault, p.to.store);
            fault.fail_at = at;
            fault.from_then_on = true;
            fault.after_commit = after_commit != 0;
            p.options.to = (struct store *)(void *)&fault;
            const int rc = pair_try(&p);
            const bool met = fault.met;
            store_ops(p.options.to)->rollback(p.options.to);
            p.options.to = p.to.store;
            if (met)
                assert_int_equal(rc, REDRIVE_E_IO);
            if (met && p.report.copied > 0)
                assert_non_null(strstr(p.err.hint, "the same command"));
            pair_run(&p);
            check_same(p.from.store, p.to.store);
            pair_close(&p);
            if (!met)
                break;
        }
    }
}

/* A destination that others get in the way of: at the nth call of its transactions, or at all. */
struct busy {
    struct wrap wrap;
    unsigned long calls;
    unsigned long at; /* counts from 1; 0: always */
    bool in_transaction;
};

static int be_busy(struct wrap *wrap, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)wrap;
    if (!b->in_transaction || (++b->calls != b->at && b->at != 0))
        return 0;
    return err_set(err, REDRIVE_E_CANCELLED, "others were in the way");
}

static int busy_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_version, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)store;
    b->in_transaction = true;
    int rc = be_busy(&b->wrap, err);
    b->in_transaction = rc == 0;
    return rc < 0 ? rc
                  : store_ops(b->wrap.inner)
                        ->begin(b->wrap.inner, now_ms, ret_now_ms, ret_version, err);
}

static int busy_commit(struct store *store, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)store;
    int rc = be_busy(&b->wrap, err);
    b->in_transaction = rc < 0;
    return rc < 0 ? rc : store_ops(b->wrap.inner)->commit(b->wrap.inner, err);
}

static void busy_rollback(struct store *store)
{
    struct busy *b = (struct busy *)(void *)store;
    b->in_transaction = false;
    store_ops(b->wrap.inner)->rollback(b->wrap.inner);
}

static void pair_open_busy(struct pair *p, struct busy *busy, unsigned long at)
{
    pair_open(p, "memory");
    *busy = (struct busy){.at = at};
    wrap_init(&busy->wrap, p->to.store);
    busy->wrap.before = be_busy;
    busy->wrap.ops.begin = busy_begin;
    busy->wrap.ops.commit = busy_commit;
    busy->wrap.ops.rollback = busy_rollback;
    p->options.to = wrap_store(&busy->wrap);
}

TEST(transactions_that_others_were_in_the_way_of_are_tried_again)
{
    bool met = true;
    for (unsigned long at = 1; met; at += at < 20 ? fault_step() : 7) {
        struct pair p;
        struct busy busy;
        pair_open_busy(&p, &busy, at);
        put_many(&p.from, "job", 70);
        fill(&p.from, 40);
        pair_run(&p);
        met = busy.calls >= at;
        assert_int_equal(p.report.copied, rows_of(&p, RECORD_JOB));
        check_same(p.from.store, p.to.store);
        pair_close(&p);
        assert_true(met || at > 20);
    }
}

/* As if another process had put the row between the read and the put. */
static int refuse_the_first_put(struct store *store, const struct shared_row *rows, size_t n,
                                struct move_result *ret, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)store;
    int rc = store_ops(b->wrap.inner)->shared_put(b->wrap.inner, rows, n, ret, err);
    if (rc == 0 && b->calls++ == 0)
        ret[0].code = REDRIVE_E_STATE;
    return rc;
}

PAIR_TEST(a_row_that_is_refused_is_put_again, "memory")
{
    struct busy busy = {0};
    put_row(&p->from, SHARED_BREAKER, "payments", "{}");
    wrap_init(&busy.wrap, p->to.store);
    busy.wrap.ops.shared_put = refuse_the_first_put;
    p->options.to = wrap_store(&busy.wrap);
    pair_run(p);
    assert_int_equal(busy.calls, 2);
    assert_int_equal(ts_shared(&p->to, SHARED_BREAKER, (struct str){0})->n, 1);
}

TEST(a_destination_that_is_never_free_is_given_up)
{
    struct pair p;
    struct busy busy;
    pair_open_busy(&p, &busy, 0);
    put_many(&p.from, "job", 3);
    assert_int_equal(pair_try(&p), REDRIVE_E_IO);
    assert_int_equal(p.report.copied, 0);
    pair_close(&p);
}

static void check_sameness(struct store *a, struct store *b, bool expected)
{
    bool is_same = !expected;
    assert_int_equal(copy_is_same_store(a, b, TS_START_MS, &is_same, NULL), 0);
    assert_int_equal(is_same, expected);
}

TEST(two_handles_on_one_store_are_found_out)
{
    struct pair p;
    struct test_store again;
    struct busy busy;
    pair_open_busy(&p, &busy, 2);
    ts_join(&again, &p.to);
    put_row(&p.from, SHARED_WORKER, "worker", "{}");
    put_row(&p.to, SHARED_WORKER, "worker", "{}");
    check_sameness(p.to.store, again.store, true);
    check_sameness(again.store, p.options.to, true);
    check_sameness(p.from.store, p.to.store, false);
    check_sameness(p.to.store, p.from.store, false);
    /* And nothing of it stays. */
    assert_int_equal(ts_shared(&p.to, SHARED_WORKER, (struct str){0})->n, 1);
    assert_int_equal(ts_shared(&p.from, SHARED_WORKER, (struct str){0})->n, 1);
    ts_close(&again);
    pair_close(&p);
}
