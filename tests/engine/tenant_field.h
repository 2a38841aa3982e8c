/* tenant_field.h - a tenant on a store of four shards, and moves of it that stop where a test
 * wants. */
#ifndef TESTS_ENGINE_TENANT_FIELD_H
#define TESTS_ENGINE_TENANT_FIELD_H

#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem/arena.h"
#include "base/time/clock.h"
#include "engine/copy/tenant/move.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "shard_field.h"
#include "store/fault.h"
#include "store/shards/tenants.h"

#define TENANT "tenant-1"
#define N_OWN  250 /* more than two batches */
#define BACK   (SIZE_MAX - 1)

/* Where a move is stopped, and what happens before. */
struct stop {
    const char *step;
    int nth;
    int seen;
    void (*before)(struct stop *stop);
    const char *then; /* the step where it stops after that; NULL: none */
    struct field *field;
    int64_t seq;
    uint64_t token;
};

static inline bool stop_there(void *ctx, const char *step, uint64_t moved)
{
    struct stop *stop = ctx;
    (void)moved;
    if (stop->then && stop->seen > stop->nth && strcmp(step, stop->then) == 0)
        return false;
    if (!stop->step || strcmp(step, stop->step) != 0)
        return true;
    const bool is_it = stop->seen++ == stop->nth;
    if (is_it && stop->before) {
        stop->before(stop);
        return true;
    }
    return !is_it;
}

/* A move by a process that has opened the shards; `stop` may be NULL. */
static inline struct tenant_move tenant_move_of(struct store *all, size_t to, struct stop *stop)
{
    return (struct tenant_move){.stores = sharded_of(all)->stores,
                                .n = N_SHARDS,
                                .n_hashed = N_SHARDS,
                                .tenant = STR(TENANT),
                                .to = to,
                                .now_ms = clock_wall_ms(),
                                .known_ms = 1,
                                .progress = stop ? stop_there : NULL,
                                .ctx = stop};
}

static inline int move_tenant(struct field *f, size_t to, struct stop *stop, int64_t wait_ms,
                              struct tenant_move *ret, struct redrive_err *err)
{
    struct store *all;
    assert_int_equal(store_open(f->url, NULL, &all, NULL), 0);
    *ret = tenant_move_of(all, to, stop);
    ret->wait_ms = wait_ms;
    const int rc = to == BACK ? tenant_move_back(ret, err) : tenant_move_run(ret, err);
    store_close(all);
    field_rest(f);
    return rc;
}

static inline int submit_spec(struct field *f, const struct job_spec *spec, int64_t *ret_seq,
                              struct redrive_err *err)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(f->committer), spec, 1, NULL), 0);
    const int rc = committer_run(f->committer, &op.op, err);
    *ret_seq = rc == 0 ? op.answers[0].seq : 0;
    submit_op_release(&op);
    return rc;
}

static inline int submit_id(struct field *f, const char *id, struct redrive_err *err)
{
    const struct job_spec spec = {.task = STR("t"), .tenant = STR(TENANT), .id = str_of(id)};
    int64_t seq;
    return submit_spec(f, &spec, &seq, err);
}

/* Claims until there is nothing more, and counts each id. A claim passes over a shard that is slow,
 * so that one which gives nothing is made again. */
static inline size_t claim_each_once(struct field *f, bool *seen, size_t n_seen)
{
    size_t n = 0;
    for (int n_empty = 0; n_empty < 3;) {
        const struct claim_filter filter = {.limit = 100};
        struct claim_op claim;
        claim_op_init(&claim, &filter, STR("w"), 60000);
        assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
        for (size_t i = 0; i < claim.n; i++) {
            const struct str id = claim.jobs[i].spec.id;
            const size_t k = id.len > 1 && id.ptr[0] == 'j' ? strtoul(id.ptr + 1, NULL, 10) : 0;
            if (!str_is(claim.jobs[i].spec.tenant, TENANT))
                continue;
            assert_true(k < n_seen);
            assert_false(seen[k]);
            seen[k] = true;
            n++;
        }
        n_empty = claim.n == 0 ? n_empty + 1 : 0;
        claim_op_release(&claim);
    }
    return n;
}

static inline size_t count_on(struct field *f, size_t shard)
{
    struct store *store = sharded_of(f->reader)->stores[shard];
    struct count_page page = {0};
    uint64_t n = 0;
    assert_int_equal(store_ops(store)->counts(store, COUNT_QUEUES, STR(TENANT), &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        for (int k = 0; k < REDRIVE_STATE_COUNT; k++)
            n += page.counts[i].by_state[k];
    count_page_release(&page);
    return (size_t)n;
}

static inline size_t home(void)
{
    return shard_of_tenant(STR(TENANT), N_SHARDS);
}

static inline size_t other(size_t k)
{
    return (home() + k) % N_SHARDS;
}

static inline void submit_some(struct field *f, size_t n)
{
    char ids[N_OWN][16];
    struct job_spec specs[N_OWN];
    struct submit_op op;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "j%zu", i + 1);
        specs[i] = (struct job_spec){.task = STR("t"), .tenant = STR(TENANT), .id = str_of(ids[i])};
    }
    assert_int_equal(submit_op_init(&op, committer_engine(f->committer), specs, n, NULL), 0);
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    submit_op_release(&op);
}

/* j1 to j250. */
static inline void submit_own(struct field *f)
{
    submit_some(f, N_OWN);
}

static inline void settle_now(struct stop *stop)
{
    struct settlement item = {.seq = stop->seq, .token = stop->token, .outcome.ending = ENDING_RAN};
    struct settle_op op;
    settle_op_init(&op, &item, 1);
    assert_int_equal(committer_run(stop->field->committer, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
}

static inline enum redrive_state state_on(struct field *f, size_t shard, const char *id)
{
    struct store *store = sharded_of(f->reader)->stores[shard];
    const struct job_name name = {STR(TENANT), str_of(id)};
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->lookup(store, &name, 1, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    const enum redrive_state state = page.jobs[0].status.state;
    job_page_release(&page);
    return state;
}

static inline void change_all(struct field *f, enum move_kind kind, struct change_item *items,
                              size_t n)
{
    struct change_op change;
    change_op_init(&change, kind, items, n);
    change.op.by_item = true;
    assert_int_equal(committer_run(f->committer, &change.op, NULL), 0);
}

static inline void submit_after(struct field *f, const char *id, const char *parent,
                                enum after_on on)
{
    const struct job_after after = {.id = str_of(parent), .rule = {on, AFTER_DEAD_CANCEL}};
    const struct job_spec spec = {
        .task = STR("t"), .tenant = STR(TENANT), .id = str_of(id), .after = &after, .n_after = 1};
    int64_t seq;
    assert_int_equal(submit_spec(f, &spec, &seq, NULL), 0);
}

/* Puts a job with a unique key past the engine, as a process that was frozen may; and one that
 * waits for it if `child` is not NULL. */
static inline void put_there(struct field *f, size_t shard, const char *id, const char *key,
                             const char *child)
{
    struct store *store;
    struct submit_result results[2] = {0};
    struct arena arena = {0};
    struct move_result result;
    int64_t now_ms, version;
    const struct job_after after = {.id = str_of(id), .rule = {AFTER_END, AFTER_DEAD_CANCEL}};
    struct job_spec specs[2];
    for (int i = 0; i < 2; i++)
        specs[i] = (struct job_spec){.task = STR("t"),
                                     .tenant = STR(TENANT),
                                     .queue = STR("default"),
                                     .max_attempts = 3,
                                     .payload = STR("{}")};
    specs[0].id = str_of(id);
    specs[0].unique_key = str_of(key);
    specs[1].id = str_of(child);
    specs[1].after = &after;
    specs[1].n_after = specs[1].parents = specs[1].open_parents = 1;
    assert_int_equal(store_open(sharded_of(f->reader)->urls.urls[shard], NULL, &store, NULL), 0);
    const struct store_ops *ops = store_ops(store);
    assert_int_equal(ops->begin(store, clock_wall_ms(), &now_ms, &version, NULL), 0);
    assert_int_equal(ops->submit(store, specs, child ? 2 : 1, results, &arena, NULL), 0);
    if (child) {
        const struct job_edge edge = {
            .parent = results[0].seq, .child = results[1].seq, .rule = after.rule};
        const struct edge_move adopt = {results[0].seq, 1};
        assert_int_equal(ops->edges_put(store, &edge, 1, NULL), 0);
        assert_int_equal(ops->move(store, ADOPTS(&adopt, 1), &result, NULL), 0);
    }
    assert_int_equal(ops->commit(store, NULL), 0);
    arena_release(&arena);
    store_close(store);
}

/* A job that holds a unique key. */
static inline void submit_unique(struct field *f, const char *id, const char *key)
{
    const struct job_spec spec = {
        .task = STR("t"), .tenant = STR(TENANT), .id = str_of(id), .unique_key = str_of(key)};
    int64_t seq;
    assert_int_equal(submit_spec(f, &spec, &seq, NULL), 0);
}

#endif
