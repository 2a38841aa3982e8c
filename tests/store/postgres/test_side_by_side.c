/* Several transactions at a time: what each of them gets, and what happens when they want the same.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/scope.h"
#include "base/time/clock.h"
#include "store_for_test.h"
#include "stores_postgres.h"
#include "waiting.h"

STORE_TEST(two_claims_at_once_get_different_jobs)
{
    struct test_store *a = ts, b;
    int64_t seqs[40];
    ts_join(&b, a);
    for (int i = 0; i < 40; i++)
        seqs[i] = PUT(a, .task = i % 2 ? STR("x") : STR("y"));
    ts_begin(a);
    ts_begin(&b);
    struct job_page *of_a = READY(a, .tenant = STR("acme"), .limit = 10);
    struct job_page *of_b = READY(&b, .tenant = STR("acme"), .limit = 10);
    assert_int_equal(of_a->n, 10);
    assert_int_equal(of_b->n, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(of_a->jobs[i].status.seq, seqs[i]);
        assert_int_equal(of_b->jobs[i].status.seq, seqs[i + 10]);
    }
    /* Though all that one would look at first are another's. */
    of_b = READY(&b, .tenant = STR("acme"), .limit = 20);
    assert_int_equal(of_b->n, 20);
    for (int i = 0; i < 10; i++)
        ts_start(a, seqs[i]);
    ts_commit(a);
    ts_rollback(&b);
    assert_int_equal(READY(&b, .limit = 100)->n, 30);
    ts_close(&b);
}

STORE_TEST(an_expired_job_is_given_to_one_of_two)
{
    struct test_store *a = ts, b;
    int64_t next_ms;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x"));
    ts_start(a, seq);
    a->now_ms = b.now_ms = TS_START_MS + 30000;
    ts_begin(a);
    ts_begin(&b);
    check_seqs(ts_expired(a, 10, &next_ms), seq);
    assert_int_equal(ts_expired(&b, 10, &next_ms)->n, 0);
    ts_rollback(a);
    check_seqs(ts_expired(&b, 10, &next_ms), seq);
    ts_rollback(&b);
    ts_close(&b);
}

/* Whoever has locked them may fail: nobody else would look at them for a long time. */
STORE_TEST(jobs_that_another_has_locked_are_looked_at_again_soon)
{
    struct test_store *a = ts, b;
    int64_t next_ms;
    ts_join(&b, a);
    int64_t leased = PUT(a, .id = STR("leased"));
    ts_start(a, leased);
    PUT(a, .id = STR("due"), .process_after_ms = TS_START_MS + 10);
    PUT(a, .id = STR("later"), .process_after_ms = TS_START_MS + 90000);
    int64_t overdue = PUT(a, .id = STR("overdue"), .deadline_ms = TS_START_MS + 20);
    a->now_ms = b.now_ms = TS_START_MS + 30000;
    ts_begin(a);
    ts_begin(&b);
    assert_int_equal(ts_promote(a, 10, &next_ms), 1);
    assert_int_equal(next_ms, TS_START_MS + 90000);
    check_seqs(ts_expired(a, 10, &next_ms), leased);
    assert_int_equal(next_ms, 0);
    check_seqs(ts_overdue(a, 10, &next_ms), overdue);
    assert_int_equal(next_ms, 0);
    assert_int_equal(ts_promote(&b, 10, &next_ms), 0);
    assert_int_equal(next_ms, b.now_ms + 100);
    assert_int_equal(ts_expired(&b, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, b.now_ms + 100);
    assert_int_equal(ts_overdue(&b, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, b.now_ms + 100);
    ts_rollback(a);
    assert_int_equal(ts_promote(&b, 10, &next_ms), 1);
    ts_rollback(&b);
    ts_close(&b);
}

STORE_TEST(a_move_of_a_locked_job_waits_and_then_gives_up_the_transaction)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x"));
    ts_begin(a);
    ts_start(a, seq);
    ts_begin(&b);
    struct move_result result;
    const struct change_move cancel = {.seq = seq, .kind = MOVE_CANCEL};
    assert_int_equal(store_ops(b.store)->move(b.store, CHANGES(&cancel, 1), &result, NULL),
                     REDRIVE_E_CANCELLED);
    /* Nothing more can be done in it. */
    assert_int_equal(store_ops(b.store)->move(b.store, CHANGES(&cancel, 1), &result, NULL),
                     REDRIVE_E_CANCELLED);
    ts_rollback(&b);
    ts_commit(a);
    check_move(ts_change(&b, &cancel), 0, REDRIVE_STATE_CANCELLED);
    ts_close(&b);
}

static int try_submit(struct test_store *ts, const char *id, struct redrive_err *err)
{
    const struct job_spec spec = {.tenant = STR("acme"),
                                  .id = str_of(id),
                                  .task = STR("t"),
                                  .queue = STR("q"),
                                  .max_attempts = 1};
    struct submit_result result;
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = store_ops(ts->store)->submit(ts->store, &spec, 1, &result, &arena, err);
    return rc < 0 ? rc : result.code;
}

STORE_TEST(a_transaction_waits_for_a_lock_as_long_as_it_was_told)
{
    struct test_store *a = ts, b;
    struct redrive_err err = {0};
    ts_join(&b, a);
    PUT(a, .id = STR("first"), .task = STR("t"), .queue = STR("q"));
    ts_begin(a);
    PUT(a, .id = STR("x"), .task = STR("t"), .queue = STR("q"));
    for (int i = 0; i < 2; i++) {
        store_wait_for_locks(b.store, i == 0 ? 10 : 0); /* 0: the busy time, of the test's store */
        ts_begin(&b);
        assert_false(store_base(b.store)->is_blocked);
        const int64_t since_ms = clock_monotonic_ms();
        assert_int_equal(try_submit(&b, "x", &err), REDRIVE_E_CANCELLED);
        assert_true(store_base(b.store)->is_blocked);
        assert_non_null(strstr(err.hint, "still open"));
        assert_true(clock_monotonic_ms() - since_ms >= (i == 0 ? 10 : 500));
        ts_rollback(&b);
    }
    /* Another reason is none of these. */
    ts_begin(&b);
    assert_int_equal(try_submit(&b, "y", &err), 0);
    assert_false(store_base(b.store)->is_blocked);
    ts_commit(&b);
    ts_commit(a);
    ts_close(&b);
}

/* A process does not wait for it, and has another number for the same names. */
STORE_TEST(a_partition_that_an_open_transaction_adds_in_sql_is_no_lock)
{
    struct test_store *a = ts;
    char counts[64];
    PUT(a, .id = STR("first"), .task = STR("t"), .queue = STR("q")); /* the tenant is there */
    void *session =
        stores_postgres_hold(a->url, "SELECT redrive.submit('new', '{}', 'q', tenant => 'acme')");
    store_wait_for_locks(a->store, 10);
    PUT(a, .id = STR("x"), .task = STR("new"), .queue = STR("q"));
    stores_postgres_sql(a->url, "SELECT redrive.submit('new', '{}', 'q', tenant => 'acme')", NULL,
                        0);
    stores_postgres_let_go(session);
    assert_int_equal(READY(a, .limit = 10)->n, 3);
    stores_postgres_sql(a->url, "SELECT queued FROM redrive.job_counts WHERE task_name = 'new'",
                        counts, sizeof counts);
    assert_string_equal(counts, "2");
}

STORE_TEST(a_put_of_a_row_that_another_has_put_is_refused_when_that_commits)
{
    struct test_store *a = ts, b;
    struct shared_row row = {
        .kind = SHARED_BREAKER, .tenant = STR("acme"), .key = STR("k"), .value = STR("first")};
    ts_join(&b, a);
    assert_int_equal(ts_shared_put(a, &row), 0);
    ts_begin(&b);
    row.version = 1;
    row.value = STR("second");
    assert_int_equal(ts_shared_put(a, &row), 0);
    row.value = STR("third");
    assert_int_equal(ts_shared_put(&b, &row), REDRIVE_E_STATE);
    ts_rollback(&b);
    ts_close(&b);
}

static int try_commit(struct test_store *ts)
{
    const int rc = store_ops(ts->store)->commit(ts->store, NULL);
    ts_rollback(ts);
    return rc;
}

/* A breaker or limit at the version that the handle has seen is put with the commit. */
STORE_TEST(a_put_at_the_version_that_was_seen_is_compared_in_the_commit)
{
    struct test_store *a = ts, b;
    struct shared_row row = {
        .kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("k"), .value = STR("first")};
    ts_join(&b, a);
    assert_int_equal(ts_shared_put(a, &row), 0);
    row.version = ts_shared(&b, SHARED_LIMIT, STR("acme"))->rows[0].version;
    ts_begin(&b);
    PUT(&b, .id = STR("x"));
    row.value = STR("b's");
    assert_int_equal(ts_shared_put(&b, &row), 0);
    check_str(ts_shared(a, SHARED_LIMIT, STR("acme"))->rows[0].value, "first");
    row.value = STR("a's");
    assert_int_equal(ts_shared_put(a, &row), 0);
    assert_int_equal(try_commit(&b), REDRIVE_E_CANCELLED);
    assert_int_equal(LIST(a, .limit = 10)->n, 0);
    check_str(ts_shared(a, SHARED_LIMIT, STR("acme"))->rows[0].value, "a's");

    /* The same version once more is answered at once. */
    ts_begin(&b);
    assert_int_equal(ts_shared_put(&b, &row), REDRIVE_E_STATE);
    row.version = ts_shared(&b, SHARED_LIMIT, STR("acme"))->rows[0].version;
    row.value = STR("b's");
    assert_int_equal(ts_shared_put(&b, &row), 0);
    check_str(ts_shared(&b, SHARED_LIMIT, STR("acme"))->rows[0].value, "b's");
    row.version++;
    row.value = STR("b's second");
    assert_int_equal(ts_shared_put(&b, &row), 0);
    assert_int_equal(try_commit(&b), 0);
    assert_int_equal(ts_shared(a, SHARED_LIMIT, STR("acme"))->rows[0].version, row.version + 1);
    ts_close(&b);
}

/* Two transactions that add to one limit at the same time are both made, up to its maximum. */
STORE_TEST(transactions_that_add_to_one_limit_do_not_meet)
{
    struct test_store *a = ts, b;
    struct merged_gate sums[2];
    struct shared_row row = {
        .kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("k"), .value = STR("first")};
    ts_join(&b, a);
    assert_int_equal(ts_shared_put(a, &row), 0);
    row.is_delta = true;
    row.add.used = 1;
    row.max_used = 3;
    for (int64_t i = 0; i < 2; i++) {
        ts_begin(a);
        ts_begin(&b);
        row.merged = &sums[0];
        assert_int_equal(ts_shared_put(a, &row), 0);
        row.merged = &sums[1];
        assert_int_equal(ts_shared_put(&b, &row), 0);
        ts_commit(&b);
        assert_int_equal(sums[1].sums.used, 2 * i + 1);
        assert_int_equal(try_commit(a), i == 0 ? 0 : REDRIVE_E_CANCELLED);
    }
    assert_int_equal(sums[0].sums.used, -1);
    assert_int_equal(ts_shared(a, SHARED_LIMIT, STR("acme"))->rows[0].sums.used, 3);
    assert_int_equal(ts_shared(a, SHARED_LIMIT, STR("acme"))->rows[0].version, 1);
    ts_close(&b);
}

STORE_TEST(a_claim_notices_that_others_have_changed_what_is_shared)
{
    struct test_store *a = ts, b;
    struct shared_row row = {.kind = SHARED_BREAKER, .tenant = STR("acme"), .key = STR("k")};
    const struct claim_filter filter = {.limit = 1};
    struct redrive_err err = {0};
    ts_join(&b, a);
    const int64_t seq = PUT(&b, .id = STR("x"));
    ts_begin(&b);
    const int64_t version = b.shared_version;
    assert_int_equal(ts_shared_put(a, &row), 0);
    assert_int_equal(store_ops(b.store)->ready(b.store, &filter, &b.page, &err),
                     REDRIVE_E_CANCELLED);
    assert_int_equal(b.page.n, 0);
    ts_rollback(&b);
    ts_begin(&b);
    assert_int_equal(b.shared_version, version + 1);
    check_seqs(READY(&b, .limit = 1), seq);
    ts_rollback(&b);

    /* Nor do looks of the leader, which may have been woken for that. */
    struct scan scan = {.index = SCAN_LEASES, .limit = 1};
    row.version = 1;
    ts_begin(&b);
    assert_int_equal(ts_shared_put(a, &row), 0);
    assert_int_equal(store_ops(b.store)->scan(b.store, &scan, &b.page, &err), REDRIVE_E_CANCELLED);
    ts_rollback(&b);
    ts_begin(&b);
    assert_int_equal(b.shared_version, version + 2);
    ts_rollback(&b);
    ts_close(&b);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  40

struct worker {
    const char *url;
    unsigned number;
    unsigned submitted;
    unsigned refused;
    unsigned settled;
    unsigned repeated;
};

/* One transaction: submits some, of which some have a key that all fight for, and takes some
 * through a whole life. */
static int one_transaction(struct store *store, struct worker *w, unsigned round,
                           struct worker *did)
{
    const struct store_ops *ops = store_ops(store);
    struct job_page page = {0};
    struct arena arena;
    struct job_spec specs[8];
    struct submit_result results[8];
    char names[8][3][32];
    int64_t now_ms, version;
    arena_init(&arena);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(names[i][0], 32, "%u-%u-%u", w->number, round, i);
        snprintf(names[i][1], 32, "key-%u", (i * (w->number + 1) + round) % 5);
        snprintf(names[i][2], 32, "task-%u", (i + round) % 7);
        specs[i] = (struct job_spec){.tenant = STR("acme"),
                                     .id = str_of(names[i][0]),
                                     .task = str_of(names[i][2]),
                                     .queue = STR("q"),
                                     .payload = STR("{}"),
                                     .unique_key = i % 2 ? str_of(names[i][1]) : (struct str){0},
                                     .max_attempts = 1};
    }
    int rc = ops->begin(store, 0, &now_ms, &version, NULL);
    if (rc == 0)
        rc = ops->submit(store, specs, 8, results, &arena, NULL);
    for (int i = 0; rc == 0 && i < 8; i++) {
        did->submitted += results[i].code == 0;
        did->refused += results[i].code == REDRIVE_E_EXISTS;
    }
    const struct claim_filter filter = {.tenant = STR("acme"), .limit = 6};
    if (rc == 0)
        rc = ops->ready(store, &filter, &page, NULL);
    for (size_t i = 0; rc == 0 && i < page.n; i++) {
        const struct decision done = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
        const struct start_move start = {.seq = page.jobs[i].status.seq,
                                         .token = w->number * 1000000 + round * 100 + i + 1,
                                         .lease_until_ms = now_ms + 1000};
        const struct settle_move settle = {
            .seq = start.seq, .token = start.token, .decision = &done};
        struct move_result result = {0};
        rc = ops->move(store, STARTS(&start, 1), &result, NULL);
        assert_true(rc != 0 || result.code == 0);
        if (rc == 0)
            rc = ops->move(store, SETTLES(&settle, 1), &result, NULL);
        did->settled += rc == 0 && result.code == 0;
    }
    if (rc == 0)
        rc = ops->commit(store, NULL);
    ops->rollback(store);
    job_page_release(&page);
    arena_release(&arena);
    return rc;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct store *store = NULL;
    const struct store_options options = {.busy_wait_ms = 20000};
    if (store_open(w->url, &options, &store, NULL) != 0)
        return NULL;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct worker did = {0};
        int rc = one_transaction(store, w, round, &did);
        for (; rc == REDRIVE_E_CANCELLED && w->repeated < 1000; w->repeated++) {
            did = (struct worker){0};
            rc = one_transaction(store, w, round, &did);
        }
        if (rc != 0)
            break;
        w->submitted += did.submitted;
        w->refused += did.refused;
        w->settled += did.settled;
    }
    store_close(store);
    return NULL;
}

STORE_TEST(many_transactions_at_once_lose_nothing_and_do_nothing_twice)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    char answer[64], expected[64];
    unsigned submitted = 0, settled = 0, all = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.url = ts->url, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        submitted += workers[i].submitted;
        settled += workers[i].settled;
        all += workers[i].submitted + workers[i].refused;
    }
    assert_int_equal(all, THREADS * ROUNDS * 8);
    assert_true(settled > 0);
    const struct count_page *queues = ts_queues(ts, STR("acme"));
    assert_int_equal(queues->counts[0].by_state[REDRIVE_STATE_COMPLETED], settled);
    assert_int_equal(queues->counts[0].by_state[REDRIVE_STATE_QUEUED], submitted - settled);
    snprintf(expected, sizeof expected, "%u|%u|%u", submitted, settled, settled);
    stores_postgres_sql(ts->url,
                        "SELECT count(*), count(*) FILTER (WHERE state = 5), sum(attempts) "
                        "FROM redrive.job_states",
                        answer, sizeof answer);
    assert_string_equal(answer, expected);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

STORE_TEST(counts_are_put_together_now_and_then)
{
    char answer[64];
    for (int i = 0; i < 700; i++)
        PUT(ts, .queue = STR("q"));
    stores_postgres_sql(ts->url, "SELECT count(*) < 600, sum(queued) FROM redrive.count_deltas",
                        answer, sizeof answer);
    assert_string_equal(answer, "t|700");
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

static int settle_two(struct test_store *ts, const int64_t *seqs, const uint64_t *tokens,
                      struct move_result *ret)
{
    struct decision done = decision_completed();
    const struct settle_move moves[] = {
        {.seq = seqs[0], .token = tokens[0], .decision = &done, .result = STR("{}")},
        {.seq = seqs[1], .token = tokens[1], .decision = &done},
    };
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->move(ts->store, SETTLES(moves, 2), ret, NULL), 0);
    const int rc = store_ops(ts->store)->commit(ts->store, NULL);
    ts_rollback(ts);
    return rc;
}

/* What a handle has started it settles without a look at it, on condition. */
STORE_TEST(a_settle_that_comes_too_late_takes_its_transaction_with_it_once)
{
    struct test_store *a = ts, b;
    struct move_result results[2];
    ts_join(&b, a);
    const int64_t seqs[] = {PUT(a, .unique_key = STR("k")), PUT(a, .id = STR("y"))};
    const uint64_t tokens[] = {ts_start(a, seqs[0]), ts_start(a, seqs[1])};
    check_move(CHANGE(&b, .seq = seqs[1], .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);

    assert_int_equal(settle_two(a, seqs, tokens, results), REDRIVE_E_CANCELLED);
    assert_int_equal(ts_state(&b, seqs[0]), REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_state(&b, seqs[1]), REDRIVE_STATE_CANCELLED);

    assert_int_equal(settle_two(a, seqs, tokens, results), 0);
    check_move(results[0], 0, REDRIVE_STATE_COMPLETED);
    check_move(results[1], REDRIVE_E_STATE, REDRIVE_STATE_CANCELLED);
    assert_int_equal(ts_state(&b, seqs[0]), REDRIVE_STATE_COMPLETED);
    (void)PUT(&b, .unique_key = STR("k")); /* which is free again */
    ts_close(&b);
}

/* The lease may have been moved elsewhere: that is no reason to refuse. */
STORE_TEST(a_lease_that_another_handle_moved_does_not_matter)
{
    struct test_store *a = ts, b;
    struct move_result results[2];
    ts_join(&b, a);
    const int64_t seqs[] = {PUT(a, .id = STR("x")), PUT(a, .id = STR("y"))};
    const uint64_t tokens[] = {ts_start(a, seqs[0]), ts_start(a, seqs[1])};
    check_move(ts_extend(&b, seqs[0], tokens[0], a->now_ms + 3600000), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(settle_two(a, seqs, tokens, results), 0);
    check_move(results[0], 0, REDRIVE_STATE_COMPLETED);
    assert_int_equal(ts_job(&b, seqs[0])->status.lease_until_ms, 0);
    ts_close(&b);
}

/* The lease is written by the token alone, which says nothing of the children: a later move of the
 * same job is as conditional as the first one. */
STORE_TEST(a_child_that_came_before_a_heartbeat_is_not_lost)
{
    struct test_store *a = ts, b;
    struct move_result result;
    ts_join(&b, a);
    const int64_t seq = PUT(a, .id = STR("x"));
    const uint64_t token = ts_start(a, seq);
    const struct edge_move adopt = {.seq = seq, .n = 1};
    ts_begin(&b);
    assert_int_equal(store_ops(b.store)->move(b.store, ADOPTS(&adopt, 1), &result, NULL), 0);
    ts_commit(&b);

    for (int i = 0; i < 2; i++) {
        ts_begin(a);
        check_move(ts_extend(a, seq, token, a->now_ms + 60000), 0, REDRIVE_STATE_RUNNING);
        assert_int_equal(ts_state(a, seq), REDRIVE_STATE_RUNNING); /* a read writes it first */
        const struct decision done = decision_completed();
        const struct settle_move end = {.seq = seq, .token = token, .decision = &done};
        assert_int_equal(store_ops(a->store)->move(a->store, SETTLES(&end, 1), &result, NULL), 0);
        check_move(result, 0, REDRIVE_STATE_COMPLETED);
        assert_int_equal(result.children, i);
        assert_int_equal(try_commit(a), i == 0 ? REDRIVE_E_CANCELLED : 0);
        assert_int_equal(ts_job(&b, seq)->status.children, 1);
    }
    ts_close(&b);
}

/* A claim leaves it out, but it is there once, and as the transaction has left it. */
STORE_TEST(a_job_that_is_settled_unseen_is_seen_by_the_transaction)
{
    int64_t next_ms;
    const int64_t seq = PUT(ts, .id = STR("x"));
    const uint64_t token = ts_start(ts, seq);
    ts->now_ms += 60000;
    ts_begin(ts);
    struct decision back = decision_retrying(0);
    back.state = REDRIVE_STATE_QUEUED;
    check_move(ts_settle(ts, seq, token, back), 0, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_expired(ts, 10, &next_ms)->n, 0);
    assert_int_equal(READY(ts, .tenant = STR("acme"))->n, 0);
    const uint64_t second = ts_start(ts, seq);
    check_move(ts_settle(ts, seq, token, decision_completed()), REDRIVE_E_STATE,
               REDRIVE_STATE_RUNNING);
    ts_commit(ts);
    assert_int_equal(ts_job(ts, seq)->status.token, second);
    check_move(ts_settle(ts, seq, second, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    assert_int_equal(ts_history(ts, seq)->n, 2);
}

/* As long as one line has all the jobs a claim looks at that one only. */
STORE_TEST(a_claim_that_counts_on_one_partition_notices_others)
{
    struct test_store other;
    ts_join(&other, ts);
    const int64_t x = PUT(ts, .priority = 1), y = PUT(ts, .priority = 1),
                  z = PUT(ts, .priority = 0);
    for (int i = 0; i < 2; i++) {
        check_seqs(READY(ts, .limit = 1), x);
        assert_true(ts->page.more);
        check_seqs(READY(ts, .limit = 2), x, y);
        assert_true(ts->page.more);
        check_seqs(READY(ts, .limit = 3), x, y, z);
        assert_false(ts->page.more);
        check_seqs(READY(ts, .limit = 4), x, y, z);
        assert_false(ts->page.more);
    }
    assert_int_equal(READY(ts, .tenant = STR("nobody"))->n, 0);
    assert_int_equal(READY(ts, .tasks = &STR("other"), .n_tasks = 1)->n, 0);
    check_seqs(READY(ts, .tenant = STR("acme"), .limit = 2), x, y);

    ts_begin(&other);
    check_seqs(READY(&other, .limit = 1), x);
    check_seqs(READY(ts, .limit = 1), y);
    check_seqs(READY(ts, .limit = 5), y, z);
    ts_rollback(&other);

    const int64_t first = PUT(&other, .task = STR("other"), .priority = 2);
    check_seqs(READY(ts, .limit = 2), first, x);
    check_move(CHANGE(&other, .seq = first, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    for (int i = 0; i < 70; i++)
        check_seqs(READY(ts, .limit = 2), x, y);
    ts_pause(&other, STR("acme"), STR("main"));
    assert_int_equal(READY(ts, .limit = 2)->n, 0);
    ts_close(&other);
}

/* ---- A job that is redriven and ends again while a sweep looks at it ------------------------- */

/* Every look at a job waits while there is a gate, and says that it has come so far. */
#define ADD_GATE                                                                           \
    "CREATE SEQUENCE public.arrived; CREATE TABLE public.gate AS SELECT 1 AS shut; "       \
    "CREATE FUNCTION public.pass() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN " \
    "PERFORM nextval('public.arrived'); WHILE EXISTS (SELECT FROM public.gate) LOOP "      \
    "PERFORM pg_sleep(0.01); END LOOP; RETURN true; END $$; "                              \
    "ALTER TABLE redrive.job_states RENAME TO jobs_behind; "                               \
    "CREATE VIEW redrive.job_states AS SELECT * FROM redrive.jobs_behind WHERE public.pass()"

struct sweeper {
    struct test_store *ts;
    size_t removed;
};

static void *sweep(void *ctx)
{
    struct sweeper *s = ctx;
    s->removed = ts_sweep(s->ts, STATE_BIT(COMPLETED), TS_START_MS + 100, 10);
    return NULL;
}

STORE_TEST(a_sweep_leaves_a_job_that_has_ended_again_meanwhile)
{
    struct test_store other;
    char text[32] = "";
    pthread_t thread;
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, &(struct job_spec){.id = STR("again")});
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, &(struct job_spec){.id = STR("once")});
    stores_postgres_sql(ts->url, ADD_GATE, NULL, 0);
    ts_join(&other, ts);
    struct sweeper sweeper = {.ts = &other};
    assert_int_equal(pthread_create(&thread, NULL, sweep, &sweeper), 0);
    WAIT_FOR(
        (stores_postgres_sql(ts->url, "SELECT is_called FROM public.arrived", text, sizeof text),
         strcmp(text, "t") == 0));
    stores_postgres_sql(ts->url,
                        "UPDATE redrive.jobs_behind j SET finished_ms = finished_ms + 1000 "
                        "FROM redrive.specs s WHERE s.seq = j.seq AND s.id = 'again'; "
                        "DELETE FROM public.gate",
                        NULL, 0);
    pthread_join(thread, NULL);
    assert_int_equal(sweeper.removed, 1);
    stores_postgres_sql(ts->url, "SELECT id FROM redrive.specs", text, sizeof text);
    assert_string_equal(text, "again");
    ts_close(&other);
}

/* Whoever redrives a dead letter in a long transaction of his own does not keep a sweep waiting. */
STORE_TEST(a_sweep_does_not_wait_for_jobs_that_another_has_locked)
{
    struct test_store other;
    const int64_t locked = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    const int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    ts_join(&other, ts);
    ts_begin(&other);
    check_move(CHANGE(&other, .seq = locked, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_sweep(ts, STATE_BIT(DEAD_LETTER), ts->now_ms + 1, 10), 1);
    ts_commit(&other);
    assert_null(ts_job(ts, seq));
    assert_int_equal(ts_state(ts, locked), REDRIVE_STATE_QUEUED);
    ts_close(&other);
}
