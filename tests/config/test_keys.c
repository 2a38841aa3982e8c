/* One rule names a key in the file, in a variable and in a flag, and every key obeys it. */
#include "sandbox.h"

#include <ctype.h>

#include "config/load/layers.h"

/* Every key with a value that is not its default, and what the dump then says. NULL: the value. */
static const struct sample {
    const char *key;
    const char *value;
    const char *dumped_at;
    const char *dumped;
} SAMPLES[] = {
    {"store", "memory:", "store", NULL},
    {"listen.http", "127.0.0.1:80", "listen.http", NULL},
    {"listen.faktory", "[::1]:7419", "listen.faktory", NULL},
    {"listen.metrics", "127.0.0.1:7071", "listen.metrics", NULL},
    {"listen.max_connections", "500", "listen.max_connections", NULL},
    {"listen.max_per_address", "50", "listen.max_per_address", NULL},
    {"listen.drain", "5s", "listen.drain", NULL},
    {"listen.socket_mode", "0660", "listen.socket_mode", NULL},
    {"listen.tls.cert", "a.pem", "listen.tls.cert", NULL},
    {"listen.tls.key", "a.key", "listen.tls.key", NULL},
    {"listen.insecure", "true", "listen.insecure", NULL},
    {"log.level", "debug", "log.level", NULL},
    {"log.format", "json", "log.format", NULL},
    {"strict_tasks", "true", "strict_tasks", NULL},
    {"retry.strategy", "linear", "defaults.retry.strategy", NULL},
    {"retry.initial_delay", "45s", "defaults.retry.initial_delay", NULL},
    {"retry.max_delay", "45s", "defaults.retry.max_delay", NULL},
    {"retry.min_delay", "45s", "defaults.retry.min_delay", NULL},
    {"retry.multiplier", "1.25", "defaults.retry.multiplier", NULL},
    {"retry.backoff_factor", "0.75", "defaults.retry.backoff_factor", NULL},
    {"retry.exponent", "2", "defaults.retry.exponent", NULL},
    {"retry.jitter", "equal", "defaults.retry.jitter", NULL},
    {"retry.max_retries", "3", "defaults.retry.max_retries", NULL},
    {"retry.max_attempts", "3", "defaults.retry.max_retries", "2"},
    {"retry.total_timeout", "0", "defaults.retry.total_timeout", "0s"},
    {"retry.enable_dlq", "false", "defaults.retry.enable_dlq", NULL},
    {"retry.dlq_retention_days", "30", "defaults.retry.dlq_retention_days", NULL},
    {"retry.profile", "thumbnail", "defaults.retry.strategy", "fixed"},
    {"retry.base_backoff_minutes", "0.5", "defaults.retry.initial_delay", "30s"},
    {"breaker.failure_threshold", "3", "defaults.breaker.failure_threshold", NULL},
    {"breaker.failure_rate", "0.25", "defaults.breaker.failure_rate", NULL},
    {"breaker.min_calls", "3", "defaults.breaker.min_calls", NULL},
    {"breaker.window", "45s", "defaults.breaker.window", NULL},
    {"breaker.window_calls", "100", "defaults.breaker.window_calls", NULL},
    {"breaker.slow_call", "2s", "defaults.breaker.slow_call", NULL},
    {"breaker.slow_rate", "0.25", "defaults.breaker.slow_rate", NULL},
    {"breaker.recovery_timeout", "45s", "defaults.breaker.recovery_timeout", NULL},
    {"breaker.recovery_multiplier", "1.5", "defaults.breaker.recovery_multiplier", NULL},
    {"breaker.recovery_max", "45s", "defaults.breaker.recovery_max", NULL},
    {"breaker.recovery_jitter", "0.25", "defaults.breaker.recovery_jitter", NULL},
    {"breaker.half_open_max", "3", "defaults.breaker.half_open_max", NULL},
    {"breaker.success_threshold", "3", "defaults.breaker.success_threshold", NULL},
    {"breaker.half_open_rate", "0.25", "defaults.breaker.half_open_rate", NULL},
    {"breaker.probe_lease", "45s", "defaults.breaker.probe_lease", NULL},
    {"breaker.on_open", "reject", "defaults.breaker.on_open", NULL},
    {"breaker.release_rate", "2.5", "defaults.breaker.release_rate", NULL},
    {"breaker.release_growth", "2.5", "defaults.breaker.release_growth", NULL},
    {"breaker.key", "{service}", "defaults.breaker.key", NULL},
    {"health.healthy", "0.9", "health.healthy", NULL},
    {"health.degraded", "0.25", "health.degraded", NULL},
    {"retention.completed", "45s", "retention.completed", NULL},
    {"retention.cancelled", "45s", "retention.cancelled", NULL},
    {"paths.retry_queue", "/q", "paths.retry_queue", NULL},
    {"paths.final_results", "/r", "paths.final_results", NULL},
    {"paths.dead_letter_queue", "/d", "paths.dead_letter_queue", NULL},
};
#define N_SAMPLES (sizeof SAMPLES / sizeof SAMPLES[0])

/* Neither goes without the other: test_sections.c has both. */
static bool is_half(const struct sample *sample)
{
    return strncmp(sample->key, "listen.tls.", 11) == 0;
}

TEST(every_key_has_a_sample)
{
    size_t n = 0;
    for (const struct key *key; (key = key_at(n)); n++) {
        bool found = false;
        for (size_t i = 0; i < N_SAMPLES; i++)
            found |= strcmp(SAMPLES[i].key, key->name) == 0;
        if (!found)
            fail_msg("%s has no sample", key->name);
    }
    assert_int_equal(n, N_SAMPLES);
}

static void check_sample(struct sandbox *s, const struct sample *sample, const char *how)
{
    if (sandbox_load(s) < 0)
        fail_msg("%s %s: %s", sample->key, how, s->report.errors[0].message);
    const char *expected = sample->dumped ? sample->dumped : sample->value;
    if (strcmp(sandbox_dumped(s, sample->dumped_at), expected) != 0)
        fail_msg("%s %s: %s is %s", sample->key, how, sample->dumped_at,
                 sandbox_dumped(s, sample->dumped_at));
}

SANDBOX_TEST(every_key_can_be_given_in_a_file)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        if (is_half(&SAMPLES[i]))
            continue;
        char text[256];
        const char *dot = strchr(SAMPLES[i].key, '.');
        const bool is_default = strncmp(SAMPLES[i].dumped_at, "defaults.", 9) == 0;
        if (dot) {
            snprintf(text, sizeof text, "%s%.*s:\n    %s: \"%s\"\n",
                     is_default ? "defaults:\n  " : "", (int)(dot - SAMPLES[i].key), SAMPLES[i].key,
                     dot + 1, SAMPLES[i].value);
        } else {
            snprintf(text, sizeof text, "%s: \"%s\"\n", SAMPLES[i].key, SAMPLES[i].value);
        }
        /* Numbers and truth values stand without quotes. */
        const struct field *field = key_field(key_find(str_of(SAMPLES[i].key)));
        char expects[EXPECTS_MAX];
        const char *form = field_expects(field, expects);
        if (strstr(form, "number") || strcmp(form, "true or false") == 0) {
            char *quote;
            while ((quote = strchr(text, '"')))
                *quote = ' ';
        }
        sandbox_write("redrive.yaml", text);
        check_sample(s, &SAMPLES[i], "in a file");
    }
}

SANDBOX_TEST(every_key_can_be_given_as_a_variable)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        if (is_half(&SAMPLES[i]))
            continue;
        char variable[256];
        snprintf(variable, sizeof variable, "REDRIVE_%s=%s", SAMPLES[i].key, SAMPLES[i].value);
        for (char *p = variable; *p != '='; p++)
            *p = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
        const char *variables[] = {variable, NULL};
        s->environ = variables;
        check_sample(s, &SAMPLES[i], "as a variable");
    }
}

SANDBOX_TEST(every_key_can_be_given_in_dotenv)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        if (is_half(&SAMPLES[i]))
            continue;
        char text[256];
        snprintf(text, sizeof text, "%s='%s'\n", key_find(str_of(SAMPLES[i].key))->variable,
                 SAMPLES[i].value);
        sandbox_write(".env", text);
        check_sample(s, &SAMPLES[i], "in .env");
    }
}

SANDBOX_TEST(every_key_can_be_given_as_a_flag)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        if (is_half(&SAMPLES[i]))
            continue;
        char name[64];
        snprintf(name, sizeof name, "%s", SAMPLES[i].key);
        for (char *p = name; *p; p++)
            *p = *p == '.' || *p == '_' ? '-' : *p;
        assert_true(config_flag_known(str_of(name)));
        struct config_setting flag = {name, SAMPLES[i].value};
        s->flags = &flag;
        s->n_flags = 1;
        check_sample(s, &SAMPLES[i], "as a flag");
    }
}

TEST(no_two_keys_share_a_name)
{
    for (size_t i = 0; key_at(i); i++) {
        for (size_t j = i + 1; key_at(j); j++) {
            assert_string_not_equal(key_at(i)->variable, key_at(j)->variable);
            assert_string_not_equal(key_at(i)->flag, key_at(j)->flag);
        }
    }
}

TEST(flags_are_listed_with_what_help_needs)
{
    struct config_flag flag;
    size_t n = 0;
    bool found = false;

    for (; config_flag_enumerate(n, &flag); n++) {
        assert_true(strlen(flag.help) > 3);
        if (strcmp(flag.name, "breaker-on-open") == 0) {
            found = true;
            assert_string_equal(flag.key, "breaker.on_open");
            assert_string_equal(flag.variable, "REDRIVE_BREAKER_ON_OPEN");
            assert_string_equal(flag.default_text, "park");
            assert_string_equal(flag.choices[0], "park");
            assert_string_equal(flag.choices[2], "reject");
            assert_null(flag.choices[3]);
        }
        if (strcmp(flag.name, "retry-max-delay") == 0)
            assert_null(flag.choices);
        if (strcmp(flag.name, "strict-tasks") == 0)
            assert_string_equal(flag.choices[0], "true");
    }
    assert_true(found);
    assert_int_equal(n, N_SAMPLES);
    assert_false(config_flag_known(STR("retry.max_delay")));
    assert_false(config_flag_known(STR("tasks")));
    assert_null(key_find(STR("nothing")));
}

SANDBOX_TEST(a_misspelt_flag_is_an_error_that_names_the_nearest)
{
    struct config_setting flag = {"retry-max-dealy", "5s"};
    s->flags = &flag;
    s->n_flags = 1;
    assert_int_equal(sandbox_load(s), REDRIVE_E_CONFIG);
    assert_string_equal(sandbox_error(s, "--retry-max-dealy: is not a setting")->hint,
                        "did you mean '--retry-max-delay'?");
}

SANDBOX_TEST(a_misspelt_variable_is_a_warning)
{
    const char *variables[] = {"REDRIVE_RETRY_MAX_DEALY=5s",
                               "REDRIVE_JOB_ID=17",
                               "REDRIVE_ATTEMPT=2",
                               "REDRIVE_DEFAULTS_RETRY_MAX_DELAY=5s",
                               "PATH=/bin",
                               "junk",
                               NULL};
    s->environ = variables;
    sandbox_write(".env", "OTHER=1\nREDRIVE_STOER=x\n");
    assert_int_equal(sandbox_load(s), 0);
    assert_int_equal(s->config->n_warnings, 3);
    assert_string_equal(sandbox_warning(s, "REDRIVE_RETRY_MAX_DEALY: is not a setting")->hint,
                        "did you mean 'REDRIVE_RETRY_MAX_DELAY'?");
    assert_string_equal(sandbox_warning(s, ".env:2: REDRIVE_STOER: is not a setting")->hint,
                        "did you mean 'REDRIVE_STORE'?");
    assert_string_equal(
        sandbox_warning(s, "REDRIVE_DEFAULTS_RETRY_MAX_DELAY: is not a setting")->hint,
        "did you mean 'REDRIVE_RETRY_MAX_DELAY'?");
}

SANDBOX_TEST(warnings_are_bounded)
{
    char names[40][24];
    const char *variables[41];
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "REDRIVE_X%d=1", i);
        variables[i] = names[i];
    }
    variables[40] = NULL;
    s->environ = variables;
    assert_int_equal(sandbox_load(s), 0);
    assert_int_equal(s->config->n_warnings, CONFIG_MAX_WARNINGS);
}
