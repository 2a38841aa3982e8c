/* Jobs that are looked for together with a commit: the next transaction need not ask for them, no
 * other is given them meanwhile, and they are free again if it does not come. */
#include "base/time/clock.h"
#include "handles.h"
#include "store_for_test.h"
#include "proxy.h"
#include "server.h"

#include <stdio.h>

#define JOBS 6

/* Longer than they are held, and not as long by far. */
#define TOO_LATE_MS 60
#define IN_TIME_MS  10
#define TRIES       200

static const struct claim_filter TWO = {.limit = 2};

struct pair {
    struct server server;
    struct store *store, *other;
};

static int open_pair(void **state)
{
    static struct pair pair;
    static const char *const IDS[JOBS] = {"a", "b", "c", "d", "e", "f"};
    server_start(&pair.server, NULL);
    pair.store = open_at(&pair.server);
    pair.other = open_at(&pair.server);
    for (size_t i = 0; i < JOBS; i++)
        put_committed(pair.store, IDS[i]);
    *state = &pair;
    return 0;
}

static int close_pair(void **state)
{
    struct pair *pair = *state;
    assert_int_equal(store_ops(pair->other)->verify(pair->other, NULL, NULL, NULL), 0);
    store_close(pair->store);
    store_close(pair->other);
    server_stop(&pair->server);
    return 0;
}

/* The seq of the first job that is given, 0 for none; how many there are goes to `ret_n`. */
static int64_t first_ready(struct store *store, const struct claim_filter *filter, size_t *ret_n)
{
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->ready(store, filter, &page, NULL), 0);
    const int64_t seq = page.n > 0 ? page.jobs[0].status.seq : 0;
    *ret_n = page.n;
    job_page_release(&page);
    return seq;
}

/* Starts jobs 1 and 2, and lets the commit look for the next two. */
static void start_two_and_look_ahead(struct store *store)
{
    size_t n;
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(first_ready(store, &TWO, &n), 1);
    assert_int_equal(n, 2);
    assert_int_equal(start(store, 1, 7), 0);
    assert_int_equal(start(store, 2, 7), 0);
    store_ops(store)->look_ahead(store, &TWO);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

/* The next transaction, which settles these two and claims; false: too late, whatever it was given.
 */
static bool claim_in_time(struct store *store, int64_t *ret_first)
{
    const int64_t since_ms = clock_monotonic_ms();
    size_t n;
    assert_int_equal(begin(store, NULL), 0);
    *ret_first = first_ready(store, &TWO, &n);
    assert_int_equal(n, 2);
    if (clock_monotonic_ms() - since_ms <= IN_TIME_MS)
        return true;
    rollback(store);
    return false;
}

/* Others may keep the machine busy: tried until it is in time, each time anew. */
static void try_anew(struct pair *pair, bool (*attempt)(struct pair *pair))
{
    for (int i = 0; i < TRIES; i++) {
        void *state = pair;
        if (attempt(pair))
            return;
        close_pair(&state);
        open_pair(&state);
    }
    fail_msg("never in time");
}

static bool claim_without_asking(struct pair *pair)
{
    struct store *store = pair->store;
    int64_t first;
    start_two_and_look_ahead(store);
    const long before = calls(&pair->server);
    if (!claim_in_time(store, &first))
        return false;
    assert_int_equal(first, 3);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(settle(store, 2, 7), 0);
    assert_int_equal(start(store, 3, 8), 0);
    assert_int_equal(start(store, 4, 8), 0);
    store_ops(store)->look_ahead(store, &TWO);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(calls(&pair->server) - before, 2); /* both in one request */
    if (!claim_in_time(store, &first))
        return false;
    assert_int_equal(first, 5);
    rollback(store);
    return true;
}

#define PAIR_TEST(test) TEST_WITH(test, open_pair, close_pair, struct pair *pair)

PAIR_TEST(the_next_claim_need_not_ask)
{
    try_anew(pair, claim_without_asking);
}

PAIR_TEST(no_other_is_given_them_meanwhile)
{
    size_t n;
    start_two_and_look_ahead(pair->store);
    assert_int_equal(begin(pair->other, NULL), 0);
    assert_int_equal(first_ready(pair->other, &TWO, &n), 5);
    rollback(pair->other);
}

PAIR_TEST(more_than_were_found_are_asked_for)
{
    const struct claim_filter four = {.limit = 4};
    size_t n;
    start_two_and_look_ahead(pair->store);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &four, &n), 3);
    assert_int_equal(n, 4);
    rollback(pair->store);
}

PAIR_TEST(what_is_not_wanted_is_free_after_the_commit)
{
    const struct claim_filter one = {.limit = 1};
    size_t n;
    start_two_and_look_ahead(pair->store);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &one, &n), 3);
    assert_int_equal(n, 1);
    assert_int_equal(start(pair->store, 3, 8), 0);
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), 0);
    assert_int_equal(begin(pair->other, NULL), 0);
    assert_int_equal(first_ready(pair->other, &TWO, &n), 4);
    rollback(pair->other);
}

PAIR_TEST(another_filter_asks)
{
    const struct str queues[] = {STR("elsewhere")};
    const struct claim_filter elsewhere = {.limit = 2, .queues = queues, .n_queues = 1};
    size_t n;
    start_two_and_look_ahead(pair->store);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &elsewhere, &n), 0);
    rollback(pair->store);
}

PAIR_TEST(they_are_let_go_when_no_claim_comes)
{
    size_t n;
    start_two_and_look_ahead(pair->store);
    assert_true(store_base(pair->store)->wants_upkeep);
    store_ops(pair->store)->upkeep(pair->store);
    assert_false(store_base(pair->store)->wants_upkeep);
    assert_int_equal(count_jobs(pair->store), JOBS); /* by now the server has heard of it */
    assert_int_equal(begin(pair->other, NULL), 0);
    assert_int_equal(first_ready(pair->other, &TWO, &n), 3);
    rollback(pair->other);
}

PAIR_TEST(a_late_claim_asks_again)
{
    size_t n;
    start_two_and_look_ahead(pair->store);
    pass_ms(TOO_LATE_MS);
    const long before = calls(&pair->server);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 3);
    assert_in_range(calls(&pair->server) - before, 2, 3); /* to let them go, and to ask */
    rollback(pair->store);
}

/* What was read is compared by the commit. */
static bool start_one_that_was_cancelled(struct pair *pair)
{
    int64_t first;
    size_t n;
    start_two_and_look_ahead(pair->store);
    assert_int_equal(begin(pair->other, NULL), 0);
    assert_int_equal(cancel(pair->other, 3), 0);
    assert_int_equal(store_ops(pair->other)->commit(pair->other, NULL), 0);
    if (!claim_in_time(pair->store, &first))
        return false;
    if (first != 3) { /* the cancel has taken too long */
        rollback(pair->store);
        return false;
    }
    assert_int_equal(start(pair->store, 3, 8), 0);
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), REDRIVE_E_CANCELLED);
    rollback(pair->store);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 4);
    rollback(pair->store);
    return true;
}

PAIR_TEST(one_that_was_cancelled_meanwhile_does_not_start)
{
    try_anew(pair, start_one_that_was_cancelled);
}

/* The commit is refused, and what went along with it is of no use to its second try. */
PAIR_TEST(a_refused_commit_leaves_nothing_behind)
{
    size_t n;
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 1);
    assert_int_equal(start(pair->store, 1, 7), 0);
    assert_int_equal(begin(pair->other, NULL), 0);
    assert_int_equal(cancel(pair->other, 1), 0);
    assert_int_equal(store_ops(pair->other)->commit(pair->other, NULL), 0);
    store_ops(pair->store)->look_ahead(pair->store, &TWO);
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), REDRIVE_E_CANCELLED);
    rollback(pair->store);
    start_committed(pair->store, 2, 7);
    assert_int_equal(settle_committed(pair->store, 2, 7), 0);
    assert_int_equal(count_jobs(pair->store), JOBS);
}

/* The jobs that its commit has let go are those that were looked for: the second try is given
 * them. */
PAIR_TEST(a_refused_commit_keeps_no_job_from_its_second_try)
{
    size_t n;
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 1);
    assert_int_equal(start(pair->store, 1, 7), 0);
    assert_int_equal(begin(pair->other, NULL), 0);
    assert_int_equal(cancel(pair->other, 1), 0);
    assert_int_equal(store_ops(pair->other)->commit(pair->other, NULL), 0);
    store_ops(pair->store)->look_ahead(pair->store, &TWO);
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), REDRIVE_E_CANCELLED);
    rollback(pair->store);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 2);
    assert_int_equal(n, 2);
    rollback(pair->store);
}

/* A commit that adds to a limit answers with its sums. */
PAIR_TEST(a_commit_with_a_limit_loses_none)
{
    struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    struct merged_gate sums;
    struct move_result result;
    size_t n;
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(store_ops(pair->store)->shared_put(pair->store, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), 0);
    row.is_delta = true;
    row.add.used = 1;
    row.max_used = 5;
    row.merged = &sums;
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 1);
    assert_int_equal(start(pair->store, 1, 7), 0);
    assert_int_equal(store_ops(pair->store)->shared_put(pair->store, &row, 1, &result, NULL), 0);
    store_ops(pair->store)->look_ahead(pair->store, &TWO);
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), 0);
    assert_int_equal(sums.sums.used, 1);
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 2);
    assert_int_equal(n, 2);
    rollback(pair->store);
}

/* The request has not come, and the reply to what went along with it is not waited for. */
PAIR_TEST(a_connection_that_breaks_at_the_commit_is_missed_by_none)
{
    struct proxy proxy;
    struct server through = pair->server;
    size_t n;
    proxy_start(&proxy, pair->server.port);
    snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
    struct store *store = open_at(&through);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(first_ready(store, &TWO, &n), 1);
    assert_int_equal(start(store, 1, 7), 0);
    store_ops(store)->look_ahead(store, &TWO);
    atomic_store(&proxy.loses, true);
    const int64_t since_ms = clock_monotonic_ms();
    assert_int_equal(store_ops(store)->commit(store, NULL), 0); /* it was made */
    assert_int_equal(settle_committed(store, 1, 7), 0);
    assert_int_equal(count_jobs(store), JOBS);
    assert_in_range(clock_monotonic_ms() - since_ms, 0, 8000);
    store_close(store);
    proxy_stop(&proxy);
}

/* Somebody has deleted the functions: they are brought again, and the commit is made. */
PAIR_TEST(functions_that_are_gone_are_brought_again)
{
    size_t n;
    assert_int_equal(begin(pair->store, NULL), 0);
    assert_int_equal(first_ready(pair->store, &TWO, &n), 1);
    assert_int_equal(start(pair->store, 1, 7), 0);
    store_ops(pair->store)->look_ahead(pair->store, &TWO);
    (void)server_call(&pair->server, "FUNCTION FLUSH");
    assert_int_equal(store_ops(pair->store)->commit(pair->store, NULL), 0);
    assert_int_equal(settle_committed(pair->store, 1, 7), 0);
}
