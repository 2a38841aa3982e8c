/* Memory may run out at any allocation: the load fails cleanly, and nothing is lost. The linker
 * sends the allocations of this program's own code through here. */
#include "sandbox.h"

static long until_failure; /* how many allocations succeed before one fails; -1: all */
static bool has_failed;

static bool may_allocate(void)
{
    if (until_failure < 0)
        return true;
    has_failed |= until_failure == 0;
    return until_failure-- > 0;
}

#include "nomem.h"

SANDBOX_TEST(a_load_survives_every_failure_to_allocate)
{
    static const char *variables[] = {"REDRIVE_LOG_LEVEL=debug", "MAX_RETRIES=5", "REDRIVE_X=1",
                                      NULL};
    static const struct config_setting flag = {"retry-max-delay", "30s"};
    struct config_sources sources = {
        .environ = (char *const *)variables, .flags = &flag, .n_flags = 1};
    FILE *file = fopen("redrive.yaml", "w");
    fputs("defaults: {retry: {min_delay: 1s, retry_on: [network, A, B]}, on: {network: {max_delay: "
          "5s}}}\n"
          "cron: {a: {task: t0, schedule: '@daily', timezone: Europe/Berlin, payload: {a: [1]}}}\n"
          "tokens: [{name: a, scopes: [read], hash: sha256:"
          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]\n"
          "experiments: {p: {task: t0, arms: {a: {share: 0.5}, b: {share: 0.5, on: {system: }}}}}\n"
          "tasks:\n",
          file);
    for (int i = 0; i < 200; i++)
        fprintf(file, "  t%d: {run: {exec: [a, b]}, on: {system: {max_retries: 3}}}\n", i);
    fclose(file);
    sandbox_write(".env", "REDRIVE_STORE=memory:\n");

    int tries = 0;
    for (long n = 0;; n++, tries++) {
        until_failure = n;
        has_failed = false;
        int rc = config_load(&sources, &s->config, &s->report);
        until_failure = -1;
        if (!has_failed) {
            assert_int_equal(rc, 0);
            break;
        }
        assert_int_equal(rc, REDRIVE_E_NOMEM);
        assert_null(s->config);
        assert_true(s->report.n_errors > 0);
    }
    assert_true(tries > 20);
}

TEST(a_policy_survives_every_failure_to_allocate)
{
    struct redrive_err err;
    struct config_part *box = NULL;
    for (long n = 0;; n++) {
        until_failure = n;
        has_failed = false;
        int rc = policy_parse_json(STR("{\"retry_on\": [\"A\", \"network\"], \"max_delay\": \"5s\","
                                       "\"on\": {\"network\": {\"initial_delay\": \"1s\"}}}"),
                                   NULL, &box, &err);
        until_failure = -1;
        if (!has_failed) {
            assert_int_equal(rc, 0);
            break;
        }
        assert_int_equal(rc, REDRIVE_E_NOMEM);
        assert_int_equal(err.code, REDRIVE_E_NOMEM);
        assert_null(box);
    }
    config_part_free(box);
}

TEST(an_entry_survives_every_failure_to_allocate)
{
    struct redrive_err err;
    struct config_part *box = NULL;
    for (long n = 0;; n++) {
        until_failure = n;
        has_failed = false;
        int rc = cron_parse_json(NULL, false, STR("a"),
                                 STR("{\"task\": \"t\", \"schedule\": \"@daily\","
                                     "\"timezone\": \"Europe/Berlin\", \"payload\": {\"a\": [1]}}"),
                                 &box, NULL, &err);
        until_failure = -1;
        if (!has_failed) {
            assert_int_equal(rc, 0);
            break;
        }
        assert_int_equal(rc, REDRIVE_E_NOMEM);
        assert_int_equal(err.code, REDRIVE_E_NOMEM);
        assert_null(box);
    }
    config_part_free(box);
}

TEST_MAIN(argc, argv)
{
    until_failure = -1;
    return check_run(NULL, NULL);
}
