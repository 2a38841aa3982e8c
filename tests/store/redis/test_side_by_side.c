/* Transactions of several handles at once: nobody waits, and what they go by is compared at the
 * end. */
#include "handles.h"
#include "store_for_test.h"
#include "proxy.h"
#include "server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"

SERVER_TEST(nobody_waits_for_an_open_transaction, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "first", NULL), 0);
    const int64_t since_ms = clock_monotonic_ms();
    put_committed(other, "second");
    assert_true(clock_monotonic_ms() - since_ms < 5000);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(count_jobs(store), 2);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

/* However long it takes. */
SERVER_TEST(a_late_commit_is_made_if_nothing_has_moved, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "a");
    start_committed(store, 1, 7);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), 0);
    pass_ms(2500);
    put_committed(other, "b");
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    store_close(store);
    store_close(other);
}

static int submit_with_key(struct store *store, const char *id, bool forever)
{
    const struct job_spec spec = {.tenant = STR("acme"),
                                  .id = str_of(id),
                                  .task = STR("mail"),
                                  .queue = STR("main"),
                                  .unique_key = STR("k"),
                                  .unique_forever = forever};
    struct submit_result result;
    struct arena arena;
    arena_init(&arena);
    int rc = store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL);
    arena_release(&arena);
    return rc < 0 ? rc : result.code;
}

TEST(of_two_with_the_same_id_or_key_the_second_is_refused)
{
    for (int way = 0; way < 3; way++) {
        struct server s;
        server_start(&s, NULL);
        struct store *store = open_at(&s), *other = open_at(&s);
        struct store *both[] = {store, other};
        for (int i = 0; i < 2; i++) {
            const char *id = way == 0 || i == 0 ? "a" : "b";
            assert_int_equal(begin(both[i], NULL), 0);
            assert_int_equal(
                way == 0 ? put(both[i], id, NULL) : submit_with_key(both[i], id, way == 2), 0);
        }
        assert_int_equal(store_ops(other)->commit(other, NULL), 0);
        assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
        rollback(store);
        assert_int_equal(begin(store, NULL), 0);
        assert_int_equal(way == 0 ? put(store, "a", NULL) : submit_with_key(store, "a", way == 2),
                         REDRIVE_E_EXISTS);
        rollback(store);
        assert_int_equal(count_jobs(store), 1);
        store_close(store);
        store_close(other);
        server_stop(&s);
    }
}

/* Who submits after another's commit has the higher seq; a seq of a transaction that was rolled
 * back, or that a restart has forgotten, is never one that a job has. */
SERVER_TEST(seqs_follow_each_other, DURABLE)
{
    struct store *store = open_at(s), *other = open_at(s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "never", NULL), 0);
    put_committed(other, "first");
    rollback(store);
    put_committed(store, "second");
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "half", NULL), 0);
    server_restart(s);
    put_committed(other, "third");
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    put_committed(store, "fourth");
    struct job_page page = {0};
    const struct job_filter all = {.limit = 10};
    assert_int_equal(store_ops(store)->list(store, &all, &page, NULL), 0);
    assert_int_equal(page.n, 4);
    const char *const ids[] = {"first", "second", "third", "fourth"};
    for (size_t i = 0; i < 4; i++)
        assert_true(str_is(page.jobs[i].spec.id, ids[i]));
    job_page_release(&page);
    store_close(store);
    store_close(other);
}

/* What processes share has changed since the transaction has begun: a claim would go by what is no
 * longer so.
 */
SERVER_TEST(a_claim_notices_that_something_shared_has_changed, NULL)
{
    struct job_page page = {0};
    const struct claim_filter any = {.limit = 1};
    struct shared_row row = {.kind = SHARED_BREAKER, .tenant = STR("acme"), .key = STR("b")};
    struct move_result result;
    int64_t now, before, after;
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "a");
    assert_int_equal(store_ops(store)->begin(store, 0, &now, &before, NULL), 0);
    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(store_ops(other)->shared_put(other, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(store_ops(store)->ready(store, &any, &page, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    assert_int_equal(store_ops(store)->begin(store, 0, &now, &after, NULL), 0);
    assert_int_equal(after, before + 1);
    assert_int_equal(store_ops(store)->ready(store, &any, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    /* And a put of a version that is gone is refused as a whole, then by itself. */
    assert_int_equal(begin(other, NULL), 0);
    row.version = 1;
    assert_int_equal(store_ops(other)->shared_put(other, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, REDRIVE_E_STATE);
    rollback(store);
    job_page_release(&page);
    store_close(store);
    store_close(other);
}

SERVER_TEST(nothing_starts_in_a_queue_that_was_paused_meanwhile, NULL)
{
    const struct shared_row row = {
        .kind = SHARED_PAUSE, .tenant = STR("acme"), .key = STR("main"), .value = STR("1")};
    struct move_result result;
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "a");
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(count_ready(store), 1);
    assert_int_equal(begin(other, NULL), 0);
    assert_int_equal(store_ops(other)->shared_put(other, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(start(store, 1, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(count_ready(store), 0);
    rollback(store);
    start_committed(store, 1, 7); /* by its seq it can be started all the same */
    store_close(store);
    store_close(other);
}

/* ---- Commits whose answers are lost ---------------------------------------------------------- */

/* The request arrives after it was asked what has become of it: by then it is given up. */
TEST(a_commit_that_comes_after_the_question_is_refused)
{
    struct server s;
    struct proxy proxy;
    server_start(&s, NULL);
    proxy_start(&proxy, s.port);
    struct server through = s;
    snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
    struct store *store = open_at(&through), *other = open_at(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "late", NULL), 0);
    atomic_store(&proxy.keeps, true);
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    assert_true(store_base(store)->is_rolled_back);
    rollback(store);
    proxy_deliver(&proxy);
    assert_int_equal(count_jobs(other), 0);
    put_committed(store, "late");
    assert_int_equal(count_jobs(other), 1);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
    proxy_stop(&proxy);
    server_stop(&s);
}

static int add_slot(struct store *store, int64_t max_used, struct merged_gate *ret)
{
    const struct shared_row row = {.kind = SHARED_LIMIT,
                                   .tenant = STR("acme"),
                                   .key = STR("l"),
                                   .is_delta = true,
                                   .add = {1, 0},
                                   .max_used = max_used,
                                   .merged = ret};
    struct move_result result;
    int rc = begin(store, NULL);
    if (rc == 0)
        rc = store_ops(store)->shared_put(store, &row, 1, &result, NULL);
    return rc == 0 ? store_ops(store)->commit(store, NULL) : rc;
}

/* Neither one that comes late nor one whose answer is lost counts twice. */
TEST(a_slot_is_taken_once_whatever_becomes_of_the_commit)
{
    struct server s;
    struct proxy proxy;
    const struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    struct move_result result;
    struct merged_gate sums;
    server_start(&s, NULL);
    proxy_start(&proxy, s.port);
    struct server through = s;
    snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
    struct store *store = open_at(&through), *other = open_at(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    atomic_store(&proxy.keeps, true);
    assert_int_equal(add_slot(store, 9, &sums), REDRIVE_E_CANCELLED);
    rollback(store);
    proxy_deliver(&proxy);
    assert_int_equal(add_slot(other, 9, &sums), 0);
    assert_int_equal(sums.sums.used, 1);
    assert_int_equal(begin(store, NULL), 0);
    rollback(store);
    atomic_store(&proxy.loses, true);
    assert_int_equal(add_slot(store, 9, &sums), 0); /* it was made, and so the server says */
    assert_int_equal(sums.sums.used, -1);           /* but not what the sum has come to */
    assert_int_equal(add_slot(other, 9, &sums), 0);
    assert_int_equal(sums.sums.used, 3);
    store_close(store);
    store_close(other);
    proxy_stop(&proxy);
    server_stop(&s);
}

/* Two transactions that add to one limit at the same time are both made, up to its maximum. */
SERVER_TEST(transactions_that_add_to_one_limit_do_not_meet, NULL)
{
    struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    struct move_result result;
    struct merged_gate sums[2];
    struct store *a = open_at(s), *b = open_at(s);
    assert_int_equal(begin(a, NULL), 0);
    assert_int_equal(store_ops(a)->shared_put(a, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(a)->commit(a, NULL), 0);
    row.is_delta = true;
    row.add.used = 1;
    row.max_used = 3;
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(begin(a, NULL), 0);
        assert_int_equal(begin(b, NULL), 0);
        row.merged = &sums[0];
        assert_int_equal(store_ops(a)->shared_put(a, &row, 1, &result, NULL), 0);
        row.merged = &sums[1];
        assert_int_equal(store_ops(b)->shared_put(b, &row, 1, &result, NULL), 0);
        assert_int_equal(store_ops(b)->commit(b, NULL), 0);
        assert_int_equal(sums[1].sums.used, 2 * i + 1);
        assert_int_equal(store_ops(a)->commit(a, NULL), i == 0 ? 0 : REDRIVE_E_CANCELLED);
        rollback(a);
    }
    assert_int_equal(sums[0].sums.used, -1);
    assert_int_equal(sums[1].sums.used, 3);
    store_close(a);
    store_close(b);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define HANDS 8
#define EACH  60

/* Of one shared row each transaction takes the next number: no two the same, however they meet. */
struct hand {
    pthread_t thread;
    struct store *store;
    int who;
    int tries;
    int most_tries;
    int64_t taken[EACH];
};

static int64_t shared_number(struct store *store, struct shared_row *row)
{
    struct shared_page page = {0};
    int64_t number = -1;
    if (store_ops(store)->shared_list(store, row->kind, row->tenant, &page, NULL) == 0) {
        row->version = page.n > 0 ? page.rows[0].version : 0;
        number = page.n > 0 ? strtoll(page.rows[0].value.ptr, NULL, 10) : 0;
    }
    shared_page_release(&page);
    return number;
}

static int take_number(struct hand *h, int64_t *ret)
{
    struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    struct move_result result;
    char value[32];
    if (begin(h->store, NULL) != 0)
        return REDRIVE_E_IO;
    const int64_t number = shared_number(h->store, &row);
    snprintf(value, sizeof value, "%lld ", (long long)number + 1);
    row.value = str_of(value);
    int rc = number < 0 ? REDRIVE_E_CANCELLED
                        : store_ops(h->store)->shared_put(h->store, &row, 1, &result, NULL);
    if (rc == 0 && result.code != 0)
        rc = REDRIVE_E_CANCELLED;
    if (rc == 0)
        rc = store_ops(h->store)->commit(h->store, NULL);
    if (rc != 0)
        rollback(h->store);
    *ret = number;
    return rc;
}

static void *take_numbers(void *arg)
{
    struct hand *h = arg;
    for (int i = 0; i < EACH; i++) {
        int tries = 1;
        int rc;
        while ((rc = take_number(h, &h->taken[i])) == REDRIVE_E_CANCELLED) {
            /* As the engine does: who was in the way goes first. */
            pass_ms(rand() % (tries < 5 ? 1 << tries : 32));
            tries++;
        }
        if (rc != 0)
            return NULL;
        h->tries += tries;
        h->most_tries = tries > h->most_tries ? tries : h->most_tries;
    }
    return h;
}

SERVER_TEST(eight_who_want_the_same_row_all_get_on, NULL)
{
    struct hand hands[HANDS];
    static bool seen[HANDS * EACH];
    for (int i = 0; i < HANDS; i++)
        hands[i] = (struct hand){.store = open_at(s), .who = i};
    for (int i = 0; i < HANDS; i++)
        assert_int_equal(pthread_create(&hands[i].thread, NULL, take_numbers, &hands[i]), 0);
    for (int i = 0; i < HANDS; i++) {
        void *done;
        pthread_join(hands[i].thread, &done);
        assert_non_null(done);
        assert_true(hands[i].most_tries < 50); /* after which the engine gives up */
        for (int k = 0; k < EACH; k++) {
            assert_in_range(hands[i].taken[k], 0, HANDS * EACH - 1);
            assert_false(seen[hands[i].taken[k]]);
            seen[hands[i].taken[k]] = true;
        }
        store_close(hands[i].store);
    }
}
