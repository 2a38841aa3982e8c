/* What is known of a store that fails: by the log, and by its status. */
#include "engine/fragile.h"

#include <limits.h>

#include "base/err.h"

FRAGILE_TEST(store_that_is_away_is_logged_once_and_so_is_its_return)
{
    int64_t next_ms;
    fragile.begins_left = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(engine_tick(te->engine, &next_ms, NULL), REDRIVE_E_IO);
    assert_int_equal(fragile_count("store_failed"), 1);
    assert_int_equal(fragile_count("store_works_again"), 0);
    fragile.begins_left = UINT_MAX;
    for (int i = 0; i < 3; i++)
        assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    assert_int_equal(fragile_count("store_works_again"), 1);
    fragile.begins = 0;
    fragile.begins_left = 0;
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), REDRIVE_E_IO);
    assert_int_equal(fragile_count("store_failed"), 2);
}

static int submit_task(struct test_engine *te, const char *task)
{
    struct submit_op op;
    const struct job_spec spec = {.task = str_of(task)};
    assert_int_equal(submit_op_init(&op, te->engine, &spec, 1, NULL), 0);
    int rc = engine_apply_one(te->engine, &op.op, NULL);
    submit_op_release(&op);
    return rc;
}

FRAGILE_TEST(store_status_tells_of_writes_that_fail_until_one_goes_well)
{
    struct store_status_view store_status;
    int64_t next_ms;
    assert_int_equal(submit_task(te, "a"), 0);
    store_status_read(engine_store_status(te->engine), &store_status);
    assert_false(store_status.is_failing);
    assert_true(store_status.heard_ms > 0 && store_status.since_ms == 0 &&
                store_status.busy_ms == 0);
    fragile.fail_commit = REDRIVE_E_IO;
    fragile.fail_times = 31;
    for (int i = 0; i < 31; i++)
        assert_int_equal(submit_task(te, "a"), REDRIVE_E_IO);
    assert_int_equal(fragile_count("store_failed"), 1);
    assert_non_null(strstr(buf_cstr(&fragile.lines), "ERROR"));
    /* A tick that has nothing to write proves nothing. */
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    store_status_read(engine_store_status(te->engine), &store_status);
    assert_true(store_status.is_failing && store_status.since_ms > 0);
    assert_false(store_status.is_away);
    assert_string_equal(store_status.err.message, "the commit failed");
    assert_int_equal(store_status.errors[-REDRIVE_E_IO], 31);
    assert_int_equal(submit_task(te, "a"), 0);
    store_status_read(engine_store_status(te->engine), &store_status);
    assert_false(store_status.is_failing);
    assert_int_equal(store_status.errors[-REDRIVE_E_IO], 31);
    assert_int_equal(fragile_count("store_works_again"), 1);
}

FRAGILE_TEST(full_disk_on_which_small_writes_fit_is_logged_once)
{
    struct redrive_err full;
    struct store_status *status = engine_store_status(te->engine);
    (void)err_set(&full, REDRIVE_E_IO, "the disk is full");
    err_hint(&full, STORE_FULL_HINT);
    for (int i = 0; i < 5; i++) {
        store_status_failed(status, true, &full);
        store_status_worked(status, true);
    }
    assert_int_equal(fragile_count("store_failed"), 1);
}

FRAGILE_TEST(store_of_one_file_is_never_away)
{
    struct store_status_view store_status;
    fragile.begins_left = 0;
    fragile.begins = 0;
    assert_int_equal(submit_task(te, "a"), REDRIVE_E_IO);
    store_status_read(engine_store_status(te->engine), &store_status);
    assert_true(store_status.is_failing);
    assert_false(store_status_is_away(engine_store_status(te->engine), NULL));
    fragile.begins_left = UINT_MAX;
}

TEST(server_that_no_transaction_reaches_is_away_until_one_does)
{
    struct redrive_err err = {0}, why = {0};
    struct store_status *store_status = store_status_new(NULL, true, 0);
    (void)err_set(&err, REDRIVE_E_IO, "refused");
    assert_false(store_status_is_away(store_status, &why));
    store_status_begins(store_status);
    store_status_failed(store_status, false, &err);
    assert_true(store_status_is_away(store_status, &why));
    assert_string_equal(why.message, "refused");
    store_status_worked(store_status, false);
    assert_false(store_status_is_away(store_status, &why));
    struct store_status_view seen;
    store_status_read(store_status, &seen);
    assert_false(seen.is_failing);
    (void)err_set(&err, REDRIVE_E_TOO_BIG, "too big");
    store_status_failed(store_status, true, &err);
    store_status_read(store_status, &seen);
    assert_false(seen.is_failing); /* it is the fault of the caller */
    assert_int_equal(seen.errors[-REDRIVE_E_TOO_BIG], 1);
    char name[32];
    assert_string_equal(store_status_kind_name(REDRIVE_E_TOO_BIG, name), "too_big");
    store_status_free(store_status);
}

TEST_MAIN(argc, argv)
{
    int failed = check_run(NULL, NULL);
    fragile_release();
    return failed;
}
