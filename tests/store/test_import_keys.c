/* Unique keys of jobs that come from another store, and keys without a job. */
#include <stdio.h>

#include "import_all.h"
#include "store_for_test.h"

STORE_TEST(a_live_job_holds_its_key)
{
    struct test_store from;
    ts_open(&from, "memory");
    PUT(&from, .id = STR("a"), .unique_key = STR("k"));
    ts_put_in(&from, REDRIVE_STATE_COMPLETED,
              &(struct job_spec){.id = STR("ended"), .unique_key = STR("free")});
    import_all_anew(&from, ts);
    struct submit_result result = TRY_PUT(ts, .id = STR("b"), .unique_key = STR("k"));
    assert_int_equal(result.code, REDRIVE_E_EXISTS);
    check_str(result.id, "a");
    assert_int_equal(TRY_PUT(ts, .id = STR("c"), .unique_key = STR("free")).code, 0);
    check_move(CHANGE(ts, .seq = seq_of(ts, "a"), .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(TRY_PUT(ts, .id = STR("b"), .unique_key = STR("k")).code, 0);
    ts_close(&from);
}

STORE_TEST(a_live_job_whose_key_is_held_is_refused)
{
    struct test_store from;
    struct move_result results[2];
    ts_open(&from, "memory");
    ts_put_in(&from, REDRIVE_STATE_COMPLETED,
              &(struct job_spec){.id = STR("ended"), .unique_key = STR("k")});
    PUT(&from, .id = STR("live"), .unique_key = STR("k"));
    PUT(ts, .id = STR("other"), .unique_key = STR("k"));
    import_all(&from, ts, results);
    check_move(results[0], 0, REDRIVE_STATE_COMPLETED);
    assert_int_equal(results[1].code, REDRIVE_E_EXISTS);
    assert_int_equal(LIST(ts)->n, 2);
    assert_int_equal(LIST(ts, .id = STR("live"))->n, 0);
    ts_close(&from);
}

STORE_TEST(a_key_for_ever_is_held_by_a_job_that_has_ended)
{
    struct test_store from;
    ts_open(&from, "memory");
    ts_put_in(&from, REDRIVE_STATE_COMPLETED,
              &(struct job_spec){.id = STR("a"), .unique_key = STR("k"), .unique_forever = true});
    import_all_anew(&from, ts);
    struct submit_result result = TRY_PUT(ts, .id = STR("b"), .unique_key = STR("k"));
    assert_int_equal(result.code, REDRIVE_E_EXISTS);
    check_str(result.id, "a");
    assert_int_equal(ts_held(ts, (struct str){0}, (struct str){0}, 10)->n, 0);
    assert_int_equal(ts_sweep(ts, ~0u, ts->now_ms + 1, 10), 1);
    struct remembered_key_page *held = ts_held(ts, (struct str){0}, (struct str){0}, 10);
    assert_int_equal(held->n, 1);
    check_str(held->keys[0].tenant, "acme");
    check_str(held->keys[0].key, "k");
    check_str(held->keys[0].id, "a");
    assert_int_equal(held->keys[0].state, REDRIVE_STATE_COMPLETED);
    ts_close(&from);
}

static struct remembered_key gone(const char *key, const char *id)
{
    return (struct remembered_key){STR("acme"), str_of(key), str_of(id), REDRIVE_STATE_CANCELLED};
}

STORE_TEST(a_key_that_a_job_holds_for_ever_is_left_to_it)
{
    const struct remembered_key keys[] = {gone("k1", "a"), gone("k2", "other")};
    PUT(ts, .id = STR("a"), .unique_key = STR("k1"), .unique_forever = true);
    ts_put_in(ts, REDRIVE_STATE_COMPLETED,
              &(struct job_spec){.id = STR("b"), .unique_key = STR("k2")});
    ts_import_keys(ts, keys, 2);
    struct remembered_key_page *held = ts_held(ts, (struct str){0}, (struct str){0}, 10);
    assert_int_equal(held->n, 1);
    check_str(held->keys[0].key, "k2");
    struct submit_result result =
        TRY_PUT(ts, .id = STR("c"), .unique_key = STR("k1"), .unique_forever = true);
    assert_int_equal(result.code, REDRIVE_E_EXISTS);
    assert_int_equal(result.state, REDRIVE_STATE_QUEUED);
}

STORE_TEST(a_job_that_is_back_holds_its_key_itself)
{
    struct test_store from;
    const struct remembered_key keys[] = {gone("k1", "a"), gone("k2", "other")};
    ts_open(&from, "memory");
    PUT(&from, .id = STR("a"), .unique_key = STR("k1"), .unique_forever = true);
    PUT(&from, .id = STR("b"), .unique_key = STR("k2"), .unique_forever = true);
    ts_import_keys(ts, keys, 2);
    import_all_anew(&from, ts);
    struct remembered_key_page *held = ts_held(ts, (struct str){0}, (struct str){0}, 10);
    assert_int_equal(held->n, 1);
    check_str(held->keys[0].id, "other");
    struct submit_result result =
        TRY_PUT(ts, .id = STR("c"), .unique_key = STR("k1"), .unique_forever = true);
    assert_int_equal(result.code, REDRIVE_E_EXISTS);
    assert_int_equal(result.state, REDRIVE_STATE_QUEUED);
    check_str(result.id, "a");
    const int64_t seq = seq_of(ts, "a");
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(ts_held(ts, (struct str){0}, (struct str){0}, 10)->n, 2);
    ts_close(&from);
}

STORE_TEST(keys_without_a_job_hold)
{
    const struct remembered_key keys[] = {
        {STR("acme"), STR("k1"), STR("gone-1"), REDRIVE_STATE_DEAD_LETTER},
        {STR("acme"), STR("k2"), STR("gone-2"), REDRIVE_STATE_COMPLETED},
    };
    const struct remembered_key other = {STR("acme"), STR("k1"), STR("later"),
                                         REDRIVE_STATE_FAILED};
    ts_import_keys(ts, keys, 2);
    ts_import_keys(ts, &other, 1);
    for (int forever = 0; forever <= 1; forever++) {
        struct submit_result result =
            TRY_PUT(ts, .id = STR("a"), .unique_key = STR("k1"), .unique_forever = forever != 0);
        assert_int_equal(result.code, REDRIVE_E_EXISTS);
        assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
        check_str(result.id, "gone-1");
    }
    assert_int_equal(
        TRY_PUT(ts, .id = STR("a"), .tenant = STR("zeta"), .unique_key = STR("k1")).code, 0);
    assert_int_equal(ts_held(ts, (struct str){0}, (struct str){0}, 10)->n, 2);
}

STORE_TEST(remembered_keys_come_in_pages_in_order)
{
    const struct remembered_key keys[] = {
        {STR("zeta"), STR("a"), STR("5"), REDRIVE_STATE_FAILED},
        {STR("acme"), STR("\xC3\xBC"), STR("4"), REDRIVE_STATE_FAILED},
        {STR("acme"), STR("b"), STR("3"), REDRIVE_STATE_FAILED},
        {STR("acme"), STR("a b"), STR("2"), REDRIVE_STATE_FAILED},
        {STR("acme"), STR("B"), STR("1"), REDRIVE_STATE_FAILED},
        {STR("zeta"), STR("b"), STR("6"), REDRIVE_STATE_FAILED},
    };
    ts_import_keys(ts, keys, 6);
    struct str tenant = {0}, key = {0};
    char copies[2][16];
    for (int page = 0; page < 3; page++) {
        struct remembered_key_page *held = ts_held(ts, tenant, key, 2);
        assert_int_equal(held->n, 2);
        assert_int_equal(held->more, page < 2);
        assert_int_equal(held->keys[0].id.ptr[0], '1' + 2 * page);
        assert_int_equal(held->keys[1].id.ptr[0], '2' + 2 * page);
        snprintf(copies[0], sizeof copies[0], "%.*s", (int)held->keys[1].tenant.len,
                 held->keys[1].tenant.ptr);
        snprintf(copies[1], sizeof copies[1], "%.*s", (int)held->keys[1].key.len,
                 held->keys[1].key.ptr);
        tenant = str_of(copies[0]);
        key = str_of(copies[1]);
    }
    assert_int_equal(ts_held(ts, tenant, key, 2)->n, 0);
}
