/* Memory that runs out at the nth allocation of a walk over the children of a job that has ended,
 * for every n: each child is skipped and says why, or the caller is told. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/after.h"
#include "engine/copy/load.h"
#include "engine/verbs/after.h"
#include "store/store.h"

#define N_CHILDREN 60 /* enough that their messages need memory of their own */

/* ---- An allocator that fails on demand (linked with --wrap) ---------------------------------- */

static long until_failure = -1; /* allocations before the one that fails; -1: none does */

static bool may_allocate(void)
{
    return until_failure < 0 || until_failure-- > 0;
}

#include "nomem.h"

/* ---- Tests ----------------------------------------------------------------------------------- */

static int64_t parent;
static int64_t children[N_CHILDREN];

static int64_t put_job(struct store *store, const char *id, const struct job_after *after)
{
    const uint32_t n = after ? 1 : 0;
    const struct job_spec spec = {.task = STR("t"),
                                  .tenant = STR("acme"),
                                  .queue = STR("default"),
                                  .id = str_of(id),
                                  .max_attempts = 3,
                                  .payload = STR("{}"),
                                  .after = after,
                                  .n_after = n,
                                  .parents = n,
                                  .open_parents = n};
    struct submit_result result = {0};
    struct arena arena = {0};
    assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
    arena_release(&arena);
    return result.seq;
}

static int put_family(void *ctx, struct redrive_err *err)
{
    struct store *store = ctx;
    const struct job_after after = {.id = STR("p"), .rule = {AFTER_SUCCESS, AFTER_DEAD_CANCEL}};
    const struct edge_move adopt = {parent = put_job(store, "p", NULL), N_CHILDREN};
    struct move_result result = {0};
    char id[8];
    for (int i = 0; i < N_CHILDREN; i++) {
        (void)snprintf(id, sizeof id, "c%d", i);
        children[i] = put_job(store, id, &after);
        const struct job_edge edge = {.parent = parent, .child = children[i], .rule = after.rule};
        assert_int_equal(store_ops(store)->edges_put(store, &edge, 1, err), 0);
    }
    return store_ops(store)->move(store, ADOPTS(&adopt, 1), &result, err);
}

static long allowed;

static int end_parent(void *ctx, struct redrive_err *err)
{
    struct store *store = ctx;
    struct arena arena = {0};
    const struct after_walk walk = {.store = store, .arena = &arena};
    const struct change_move cancel = {.seq = parent, .kind = MOVE_CANCEL};
    struct ended_job ended = {parent, REDRIVE_STATE_CANCELLED, false, STR("p")};
    struct move_result result = {0};
    assert_int_equal(store_ops(store)->move(store, CHANGES(&cancel, 1), &result, NULL), 0);
    until_failure = allowed;
    const int rc = after_walk(&walk, &ended, 1, err);
    until_failure = -1;
    arena_release(&arena);
    return rc;
}

static void check_children(struct store *store, bool are_skipped)
{
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->find(store, children, N_CHILDREN, &page, NULL), 0);
    assert_int_equal(page.n, N_CHILDREN);
    for (size_t i = 0; i < page.n; i++) {
        const struct job_status *status = &page.jobs[i].status;
        assert_int_equal(status->state,
                         are_skipped ? REDRIVE_STATE_CANCELLED : REDRIVE_STATE_WAITING);
        assert_int_equal(status->error.message.len > 0, are_skipped);
    }
    job_page_release(&page);
}

TEST(a_child_is_skipped_with_a_message_or_the_caller_is_told)
{
    const struct store_options options = {.create = true};
    struct store *store;
    int rc = REDRIVE_E_NOMEM;
    assert_int_equal(store_open("memory:after_nomem", &options, &store, NULL), 0);
    assert_int_equal(load_transaction(store, 1000, put_family, store, NULL), 0);
    for (allowed = 0; rc != 0; allowed++) {
        assert_true(allowed < 10000);
        rc = load_transaction(store, 1000, end_parent, store, NULL);
        assert_true(rc == 0 || rc == REDRIVE_E_NOMEM);
        check_children(store, rc == 0);
    }
    store_close(store);
}
