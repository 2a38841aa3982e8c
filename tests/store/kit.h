/* kit.h - a store and a clock for a test, with short words for what tests do all the time.
 *
 * Each verb runs in a transaction of its own, unless the test has begun one. A verb whose slot
 * fails as a whole fails the test; a move that is refused is the test's own affair. What a read
 * gives lives until the next read of the same kind.
 */
#ifndef TESTS_STORE_KIT_H
#define TESTS_STORE_KIT_H

#include "check.h"

#include "store/store.h"
#include "stores.h"

#define KIT_START_MS INT64_C(1700000000000)

struct kit {
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

void kit_open(struct kit *kit, const char *store_name);
/* A second handle on the same store, as another process would have. */
void kit_join(struct kit *kit, const struct kit *other);
void kit_close(struct kit *kit);

int kit_setup(void **state);
int kit_teardown(void **state);

/* In a place that was never used: for tests that read what a server counts. */
int kit_setup_new(void **state);

#define KIT_TEST(test) TEST_WITH(test, kit_setup, kit_teardown, struct kit *k)

/* -- Transactions -- */

void kit_begin(struct kit *kit);
int kit_try_begin(struct kit *kit);
void kit_commit(struct kit *kit);
void kit_rollback(struct kit *kit);

/* -- Moves -- */

/* Fields that are left out: tenant "acme", an id of its own, task "mail", queue "main", payload
 * "{}", 5 attempts. */
#define PUT(kit, ...)     kit_put(kit, &(struct job_spec){__VA_ARGS__})
#define TRY_PUT(kit, ...) kit_try_put(kit, &(struct job_spec){__VA_ARGS__})
int64_t kit_put(struct kit *kit, const struct job_spec *spec); /* seq of a job that is new */
struct submit_result kit_try_put(struct kit *kit, const struct job_spec *spec);

/* Starts with a new token and a lease of 30 s; must succeed. */
uint64_t kit_start(struct kit *kit, int64_t seq);
struct move_result kit_try_start(struct kit *kit, const struct start_move *move);

struct move_result kit_settle(struct kit *kit, int64_t seq, uint64_t token,
                              struct decision decision);
struct move_result kit_settle_with(struct kit *kit, const struct settle_move *move);
struct move_result kit_extend(struct kit *kit, int64_t seq, uint64_t token, int64_t until_ms);
struct move_result kit_park(struct kit *kit, int64_t seq, bool by_limit);
struct move_result kit_unpark(struct kit *kit, int64_t seq);
#define CHANGE(kit, ...) kit_change(kit, &(struct change_move){__VA_ARGS__})
struct move_result kit_change(struct kit *kit, const struct change_move *move);
size_t kit_sweep(struct kit *kit, uint32_t states, int64_t before_ms, size_t limit);
size_t kit_promote(struct kit *kit, size_t limit, int64_t *ret_next_ms);
int kit_shared_put(struct kit *kit, const struct shared_row *row); /* the result's code */
void kit_pause(struct kit *kit, struct str tenant, struct str queue);
void kit_count(struct kit *kit, struct counter counter);
struct move_result kit_import(struct kit *kit, const struct imported_job *job);
void kit_import_keys(struct kit *kit, const struct remembered_key *keys, size_t n);

/* What decide() says in its simplest forms. */
struct decision decision_completed(void);
struct decision decision_retrying(int64_t delay_ms);
struct decision decision_ended(enum redrive_state state, enum redrive_reason reason);
struct decision decision_released(void);
struct decision decision_snoozed(int64_t delay_ms);
struct decision decision_cancelled(void);

/* Puts a job and takes it to a state, by the shortest way. */
int64_t kit_put_in(struct kit *kit, enum redrive_state state, const struct job_spec *spec);

/* Jobs of tenant "big", dead letters and retrying ones, and beside them a few of tenant "small" in
 * several states: at the beginning, in the middle and at the end. `others` is a multiple of 100. */
void kit_fill_tenants(struct kit *kit, int others);
/* All pages of tenant "small" are as they should be, in every order, and so are its dead letters.
 */
void kit_check_small_tenant(struct kit *kit);

/* One job in every state that a view shows: what the views of the SQL stores are read with. */
void kit_fill_views(struct kit *kit);

/* -- Reads; a limit that is left out is 100 -- */

const struct job *kit_job(struct kit *kit, int64_t seq); /* NULL: there is none */
enum redrive_state kit_state(struct kit *kit, int64_t seq);
#define LIST(kit, ...) kit_list(kit, &(struct job_filter){__VA_ARGS__})
struct job_page *kit_list(struct kit *kit, const struct job_filter *filter);
#define READY(kit, ...) kit_ready(kit, &(struct claim_filter){__VA_ARGS__})
struct job_page *kit_ready(struct kit *kit, const struct claim_filter *filter);
struct job_page *kit_scan(struct kit *kit, struct scan *scan);
struct job_page *kit_parked(struct kit *kit, struct str gate, enum scan_index order, size_t limit);
struct job_page *kit_overdue(struct kit *kit, size_t limit, int64_t *ret_next_ms);
struct job_page *kit_expired(struct kit *kit, size_t limit, int64_t *ret_next_ms);
struct attempt_page *kit_history(struct kit *kit, int64_t seq);
struct count_page *kit_queues(struct kit *kit, struct str tenant);
struct count_page *kit_partitions(struct kit *kit, struct str tenant);
struct count_page *kit_gates(struct kit *kit, struct str tenant);
struct count_page *kit_running(struct kit *kit, struct str tenant);
struct remembered_key_page *kit_held(struct kit *kit, struct str after_tenant, struct str after_key,
                                     size_t limit);
struct shared_page *kit_shared(struct kit *kit, enum shared_kind kind, struct str tenant);

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
