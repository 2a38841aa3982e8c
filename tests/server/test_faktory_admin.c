#include "check.h"

#include <stdio.h>

#include "engine/engine.h"
#include "engine/verbs/submit.h"
#include "server/faktory/admin/admin.h"

#define N_JOBS     10
#define TEXT_BYTES 900000
#define DUE_MS     INT64_C(4102444800000)

static int64_t now(void *ctx)
{
    (void)ctx;
    return INT64_C(1767225600000);
}

/* Jobs that are large, in the set of those that wait for their time. */
static struct engine *engine_with_large_jobs(struct str *ids)
{
    static unsigned number;
    static char text[TEXT_BYTES];
    static char names[N_JOBS][16];
    struct store *store;
    struct engine *engine;
    struct submit_op op;
    struct job_spec specs[N_JOBS] = {0};
    char url[32];
    const struct store_options create = {.create = true};
    (void)snprintf(url, sizeof url, "memory:admin%u", ++number);
    assert_int_equal(store_open(url, &create, &store, NULL), 0);
    const struct engine_options options = {.store = store, .clock = now};
    assert_int_equal(engine_open(&options, &engine, NULL), 0);
    memset(text, 'a', sizeof text);
    text[0] = text[sizeof text - 1] = '"';
    for (int i = 0; i < N_JOBS; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%05d", i);
        ids[i] = str_of(names[i]);
        specs[i] = (struct job_spec){.id = ids[i],
                                     .task = STR("T"),
                                     .payload = {text, sizeof text},
                                     .process_after_ms = DUE_MS};
    }
    assert_int_equal(submit_op_init(&op, engine, specs, N_JOBS, NULL), 0);
    assert_int_equal(engine_apply_one(engine, &op.op, NULL), 0);
    submit_op_release(&op);
    return engine;
}

static unsigned steps_of(struct engine *engine, const struct faktory_mutation *m)
{
    struct faktory_admin admin;
    unsigned n = 0;
    faktory_admin_init(&admin, FAKTORY_MUTATE, str_of(ENGINE_TENANT_DEFAULT));
    admin.mutation = m;
    do {
        if (n++ > 0)
            faktory_admin_next(&admin);
        assert_int_equal(engine_apply_one(engine, &admin.op, NULL), 0);
    } while (admin.more);
    faktory_admin_release(&admin);
    return n;
}

static size_t count_dead(struct engine *engine)
{
    const struct job_filter dead = {.states = 1u << REDRIVE_STATE_DEAD_LETTER, .limit = 100};
    struct job_page page = {0};
    assert_int_equal(
        store_ops(engine_store(engine))->list(engine_store(engine), &dead, &page, NULL), 0);
    const size_t n = page.n;
    job_page_release(&page);
    return n;
}

TEST(large_jobs_are_looked_at_in_several_steps)
{
    struct str ids[N_JOBS];
    struct engine *engine = engine_with_large_jobs(ids);
    struct faktory_pattern pattern;
    struct faktory_mutation m = {
        .command = STR("kill"), .target = STR("scheduled"), .pattern = &pattern};
    assert_true(faktory_pattern_init(&pattern, STR("*ab*")));
    assert_int_equal(steps_of(engine, &m), N_JOBS * TEXT_BYTES / FAKTORY_STEP_BYTES);
    assert_int_equal(count_dead(engine), 0);
    assert_true(faktory_pattern_init(&pattern, STR("*aaa*")));
    assert_in_range(steps_of(engine, &m), 2, N_JOBS);
    assert_int_equal(count_dead(engine), N_JOBS);
    engine_close(engine);
}

TEST(named_jobs_are_too)
{
    struct str ids[N_JOBS];
    struct engine *engine = engine_with_large_jobs(ids);
    const struct faktory_mutation m = {
        .command = STR("kill"), .target = STR("scheduled"), .jids = ids, .n_jids = N_JOBS};
    assert_in_range(steps_of(engine, &m), 2, N_JOBS);
    assert_int_equal(count_dead(engine), N_JOBS);
    engine_close(engine);
}
