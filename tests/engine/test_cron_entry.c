/* Periodic tasks that are set and removed at run time. */
#include "engine/engine_for_test.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/clock/cron.h"
#include "engine/clock/cron_entries.h"
#include "engine/engine.h"

#define BEAT   "{\"task\":\"store_status\",\"schedule\":\"* * * * *\",\"overlap\":\"allow\"}"
#define HOURLY "{\"task\":\"store_status\",\"schedule\":\"0 * * * *\",\"overlap\":\"allow\"}"

static const struct str TENANT = {ENGINE_TENANT_DEFAULT, sizeof ENGINE_TENANT_DEFAULT - 1};

/* The code of the answer; 1: it is new. */
static int put_as(struct test_engine *te, struct str tenant, const char *name, const char *json)
{
    struct cron_put_op op;
    int rc = cron_put_op_init(&op, te->engine, tenant, str_of(name), str_of(json), NULL);
    if (rc == 0)
        rc = engine_apply_one(te->engine, &op.op, NULL);
    rc = rc == 0 ? op.created : rc;
    cron_put_op_release(&op);
    return rc;
}

static int put(struct test_engine *te, const char *name, const char *json)
{
    return put_as(te, TENANT, name, json);
}

static int remove_as(struct test_engine *te, struct str tenant, const char *name,
                     struct redrive_err *err)
{
    struct cron_remove_op op;
    cron_remove_op_init(&op, tenant, str_of(name));
    return engine_apply_one(te->engine, &op.op, err);
}

static void tick_engine(struct test_engine *te, struct engine *engine)
{
    struct engine *own = te->engine;
    te->engine = engine;
    te_tick(te);
    te->engine = own;
}

static size_t queued(struct test_engine *te)
{
    return te_count(te, REDRIVE_STATE_QUEUED);
}

static void reload(struct test_engine *te, const struct config *config)
{
    struct reload_op op;
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    reload_op_release(&op);
    te_tick(te);
}

/* The versions of all rows, added up: they rise with every put. */
static int64_t versions(struct test_engine *te)
{
    struct store *store = engine_store(te->engine);
    struct shared_page page = {0};
    int64_t sum = 0;
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_CRON, (struct str){0}, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        sum += page.rows[i].version;
    shared_page_release(&page);
    return sum;
}

/* Puts a row of any content, as another program would. */
static void put_row(struct test_engine *te, const char *name, const char *value, int64_t version)
{
    struct store *store = engine_store(te->engine);
    const struct store_ops *ops = store_ops(store);
    const struct shared_row row = {.kind = SHARED_CRON,
                                   .tenant = TENANT,
                                   .key = str_of(name),
                                   .value = str_of(value),
                                   .version = version};
    struct move_result result = {0};
    int64_t now_ms, shared;
    assert_int_equal(ops->begin(store, te->now_ms, &now_ms, &shared, NULL), 0);
    assert_int_equal(ops->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(ops->commit(store, NULL), 0);
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

ENGINE_TEST(stored_entry_ticks_from_the_next_time_on, NULL)
{
    te->now_ms += 30000;
    assert_int_equal(put(te, "beat", BEAT), 1);
    assert_int_equal(engine_next_ms(te->engine), TE_START_MS + 60000);
    te_tick(te);
    assert_int_equal(queued(te), 0);
    te_pass(te, 30000);
    assert_int_equal(queued(te), 1);
    te_pass(te, 60000);
    assert_int_equal(queued(te), 2);
}

ENGINE_TEST(two_engines_make_each_tick_of_a_stored_entry_once, NULL)
{
    struct engine *second = te_second_engine(te);
    tick_engine(te, second);
    assert_int_equal(put(te, "beat", BEAT), 1);
    for (size_t minute = 1; minute <= 5; minute++) {
        te->now_ms += 60000;
        tick_engine(te, minute % 2 ? second : te->engine);
        tick_engine(te, minute % 2 ? te->engine : second);
        assert_int_equal(queued(te), minute);
    }
    engine_close(second);
}

ENGINE_TEST(an_entry_is_noticed_by_an_engine_that_did_not_set_it, NULL)
{
    struct engine *second = te_second_engine(te);
    tick_engine(te, second);
    assert_int_equal(put(te, "beat", BEAT), 1);
    tick_engine(te, second);
    assert_int_equal(engine_next_ms(second), TE_START_MS + 60000);
    te->now_ms += 60000;
    tick_engine(te, second);
    assert_int_equal(queued(te), 1);
    assert_int_equal(remove_as(te, TENANT, "beat", NULL), 0);
    te->now_ms += 60000;
    tick_engine(te, second);
    assert_int_equal(queued(te), 1);
    engine_close(second);
}

ENGINE_TEST(stored_entry_survives_a_reopen_and_makes_up_for_the_last_tick, NULL)
{
    assert_int_equal(put(te, "beat", BEAT), 1);
    te_pass(te, 60000);
    assert_int_equal(queued(te), 1);
    /* The new one comes before the former goes, since a store in memory goes with its last user. */
    struct engine *second = te_second_engine(te);
    engine_close(te->engine);
    te->engine = second;
    te_pass(te, 10 * 60000);
    assert_int_equal(queued(te), 2);
}

ENGINE_TEST(removed_entry_ticks_no_more, NULL)
{
    struct redrive_err err = {0};
    assert_int_equal(put(te, "beat", BEAT), 1);
    te_pass(te, 60000);
    assert_int_equal(remove_as(te, TENANT, "baet", &err), REDRIVE_E_NOT_FOUND);
    assert_string_equal(err.hint, "did you mean 'beat'?");
    assert_int_equal(remove_as(te, TENANT, "beat", NULL), 0);
    assert_int_equal(remove_as(te, TENANT, "beat", NULL), REDRIVE_E_NOT_FOUND);
    te_pass(te, 10 * 60000);
    assert_int_equal(queued(te), 1);
    /* One that comes back is new: nothing is made up for. */
    assert_int_equal(put(te, "beat", BEAT), 1);
    te_tick(te);
    assert_int_equal(queued(te), 1);
}

ENGINE_TEST(replaced_schedule_starts_with_its_own_next_tick, NULL)
{
    assert_int_equal(put(te, "beat", HOURLY), 1);
    te_pass(te, 90 * 60000 + 500);
    assert_int_equal(queued(te), 1);
    assert_int_equal(put(te, "beat", BEAT), 0);
    te_tick(te);
    assert_int_equal(queued(te), 1);
    te_pass(te, 60000);
    assert_int_equal(queued(te), 2);
    assert_int_equal(put(te, "beat", HOURLY), 0);
    te_pass(te, 5 * 60000);
    assert_int_equal(queued(te), 2);
}

ENGINE_TEST(another_payload_loses_no_tick_that_is_due, NULL)
{
    assert_int_equal(put(te, "beat", BEAT), 1);
    te->now_ms += 60000;
    assert_int_equal(
        put(te, "beat",
            "{\"task\":\"store_status\",\"schedule\":\"* * * * *\",\"overlap\":\"allow\","
            "\"payload\":{\"a\":1}}"),
        0);
    te_tick(te);
    check_str(te_claim_one(te)->spec.payload, "{\"a\":1}");
}

ENGINE_TEST(the_same_entry_again_changes_nothing, NULL)
{
    assert_int_equal(put(te, "beat", BEAT), 1);
    const int64_t before = versions(te);
    te->now_ms += 1000;
    assert_int_equal(
        put(te, "beat",
            "{\"overlap\": \"allow\", \"timezone\": \"UTC\", \"task\": \"store_status\", "
            "\"payload\": null, \"schedule\": \"* * * * *\"}"),
        0);
    assert_int_equal(versions(te), before);
}

ENGINE_TEST(overlap_and_hand_hold_for_stored_entries, NULL)
{
    struct cron_op op;
    assert_int_equal(put(te, "beat", "{\"task\":\"store_status\",\"schedule\":\"* * * * *\"}"), 1);
    te_pass(te, 60000);
    te_pass(te, 60000);
    assert_int_equal(queued(te), 1);
    cron_op_init(&op, TENANT, STR("beat"));
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), REDRIVE_E_STATE);
    assert_int_equal(put(te, "other", BEAT), 1);
    cron_op_init(&op, TENANT, STR("other"));
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(queued(te), 2);
}

/* ---- Who is heard ---------------------------------------------------------------------------- */

#define OWN "cron: {beat: {task: own, schedule: \"0 * * * *\", overlap: allow}}\n"

ENGINE_TEST(the_configuration_wins_and_cannot_be_changed, OWN)
{
    struct redrive_err err = {0};
    assert_int_equal(put(te, "beat", BEAT), REDRIVE_E_STATE);
    assert_int_equal(remove_as(te, TENANT, "beat", &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.hint, "the configuration"));
    /* It is the business of one tenant. */
    assert_int_equal(put_as(te, STR("acme"), "beat", BEAT), 1);
}

TEST(stored_entry_is_back_when_the_configuration_lets_go)
{
    struct test_engine with, te;
    te_init(&with, OWN);
    te_init(&te, "strict_tasks: false\n");
    assert_int_equal(put(&te, "beat", BEAT), 1);
    te_pass(&te, 60000);
    assert_int_equal(queued(&te), 1);
    reload(&te, with.config);
    te_pass(&te, 58 * 60000);
    assert_int_equal(queued(&te), 1);
    te_pass(&te, 60000);
    assert_int_equal(queued(&te), 2);
    reload(&te, te.config);
    te_pass(&te, 60000);
    assert_int_equal(queued(&te), 3);
    te_release(&te);
    te_release(&with);
}

TEST(tick_whose_job_is_refused_is_passed_over)
{
    struct test_engine strict, te;
    struct cron_op op;
    te_init(&strict, "strict_tasks: true\n");
    te_init(&te, "strict_tasks: false\n");
    assert_int_equal(put(&te, "beat", BEAT), 1);
    reload(&te, strict.config);
    te_pass(&te, 60000);
    assert_int_equal(queued(&te), 0);
    assert_int_equal(engine_next_ms(te.engine), TE_START_MS + 120000);
    cron_op_init(&op, TENANT, STR("beat"));
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), REDRIVE_E_UNKNOWN);
    te_release(&te);
    te_release(&strict);
}

ENGINE_TEST(tenants_have_entries_of_their_own, NULL)
{
    struct cron_page page = {0};
    assert_int_equal(put_as(te, STR("acme"), "beat", HOURLY), 1);
    assert_int_equal(put(te, "beat", BEAT), 1);
    assert_int_equal(remove_as(te, STR("other"), "beat", NULL), REDRIVE_E_NOT_FOUND);
    te_pass(te, 60000);
    check_str(te_claim_one(te)->spec.tenant, ENGINE_TENANT_DEFAULT);
    assert_int_equal(remove_as(te, TENANT, "beat", NULL), 0);
    te_pass(te, 3540000);
    check_str(te_claim_one(te)->spec.tenant, "acme");
    assert_int_equal(cron_page_read(engine_store(te->engine), NULL, TENANT, 0, &page, NULL), 0);
    assert_int_equal(page.n, 0);
    cron_page_release(&page);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

ENGINE_TEST(row_without_a_definition_is_a_mark, OWN)
{
    char row[128];
    /* As versions before stored entries have written it. */
    (void)snprintf(row, sizeof row,
                   "{\"task\":\"own\",\"schedule\":\"0 * * * *\",\"timezone\":\"UTC\","
                   "\"last_tick_ms\":%" PRId64 "}",
                   te->now_ms - 7200000);
    put_row(te, "beat", row, 1);
    put_row(te, "gone", row, 0);
    te_tick(te);
    assert_int_equal(queued(te), 1);
    assert_int_equal(remove_as(te, TENANT, "gone", NULL), REDRIVE_E_NOT_FOUND);
    assert_int_equal(put(te, "gone", BEAT), 1);
    te_tick(te);
    assert_int_equal(queued(te), 1);
    te_pass(te, 60000);
    assert_int_equal(queued(te), 2);
}

ENGINE_TEST(definition_that_is_not_understood_is_left_alone, NULL)
{
    struct cron_page page = {0};
    put_row(te, "later", "{\"last_tick_ms\":0,\"entry\":{\"every\":\"5m\"}}", 0);
    put_row(te, "broken", "{", 0);
    assert_int_equal(put(te, "beat", BEAT), 1);
    const int64_t before = versions(te);
    te_pass(te, 60000);
    assert_int_equal(queued(te), 1);
    assert_int_equal(versions(te), before + 1);
    assert_int_equal(
        cron_page_read(engine_store(te->engine), NULL, TENANT, te->now_ms, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_string_equal(page.items[0].entry->name, "beat");
    assert_int_equal(page.items[0].last_ms, TE_START_MS + 60000);
    assert_int_equal(page.items[0].next_ms, TE_START_MS + 120000);
    cron_page_release(&page);
    assert_int_equal(remove_as(te, TENANT, "later", NULL), 0);
}

ENGINE_TEST(damaged_row_of_a_configured_entry_is_written_anew, OWN)
{
    static const char *const DAMAGED[] = {"{", "[]", "{\"last_tick_ms\":-1}",
                                          "{\"last_tick_ms\":1,\"schedule\":7}"};
    for (size_t i = 0; i < sizeof DAMAGED / sizeof DAMAGED[0]; i++) {
        put_row(te, "beat", DAMAGED[i], versions(te));
        te_pass(te, 60000);
        assert_int_equal(queued(te), i);
        te_pass(te, 59 * 60000);
        assert_int_equal(queued(te), i + 1);
    }
    /* Nor does it stop a process that starts. */
    put_row(te, "beat", "{", versions(te));
    struct engine *second = te_second_engine(te);
    tick_engine(te, second);
    te_pass(te, 60 * 60000);
    assert_int_equal(queued(te), 5);
    engine_close(second);
}

/* Does what the other does, and then makes the transaction fail. */
struct failing_op {
    struct op op;
    struct op *inner;
};

static int apply_and_fail(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct op *inner = ((struct failing_op *)base)->inner;
    int rc = inner->apply(e, inner, err);
    return rc < 0 ? rc : REDRIVE_E_NOMEM;
}

ENGINE_TEST(what_a_failed_transaction_has_set_is_not_believed, NULL)
{
    struct cron_put_op op;
    struct engine *first = te->engine, *second = te_second_engine(te);
    assert_int_equal(put(te, "beat", HOURLY), 1);
    assert_int_equal(cron_put_op_init(&op, first, TENANT, STR("beat"), STR(BEAT), NULL), 0);
    struct failing_op failing = {.op = {.apply = apply_and_fail}, .inner = &op.op};
    assert_int_equal(engine_apply_one(first, &failing.op, NULL), REDRIVE_E_NOMEM);
    cron_put_op_release(&op);
    /* The row of the other gets the version that the failed one had. */
    te->engine = second;
    assert_int_equal(put(te, "beat", "{\"task\":\"store_status\",\"schedule\":\"30 * * * *\"}"), 0);
    te->engine = first;
    te_pass(te, 60000);
    assert_int_equal(queued(te), 0);
    te_pass(te, 29 * 60000);
    assert_int_equal(queued(te), 1);
    engine_close(second);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

ENGINE_TEST(entries_are_checked_by_the_rules_of_the_configuration,
            "tasks: {store_status: {}, picky: {payload: required}}\nstrict_tasks: true\n")
{
    static const struct {
        const char *json, *field, *message;
    } CASES[] = {
        {"", "", NULL},
        {"[1]", "", "found a list"},
        {"{}", "task", "key 'task' is missing"},
        {"{\"task\":\"store_status\",\"shedule\":\"@daily\"}", "shedule", "unknown key 'shedule'"},
        {"{\"task\":\"store_status\"}", "schedule", "key 'schedule' is missing"},
        {"{\"task\":5,\"schedule\":\"@daily\"}", "task", "task: '5' is not understood"},
        {"{\"task\":\"store_status\",\"schedule\":\"61 * * * *\"}", "schedule",
         "schedule: invalid cron expression: minute 61 is out of range"},
        {"{\"task\":\"store_status\",\"schedule\":\"@daily\",\"timezone\":\"Europe/Berln\"}",
         "timezone", "timezone: unknown time zone 'Europe/Berln'"},
        {"{\"task\":\"store_status\",\"schedule\":\"@daily\",\"overlap\":\"skipp\"}", "overlap",
         NULL},
        {"{\"task\":\"plse\",\"schedule\":\"@daily\"}", "task",
         "task: task 'plse' is not declared"},
        {"{\"task\":\"picky\",\"schedule\":\"@daily\"}", "payload",
         "task 'picky' requires a payload"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct redrive_err err = {0};
        struct cron_put_op op;
        assert_true(cron_put_op_init(&op, te->engine, TENANT, STR("beat"), str_of(CASES[i].json),
                                     &err) < 0);
        assert_string_equal(op.field, CASES[i].field);
        if (CASES[i].message)
            assert_string_equal(err.message, CASES[i].message);
        cron_put_op_release(&op);
    }
    assert_int_equal(put(te, "two words", BEAT), REDRIVE_E_INVALID);
    assert_int_equal(put(te, "\xff", BEAT), REDRIVE_E_INVALID);
    assert_int_equal(versions(te), 0);
}

ENGINE_TEST(entries_are_bounded_in_size_and_number, NULL)
{
    struct buf json;
    char name[32];
    buf_init(&json, 1u << 20);
    buf_puts(&json, "{\"task\":\"store_status\",\"schedule\":\"@daily\",\"payload\":\"");
    for (int i = 0; i < 64 * 1024; i++)
        buf_putc(&json, 'x');
    buf_puts(&json, "\"}");
    assert_int_equal(put(te, "big", buf_cstr(&json)), REDRIVE_E_TOO_BIG);
    buf_release(&json);
    for (int i = 0; i < CRON_STORED_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        put_row(te, name, "{\"last_tick_ms\":0,\"entry\":" HOURLY "}", 0);
    }
    assert_int_equal(put(te, "more", BEAT), REDRIVE_E_STATE);
    assert_int_equal(put(te, "n7", BEAT), 0);
    assert_int_equal(put_as(te, STR("acme"), "more", BEAT), 1);
}

/* Its version starts anew, and says nothing about what it was before. */
ENGINE_TEST(an_entry_that_is_removed_and_set_again_is_the_new_one_everywhere, NULL)
{
    struct engine *other = te_second_engine(te);
    assert_int_equal(put(te, "beat", BEAT), 1);
    tick_engine(te, other);
    assert_int_equal(remove_as(te, TENANT, "beat", NULL), 0);
    assert_int_equal(put(te, "beat", HOURLY), 1);
    for (int i = 0; i < 5; i++) {
        te->now_ms += 60000;
        tick_engine(te, other);
    }
    assert_int_equal(queued(te), 0);
    engine_close(other);
}
