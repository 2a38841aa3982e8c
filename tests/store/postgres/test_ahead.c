/* The claim of the next transaction, sent behind a commit: that transaction need not ask, no other
 * is given its jobs meanwhile, and they are free again if it does not come. The linker puts the
 * clock of this file before the monotonic one. */
#include <stdio.h>
#include <stdlib.h>

#include "store_for_test.h"
#include "stores_postgres.h"
#include "waiting.h"

#define JOBS 8

#define IDLE_IN_TRANSACTION                                                     \
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() " \
    "AND state LIKE 'idle in transaction%'"

static const struct claim_filter TWO = {.limit = 2};

static int64_t later_ns; /* by so much it is later than the clock says */

int64_t __real_clock_monotonic_ns(void);
int64_t __wrap_clock_monotonic_ns(void);
int64_t __wrap_clock_monotonic_ns(void)
{
    static int64_t stands_at_ns;
    if (stands_at_ns == 0)
        stands_at_ns = __real_clock_monotonic_ns();
    return stands_at_ns + later_ns;
}

struct pair {
    struct test_store ts, other;
    int64_t seqs[JOBS];
    uint64_t tokens[JOBS];
};

static int open_pair(void **state)
{
    static struct pair pair;
    later_ns = 0;
    ts_open(&pair.ts, stores_name());
    ts_join(&pair.other, &pair.ts);
    for (int i = 0; i < JOBS; i++)
        pair.seqs[i] = PUT(&pair.ts, .priority = 0);
    *state = &pair;
    return 0;
}

static int close_pair(void **state)
{
    struct pair *pair = *state;
    (void)LIST(&pair->other, .limit = 1); /* its connection may have been killed */
    assert_int_equal(store_ops(pair->other.store)->verify(pair->other.store, NULL, NULL, NULL), 0);
    ts_close(&pair->ts);
    ts_close(&pair->other);
    return 0;
}

/* Begins a transaction that looks for jobs. */
static void begin(struct test_store *ts)
{
    store_look(ts->store, true);
    ts_begin(ts);
}

static void look_ahead(struct test_store *ts, const struct claim_filter *filter)
{
    store_ops(ts->store)->look_ahead(ts->store, filter);
}

/* Starts the first two jobs, and lets the commit look for the next two. */
static void start_two(struct pair *pair)
{
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[0], pair->seqs[1]);
    for (int i = 0; i < 2; i++)
        pair->tokens[i] = ts_start(&pair->ts, pair->seqs[i]);
    look_ahead(&pair->ts, &TWO);
    ts_commit(&pair->ts);
}

/* A commit does not wait for the claim behind it, and a rollback is not waited for: until so many
 * transactions are open and idle. */
static void wait_for_idle(const struct pair *pair, const char *expected)
{
    char text[64];
    WAIT_TELLING((stores_postgres_sql(pair->ts.url, IDLE_IN_TRANSACTION, text, sizeof text),
                  strcmp(text, expected) == 0),
                 pass_ms(1),
                 print_error("%s transactions are open and idle, not %s\n", text, expected));
}

/* No transaction is left, and the jobs that were locked are given to another. */
static void check_free(struct pair *pair)
{
    wait_for_idle(pair, "0");
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[2], pair->seqs[3]);
}

#define PAIR_TEST(test) TEST_WITH(test, open_pair, close_pair, struct pair *pair)

PAIR_TEST(the_next_claim_is_given_them)
{
    start_two(pair);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[2], pair->seqs[3]);
    for (int i = 0; i < 2; i++)
        check_move(ts_settle(&pair->ts, pair->seqs[i], pair->tokens[i], decision_completed()), 0,
                   REDRIVE_STATE_COMPLETED);
    ts_start(&pair->ts, pair->seqs[2]);
    ts_start(&pair->ts, pair->seqs[3]);
    look_ahead(&pair->ts, &TWO);
    ts_commit(&pair->ts);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[4], pair->seqs[5]);
    ts_rollback(&pair->ts);
    wait_for_idle(pair, "0");
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[4], pair->seqs[5]);
    assert_int_equal(ts_state(&pair->other, pair->seqs[0]), REDRIVE_STATE_COMPLETED);
}

/* In the general claim, too. */
PAIR_TEST(so_it_is_among_several_partitions)
{
    const int64_t another = PUT(&pair->ts, .task = STR("resize"), .priority = 1);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), another, pair->seqs[0]);
    ts_start(&pair->ts, pair->seqs[0]);
    look_ahead(&pair->ts, &TWO);
    ts_commit(&pair->ts);
    wait_for_idle(pair, "1");
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[2], pair->seqs[3]);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), another, pair->seqs[1]);
    ts_start(&pair->ts, another);
    ts_commit(&pair->ts);
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[1], pair->seqs[2]);
}

PAIR_TEST(no_other_is_given_them_meanwhile)
{
    start_two(pair);
    wait_for_idle(pair, "1");
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[4], pair->seqs[5]);
}

PAIR_TEST(more_than_were_found_are_looked_for_again)
{
    start_two(pair);
    begin(&pair->ts);
    check_seqs(READY(&pair->ts, .limit = 4), pair->seqs[2], pair->seqs[3], pair->seqs[4],
               pair->seqs[5]);
    ts_rollback(&pair->ts);
}

PAIR_TEST(what_is_not_wanted_is_free_after_the_commit)
{
    start_two(pair);
    begin(&pair->ts);
    const struct job_page *page = READY(&pair->ts, .limit = 1);
    assert_true(page->more);
    check_seqs(page, pair->seqs[2]);
    ts_start(&pair->ts, pair->seqs[2]);
    ts_commit(&pair->ts);
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[3], pair->seqs[4]);
    wait_for_idle(pair, "0");
}

PAIR_TEST(another_filter_looks_again)
{
    const struct str queue = STR("elsewhere");
    start_two(pair);
    begin(&pair->ts);
    assert_int_equal(READY(&pair->ts, .limit = 2, .queues = &queue, .n_queues = 1)->n, 0);
    ts_rollback(&pair->ts);
    check_free(pair);
}

/* The transaction pauses the queue before it claims. */
PAIR_TEST(what_the_transaction_has_written_is_seen)
{
    start_two(pair);
    begin(&pair->ts);
    ts_pause(&pair->ts, STR("acme"), STR("main"));
    assert_int_equal(ts_ready(&pair->ts, &TWO)->n, 0);
    ts_rollback(&pair->ts);
    check_free(pair);
}

/* Another process has paused a queue, or put a breaker: the transaction is told by its begin. */
PAIR_TEST(begin_tells_the_shared_version_of_the_claim)
{
    const struct shared_row row = {.kind = SHARED_BREAKER, .tenant = STR("acme"), .key = STR("b")};
    begin(&pair->ts);
    const int64_t before = pair->ts.shared_version;
    assert_int_equal(ts_ready(&pair->ts, &TWO)->n, 2);
    ts_start(&pair->ts, pair->seqs[0]);
    look_ahead(&pair->ts, &TWO);
    assert_int_equal(ts_shared_put(&pair->other, &row), 0);
    ts_commit(&pair->ts);
    begin(&pair->ts);
    assert_int_equal(pair->ts.shared_version, before + 1);
    assert_int_equal(ts_ready(&pair->ts, &TWO)->n, 2);
    ts_rollback(&pair->ts);
}

PAIR_TEST(they_are_let_go_when_no_transaction_comes)
{
    const struct store_base *base = store_base(pair->ts.store);
    start_two(pair);
    wait_for_idle(pair, "1");
    assert_true(base->wants_upkeep);
    assert_in_range(base->idle_ms, 1, 20);
    store_ops(pair->ts.store)->upkeep(pair->ts.store);
    assert_false(base->wants_upkeep);
    check_free(pair);
}

/* The server cannot go on to the rollback before its answer has been read. */
PAIR_TEST(a_large_answer_does_not_keep_them)
{
    enum {
        LARGE = 10,
        BYTES = 1000 * 1000
    };
    const struct claim_filter most = {.limit = LARGE - 2};
    int64_t seqs[LARGE];
    char *text = malloc(BYTES + 1);
    assert_non_null(text);
    (void)snprintf(text, BYTES + 1, "\"%0*d\"", BYTES - 2, 0);
    for (int i = 0; i < LARGE; i++)
        seqs[i] = PUT(&pair->ts, .priority = 1, .payload = {text, BYTES});
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), seqs[0], seqs[1]);
    ts_start(&pair->ts, seqs[0]);
    ts_start(&pair->ts, seqs[1]);
    look_ahead(&pair->ts, &most);
    ts_commit(&pair->ts);
    store_ops(pair->ts.store)->upkeep(pair->ts.store);
    check_seqs(ts_ready(&pair->other, &TWO), seqs[2], seqs[3]);
    free(text);
}

/* Other processes that have looked in vain meanwhile look again. */
PAIR_TEST(others_are_told_that_they_are_free)
{
    struct store *other = pair->other.store;
    uint32_t notification;
    assert_int_equal(store_ops(other)->wait(other, 0, &notification, NULL), 0); /* it listens */
    start_two(pair);
    while (store_ops(other)->wait(other, 50, &notification, NULL) == 0 && notification != 0)
        ;
    store_ops(pair->ts.store)->upkeep(pair->ts.store);
    assert_int_equal(store_ops(other)->wait(other, 5000, &notification, NULL), 0);
    assert_int_equal(notification, STORE_NOTIFY_READY);
    check_free(pair);
}

PAIR_TEST(a_late_transaction_looks_again)
{
    start_two(pair);
    later_ns = 21 * INT64_C(1000000);
    const int64_t better = PUT(&pair->other, .priority = 1);
    begin(&pair->ts);
    check_seqs(READY(&pair->ts, .limit = 3), better, pair->seqs[2], pair->seqs[3]);
    ts_rollback(&pair->ts);
    wait_for_idle(pair, "0");
}

/* What they have answered is not taken for the answer to the next question. */
PAIR_TEST(a_claim_after_they_were_let_go_is_answered_anew)
{
    start_two(pair);
    store_ops(pair->ts.store)->upkeep(pair->ts.store);
    ts_begin(&pair->ts);
    check_seqs(READY(&pair->ts, .limit = 3), pair->seqs[2], pair->seqs[3], pair->seqs[4]);
    ts_rollback(&pair->ts);
}

PAIR_TEST(a_transaction_that_does_not_look_lets_them_go)
{
    start_two(pair);
    ts_settle(&pair->ts, pair->seqs[0], pair->tokens[0], decision_completed());
    check_free(pair);
}

PAIR_TEST(a_read_lets_them_go)
{
    start_two(pair);
    assert_int_equal(LIST(&pair->ts, .limit = 100)->n, JOBS);
    check_free(pair);
    assert_false(store_base(pair->ts.store)->wants_upkeep);
}

PAIR_TEST(a_wait_lets_them_go)
{
    assert_int_equal(store_ops(pair->ts.store)->wait(pair->ts.store, 0, NULL, NULL), 0);
    start_two(pair);
    assert_int_equal(store_ops(pair->ts.store)->wait(pair->ts.store, 10, NULL, NULL), 0);
    check_free(pair);
}

PAIR_TEST(a_handle_that_closes_lets_them_go)
{
    start_two(pair);
    ts_close(&pair->other);
    ts_join(&pair->other, &pair->ts);
    store_close(pair->ts.store);
    pair->ts.store = NULL;
    check_free(pair);
}

/* A transaction that starts one job and lets the commit look ahead; whether it has. */
static bool looks_ahead(struct pair *pair, int64_t seq)
{
    begin(&pair->ts);
    ts_start(&pair->ts, seq);
    look_ahead(&pair->ts, &TWO);
    ts_commit(&pair->ts);
    return store_base(pair->ts.store)->wants_upkeep;
}

/* After one claim in vain the next commit looks ahead, after several it does not. */
PAIR_TEST(claims_in_vain_become_fewer)
{
    unsigned looks = 0;
    for (int i = 0; i < 40; i++) {
        const bool is_ahead = looks_ahead(pair, PUT(&pair->ts, .priority = 0));
        assert_true(is_ahead || i > 1);
        looks += is_ahead;
        store_ops(pair->ts.store)->upkeep(pair->ts.store);
    }
    assert_in_range(looks, 5, 8);
    wait_for_idle(pair, "0");
    check_seqs(ts_ready(&pair->other, &TWO), pair->seqs[0], pair->seqs[1]);
}

PAIR_TEST(a_commit_that_is_refused_leaves_nothing_behind)
{
    start_two(pair);
    assert_int_equal(CHANGE(&pair->other, .seq = pair->seqs[0], .kind = MOVE_CANCEL).code, 0);
    begin(&pair->ts);
    ts_settle(&pair->ts, pair->seqs[0], pair->tokens[0], decision_completed());
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[2], pair->seqs[3]);
    ts_start(&pair->ts, pair->seqs[2]);
    look_ahead(&pair->ts, &TWO);
    assert_int_equal(store_ops(pair->ts.store)->commit(pair->ts.store, NULL), REDRIVE_E_CANCELLED);
    pair->ts.in_transaction = false;
    assert_false(store_base(pair->ts.store)->wants_upkeep);
    check_free(pair);
    /* The second try. */
    begin(&pair->ts);
    check_move(ts_settle(&pair->ts, pair->seqs[1], pair->tokens[1], decision_completed()), 0,
               REDRIVE_STATE_COMPLETED);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[2], pair->seqs[3]);
    ts_commit(&pair->ts);
}

/* The claim behind the COMMIT fails: that is no failure of the commit. */
PAIR_TEST(a_claim_that_fails_does_not_fail_the_commit)
{
    begin(&pair->ts);
    ts_start(&pair->ts, pair->seqs[0]);
    look_ahead(&pair->ts, &TWO);
    stores_postgres_sql(pair->ts.url, "ALTER TABLE redrive.shared RENAME TO elsewhere", NULL, 0);
    ts_commit(&pair->ts);
    stores_postgres_sql(pair->ts.url, "ALTER TABLE redrive.elsewhere RENAME TO shared", NULL, 0);
    assert_int_equal(ts_state(&pair->other, pair->seqs[0]), REDRIVE_STATE_RUNNING);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[1], pair->seqs[2]);
    ts_rollback(&pair->ts);
    wait_for_idle(pair, "0");
}

PAIR_TEST(a_lost_connection_frees_them)
{
    start_two(pair);
    stores_postgres_kill_all(pair->ts.url);
    check_free(pair);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[2], pair->seqs[3]);
    ts_rollback(&pair->ts);
}

PAIR_TEST(a_connection_that_is_lost_in_the_commit_is_known_by_its_outcome)
{
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[0], pair->seqs[1]);
    ts_start(&pair->ts, pair->seqs[0]);
    look_ahead(&pair->ts, &TWO);
    stores_postgres_kill_all(pair->ts.url);
    assert_int_equal(store_ops(pair->ts.store)->commit(pair->ts.store, NULL), REDRIVE_E_CANCELLED);
    assert_true(store_base(pair->ts.store)->is_rolled_back);
    pair->ts.in_transaction = false;
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[0], pair->seqs[1]);
    wait_for_idle(pair, "0");
}

/* A rollback of the transaction that has taken them over. */
PAIR_TEST(a_transaction_that_is_rolled_back_frees_them)
{
    start_two(pair);
    begin(&pair->ts);
    ts_rollback(&pair->ts);
    check_free(pair);
}

PAIR_TEST(a_cancel_by_another_is_made_when_they_are_free)
{
    start_two(pair);
    store_ops(pair->ts.store)->upkeep(pair->ts.store);
    wait_for_idle(pair, "0");
    check_move(CHANGE(&pair->other, .seq = pair->seqs[2], .kind = MOVE_CANCEL), 0,
               REDRIVE_STATE_CANCELLED);
    begin(&pair->ts);
    check_seqs(ts_ready(&pair->ts, &TWO), pair->seqs[3], pair->seqs[4]);
    ts_rollback(&pair->ts);
}
