/* When the store is asked to look for the next jobs together with a commit, and for how many. */
#include "engine/engine_for_test.h"

#include "engine/state.h"

static struct {
    unsigned n;
    size_t limit;
    bool has_queues;
} looks;

static void note_look(struct store *store, const struct claim_filter *filter)
{
    (void)store;
    looks.n++;
    looks.limit = filter->limit;
    looks.has_queues = filter->n_queues > 0;
}

/* An engine with so many jobs in the queue. */
static void te_with(struct test_engine *te, int jobs)
{
    static struct store_ops noting;
    te_init(te, NULL);
    for (int i = 0; i < jobs; i++)
        te_submit(te, "mail", "{}");
    noting = *te->engine->ops;
    noting.look_ahead = note_look;
    te->engine->ops = &noting;
    memset(&looks, 0, sizeof looks);
}

/* Two claims in one transaction. */
static void claim_twice(struct test_engine *te, const struct claim_filter *x,
                        const struct claim_filter *y)
{
    struct claim_op a, b;
    claim_op_init(&a, x, STR("w"), 0);
    claim_op_init(&b, y, STR("w"), 0);
    engine_apply(te->engine, (struct op *[]){&a.op, &b.op}, 2);
    claim_op_release(&a);
    claim_op_release(&b);
}

TEST(as_many_as_were_given_are_looked_for)
{
    struct test_engine te;
    const struct claim_filter one = {.limit = 1}, two = {.limit = 2};
    te_with(&te, 5);
    engine_expect(te.engine, true);
    claim_twice(&te, &one, &two);
    assert_int_equal(looks.n, 1);
    assert_int_equal(looks.limit, 3);
    assert_false(looks.has_queues);
    te_release(&te);
}

TEST(none_when_callers_do_not_come_back)
{
    struct test_engine te;
    const struct claim_filter one = {.limit = 1};
    te_with(&te, 5);
    claim_twice(&te, &one, &one);
    assert_int_equal(looks.n, 0);
    te_release(&te);
}

TEST(none_when_all_jobs_were_given)
{
    struct test_engine te;
    const struct claim_filter two = {.limit = 2};
    te_with(&te, 3);
    engine_expect(te.engine, true);
    claim_twice(&te, &two, &two);
    assert_int_equal(looks.n, 0);
    te_release(&te);
}

TEST(none_for_claims_that_look_for_different_jobs)
{
    struct test_engine te;
    const struct str queue = STR("default");
    const struct claim_filter any = {.limit = 1},
                              one = {.queues = &queue, .n_queues = 1, .limit = 1};
    te_with(&te, 5);
    engine_expect(te.engine, true);
    claim_twice(&te, &any, &one);
    assert_int_equal(looks.n, 0);
    te_release(&te);
}
