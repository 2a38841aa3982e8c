/* shard_field.h - a store of four shards of the kind that REDRIVE_TEST_STORE names, for tests of
 * the router and of moves between shards. */
#ifndef TESTS_ENGINE_SHARD_FIELD_H
#define TESTS_ENGINE_SHARD_FIELD_H

#include "check.h"

#include <stdio.h>

#include "engine/shards/router.h"
#include "engine/verbs/submit.h"
#include "store/shards/shards.h"
#include "store/stores.h"
#include "waiting.h"

#define N_SHARDS  4
#define N_TENANTS 9
#define N_EACH    3
#define N_JOBS    ((size_t)(N_TENANTS * N_EACH))

static const struct store_options SET_UP = {.create = true};

/* A store of shards; in memory it lasts as long as `reader`. */
struct field {
    char urls[N_SHARDS][STORES_URL_MAX];
    char url[N_SHARDS * STORES_URL_MAX + 16];
    struct store *reader;
    struct router *router;
    struct committer *committer;
    int64_t seqs[N_TENANTS * N_EACH]; /* of what was submitted */
    int64_t told[64];                 /* numbers in events of submits */
    size_t n_told;
};

static inline void on_event(const struct engine_event *event, void *ctx)
{
    struct field *f = ctx;
    if (event->kind == ENGINE_EVENT_SUBMITTED && f->n_told < 64)
        f->told[f->n_told++] = event->seq;
}

static inline void field_init(struct field *f)
{
    *f = (struct field){0};
    size_t len = (size_t)snprintf(f->url, sizeof f->url, "shards:");
    for (size_t i = 0; i < N_SHARDS; i++) {
        stores_empty_url(stores_name(), f->urls[i]);
        len += (size_t)snprintf(f->url + len, sizeof f->url - len, "%s%s", i > 0 ? " " : "",
                                f->urls[i]);
    }
    assert_int_equal(store_open(f->url, &SET_UP, &f->reader, NULL), 0);
    const struct router_options options = {
        .url = f->url, .create = true, .engine = {.seed = 5, .on_event = on_event, .event_ctx = f}};
    const struct router_start start = {0};
    assert_int_equal(router_open(&options, &f->router, NULL), 0);
    assert_int_equal(router_start(f->router, &start, &f->committer, NULL), 0);
}

static inline void field_release(struct field *f)
{
    committer_stop(f->committer);
    store_close(f->reader);
    for (size_t i = 0; i < N_SHARDS; i++)
        stores_remove(f->urls[i]);
}

#define FIELD_TEST(test) TEST_OF(test, struct field, f, field_init(f), field_release(f))

/* Until each engine has learned of what another process has put: one of a server believes its last
 * answer for a second, and no longer. */
static inline void field_rest(const struct field *f)
{
    const struct store *store = sharded_of(f->reader)->stores[0];
    if (store_ops(store)->capabilities & STORE_ELECTS)
        pass_ms(1010);
}

static inline const char *tenant_name(size_t i, char out[16])
{
    (void)snprintf(out, 16, "tenant-%zu", i);
    return out;
}

static inline int64_t submit_for(struct field *f, const char *tenant)
{
    const struct job_spec spec = {.task = STR("t"), .tenant = str_of(tenant)};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(f->committer), &spec, 1, NULL), 0);
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    const int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    return seq;
}

/* N_EACH jobs of each tenant. */
static inline void fill(struct field *f)
{
    char name[16];
    for (size_t i = 0; i < N_JOBS; i++)
        f->seqs[i] = submit_for(f, tenant_name(i % N_TENANTS, name));
}

static inline size_t count_in(struct field *f, enum redrive_state state)
{
    struct count_page page = {0};
    uint64_t n = 0;
    assert_int_equal(
        store_ops(f->reader)->counts(f->reader, COUNT_QUEUES, (struct str){0}, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        n += page.counts[i].by_state[state];
    count_page_release(&page);
    return (size_t)n;
}

struct counting_op {
    struct op op;
    unsigned n;
};

static inline int count_engines(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)err;
    ((struct counting_op *)op)->n++;
    return 0;
}

#endif
