/* Periodic tasks that are set and removed at run time. */
#include "engine/bed.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/clock/cron.h"
#include "engine/clock/cron_entries.h"
#include "engine/engine.h"

#define BEAT   "{\"task\":\"store_status\",\"schedule\":\"* * * * *\",\"overlap\":\"allow\"}"
#define HOURLY "{\"task\":\"store_status\",\"schedule\":\"0 * * * *\",\"overlap\":\"allow\"}"

static const struct str TENANT = {ENGINE_TENANT_DEFAULT, sizeof ENGINE_TENANT_DEFAULT - 1};

/* The code of the answer; 1: it is new. */
static int put_as(struct bed *bed, struct str tenant, const char *name, const char *json)
{
    struct cron_put_op op;
    int rc = cron_put_op_init(&op, bed->engine, tenant, str_of(name), str_of(json), NULL);
    if (rc == 0)
        rc = engine_apply_one(bed->engine, &op.op, NULL);
    rc = rc == 0 ? op.created : rc;
    cron_put_op_release(&op);
    return rc;
}

static int put(struct bed *bed, const char *name, const char *json)
{
    return put_as(bed, TENANT, name, json);
}

static int remove_as(struct bed *bed, struct str tenant, const char *name, struct redrive_err *err)
{
    struct cron_remove_op op;
    cron_remove_op_init(&op, tenant, str_of(name));
    return engine_apply_one(bed->engine, &op.op, err);
}

static void tick_engine(struct bed *bed, struct engine *engine)
{
    struct engine *own = bed->engine;
    bed->engine = engine;
    bed_tick(bed);
    bed->engine = own;
}

static size_t queued(struct bed *bed)
{
    return bed_count(bed, REDRIVE_STATE_QUEUED);
}

static void reload(struct bed *bed, const struct config *config)
{
    struct reload_op op;
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    reload_op_release(&op);
    bed_tick(bed);
}

/* The versions of all rows, added up: they rise with every put. */
static int64_t versions(struct bed *bed)
{
    struct store *store = engine_store(bed->engine);
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
static void put_row(struct bed *bed, const char *name, const char *value, int64_t version)
{
    struct store *store = engine_store(bed->engine);
    const struct store_ops *ops = store_ops(store);
    const struct shared_row row = {.kind = SHARED_CRON,
                                   .tenant = TENANT,
                                   .key = str_of(name),
                                   .value = str_of(value),
                                   .version = version};
    struct move_result result = {0};
    int64_t now_ms, shared;
    assert_int_equal(ops->begin(store, bed->now_ms, &now_ms, &shared, NULL), 0);
    assert_int_equal(ops->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(ops->commit(store, NULL), 0);
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

BED_TEST(stored_entry_ticks_from_the_next_time_on, NULL)
{
    bed->now_ms += 30000;
    assert_int_equal(put(bed, "beat", BEAT), 1);
    assert_int_equal(engine_next_ms(bed->engine), BED_START_MS + 60000);
    bed_tick(bed);
    assert_int_equal(queued(bed), 0);
    bed_pass(bed, 30000);
    assert_int_equal(queued(bed), 1);
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 2);
}

BED_TEST(two_engines_make_each_tick_of_a_stored_entry_once, NULL)
{
    struct engine *second = bed_second_engine(bed);
    tick_engine(bed, second);
    assert_int_equal(put(bed, "beat", BEAT), 1);
    for (size_t minute = 1; minute <= 5; minute++) {
        bed->now_ms += 60000;
        tick_engine(bed, minute % 2 ? second : bed->engine);
        tick_engine(bed, minute % 2 ? bed->engine : second);
        assert_int_equal(queued(bed), minute);
    }
    engine_close(second);
}

BED_TEST(an_entry_is_noticed_by_an_engine_that_did_not_set_it, NULL)
{
    struct engine *second = bed_second_engine(bed);
    tick_engine(bed, second);
    assert_int_equal(put(bed, "beat", BEAT), 1);
    tick_engine(bed, second);
    assert_int_equal(engine_next_ms(second), BED_START_MS + 60000);
    bed->now_ms += 60000;
    tick_engine(bed, second);
    assert_int_equal(queued(bed), 1);
    assert_int_equal(remove_as(bed, TENANT, "beat", NULL), 0);
    bed->now_ms += 60000;
    tick_engine(bed, second);
    assert_int_equal(queued(bed), 1);
    engine_close(second);
}

BED_TEST(stored_entry_survives_a_reopen_and_makes_up_for_the_last_tick, NULL)
{
    assert_int_equal(put(bed, "beat", BEAT), 1);
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 1);
    /* The new one comes before the former goes, since a store in memory goes with its last user. */
    struct engine *second = bed_second_engine(bed);
    engine_close(bed->engine);
    bed->engine = second;
    bed_pass(bed, 10 * 60000);
    assert_int_equal(queued(bed), 2);
}

BED_TEST(removed_entry_ticks_no_more, NULL)
{
    struct redrive_err err = {0};
    assert_int_equal(put(bed, "beat", BEAT), 1);
    bed_pass(bed, 60000);
    assert_int_equal(remove_as(bed, TENANT, "baet", &err), REDRIVE_E_NOT_FOUND);
    assert_string_equal(err.hint, "did you mean 'beat'?");
    assert_int_equal(remove_as(bed, TENANT, "beat", NULL), 0);
    assert_int_equal(remove_as(bed, TENANT, "beat", NULL), REDRIVE_E_NOT_FOUND);
    bed_pass(bed, 10 * 60000);
    assert_int_equal(queued(bed), 1);
    /* One that comes back is new: nothing is made up for. */
    assert_int_equal(put(bed, "beat", BEAT), 1);
    bed_tick(bed);
    assert_int_equal(queued(bed), 1);
}

BED_TEST(replaced_schedule_starts_with_its_own_next_tick, NULL)
{
    assert_int_equal(put(bed, "beat", HOURLY), 1);
    bed_pass(bed, 90 * 60000 + 500);
    assert_int_equal(queued(bed), 1);
    assert_int_equal(put(bed, "beat", BEAT), 0);
    bed_tick(bed);
    assert_int_equal(queued(bed), 1);
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 2);
    assert_int_equal(put(bed, "beat", HOURLY), 0);
    bed_pass(bed, 5 * 60000);
    assert_int_equal(queued(bed), 2);
}

BED_TEST(another_payload_loses_no_tick_that_is_due, NULL)
{
    assert_int_equal(put(bed, "beat", BEAT), 1);
    bed->now_ms += 60000;
    assert_int_equal(
        put(bed, "beat",
            "{\"task\":\"store_status\",\"schedule\":\"* * * * *\",\"overlap\":\"allow\","
            "\"payload\":{\"a\":1}}"),
        0);
    bed_tick(bed);
    check_str(bed_claim_one(bed)->spec.payload, "{\"a\":1}");
}

BED_TEST(the_same_entry_again_changes_nothing, NULL)
{
    assert_int_equal(put(bed, "beat", BEAT), 1);
    const int64_t before = versions(bed);
    bed->now_ms += 1000;
    assert_int_equal(
        put(bed, "beat",
            "{\"overlap\": \"allow\", \"timezone\": \"UTC\", \"task\": \"store_status\", "
            "\"payload\": null, \"schedule\": \"* * * * *\"}"),
        0);
    assert_int_equal(versions(bed), before);
}

BED_TEST(overlap_and_hand_hold_for_stored_entries, NULL)
{
    struct cron_op op;
    assert_int_equal(put(bed, "beat", "{\"task\":\"store_status\",\"schedule\":\"* * * * *\"}"), 1);
    bed_pass(bed, 60000);
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 1);
    cron_op_init(&op, TENANT, STR("beat"));
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), REDRIVE_E_STATE);
    assert_int_equal(put(bed, "other", BEAT), 1);
    cron_op_init(&op, TENANT, STR("other"));
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_int_equal(queued(bed), 2);
}

/* ---- Who is heard ---------------------------------------------------------------------------- */

#define OWN "cron: {beat: {task: own, schedule: \"0 * * * *\", overlap: allow}}\n"

BED_TEST(the_configuration_wins_and_cannot_be_changed, OWN)
{
    struct redrive_err err = {0};
    assert_int_equal(put(bed, "beat", BEAT), REDRIVE_E_STATE);
    assert_int_equal(remove_as(bed, TENANT, "beat", &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.hint, "redrive.yaml"));
    /* It is the business of one tenant. */
    assert_int_equal(put_as(bed, STR("acme"), "beat", BEAT), 1);
}

TEST(stored_entry_is_back_when_the_configuration_lets_go)
{
    struct bed with, bed;
    bed_init(&with, OWN);
    bed_init(&bed, "strict_tasks: false\n");
    assert_int_equal(put(&bed, "beat", BEAT), 1);
    bed_pass(&bed, 60000);
    assert_int_equal(queued(&bed), 1);
    reload(&bed, with.config);
    bed_pass(&bed, 58 * 60000);
    assert_int_equal(queued(&bed), 1);
    bed_pass(&bed, 60000);
    assert_int_equal(queued(&bed), 2);
    reload(&bed, bed.config);
    bed_pass(&bed, 60000);
    assert_int_equal(queued(&bed), 3);
    bed_release(&bed);
    bed_release(&with);
}

TEST(tick_whose_job_is_refused_is_passed_over)
{
    struct bed strict, bed;
    struct cron_op op;
    bed_init(&strict, "strict_tasks: true\n");
    bed_init(&bed, "strict_tasks: false\n");
    assert_int_equal(put(&bed, "beat", BEAT), 1);
    reload(&bed, strict.config);
    bed_pass(&bed, 60000);
    assert_int_equal(queued(&bed), 0);
    assert_int_equal(engine_next_ms(bed.engine), BED_START_MS + 120000);
    cron_op_init(&op, TENANT, STR("beat"));
    assert_int_equal(engine_apply_one(bed.engine, &op.op, NULL), REDRIVE_E_UNKNOWN);
    bed_release(&bed);
    bed_release(&strict);
}

BED_TEST(tenants_have_entries_of_their_own, NULL)
{
    struct cron_page page = {0};
    assert_int_equal(put_as(bed, STR("acme"), "beat", HOURLY), 1);
    assert_int_equal(put(bed, "beat", BEAT), 1);
    assert_int_equal(remove_as(bed, STR("other"), "beat", NULL), REDRIVE_E_NOT_FOUND);
    bed_pass(bed, 60000);
    check_str(bed_claim_one(bed)->spec.tenant, ENGINE_TENANT_DEFAULT);
    assert_int_equal(remove_as(bed, TENANT, "beat", NULL), 0);
    bed_pass(bed, 3540000);
    check_str(bed_claim_one(bed)->spec.tenant, "acme");
    assert_int_equal(cron_page_read(engine_store(bed->engine), NULL, TENANT, 0, &page, NULL), 0);
    assert_int_equal(page.n, 0);
    cron_page_release(&page);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

BED_TEST(row_without_a_definition_is_a_mark, OWN)
{
    char row[128];
    /* As versions before stored entries have written it. */
    (void)snprintf(row, sizeof row,
                   "{\"task\":\"own\",\"schedule\":\"0 * * * *\",\"timezone\":\"UTC\","
                   "\"last_tick_ms\":%" PRId64 "}",
                   bed->now_ms - 7200000);
    put_row(bed, "beat", row, 1);
    put_row(bed, "gone", row, 0);
    bed_tick(bed);
    assert_int_equal(queued(bed), 1);
    assert_int_equal(remove_as(bed, TENANT, "gone", NULL), REDRIVE_E_NOT_FOUND);
    assert_int_equal(put(bed, "gone", BEAT), 1);
    bed_tick(bed);
    assert_int_equal(queued(bed), 1);
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 2);
}

BED_TEST(definition_that_is_not_understood_is_left_alone, NULL)
{
    struct cron_page page = {0};
    put_row(bed, "later", "{\"last_tick_ms\":0,\"entry\":{\"every\":\"5m\"}}", 0);
    put_row(bed, "broken", "{", 0);
    assert_int_equal(put(bed, "beat", BEAT), 1);
    const int64_t before = versions(bed);
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 1);
    assert_int_equal(versions(bed), before + 1);
    assert_int_equal(
        cron_page_read(engine_store(bed->engine), NULL, TENANT, bed->now_ms, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_string_equal(page.items[0].entry->name, "beat");
    assert_int_equal(page.items[0].last_ms, BED_START_MS + 60000);
    assert_int_equal(page.items[0].next_ms, BED_START_MS + 120000);
    cron_page_release(&page);
    assert_int_equal(remove_as(bed, TENANT, "later", NULL), 0);
}

BED_TEST(damaged_row_of_a_configured_entry_is_written_anew, OWN)
{
    static const char *const DAMAGED[] = {"{", "[]", "{\"last_tick_ms\":-1}",
                                          "{\"last_tick_ms\":1,\"schedule\":7}"};
    for (size_t i = 0; i < sizeof DAMAGED / sizeof DAMAGED[0]; i++) {
        put_row(bed, "beat", DAMAGED[i], versions(bed));
        bed_pass(bed, 60000);
        assert_int_equal(queued(bed), i);
        bed_pass(bed, 59 * 60000);
        assert_int_equal(queued(bed), i + 1);
    }
    /* Nor does it stop a process that starts. */
    put_row(bed, "beat", "{", versions(bed));
    struct engine *second = bed_second_engine(bed);
    tick_engine(bed, second);
    bed_pass(bed, 60 * 60000);
    assert_int_equal(queued(bed), 5);
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

BED_TEST(what_a_failed_transaction_has_set_is_not_believed, NULL)
{
    struct cron_put_op op;
    struct engine *first = bed->engine, *second = bed_second_engine(bed);
    assert_int_equal(put(bed, "beat", HOURLY), 1);
    assert_int_equal(cron_put_op_init(&op, first, TENANT, STR("beat"), STR(BEAT), NULL), 0);
    struct failing_op failing = {.op = {.apply = apply_and_fail}, .inner = &op.op};
    assert_int_equal(engine_apply_one(first, &failing.op, NULL), REDRIVE_E_NOMEM);
    cron_put_op_release(&op);
    /* The row of the other gets the version that the failed one had. */
    bed->engine = second;
    assert_int_equal(put(bed, "beat", "{\"task\":\"store_status\",\"schedule\":\"30 * * * *\"}"),
                     0);
    bed->engine = first;
    bed_pass(bed, 60000);
    assert_int_equal(queued(bed), 0);
    bed_pass(bed, 29 * 60000);
    assert_int_equal(queued(bed), 1);
    engine_close(second);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

BED_TEST(entries_are_checked_by_the_rules_of_the_configuration,
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
        assert_true(cron_put_op_init(&op, bed->engine, TENANT, STR("beat"), str_of(CASES[i].json),
                                     &err) < 0);
        assert_string_equal(op.field, CASES[i].field);
        if (CASES[i].message)
            assert_string_equal(err.message, CASES[i].message);
        cron_put_op_release(&op);
    }
    assert_int_equal(put(bed, "two words", BEAT), REDRIVE_E_INVALID);
    assert_int_equal(put(bed, "\xff", BEAT), REDRIVE_E_INVALID);
    assert_int_equal(versions(bed), 0);
}

BED_TEST(entries_are_bounded_in_size_and_number, NULL)
{
    struct buf json;
    char name[32];
    buf_init(&json, 1u << 20);
    buf_puts(&json, "{\"task\":\"store_status\",\"schedule\":\"@daily\",\"payload\":\"");
    for (int i = 0; i < 64 * 1024; i++)
        buf_putc(&json, 'x');
    buf_puts(&json, "\"}");
    assert_int_equal(put(bed, "big", buf_cstr(&json)), REDRIVE_E_TOO_BIG);
    buf_release(&json);
    for (int i = 0; i < CRON_STORED_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        put_row(bed, name, "{\"last_tick_ms\":0,\"entry\":" HOURLY "}", 0);
    }
    assert_int_equal(put(bed, "more", BEAT), REDRIVE_E_STATE);
    assert_int_equal(put(bed, "n7", BEAT), 0);
    assert_int_equal(put_as(bed, STR("acme"), "more", BEAT), 1);
}

/* Its version starts anew, and says nothing about what it was before. */
BED_TEST(an_entry_that_is_removed_and_set_again_is_the_new_one_everywhere, NULL)
{
    struct engine *other = bed_second_engine(bed);
    assert_int_equal(put(bed, "beat", BEAT), 1);
    tick_engine(bed, other);
    assert_int_equal(remove_as(bed, TENANT, "beat", NULL), 0);
    assert_int_equal(put(bed, "beat", HOURLY), 1);
    for (int i = 0; i < 5; i++) {
        bed->now_ms += 60000;
        tick_engine(bed, other);
    }
    assert_int_equal(queued(bed), 0);
    engine_close(other);
}
