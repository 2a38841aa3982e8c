#include "check.h"

#include <stdio.h>

#include "server/rest/body/work.h"

static struct arena arena;
static struct redrive_err err;
static struct claim_body claim;
static struct items_body settle;
static struct items_body extend;

static void begin(void)
{
    arena_release(&arena);
    arena_init(&arena);
    err = (struct redrive_err){0};
}

static int read_claim(const char *text)
{
    begin();
    return claim_body_read(str_of(text), &arena, &claim, &err);
}

static int read_settle(const char *text)
{
    begin();
    return settle_body_read(str_of(text), STR("acme"), &arena, &settle, &err);
}

static int read_extend(const char *text)
{
    begin();
    return extend_body_read(str_of(text), STR("acme"), &arena, &extend, &err);
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

TEST(a_claim_may_say_nothing)
{
    assert_int_equal(read_claim(""), 0);
    assert_int_equal(claim.n, 1);
    assert_int_equal(claim.wait_ms, 0);
    assert_int_equal(read_claim("{}"), 0);
    assert_int_equal(claim.queues.n, 0);
}

TEST(a_claim_may_say_everything)
{
    assert_int_equal(read_claim("{\"queues\":[\"a\",\"b\"],\"tasks\":[\"t\"],\"n\":10,"
                                "\"worker\":\"w1\",\"lease\":\"1m\",\"wait\":2.5}"),
                     0);
    assert_int_equal(claim.queues.n, 2);
    check_str(claim.queues.items[1], "b");
    check_str(claim.tasks.items[0], "t");
    assert_int_equal(claim.n, 10);
    check_str(claim.worker, "w1");
    assert_int_equal(claim.lease_ms, 60000);
    assert_int_equal(claim.wait_ms, 2500);
}

TEST(a_claim_has_limits)
{
    assert_int_equal(read_claim("{\"n\":501}"), REDRIVE_E_RANGE);
    assert_string_equal(claim.field, "n");
    assert_int_equal(read_claim("{\"wait\":61}"), REDRIVE_E_RANGE);
    assert_string_equal(claim.field, "wait");
    assert_int_equal(read_claim("{\"lease\":\"999ms\"}"), REDRIVE_E_RANGE);
    assert_int_equal(read_claim("{\"queues\":[]}"), REDRIVE_E_INVALID);
    assert_int_equal(read_claim("{\"queues\":\"a\"}"), REDRIVE_E_INVALID);
    assert_int_equal(read_claim("{\"queues\":[1]}"), REDRIVE_E_INVALID);
    assert_string_equal(claim.field, "queues");
    assert_int_equal(read_claim("{\"queue\":[\"a\"]}"), REDRIVE_E_UNKNOWN);
    assert_non_null(strstr(err.hint, "queues"));
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

TEST(a_token_is_read_as_it_was_written)
{
    char text[LEASE_TOKEN_MAX];
    const uint64_t tokens[] = {1, 255, UINT64_C(0x0123456789abcdef), UINT64_MAX};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        assert_true(lease_token_read(str_of(lease_token_write(tokens[i], text))) == tokens[i]);
    assert_true(lease_token_read(STR("1")) == 0);
    assert_true(lease_token_read(STR("0123456789abcdeX")) == 0);
    assert_true(lease_token_read(STR("0123456789ABCDEF")) == 0);
    assert_true(lease_token_read(STR("00000000000000001")) == 0);
}

/* ---- Settlements ----------------------------------------------------------------------------- */

#define LEASE "\"id\":\"j\",\"token\":\"0000000000000007\""

static const struct outcome *outcome_of(const char *members)
{
    static char text[512];
    (void)snprintf(text, sizeof text, "{\"items\":[{" LEASE "%s}]}", members);
    assert_int_equal(read_settle(text), 0);
    assert_int_equal(settle.n, 1);
    return &settle.settlements[0].outcome;
}

TEST(a_success_has_a_result)
{
    const struct outcome *o = outcome_of(",\"status\":\"SUCCESS\",\"result\":{\"a\": 1}");
    assert_int_equal(o->ending, ENDING_RAN);
    assert_string_equal(o->failure.status, "SUCCESS");
    assert_false(o->failure.failed);
    check_str(settle.settlements[0].tenant, "acme");
    check_str(settle.settlements[0].id, "j");
    assert_int_equal(settle.settlements[0].token, 7);
    check_str(settle.settlements[0].result, "{\"a\": 1}");
}

TEST(a_failure_may_be_a_class_or_a_word_or_an_error)
{
    assert_string_equal(outcome_of(",\"class\":\"network\"")->failure.status, "network");
    assert_string_equal(outcome_of(",\"status\":\"TRANSIENT_FAIL\"")->failure.status,
                        "TRANSIENT_FAIL");
    const struct outcome *o = outcome_of(",\"status\":\"FAIL\",\"message\":\"no\"");
    assert_null(o->failure.status);
    assert_true(o->failure.failed);
    o = outcome_of(",\"error_type\":\"IOError\",\"message\":\"m\",\"stacktrace\":\"s\"");
    assert_true(o->failure.failed);
    assert_string_equal(o->failure.error_type, "IOError");
    assert_string_equal(o->failure.stacktrace, "s");
    o = outcome_of(",\"error_types\":[\"ConnectTimeout\",\"HTTPError\"]");
    assert_true(o->failure.failed);
    assert_int_equal(o->failure.n_error_types, 2);
    assert_string_equal(o->failure.error_types[1], "HTTPError");
    o = outcome_of(",\"http_status\":503,\"retry_after\":1.5");
    assert_int_equal(o->failure.http_status, 503);
    assert_int_equal(o->failure.retry_after_ms, 1500);
}

TEST(a_job_may_be_given_back)
{
    assert_int_equal(outcome_of(",\"release\":true")->ending, ENDING_RELEASED);
    const struct outcome *o = outcome_of(",\"snooze\":\"10m\"");
    assert_int_equal(o->ending, ENDING_SNOOZED);
    assert_int_equal(o->snooze_ms, 600000);
}

static void check_settle_fault(const char *text, int code, const char *field)
{
    assert_int_equal(read_settle(text), code);
    assert_string_equal(settle.field, field);
}

TEST(a_settlement_that_says_nothing_is_refused)
{
    check_settle_fault("{\"items\":[{" LEASE "}]}", REDRIVE_E_INVALID, "items[0].status");
    check_settle_fault("{\"items\":[{" LEASE ",\"status\":\"SUCCES\"}]}", REDRIVE_E_INVALID,
                       "items[0].status");
    assert_non_null(strstr(err.hint, "'SUCCESS'"));
    check_settle_fault("{\"items\":[{" LEASE ",\"status\":\"FAIL\",\"class\":\"network\"}]}",
                       REDRIVE_E_INVALID, "items[0].class");
    check_settle_fault("{\"items\":[{\"id\":\"j\",\"status\":\"SUCCESS\"}]}", REDRIVE_E_INVALID,
                       "items[0].token");
    check_settle_fault("{\"items\":[{" LEASE ",\"http_status\":99}]}", REDRIVE_E_RANGE,
                       "items[0].http_status");
    check_settle_fault("{}", REDRIVE_E_INVALID, "items");
    check_settle_fault("{\"items\":{}}", REDRIVE_E_INVALID, "items");
    check_settle_fault("{\"items\":[3]}", REDRIVE_E_INVALID, "items[0]");
    check_settle_fault("{\"items\":[", REDRIVE_E_PARSE, "");
}

TEST(bad_item_does_not_spoil_its_neighbours)
{
    assert_int_equal(read_settle("{\"items\":[{\"token\":\"t\"},{" LEASE
                                 ",\"status\":\"SUCCESS\",\"result\":1},{\"result\":2,\"status\":"
                                 "\"BANANA\",\"token\":\"u\",\"id\":\"k\"},3,{" LEASE
                                 ",\"class\":\"network\"}]}"),
                     0);
    assert_int_equal(settle.n_sent, 5);
    assert_int_equal(settle.n, 2);
    check_str(settle.settlements[0].result, "1");
    assert_string_equal(settle.settlements[1].outcome.failure.status, "network");
    assert_int_equal(settle.settlements[1].result.len, 0);
    assert_null(settle.faults[1]);
    assert_null(settle.faults[4]);
    assert_string_equal(settle.faults[0]->field, "items[0].id");
    assert_int_equal(settle.faults[0]->id.len, 0);
    assert_string_equal(settle.faults[2]->field, "items[2].status");
    check_str(settle.faults[2]->id, "k");
    assert_int_equal(settle.faults[2]->err.code, REDRIVE_E_INVALID);
    assert_string_equal(settle.faults[3]->field, "items[3]");
}

TEST(no_items_are_no_mistake)
{
    assert_int_equal(read_settle("{\"items\":[]}"), 0);
    assert_int_equal(settle.n, 0);
}

/* ---- Heartbeats ------------------------------------------------------------------------------ */

TEST(a_heartbeat_names_its_lease)
{
    assert_int_equal(read_extend("{\"items\":[{" LEASE ",\"lease\":30},{" LEASE "}]}"), 0);
    assert_int_equal(extend.n, 2);
    assert_int_equal(extend.extensions[0].lease_ms, 30000);
    assert_int_equal(extend.extensions[0].token, 7);
    check_str(extend.extensions[0].tenant, "acme");
    assert_int_equal(extend.extensions[1].lease_ms, 0);
    assert_int_equal(read_extend("{\"items\":[{" LEASE ",\"lease\":\"2d\"}]}"), REDRIVE_E_RANGE);
    assert_string_equal(extend.field, "items[0].lease");
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
