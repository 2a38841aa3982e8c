#include "store_for_test.h"

#include <stdio.h>

static int open_url(const char *url, bool create, struct redrive_err *err)
{
    struct store *store = NULL;
    struct store_options options = {.create = create};
    int rc = store_open(url, &options, &store, err);
    store_close(store);
    return rc;
}

TEST(a_misspelt_kind_gets_the_nearest_one_as_a_hint)
{
    struct redrive_err err = {0};
    assert_int_equal(open_url("memroy:x", true, &err), REDRIVE_E_UNKNOWN);
    assert_string_equal(err.message, "there is no store 'memroy'");
    assert_non_null(strstr(err.detail, "memory:"));
    assert_string_equal(err.hint, "did you mean 'memory:'?");
}

TEST(an_unknown_kind_gets_the_list)
{
    struct redrive_err err = {0};
    assert_int_equal(open_url("tape:/dev/st0", true, &err), REDRIVE_E_UNKNOWN);
    assert_non_null(strstr(err.detail, "memory:"));
    assert_string_equal(err.hint, "");
}

TEST(an_url_without_a_kind_is_refused)
{
    struct redrive_err err = {0};
    assert_int_equal(open_url("jobs.db", true, &err), REDRIVE_E_INVALID);
    assert_string_equal(err.hint, "for a file write sqlite:jobs.db");
    assert_int_equal(open_url("", true, &err), REDRIVE_E_INVALID);
    assert_int_equal(open_url(NULL, true, NULL), REDRIVE_E_INVALID);
}

TEST(what_could_not_be_opened_may_be_closed)
{
    struct store *store = NULL;
    struct redrive_err err = {0};
    assert_int_equal(store_open("tape:", &(struct store_options){0}, &store, &err),
                     REDRIVE_E_UNKNOWN);
    assert_null(store);
    store_close(store);
}

TEST(nothing_is_found_where_nothing_was_set_up)
{
    char url[STORES_URL_MAX];
    struct redrive_err err = {0};
    stores_new_url(stores_name(), url);
    assert_int_equal(open_url(url, false, &err), REDRIVE_E_NOT_FOUND);
    assert_true(err.message[0] != '\0');
    assert_int_equal(open_url(url, true, NULL), 0);
    stores_remove(url);
}

STORE_TEST(a_store_has_every_slot)
{
    const struct store_ops *ops = store_ops(ts->store);
    assert_int_equal(strncmp(ts->url, ops->scheme, strlen(ops->scheme)), 0);
    assert_true(ops->open && ops->close && ops->begin && ops->commit && ops->rollback);
    assert_true(ops->submit && ops->ready && ops->scan && ops->move && ops->shared_put &&
                ops->counters_add);
    assert_true(ops->list && ops->lookup && ops->find && ops->history && ops->counts &&
                ops->groups && ops->causes);
    assert_true(ops->shared_list && ops->counters_list && ops->wait && ops->facts && ops->verify);
}

/* What has been read is empty once it is released, and can be released again. */
#define CHECK_RELEASED(page, release)    \
    do {                                 \
        __typeof__(page) page_ = (page); \
        assert_true(page_->n > 0);       \
        release(page_);                  \
        assert_int_equal(page_->n, 0);   \
        release(page_);                  \
        assert_int_equal(page_->n, 0);   \
    } while (0)

STORE_TEST(released_pages_are_empty_and_can_be_released_again)
{
    const int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    const struct shared_row row = {.kind = SHARED_TASK, .key = STR("mail"), .value = STR("{}")};
    assert_int_equal(ts_shared_put(ts, &row), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_RELEASED(LIST(ts, .limit = 10), job_page_release);
        CHECK_RELEASED(ts_history(ts, seq), attempt_page_release);
        CHECK_RELEASED(ts_queues(ts, STR("acme")), count_page_release);
        CHECK_RELEASED(ts_shared(ts, SHARED_TASK, (struct str){0}), shared_page_release);
    }
}

TEST(pages_of_nothing_can_be_released)
{
    struct group_page groups = {0};
    struct counter_page counters = {0};
    group_page_release(&groups);
    counter_page_release(&counters);
    assert_int_equal(groups.n, 0);
    assert_int_equal(counters.n, 0);
}
