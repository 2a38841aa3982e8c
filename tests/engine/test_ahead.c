/* When the store is asked to look for the next jobs together with a commit, and for how many. */
#include "engine/bed.h"

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

/* A bed with so many jobs in the queue. */
static void bed_with(struct bed *bed, int jobs)
{
    static struct store_ops noting;
    bed_init(bed, NULL);
    for (int i = 0; i < jobs; i++)
        bed_submit(bed, "mail", "{}");
    noting = *bed->engine->ops;
    noting.look_ahead = note_look;
    bed->engine->ops = &noting;
    memset(&looks, 0, sizeof looks);
}

/* Two claims in one transaction. */
static void claim_twice(struct bed *bed, const struct claim_filter *x, const struct claim_filter *y)
{
    struct claim_op a, b;
    claim_op_init(&a, x, STR("w"), 0);
    claim_op_init(&b, y, STR("w"), 0);
    engine_apply(bed->engine, (struct op *[]){&a.op, &b.op}, 2);
    claim_op_release(&a);
    claim_op_release(&b);
}

TEST(as_many_as_were_given_are_looked_for)
{
    struct bed bed;
    const struct claim_filter one = {.limit = 1}, two = {.limit = 2};
    bed_with(&bed, 5);
    engine_expect(bed.engine, true);
    claim_twice(&bed, &one, &two);
    assert_int_equal(looks.n, 1);
    assert_int_equal(looks.limit, 3);
    assert_false(looks.has_queues);
    bed_release(&bed);
}

TEST(none_when_callers_do_not_come_back)
{
    struct bed bed;
    const struct claim_filter one = {.limit = 1};
    bed_with(&bed, 5);
    claim_twice(&bed, &one, &one);
    assert_int_equal(looks.n, 0);
    bed_release(&bed);
}

TEST(none_when_all_jobs_were_given)
{
    struct bed bed;
    const struct claim_filter two = {.limit = 2};
    bed_with(&bed, 3);
    engine_expect(bed.engine, true);
    claim_twice(&bed, &two, &two);
    assert_int_equal(looks.n, 0);
    bed_release(&bed);
}

TEST(none_for_claims_that_look_for_different_jobs)
{
    struct bed bed;
    const struct str queue = STR("default");
    const struct claim_filter any = {.limit = 1},
                              one = {.queues = &queue, .n_queues = 1, .limit = 1};
    bed_with(&bed, 5);
    engine_expect(bed.engine, true);
    claim_twice(&bed, &any, &one);
    assert_int_equal(looks.n, 0);
    bed_release(&bed);
}
