/* The core under its public names: classify, decide, a breaker without a handler. */
#include "fixture.h"

TEST(a_failure_is_classified_by_its_base_types)
{
    const char *const types[] = {"shop.Odd", "builtins.ConnectionError", "builtins.OSError"};
    struct redrive_failure failure = {.error_types = types, .n_error_types = 3, .failed = true};
    struct redrive_verdict v = redrive_classify(NULL, &failure, NULL);
    assert_int_equal(v.class_, REDRIVE_CLASS_NETWORK);
    assert_false(v.unclassified);
    assert_int_equal(redrive_classify(NULL, NULL, NULL).class_, REDRIVE_CLASS_SUCCESS);
    v = redrive_classify(NULL, &(struct redrive_failure){.failed = true}, NULL);
    assert_int_equal(v.class_, REDRIVE_CLASS_TRANSIENT);
    assert_true(v.unclassified);
}

TEST(rows_of_a_classifier_come_first_and_know_the_task)
{
    struct redrive_classify_row row = {.source = REDRIVE_SOURCE_ERROR_TYPE,
                                       .pattern = "Odd*",
                                       .class_ = REDRIVE_CLASS_RATE_LIMITED,
                                       .task = "report"};
    struct redrive_classifier *c = redrive_classifier_new(&row, 1, NULL);
    assert_non_null(c);
    struct redrive_failure failure = {.error_type = "OddLimit"};
    struct redrive_names names = {.task = "report"};
    assert_int_equal(redrive_classify(c, &failure, &names).class_, REDRIVE_CLASS_RATE_LIMITED);
    names.task = "mail";
    assert_true(redrive_classify(c, &failure, &names).unclassified);
    redrive_classifier_free(c);
    redrive_classifier_free(NULL);

    struct redrive_err err = {0};
    row.source = REDRIVE_SOURCE_HTTP_STATUS;
    assert_null(redrive_classifier_new(&row, 1, &err));
    assert_true(err.code < 0);
    assert_null(redrive_classifier_new(NULL, 1, &err));
    assert_int_equal(err.code, REDRIVE_E_INVALID);
}

TEST(the_decision_is_that_of_the_handler)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    struct redrive_failure failure = {.errnum = ECONNREFUSED};
    struct redrive_facts facts = {.job_id = "a", .attempts = 2};
    struct redrive_decision d = redrive_decide(&facts, &failure, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_RETRYING);
    assert_int_equal(d.class_, REDRIVE_CLASS_NETWORK);
    assert_int_equal(d.breaker, REDRIVE_CALL_FAILURE);
    assert_int_equal(d.delay_ms, redrive_policy_delay(&policy, 2, "a", 0));

    facts.attempts = 6;
    d = redrive_decide(&facts, &failure, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(d.reason, REDRIVE_REASON_EXHAUSTED);

    facts = (struct redrive_facts){.attempts = 1, .deadline_in_ms = 1};
    policy.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    assert_int_equal(redrive_decide(&facts, &failure, &policy, NULL).reason,
                     REDRIVE_REASON_DEADLINE);
    assert_int_equal(redrive_decide(&facts, NULL, &policy, NULL).state, REDRIVE_STATE_COMPLETED);
}

TEST(a_circuit_opens_probes_and_closes)
{
    struct redrive_breaker_config config;
    redrive_breaker_config_init(&config);
    config.failure_threshold = 2;
    config.recovery_jitter = 0;
    struct redrive_circuit *c = redrive_circuit_new(&config, 1, NULL);
    struct redrive_permit permit;
    for (int i = 0; i < 2; i++) {
        assert_true(redrive_circuit_allow(c, 1, &permit));
        redrive_circuit_record(c, permit, REDRIVE_CALL_FAILURE, 0, 1);
    }
    assert_false(redrive_circuit_allow(c, 2, &permit));
    assert_int_equal(redrive_circuit_next_ms(c), 30001);
    assert_true(redrive_circuit_allow(c, 30001, &permit));
    assert_true(permit.probe != 0);
    redrive_circuit_record(c, permit, REDRIVE_CALL_RETURNED, 0, 30002);
    assert_true(redrive_circuit_allow(c, 30003, &permit));
    redrive_circuit_record(c, permit, REDRIVE_CALL_SUCCESS, 0, 30004);
    struct redrive_breaker_status status;
    redrive_circuit_status(c, 30005, &status);
    assert_int_equal(status.state, REDRIVE_BREAKER_CLOSED);
    assert_null(status.name);
    redrive_circuit_trip(c, 30006);
    assert_false(redrive_circuit_allow(c, 90000, &permit));
    redrive_circuit_disable(c);
    assert_true(redrive_circuit_allow(c, 90000, &permit));
    redrive_circuit_record(c, permit, REDRIVE_CALL_NEUTRAL, 0, 90000);
    redrive_circuit_reset(c);
    redrive_circuit_status(c, 90001, &status);
    assert_int_equal(status.state, REDRIVE_BREAKER_CLOSED);
    redrive_circuit_free(c);
    redrive_circuit_free(NULL);

    struct redrive_err err = {0};
    config.failure_rate = 2;
    assert_null(redrive_circuit_new(&config, 1, &err));
    assert_true(err.code < 0);
    c = redrive_circuit_new(NULL, 0, NULL);
    assert_non_null(c);
    redrive_circuit_free(c);
}
