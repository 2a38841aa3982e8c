/* Random transactions on the store under test and on the memory store: what they answer and what
 * they keep must be the same. REDRIVE_STORE_SEED repeats a run, REDRIVE_STORE_TRANSACTIONS sets its
 * length. */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "dump.h"
#include "store_for_test.h"
#include "random_transaction.h"

/* A dump reads what the store has committed; between dumps transactions follow each other at once.
 */
#define DUMP_EVERY 4
#define LOOK_EVERY 20 /* for states only */

static uint64_t number_from(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : fallback;
}

struct world {
    struct test_store ts;
    struct random_side side;
    struct buf answers;
    struct buf dump;
};

/* Few enough that the random jobs of a user, and their errors of a type, are now fewer and now
 * more. */
#define NARROW 8

/* The memory store has nothing that outlives its handle, and takes no notice. */
static void reopen_narrow(struct world *w)
{
    const struct store_options options = {
        .caller_time = true, .busy_wait_ms = 500, .narrow = NARROW};
    store_close(w->ts.store);
    w->ts.store = NULL;
    assert_int_equal(store_open(w->ts.url, &options, &w->ts.store, NULL), 0);
}

static void world_init(struct world *w, const char *store)
{
    ts_open(&w->ts, store);
    if (strcmp(store, "memory") != 0)
        reopen_narrow(w);
    buf_init(&w->answers, 1 << 20);
    buf_init(&w->dump, 1 << 22);
    random_side_init(&w->side, w->ts.store, &w->answers);
    /* On Redis jobs that were looked for are kept from a claim by another filter, for a moment. */
    w->side.looks_ahead = strcmp(store, "redis") != 0;
}

static void world_release(struct world *w)
{
    random_side_release(&w->side);
    buf_release(&w->answers);
    buf_release(&w->dump);
    ts_close(&w->ts);
}

/* The first line that differs, for a message that can be read. */
static void explain(const char *what, const char *expected, const char *is)
{
    size_t partition = 0, i = 0;
    for (; expected[i] && expected[i] == is[i]; i++)
        if (expected[i] == '\n')
            partition = i + 1;
    print_error("%s\n  memory: %.*s\n  tested: %.*s\n", what,
                (int)strcspn(expected + partition, "\n"), expected + partition,
                (int)strcspn(is + partition, "\n"), is + partition);
}

static void check_same(const struct buf *expected, const struct buf *is, const char *what,
                       uint64_t seed, uint64_t transaction)
{
    if (str_eq(buf_str(expected), buf_str(is)))
        return;
    explain(what, buf_cstr(expected), buf_cstr(is));
    fail_msg("REDRIVE_STORE_SEED=%" PRIu64 ", transaction %" PRIu64, seed, transaction);
}

TEST(random_transactions_leave_what_they_leave_in_the_model)
{
    uint64_t seed = number_from("REDRIVE_STORE_SEED", 20240229);
    uint64_t transactions = number_from("REDRIVE_STORE_TRANSACTIONS", 1500);
    struct world model, tested;
    world_init(&model, "memory");
    world_init(&tested, stores_name());
    for (uint64_t transaction = 0; transaction < transactions; transaction++) {
        uint64_t transaction_seed = rng_mix(seed + transaction);
        random_transaction(&model.side, transaction_seed);
        random_transaction(&tested.side, transaction_seed);
        check_same(&model.answers, &tested.answers, "answers differ", seed, transaction);
        if (transaction % DUMP_EVERY != 0)
            continue;
        dump_store(model.ts.store, &model.dump);
        dump_store(tested.ts.store, &tested.dump);
        check_same(&model.dump, &tested.dump, "what is kept differs", seed, transaction);
    }
    world_release(&model);
    world_release(&tested);
}

/* The generator must reach what it is for. */
TEST(random_transactions_reach_every_state)
{
    struct world w;
    unsigned seen = 0, commits = 0, rollbacks = 0;
    world_init(&w, stores_name());
    for (uint64_t transaction = 0; transaction < 300; transaction++) {
        random_transaction(&w.side, rng_mix(transaction));
        commits += strstr(buf_cstr(&w.answers), "commit") != NULL;
        rollbacks += strstr(buf_cstr(&w.answers), "rollback") != NULL;
        if (transaction % LOOK_EVERY != 0)
            continue;
        dump_store(w.ts.store, &w.dump);
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            if (strstr(buf_cstr(&w.dump), redrive_state_name((enum redrive_state)s)))
                seen |= 1u << s;
    }
    assert_int_equal(seen, (1u << REDRIVE_STATE_COUNT) - 1);
    assert_true(commits > 100 && rollbacks > 30);
    world_release(&w);
}
