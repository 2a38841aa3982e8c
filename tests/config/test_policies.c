/* Retry policies as a file states them: strategies, jitter, profiles, lists, and rules for classes.
 */
#include "sandbox.h"

#include "core/retry/policy.h"
#include "core/vocabulary.h"

SANDBOX_TEST(every_strategy_but_custom_can_be_named)
{
    size_t n;
    const char *const *words = vocabulary_words(VOCABULARY_STRATEGY, &n);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        snprintf(text, sizeof text, "defaults: {retry: {strategy: %s%s}}\n", words[i],
                 i == REDRIVE_STRATEGY_DELAYS ? ", delays: [1s]" : "");
        int rc = sandbox_load_text(s, text);
        if (i == REDRIVE_STRATEGY_CUSTOM)
            assert_int_equal(rc, REDRIVE_E_CONFIG);
        else
            assert_int_equal(s->config->defaults.retry.backoff.strategy, i);
    }
}

SANDBOX_TEST(jitter_has_many_forms)
{
    static const struct {
        const char *text;
        struct redrive_jitter jitter;
    } FORMS[] = {
        {"true", {REDRIVE_JITTER_FULL, 0, 0, 0}},
        {"false", {REDRIVE_JITTER_NONE, 0, 0, 0}},
        {"none", {REDRIVE_JITTER_NONE, 0, 0, 0}},
        {"equal", {REDRIVE_JITTER_EQUAL, 0, 0, 0}},
        {"decorrelated", {REDRIVE_JITTER_DECORRELATED, 0, 0, 0}},
        {"add", {REDRIVE_JITTER_ADD, 0.1, 0.3, 0}},
        {"spread", {REDRIVE_JITTER_SPREAD, 0, 0.1, 0}},
        {"step", {REDRIVE_JITTER_STEP, 0, 0, 1000}},
        {"{mode: full}", {REDRIVE_JITTER_FULL, 0, 0, 0}},
        {"{mode: add, min: 0, max: 2}", {REDRIVE_JITTER_ADD, 0, 2, 0}},
        {"{mode: add, max: 0.5}", {REDRIVE_JITTER_ADD, 0.1, 0.5, 0}},
        {"{mode: spread, max: 0.25}", {REDRIVE_JITTER_SPREAD, 0, 0.25, 0}},
        {"{max: 30s, mode: step}", {REDRIVE_JITTER_STEP, 0, 0, 30000}},
    };
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        char text[96];
        snprintf(text, sizeof text, "defaults: {retry: {jitter: %s}}\n", FORMS[i].text);
        const struct redrive_jitter *got = &sandbox_good(s, text)->defaults.retry.backoff.jitter;
        assert_int_equal(got->mode, FORMS[i].jitter.mode);
        assert_true(got->min == FORMS[i].jitter.min);
        assert_true(got->max == FORMS[i].jitter.max);
        assert_int_equal(got->step_ms, FORMS[i].jitter.step_ms);
    }
}

SANDBOX_TEST(a_profile_of_a_task_beats_the_defaults_and_yields_to_its_keys)
{
    sandbox_good(s, "defaults:\n"
                    "  retry: {strategy: linear, max_retries: 9, initial_delay: 4s,\n"
                    "          dlq_retention_days: 30, give_up_on: [validation]}\n"
                    "tasks:\n"
                    "  plain: {retry: {profile: thumbnail}}\n"
                    "  more: {retry: {max_attempts: 7, profile: thumbnail}}\n"
                    "  none: {retry: {initial_delay: 6s}}\n");
    const struct redrive_policy *p = &sandbox_task(s, "plain")->retry;
    assert_int_equal(p->backoff.strategy, REDRIVE_STRATEGY_FIXED);
    assert_int_equal(p->backoff.initial_delay_ms, 5000);
    assert_int_equal(p->max_retries, 2);
    assert_int_equal(p->total_timeout_ms, 0);
    assert_int_equal(p->dlq_retention_days, 30);
    assert_int_equal(p->give_up_on.classes, 1u << REDRIVE_CLASS_VALIDATION);
    assert_int_equal(sandbox_task(s, "more")->retry.max_retries, 6);
    p = &sandbox_task(s, "none")->retry;
    assert_int_equal(p->backoff.strategy, REDRIVE_STRATEGY_LINEAR);
    assert_int_equal(p->backoff.initial_delay_ms, 6000);
    assert_int_equal(p->max_retries, 9);
}

SANDBOX_TEST(base_backoff_minutes_doubles_without_end)
{
    sandbox_good(s, "defaults:\n  retry: {max_retries: 5, base_backoff_minutes: 2}\n");
    const struct redrive_policy *p = &s->config->defaults.retry;
    for (uint32_t n = 1; n <= 5; n++)
        assert_int_equal(redrive_policy_delay(p, n, "x", 0), (2 << (n - 1)) * 60 * 1000);
    assert_int_equal(p->total_timeout_ms, 0);
    assert_int_equal(s->config->n_warnings, 0);
    sandbox_good(s, "defaults:\n  retry: {max_delay: 3m, base_backoff_minutes: 2, jitter: full}\n");
    check_dumped(s, "defaults.retry.max_delay", "3m");
    check_dumped(s, "defaults.retry.jitter", "full");
}

SANDBOX_TEST(lists_hold_classes_and_types)
{
    sandbox_good(s, "tasks:\n  a:\n    retry:\n"
                    "      retry_on: [network, FileNotFoundError, rate_limited, \"*Timeout*\"]\n"
                    "      give_up_on: [httpx.HTTPError]\n"
                    "  b: {retry: {retry_on: []}}\n");
    const struct redrive_match *match = &sandbox_task(s, "a")->retry.retry_on;
    assert_int_equal(match->classes,
                     1u << REDRIVE_CLASS_NETWORK | 1u << REDRIVE_CLASS_RATE_LIMITED);
    assert_int_equal(match->n_types, 2);
    assert_string_equal(match->types[0], "FileNotFoundError");
    assert_string_equal(match->types[1], "*Timeout*");
    assert_string_equal(sandbox_task(s, "a")->retry.give_up_on.types[0], "httpx.HTTPError");
    assert_int_equal(sandbox_task(s, "b")->retry.retry_on.n_types, 0);
    assert_int_equal(s->config->n_warnings, 0);
}

SANDBOX_TEST(a_list_of_delays_is_a_strategy)
{
    sandbox_good(s, "tasks:\n  a:\n    retry: {delays: [5s, 30s, 2m, 10m]}\n"
                    "    on: {network: {strategy: fixed}, database: {delays: [1s]}}\n"
                    "  b: {retry: {strategy: delays, delays: [0s]}}\n");
    const struct redrive_policy *policy = &sandbox_task(s, "a")->retry;
    assert_int_equal(policy->backoff.strategy, REDRIVE_STRATEGY_DELAYS);
    assert_int_equal(policy->backoff.n_delays, 4);
    assert_int_equal(policy->backoff.delays_ms[3], 600000);
    assert_int_equal(policy->on[REDRIVE_CLASS_NETWORK]->backoff.strategy, REDRIVE_STRATEGY_FIXED);
    assert_int_equal(policy->on[REDRIVE_CLASS_DATABASE]->backoff.delays_ms[0], 1000);
    assert_int_equal(sandbox_task(s, "b")->retry.backoff.n_delays, 1);
    assert_int_equal(s->config->n_warnings, 0);
}

SANDBOX_TEST(all_is_a_list_of_every_failure_class)
{
    sandbox_good(s,
                 "tasks:\n  a: {retry: {retry_on: all}}\n  b: {retry: {retry_on: [all, Own]}}\n");
    assert_int_equal(sandbox_task(s, "a")->retry.retry_on.classes, REDRIVE_ALL_FAILURES);
    assert_int_equal(sandbox_task(s, "a")->retry.retry_on.n_types, 0);
    assert_int_equal(sandbox_task(s, "b")->retry.retry_on.classes, REDRIVE_ALL_FAILURES);
    assert_int_equal(s->config->n_warnings, 0);
}

SANDBOX_TEST(a_type_that_looks_like_a_misspelt_class_is_worth_a_warning)
{
    sandbox_good(s, "defaults:\n  retry: {retry_on: [netwrok, Transient, timeout, auth]}\n");
    assert_int_equal(s->config->n_warnings, 1);
    assert_string_equal(
        sandbox_warning(
            s, "redrive.yaml:2: defaults.retry.retry_on[0]: 'netwrok' is taken for the name of "
               "an error type")
            ->hint,
        "did you mean 'network'?");
}

SANDBOX_TEST(class_rules_start_from_the_task_and_inherit_from_the_defaults)
{
    sandbox_good(s, "defaults:\n"
                    "  retry: {initial_delay: 2s, jitter: none}\n"
                    "  on:\n"
                    "    network: {multiplier: 5}\n"
                    "    database: {strategy: linear, max_retries: 2}\n"
                    "tasks:\n"
                    "  a:\n"
                    "    retry: {initial_delay: 3s}\n"
                    "    on: {network: {max_delay: 9s}, rate_limited: {max_attempts: 8}}\n"
                    "  b:\n");
    const struct redrive_policy *p = &sandbox_task(s, "a")->retry;
    const struct redrive_class_rule *network = p->on[REDRIVE_CLASS_NETWORK];
    assert_int_equal(network->backoff.initial_delay_ms, 3000);
    assert_true(network->backoff.multiplier == 5);
    assert_int_equal(network->backoff.max_delay_ms, 9000);
    assert_int_equal(network->backoff.jitter.mode, REDRIVE_JITTER_NONE);
    assert_int_equal(network->max_retries, -1);
    assert_int_equal(p->on[REDRIVE_CLASS_DATABASE]->backoff.strategy, REDRIVE_STRATEGY_LINEAR);
    assert_int_equal(p->on[REDRIVE_CLASS_DATABASE]->backoff.initial_delay_ms, 3000);
    assert_int_equal(p->on[REDRIVE_CLASS_DATABASE]->max_retries, 2);
    assert_int_equal(p->on[REDRIVE_CLASS_RATE_LIMITED]->max_retries, 7);
    assert_null(p->on[REDRIVE_CLASS_TRANSIENT]);

    p = &sandbox_task(s, "b")->retry;
    assert_int_equal(p->on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 2000);
    assert_int_equal(p->on[REDRIVE_CLASS_NETWORK]->backoff.max_delay_ms, 60000);
    assert_null(p->on[REDRIVE_CLASS_RATE_LIMITED]);
}

static void check_retries(struct sandbox *s, const char *task, enum redrive_class class_, int n,
                          const char *from)
{
    const struct config_task *t = sandbox_task(s, task);
    assert_int_equal(policy_max_retries(&t->retry, class_), n);
    if (from)
        assert_string_equal(t->retries_from[class_], from);
    else
        assert_null(t->retries_from[class_]);
}

SANDBOX_TEST(the_nearest_scope_says_how_many_retries_there_are)
{
    sandbox_good(s, "defaults:\n"
                    "  retry: {max_retries: 9}\n"
                    "  on: {rate_limited: {max_retries: 3, initial_delay: 7s}}\n"
                    "tasks:\n"
                    "  own:\n"
                    "    retry: {max_retries: 2}\n"
                    "  own_on:\n"
                    "    retry: {max_attempts: 3}\n"
                    "    on: {rate_limited: {max_attempts: 6}, network: {max_delay: 9s}}\n"
                    "  profile:\n"
                    "    retry: {profile: thumbnail}\n"
                    "  silent:\n"
                    "    retry: {initial_delay: 1s}\n");
    const enum redrive_class limited = REDRIVE_CLASS_RATE_LIMITED;
    check_retries(s, "own", limited, 2, "redrive.yaml:6: tasks.own.retry.max_retries");
    check_retries(s, "own", REDRIVE_CLASS_TRANSIENT, 2,
                  "redrive.yaml:6: tasks.own.retry.max_retries");
    assert_int_equal(policy_max_attempts(&sandbox_task(s, "own")->retry), 3);
    /* What the defaults say of delays stays. */
    assert_int_equal(sandbox_task(s, "own")->retry.on[limited]->backoff.initial_delay_ms, 7000);
    check_retries(s, "own_on", limited, 5,
                  "redrive.yaml:9: tasks.own_on.on.rate_limited.max_attempts");
    check_retries(s, "own_on", REDRIVE_CLASS_NETWORK, 2,
                  "redrive.yaml:8: tasks.own_on.retry.max_attempts");
    check_retries(s, "profile", limited, 2, "redrive.yaml:11: tasks.profile.retry.profile");
    check_retries(s, "silent", limited, 3, "redrive.yaml:3: defaults.on.rate_limited.max_retries");
    check_retries(s, "silent", REDRIVE_CLASS_NETWORK, 9,
                  "redrive.yaml:2: defaults.retry.max_retries");
    assert_string_equal(s->config->undeclared.retries_from[limited],
                        "redrive.yaml:3: defaults.on.rate_limited.max_retries");

    const char *const variables[] = {"MAX_RETRIES=4", NULL};
    s->environ = variables;
    sandbox_good(s, "tasks: {a: }\n");
    check_retries(s, "a", limited, 4, "MAX_RETRIES");
    s->environ = NULL;
    sandbox_good(s, "tasks: {a: {retry: {max_delay: 9s}}}\n");
    check_retries(s, "a", limited, 5, NULL);
}

SANDBOX_TEST(arms_of_an_experiment_are_nearer_than_their_task)
{
    const struct config *config =
        sandbox_good(s, "tasks: {a: {on: {network: {max_retries: 8}}}}\n"
                        "experiments: {e: {task: a, arms: {one: {share: 0.5},\n"
                        "  two: {share: 0.5, retry: {max_retries: 1}}}}}\n");
    const struct arm *arms = config->experiments[0].arms;
    assert_int_equal(policy_max_retries(&arms[0].policy, REDRIVE_CLASS_NETWORK), 8);
    assert_int_equal(policy_max_retries(&arms[1].policy, REDRIVE_CLASS_NETWORK), 1);
    assert_int_equal(arms[1].max_attempts, 2);
}

SANDBOX_TEST(a_first_delay_above_the_cap_is_worth_a_warning)
{
    sandbox_good(s, "tasks:\n  a:\n    retry:\n      initial_delay: 5m\n");
    assert_string_equal(sandbox_warning(s, "redrive.yaml:4: tasks.a.retry.initial_delay: "
                                           "initial_delay is above max_delay")
                            ->detail,
                        "every delay will be 1m");
}
