/* Rows that a handle need not read again. */
#include "store/sql_cache.h"

#include "check.h"

static void put(struct row_cache *cache, int64_t seq, int64_t row)
{
    int64_t *place = row_cache_put(cache, seq);
    assert_non_null(place);
    *place = row;
}

static void check_row(const struct row_cache *cache, int64_t seq, int64_t row)
{
    const int64_t *kept = row_cache_get(cache, seq);
    assert_non_null(kept);
    assert_int_equal(*kept, row);
}

static int set_up(void **state)
{
    static struct row_cache cache;
    row_cache_init(&cache, sizeof(int64_t));
    *state = &cache;
    return 0;
}

static int tear_down(void **state)
{
    row_cache_release(*state);
    return 0;
}

#define CACHE_TEST(test) TEST_WITH(test, set_up, tear_down, struct row_cache *cache)

CACHE_TEST(empty_cache_has_no_row)
{
    assert_null(row_cache_get(cache, 0));
    row_cache_drop(cache, 0);
    put(cache, 1, 7);
    assert_null(row_cache_get(cache, 0));
}

CACHE_TEST(row_is_given_until_it_is_dropped)
{
    put(cache, 1, 7);
    put(cache, 2, 8);
    check_row(cache, 1, 7);
    put(cache, 1, 9);
    check_row(cache, 1, 9);
    row_cache_drop(cache, 1);
    assert_null(row_cache_get(cache, 1));
    check_row(cache, 2, 8);
}

CACHE_TEST(row_takes_the_place_of_another_with_the_same_low_part)
{
    put(cache, 1, 7);
    row_cache_drop(cache, 1 + ROW_CACHE_PLACES);
    check_row(cache, 1, 7);
    put(cache, 1 + ROW_CACHE_PLACES, 8);
    assert_null(row_cache_get(cache, 1));
    check_row(cache, 1 + ROW_CACHE_PLACES, 8);
}

CACHE_TEST(all_rows_are_forgotten_at_once)
{
    for (int64_t seq = 1; seq <= ROW_CACHE_PLACES; seq++)
        put(cache, seq, seq);
    row_cache_forget(cache);
    for (int64_t seq = 1; seq <= ROW_CACHE_PLACES; seq++)
        assert_null(row_cache_get(cache, seq));
    put(cache, 3, 4);
    check_row(cache, 3, 4);
}
