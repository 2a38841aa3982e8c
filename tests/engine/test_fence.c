/* A tenant that has left for a shard which was added since the process was started: each operation
 * is refused without asking the store again. */
#include "check.h"

#include <string.h>

#include "base/time/clock.h"
#include "engine/copy/load.h"
#include "engine/copy/tenant/jobs.h"
#include "engine/engine.h"
#include "engine/verbs/submit.h"

static struct {
    struct store_ops ops;
    const struct store_ops *real;
    unsigned records_read;
} counting;

static int count_list(struct store *store, enum shared_kind kind, struct str tenant,
                      struct shared_page *ret, struct redrive_err *err)
{
    counting.records_read += kind == SHARED_SHARDS;
    return counting.real->shared_list(store, kind, tenant, ret, err);
}

static int leave_for_the_fifth(void *ctx, struct redrive_err *err)
{
    const struct tenant_place place = {.phase = TENANT_LEFT, .shard = 4};
    char text[TENANT_PLACE_MAX];
    tenant_place_write(&place, text);
    return tenant_row_put(ctx, SHARED_TENANT, STR("acme"), TENANT_PLACE, str_of(text), err);
}

static int64_t wall_ms(void *ctx)
{
    (void)ctx;
    return clock_wall_ms();
}

TEST(the_list_of_shards_is_read_once_for_many_refusals)
{
    const struct store_options create = {.create = true};
    const struct job_spec spec = {.task = STR("t"), .tenant = STR("acme")};
    struct store *store;
    struct engine *engine;
    assert_int_equal(store_open("memory:fence", &create, &store, NULL), 0);
    assert_int_equal(load_transaction(store, clock_wall_ms(), leave_for_the_fifth, store, NULL), 0);
    struct store_base *base = (struct store_base *)(void *)store;
    counting.real = base->ops;
    counting.ops = *base->ops;
    counting.ops.shared_list = count_list;
    base->ops = &counting.ops;
    const struct engine_options options = {
        .store = store, .clock = wall_ms, .seed = 7, .n_shards = 2, .n_hashed = 2};
    assert_int_equal(engine_open(&options, &engine, NULL), 0);
    for (int i = 0; i < 20; i++) {
        struct submit_op op;
        struct redrive_err err = {0};
        assert_int_equal(submit_op_init(&op, engine, &spec, 1, NULL), 0);
        assert_int_equal(engine_apply_one(engine, &op.op, &err), REDRIVE_E_IO);
        assert_non_null(strstr(err.message, "does not know"));
        assert_non_null(strstr(err.detail, "shard 5"));
        submit_op_release(&op);
    }
    assert_int_equal(counting.records_read, 1);
    engine_close(engine);
}
