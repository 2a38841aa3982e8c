/* docs/configuration.md has every profile, and what it and examples/redrive.yaml show loads. The
 * argument is the root of the sources. */
#include "sandbox.h"

#include "base/os/file.h"
#include "core/retry/policy.h"

static const char *source_root;

static char *read_source(const char *name)
{
    char path[4200];
    struct redrive_err err;
    struct buf text;
    buf_init(&text, 1u << 20);
    snprintf(path, sizeof path, "%s/%s", source_root, name);
    if (file_read(path, 1u << 20, &text, &err) < 0)
        fail_msg("%s: %s", path, err.message);
    return buf_detach(&text, NULL);
}

TEST(every_profile_is_documented)
{
    char *doc = read_source("docs/configuration.md");
    size_t n;
    const struct policy_profile *profiles = policy_profiles(&n);
    for (size_t i = 0; i < n; i++) {
        char row[256];
        snprintf(row, sizeof row, "\n| `%s` | %s |\n", profiles[i].name, profiles[i].summary);
        if (!strstr(doc, row))
            fail_msg("there is no row for %s", profiles[i].name);
    }
    free(doc);
}

SANDBOX_TEST(every_file_in_the_manual_loads)
{
    char *doc = read_source("docs/configuration.md");
    size_t n = 0;
    for (char *block = doc; (block = strstr(block, "```yaml\n")); n++) {
        block += strlen("```yaml\n");
        char *end = strstr(block, "```\n");
        assert_non_null(end);
        *end = '\0';
        sandbox_good(s, block);
        if (s->config->n_warnings)
            fail_msg("%s", s->config->warnings[0].message);
        block = end + 1;
    }
    assert_true(n >= 5);
    free(doc);
}

SANDBOX_TEST(the_manual_shows_the_delays_it_promises)
{
    char *doc = read_source("docs/configuration.md");
    char *block = strstr(doc, "```yaml\ndefaults:\n") + strlen("```yaml\n");
    *strstr(block, "```\n") = '\0';
    sandbox_good(s, block);
    const struct redrive_policy *p = &config_task(s->config, STR("report"))->retry;
    for (uint32_t i = 1; i <= 5; i++)
        assert_int_equal(redrive_policy_delay(p, i, "x", 0), (2 << (i - 1)) * 60000);
    assert_int_equal(p->dlq_retention_days, 90);
    p = &config_task(s->config, STR("sync"))->retry;
    assert_int_equal(p->max_retries, 8);
    assert_int_equal(p->on[REDRIVE_CLASS_NETWORK]->max_retries, 20);
    assert_int_equal(p->on[REDRIVE_CLASS_DATABASE]->backoff.initial_delay_ms, 5000);
    free(doc);
}

SANDBOX_TEST(the_example_loads_without_a_word)
{
    char *text = read_source("examples/redrive.yaml");
    const struct config *c = sandbox_good(s, text);
    if (c->n_warnings)
        fail_msg("%s", c->warnings[0].message);
    assert_int_equal(c->n_tasks, 3);
    assert_int_equal(config_task(c, STR("thumbnail"))->run.kind, CONFIG_RUN_EXEC);
    assert_int_equal(config_task(c, STR("enrich"))->run.kind, CONFIG_RUN_STREAM);
    assert_int_equal(config_task(c, STR("webhook"))->run.kind, CONFIG_RUN_HTTP);
    assert_int_equal(config_task(c, STR("thumbnail"))->retry.max_retries, 2);
    assert_int_equal(config_task(c, STR("webhook"))->retry.max_retries, 25);
    assert_int_equal(c->n_cron, 1);
    assert_int_equal(c->n_classify, 3);
    free(text);
}

TEST_MAIN(argc, argv)
{
    if (argc != 2)
        return 2;
    source_root = argv[1];
    return check_run(NULL, NULL);
}
