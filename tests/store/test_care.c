/* What a store says about itself. */
#include "store_for_test.h"

STORE_TEST(facts_name_versions_and_size)
{
    struct store_facts facts = {.version_found = -1};
    PUT(ts, .id = STR("x"));
    assert_int_equal(store_ops(ts->store)->facts(ts->store, &facts, NULL), 0);
    assert_true(facts.version_newest >= 1);
    assert_in_range(facts.version_found, 0, facts.version_newest);
    if (facts.path) {
        assert_non_null(strstr(ts->url, facts.path + strspn(facts.path, "./")));
        assert_true(facts.bytes + facts.log_bytes > 0);
    } else if (!facts.server) {
        assert_int_equal(facts.bytes, 0);
    }
}

STORE_TEST(durability_has_words)
{
    enum store_durability durability = store_base(ts->store)->durability;
    assert_true(store_durability_text(durability)[0] != '\0');
    assert_true(store_loss_text(durability)[0] != '\0');
    assert_string_not_equal(store_durability_text(STORE_FORGETS),
                            store_durability_text(STORE_SURVIVES_POWER));
    assert_string_not_equal(store_loss_text(STORE_FORGETS), store_loss_text(STORE_SURVIVES_POWER));
}

static void count_call(void *ctx)
{
    ++*(unsigned *)ctx;
}

STORE_TEST(a_whole_store_is_found_whole)
{
    unsigned calls = 0;
    for (int i = 0; i < 100; i++)
        PUT(ts, .priority = i % 7);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, count_call, &calls, NULL), 0);
    assert_int_equal(store_ops(ts->store)->verify(ts->store, NULL, NULL, NULL), 0);
}

/* A handle that looks changes nothing, and leaves the store to the others. */
TEST(a_look_does_not_set_an_empty_store_up)
{
    char url[STORES_URL_MAX];
    struct store *store = NULL;
    stores_new_url(stores_name(), url);
    assert_int_equal(store_open(url, &(struct store_options){.as_is = true}, &store, NULL),
                     REDRIVE_E_NOT_FOUND);
    assert_null(store);
    assert_int_equal(store_open(url, &(struct store_options){.create = true}, &store, NULL), 0);
    struct store *look = NULL;
    struct store_facts facts = {0};
    assert_int_equal(store_open(url, &(struct store_options){.as_is = true}, &look, NULL), 0);
    assert_int_equal(store_ops(look)->facts(look, &facts, NULL), 0);
    assert_int_equal(facts.version_found, facts.version_newest);
    store_close(look);
    store_close(store);
    stores_remove(url);
}
