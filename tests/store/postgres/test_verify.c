/* Rows that contradict each other are found. */
#include "kit.h"
#include "stores_postgres.h"

static void a_job_that_waits_in_vain_is_found_out(void **state)
{
    struct kit *k = *state;
    struct redrive_err err = {0};
    const struct store_ops *ops = store_ops(k->store);
    kit_begin(k);
    const int64_t parent = PUT(k, .children = 1);
    const int64_t child = PUT(k, .parents = 1, .open_parents = 1);
    const struct job_edge edge = {.parent = parent, .child = child};
    assert_int_equal(ops->edges_put(k->store, &edge, 1, NULL), 0);
    kit_commit(k);
    assert_int_equal(ops->verify(k->store, NULL, NULL, NULL), 0);
    stores_postgres_sql(k->url, "UPDATE redrive.edges SET parent = 99", NULL, 0);
    assert_int_equal(ops->verify(k->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "waits for a job that is not there"));
    stores_postgres_sql(k->url, "UPDATE redrive.edges SET outcome = 1", NULL, 0);
    assert_int_equal(ops->verify(k->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "as many jobs as it counts"));
}

static void a_store_that_is_not_whole_is_found_out(void **state)
{
    struct kit *k = *state;
    struct redrive_err err = {0};
    PUT(k, .id = STR("x"));
    stores_postgres_sql(k->url, "DELETE FROM redrive.specs", NULL, 0);
    assert_int_equal(store_ops(k->store)->verify(k->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "no payload"));
    /* And the handle is of use afterwards. */
    kit_begin(k);
    kit_rollback(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        F(a_job_that_waits_in_vain_is_found_out),
        F(a_store_that_is_not_whole_is_found_out),
    };
    return cmocka_run_group_tests_name("postgres verify", tests, NULL, NULL);
}
