#include "store_for_test.h"
#include "waiting.h"

static struct shared_row row(enum shared_kind kind, const char *key, const char *value,
                             int64_t version)
{
    return (struct shared_row){.kind = kind,
                               .tenant = STR("acme"),
                               .key = str_of(key),
                               .value = str_of(value),
                               .version = version};
}

static int put(struct test_store *ts, struct shared_row r)
{
    return ts_shared_put(ts, &r);
}

static int64_t shared_version(struct test_store *ts)
{
    ts_begin(ts);
    ts_rollback(ts);
    return ts->shared_version;
}

STORE_TEST(a_row_is_kept_byte_for_byte)
{
    static const char BYTES[] = {0, 1, (char)0xff, '\'', '"', 0};
    struct shared_row r = row(SHARED_BREAKER, "b", "", 0);
    r.value = (struct str){BYTES, sizeof BYTES};
    assert_int_equal(put(ts, r), 0);
    struct shared_page *page = ts_shared(ts, SHARED_BREAKER, STR("acme"));
    assert_int_equal(page->n, 1);
    assert_int_equal(page->rows[0].kind, SHARED_BREAKER);
    check_str(page->rows[0].tenant, "acme");
    check_str(page->rows[0].key, "b");
    assert_int_equal(page->rows[0].version, 1);
    assert_int_equal(page->rows[0].value.len, sizeof BYTES);
    assert_memory_equal(page->rows[0].value.ptr, BYTES, sizeof BYTES);
}

STORE_TEST(a_put_needs_the_version_that_is_there)
{
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "none", 1)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "one", 0)), 0);
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "again", 0)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "two", 1)), 0);
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "stale", 1)), REDRIVE_E_STATE);
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "early", 3)), REDRIVE_E_STATE);
    struct shared_page *page = ts_shared(ts, SHARED_TASK, STR("acme"));
    assert_int_equal(page->n, 1);
    check_str(page->rows[0].value, "two");
    assert_int_equal(page->rows[0].version, 2);
}

STORE_TEST(a_row_is_taken_away_at_its_version_only)
{
    struct shared_row gone = row(SHARED_TASK, "t", "", 0);
    gone.removed = true;
    assert_int_equal(put(ts, gone), REDRIVE_E_STATE);
    put(ts, row(SHARED_TASK, "t", "one", 0));
    put(ts, row(SHARED_TASK, "t", "two", 1));
    assert_int_equal(put(ts, gone), REDRIVE_E_STATE);
    gone.version = 1;
    assert_int_equal(put(ts, gone), REDRIVE_E_STATE);
    gone.version = 2;
    assert_int_equal(put(ts, gone), 0);
    assert_int_equal(ts_shared(ts, SHARED_TASK, STR("acme"))->n, 0);
    assert_int_equal(put(ts, gone), REDRIVE_E_STATE);
    assert_int_equal(put(ts, row(SHARED_TASK, "t", "anew", 0)), 0);
    assert_int_equal(ts_shared(ts, SHARED_TASK, STR("acme"))->rows[0].version, 1);
}

STORE_TEST(kinds_and_tenants_do_not_meet)
{
    for (int kind = SHARED_BREAKER; kind < SHARED_KIND_COUNT; kind++)
        assert_int_equal(put(ts, row((enum shared_kind)kind, "same", "v", 0)), 0);
    struct shared_row other = row(SHARED_TASK, "same", "theirs", 0);
    other.tenant = STR("other");
    assert_int_equal(put(ts, other), 0);
    for (int kind = SHARED_BREAKER; kind < SHARED_KIND_COUNT; kind++)
        assert_int_equal(ts_shared(ts, (enum shared_kind)kind, STR("acme"))->n, 1);
    struct shared_page *page = ts_shared(ts, SHARED_TASK, STR("other"));
    assert_int_equal(page->n, 1);
    check_str(page->rows[0].value, "theirs");
}

STORE_TEST(rows_come_by_tenant_and_key)
{
    static const char *const NAMES[][2] = {{"b", "x"},        {"a", "z"},  {"b", "X"},
                                           {"a", "\xC3\xA4"}, {"a", "zz"}, {"B", "q"}};
    static const char *const SORTED[][2] = {{"B", "q"},        {"a", "z"}, {"a", "zz"},
                                            {"a", "\xC3\xA4"}, {"b", "X"}, {"b", "x"}};
    for (int i = 0; i < 6; i++) {
        struct shared_row r = row(SHARED_TASK, NAMES[i][1], "v", 0);
        r.tenant = str_of(NAMES[i][0]);
        assert_int_equal(put(ts, r), 0);
    }
    struct shared_page *page = ts_shared(ts, SHARED_TASK, (struct str){0});
    assert_int_equal(page->n, 6);
    for (int i = 0; i < 6; i++) {
        check_str(page->rows[i].tenant, SORTED[i][0]);
        check_str(page->rows[i].key, SORTED[i][1]);
    }
}

STORE_TEST(every_put_of_a_cached_kind_raises_the_shared_version_and_no_refusal_does)
{
    int64_t last = shared_version(ts);
    for (int kind = SHARED_BREAKER; kind <= SHARED_CRON; kind++) {
        put(ts, row((enum shared_kind)kind, "k", "v", 0));
        assert_true(shared_version(ts) > last);
        last = ts->shared_version;
        put(ts, row((enum shared_kind)kind, "k", "v", 0));
        assert_int_equal(shared_version(ts), last);
    }
    put(ts, row(SHARED_TASK, "k", "w", 1));
    assert_true(shared_version(ts) > last);
    last = ts->shared_version;
    struct shared_row gone = row(SHARED_TASK, "k", "", 2);
    gone.removed = true;
    put(ts, gone);
    assert_true(shared_version(ts) > last);
}

STORE_TEST(what_nobody_caches_leaves_the_shared_version_alone)
{
    int64_t before = shared_version(ts);
    for (int kind = SHARED_WORKER; kind < SHARED_KIND_COUNT; kind++) {
        assert_int_equal(put(ts, row((enum shared_kind)kind, "k", "v", 0)), 0);
        assert_int_equal(put(ts, row((enum shared_kind)kind, "k", "w", 1)), 0);
        assert_int_equal(put(ts, row((enum shared_kind)kind, "k", "x", 1)), REDRIVE_E_STATE);
        check_str(ts_shared(ts, (enum shared_kind)kind, STR("acme"))->rows[0].value, "w");
        struct shared_row gone = row((enum shared_kind)kind, "k", "", 2);
        gone.removed = true;
        assert_int_equal(put(ts, gone), 0);
        assert_int_equal(ts_shared(ts, (enum shared_kind)kind, STR("acme"))->n, 0);
    }
    assert_int_equal(shared_version(ts), before);
}

STORE_TEST(jobs_and_counters_leave_the_shared_version_alone)
{
    int64_t before = shared_version(ts);
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        ts_put_in(ts, (enum redrive_state)s, NULL);
    ts_count(ts, (struct counter){STR("acme"), STR("completed"), STR(""), 1});
    assert_int_equal(shared_version(ts), before);
}

STORE_TEST(every_handle_sees_the_same_shared_version)
{
    struct test_store other;
    ts_join(&other, ts);
    int64_t before = shared_version(&other);
    put(ts, row(SHARED_BREAKER, "b", "open", 0));
    /* A handle may go by the last answer of its server for a second. */
    if (shared_version(&other) == before)
        pass_ms(1010);
    (void)shared_version(&other);
    assert_true(other.shared_version > before);
    assert_int_equal(other.shared_version, shared_version(ts));
    ts_close(&other);
}

STORE_TEST(one_stale_row_in_a_batch_fails_alone)
{
    const struct shared_row rows[] = {
        row(SHARED_LIMIT, "a", "1", 0), row(SHARED_LIMIT, "a", "2", 0),
        row(SHARED_LIMIT, "a", "3", 1), row(SHARED_LIMIT, "b", "1", 0)};
    struct move_result r[4];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->shared_put(ts->store, rows, 4, r, NULL), 0);
    ts_commit(ts);
    assert_int_equal(r[0].code, 0);
    assert_int_equal(r[1].code, REDRIVE_E_STATE);
    assert_int_equal(r[2].code, 0);
    assert_int_equal(r[3].code, 0);
    struct shared_page *page = ts_shared(ts, SHARED_LIMIT, STR("acme"));
    assert_int_equal(page->n, 2);
    check_str(page->rows[0].value, "3");
    assert_int_equal(page->rows[0].version, 2);
}

static struct counter_page *counters(struct test_store *ts, struct str tenant)
{
    assert_int_equal(store_ops(ts->store)->counters_list(ts->store, tenant, &ts->counters, NULL),
                     0);
    return &ts->counters;
}

STORE_TEST(counters_add_up)
{
    struct test_store other;
    ts_join(&other, ts);
    ts_count(ts, (struct counter){STR("acme"), STR("completed"), STR("mail"), 2});
    ts_count(&other, (struct counter){STR("acme"), STR("completed"), STR("mail"), 40});
    ts_count(ts, (struct counter){STR("acme"), STR("completed"), (struct str){0}, 5});
    ts_count(ts, (struct counter){STR("acme"), STR("completed"), STR(""), 6});
    struct counter_page *page = counters(ts, STR("acme"));
    assert_int_equal(page->n, 2);
    assert_int_equal(page->counters[0].label.len, 0);
    assert_int_equal(page->counters[0].value, 11);
    check_str(page->counters[1].name, "completed");
    check_str(page->counters[1].label, "mail");
    assert_int_equal(page->counters[1].value, 42);
    ts_close(&other);
}

STORE_TEST(counters_come_by_tenant_name_and_label)
{
    static const char *const ROWS[][3] = {
        {"b", "a", "a"}, {"a", "b", "a"}, {"a", "a", "b"}, {"a", "a", "a"}};
    for (int i = 0; i < 4; i++)
        ts_count(ts, (struct counter){str_of(ROWS[i][0]), str_of(ROWS[i][1]), str_of(ROWS[i][2]),
                                      1 + i});
    struct counter_page *page = counters(ts, (struct str){0});
    assert_int_equal(page->n, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(page->counters[i].value, 4 - i);
    assert_int_equal(counters(ts, STR("b"))->n, 1);
    assert_int_equal(counters(ts, STR("c"))->n, 0);
}
