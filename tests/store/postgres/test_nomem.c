/* A commit for which memory runs out: what was reported as not made is not made. */
#include <stdio.h>

#include "store_for_test.h"

static bool is_counting;
static unsigned n_allocations, fails_at;

/* One allocation of the store fails; those of libpq are its own. */
static bool may_allocate(void)
{
    return !is_counting || ++n_allocations != fails_at;
}

#include "nomem.h"

#define MOST_PUTS 12

static void put_limits(struct test_store *ts)
{
    char key[16];
    for (int i = 0; i < MOST_PUTS; i++) {
        snprintf(key, sizeof key, "k%d", i);
        const struct shared_row row = {
            .kind = SHARED_LIMIT, .tenant = STR("acme"), .key = str_of(key), .value = STR("{}")};
        assert_int_equal(ts_shared_put(ts, &row), 0);
    }
}

/* A job and changes of limits, each of which is a statement of the commit, on a handle of its own:
 * the room for statements is that of the first ones. True: the allocation that was to fail was not
 * needed. */
static bool commit_without_memory(struct test_store *a, int n_puts, unsigned nth)
{
    struct test_store b;
    struct merged_gate sums;
    char id[32], key[16];
    ts_join(&b, a);
    snprintf(id, sizeof id, "%d-%u", n_puts, nth);
    (void)ts_shared(&b, SHARED_LIMIT, STR("acme"));
    ts_begin(&b);
    PUT(&b, .id = str_of(id));
    for (int i = 0; i < n_puts; i++) {
        snprintf(key, sizeof key, "k%d", i);
        struct shared_row row = {.kind = SHARED_LIMIT,
                                 .tenant = STR("acme"),
                                 .key = str_of(key),
                                 .is_delta = true,
                                 .merged = &sums,
                                 .add.used = 1};
        assert_int_equal(ts_shared_put(&b, &row), 0);
    }
    n_allocations = 0;
    fails_at = nth;
    is_counting = true;
    const int rc = store_ops(b.store)->commit(b.store, NULL);
    store_ops(b.store)->rollback(b.store);
    is_counting = false;
    b.in_transaction = false;
    const bool is_there = LIST(a, .id = str_of(id), .limit = 1)->n > 0;
    if (is_there != (rc == 0))
        fail_msg("%d changes, allocation %u: the commit says %d, and the job is%s there", n_puts,
                 nth, rc, is_there ? "" : " not");
    ts_close(&b);
    return n_allocations < nth;
}

STORE_TEST(what_was_reported_as_not_made_is_not_made)
{
    struct test_store *a = ts;
    put_limits(a);
    for (int n_puts = 0; n_puts <= MOST_PUTS; n_puts++)
        for (unsigned nth = 1; !commit_without_memory(a, n_puts, nth); nth++)
            assert_true(nth < 100);
}
