/* store_for_test.h - a store and a clock for a test, with short words for what tests do all the
 * time.
 *
 * Each verb runs in a transaction of its own, unless the test has begun one. A verb whose slot
 * fails as a whole fails the test; a move that is refused is the test's own affair. What a read
 * gives lives until the next read of the same kind.
 */
#ifndef TESTS_STORE_STORE_FOR_TEST_H
#define TESTS_STORE_STORE_FOR_TEST_H

#include "check.h"

#include "store/store.h"
#include "stores.h"

#define TS_START_MS INT64_C(1700000000000)

struct test_store {
    struct store *store;
    char url[STORES_URL_MAX];
    bool owns_url;
    bool in_transaction;
    int64_t now_ms;
    int64_t shared_version; /* at the last begin */
    unsigned n_ids;
    uint64_t next_token;
    struct arena arena; /* of submits */
    struct job_page one;
    struct job_page page;
    struct attempt_page attempts;
    struct count_page queues;
    struct count_page partitions;
    struct count_page gates;
    struct group_page groups;
    struct shared_page shared;
    struct counter_page counters;
    struct remembered_key_page held;
};

/* -- Life cycle: as a cmocka fixture, or by hand -- */

void ts_open(struct test_store *ts, const char *store_name);
/* A second handle on the same store, as another process would have. */
void ts_join(struct test_store *ts, const struct test_store *other);
void ts_close(struct test_store *ts);

int ts_setup(void **state);
int ts_teardown(void **state);

/* In a place that was never used: for tests that read what a server counts. */
int ts_setup_new(void **state);

#define STORE_TEST(test) TEST_WITH(test, ts_setup, ts_teardown, struct test_store *ts)

/* -- Transactions -- */

void ts_begin(struct test_store *ts);
int ts_try_begin(struct test_store *ts);
void ts_commit(struct test_store *ts);
void ts_rollback(struct test_store *ts);

/* -- Moves -- */

/* Fields that are left out: tenant "acme", an id of its own, task "mail", queue "main", payload
 * "{}", 5 attempts. */
#define PUT(ts, ...)     ts_put(ts, &(struct job_spec){__VA_ARGS__})
#define TRY_PUT(ts, ...) ts_try_put(ts, &(struct job_spec){__VA_ARGS__})
int64_t ts_put(struct test_store *ts, const struct job_spec *spec); /* seq of a job that is new */
struct submit_result ts_try_put(struct test_store *ts, const struct job_spec *spec);

/* Starts with a new token and a lease of 30 s; must succeed. */
uint64_t ts_start(struct test_store *ts, int64_t seq);
struct move_result ts_try_start(struct test_store *ts, const struct start_move *move);

struct move_result ts_settle(struct test_store *ts, int64_t seq, uint64_t token,
                             struct decision decision);
struct move_result ts_settle_with(struct test_store *ts, const struct settle_move *move);
struct move_result ts_extend(struct test_store *ts, int64_t seq, uint64_t token, int64_t until_ms);
struct move_result ts_park(struct test_store *ts, int64_t seq, bool by_limit);
struct move_result ts_unpark(struct test_store *ts, int64_t seq);
#define CHANGE(ts, ...) ts_change(ts, &(struct change_move){__VA_ARGS__})
struct move_result ts_change(struct test_store *ts, const struct change_move *move);
size_t ts_sweep(struct test_store *ts, uint32_t states, int64_t before_ms, size_t limit);
size_t ts_promote(struct test_store *ts, size_t limit, int64_t *ret_next_ms);
int ts_shared_put(struct test_store *ts, const struct shared_row *row); /* the result's code */
void ts_pause(struct test_store *ts, struct str tenant, struct str queue);
void ts_count(struct test_store *ts, struct counter counter);
struct move_result ts_import(struct test_store *ts, const struct imported_job *job);
void ts_import_keys(struct test_store *ts, const struct remembered_key *keys, size_t n);

/* What decide() says in its simplest forms. */
struct decision decision_completed(void);
struct decision decision_retrying(int64_t delay_ms);
struct decision decision_ended(enum redrive_state state, enum redrive_reason reason);
struct decision decision_released(void);
struct decision decision_snoozed(int64_t delay_ms);
struct decision decision_cancelled(void);

/* Puts a job and takes it to a state, by the shortest way. */
int64_t ts_put_in(struct test_store *ts, enum redrive_state state, const struct job_spec *spec);

/* Jobs of tenant "big", dead letters and retrying ones, and beside them a few of tenant "small" in
 * several states: at the beginning, in the middle and at the end. `others` is a multiple of 100. */
void ts_fill_tenants(struct test_store *ts, int others);
/* All pages of tenant "small" are as they should be, in every order, and so are its dead letters.
 */
void ts_check_small_tenant(struct test_store *ts);

/* One job in every state that a view shows: what the views of the SQL stores are read with. */
void ts_fill_views(struct test_store *ts);

/* -- Reads; a limit that is left out is 100 -- */

const struct job *ts_job(struct test_store *ts, int64_t seq); /* NULL: there is none */
enum redrive_state ts_state(struct test_store *ts, int64_t seq);
#define LIST(ts, ...) ts_list(ts, &(struct job_filter){__VA_ARGS__})
struct job_page *ts_list(struct test_store *ts, const struct job_filter *filter);
#define READY(ts, ...) ts_ready(ts, &(struct claim_filter){__VA_ARGS__})
struct job_page *ts_ready(struct test_store *ts, const struct claim_filter *filter);
struct job_page *ts_scan(struct test_store *ts, struct scan *scan);
struct job_page *ts_parked(struct test_store *ts, struct str gate, enum scan_index order,
                           size_t limit);
struct job_page *ts_overdue(struct test_store *ts, size_t limit, int64_t *ret_next_ms);
struct job_page *ts_expired(struct test_store *ts, size_t limit, int64_t *ret_next_ms);
struct attempt_page *ts_history(struct test_store *ts, int64_t seq);
struct count_page *ts_queues(struct test_store *ts, struct str tenant);
struct count_page *ts_partitions(struct test_store *ts, struct str tenant);
struct count_page *ts_gates(struct test_store *ts, struct str tenant);
struct count_page *ts_running(struct test_store *ts, struct str tenant);
struct remembered_key_page *ts_held(struct test_store *ts, struct str after_tenant,
                                    struct str after_key, size_t limit);
struct shared_page *ts_shared(struct test_store *ts, enum shared_kind kind, struct str tenant);

/* The seqs of a page are exactly these, in this order; ends with 0. */
#define check_seqs(page, ...) \
    check_seqs_(page, (const int64_t[]){__VA_ARGS__, 0}, __FILE__, __LINE__)
void check_seqs_(const struct job_page *page, const int64_t *seqs, const char *file, int line);

#define check_move(result, code_, state_)     \
    do {                                      \
        struct move_result r_ = (result);     \
        assert_int_equal(r_.code, code_);     \
        assert_int_equal(r_.state, (state_)); \
    } while (0)

#define STATE_BIT(name) (1u << REDRIVE_STATE_##name)

#endif
