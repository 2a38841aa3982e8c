#include "base/mem/map.h"

#include "check.h"

#include <stdio.h>

#include "base/mem/list.h"
#include "base/rng.h"
#include "base/time/clock.h"

TEST(an_empty_map_has_nothing)
{
    struct map map;
    map_init(&map, 1);
    assert_null(map_get(&map, STR("x")));
    assert_null(map_remove(&map, STR("x")));
    map_release(&map);
}

TEST(a_key_holds_its_latest_value)
{
    struct map map;
    int a, b;
    map_init(&map, 1);
    assert_int_equal(map_put(&map, STR("maps"), &a), 0);
    assert_int_equal(map_put(&map, STR("maps"), &b), 0);
    assert_ptr_equal(map_get(&map, STR("maps")), &b);
    assert_int_equal(map.count, 1);
    assert_null(map_get(&map, STR("map")));
    assert_ptr_equal(map_remove(&map, STR("maps")), &b);
    assert_null(map_remove(&map, STR("maps")));
    map_release(&map);
}

/* A plain array of flags is the model. */
TEST(random_changes_agree_with_a_plain_array)
{
    enum {
        KEYS = 500
    };
    static char present[KEYS];
    struct map map;
    struct rng rng;
    map_init(&map, 99);
    rng_seed(&rng, 5);
    for (int step = 0; step < 50000; step++) {
        size_t k = rng_below(&rng, KEYS);
        char name[16];
        snprintf(name, sizeof name, "key-%zu", k);
        if (rng_below(&rng, 2)) {
            assert_int_equal(map_put(&map, str_of(name), &present[k]), 0);
            present[k] = 1;
        } else {
            assert_ptr_equal(map_remove(&map, str_of(name)), present[k] ? &present[k] : NULL);
            present[k] = 0;
        }
    }
    size_t count = 0;
    for (size_t k = 0; k < KEYS; k++) {
        char name[16];
        snprintf(name, sizeof name, "key-%zu", k);
        assert_ptr_equal(map_get(&map, str_of(name)), present[k] ? &present[k] : NULL);
        count += (size_t)present[k];
    }
    size_t walked = 0;
    MAP_FOREACH (&map, slot) {
        walked++;
    }
    assert_int_equal(map.count, count);
    assert_int_equal(walked, count);
    map_release(&map);
}

struct item {
    struct list link;
    int number;
};

TEST(a_list_keeps_its_order_and_allows_removal_while_walking)
{
    struct list head;
    struct item items[5];
    list_init(&head);
    assert_true(list_empty(&head));
    for (int i = 0; i < 5; i++) {
        items[i].number = i;
        list_insert(&head, &items[i].link);
    }
    LIST_FOREACH (&head, link) {
        struct item *item = LIST_ENTRY(link, struct item, link);
        if (item->number % 2)
            list_remove(link);
    }
    int expected = 0;
    LIST_FOREACH (&head, link) {
        assert_int_equal(LIST_ENTRY(link, struct item, link)->number, expected);
        expected += 2;
    }
    assert_int_equal(expected, 6);
}

TEST(clocks_run_forward)
{
    int64_t ns = clock_monotonic_ns();
    assert_true(clock_monotonic_ns() >= ns);
    assert_true(clock_monotonic_ms() >= ns / 1000000);
    assert_true(clock_wall_ms() > INT64_C(1700000000000));
}
