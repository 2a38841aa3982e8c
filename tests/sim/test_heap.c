#include "check.h"

#include "base/rng.h"
#include "sim/heap.h"

TEST(the_least_comes_first)
{
    struct heap heap;
    struct heap_item item;
    struct rng rng;

    heap_init(&heap);
    rng_seed(&rng, 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(heap_push(&heap, (struct heap_item){.key = (int64_t)rng_below(&rng, 100)}),
                         0);
    int64_t last = -1;
    uint64_t last_seq = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(heap_pop(&heap, &item));
        assert_true(item.key >= last);
        if (item.key == last)
            assert_true(item.seq > last_seq);
        last = item.key;
        last_seq = item.seq;
    }
    assert_false(heap_pop(&heap, &item));
    heap_release(&heap);
}

TEST(equal_keys_keep_their_order)
{
    struct heap heap;
    struct heap_item item;

    heap_init(&heap);
    for (uint32_t i = 0; i < 100; i++)
        heap_push(&heap, (struct heap_item){.key = 7, .job = i});
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(heap_pop(&heap, &item));
        assert_int_equal(item.job, i);
    }
    heap_release(&heap);
}

TEST(an_empty_heap_gives_nothing)
{
    struct heap heap;
    struct heap_item item;
    heap_init(&heap);
    assert_false(heap_pop(&heap, &item));
    heap_release(&heap);
    heap_release(&heap);
}

static bool greatest_first(const struct heap_item *a, const struct heap_item *b)
{
    return a->key > b->key;
}

TEST(a_heap_may_have_its_own_order)
{
    struct heap heap;
    struct heap_item item;

    heap_init_ordered(&heap, greatest_first);
    for (int64_t key = 0; key < 100; key++)
        heap_push(&heap, (struct heap_item){.key = key * 37 % 100});
    for (int64_t key = 99; key >= 0; key--) {
        assert_true(heap_pop(&heap, &item));
        assert_int_equal(item.key, key);
    }
    heap_release(&heap);
}

TEST(a_cleared_heap_is_empty)
{
    struct heap heap;
    struct heap_item item;

    heap_init(&heap);
    heap_push(&heap, (struct heap_item){.key = 1});
    heap_clear(&heap);
    assert_false(heap_pop(&heap, &item));
    heap_push(&heap, (struct heap_item){.key = 2});
    assert_true(heap_pop(&heap, &item));
    assert_int_equal(item.key, 2);
    heap_release(&heap);
}
