#include "check.h"

#include <stdlib.h>

#include "run/exec/spawn.h"

static bool has(char **env, const char *entry)
{
    for (; *env; env++)
        if (strcmp(*env, entry) == 0)
            return true;
    return false;
}

static size_t count(char **env)
{
    size_t n = 0;
    while (env[n])
        n++;
    return n;
}

static const char *const OURS[] = {"PATH=/bin",           "PATHS=/no", "LC_ALL=C",
                                   "DATABASE_URL=secret", "HOME=/h",   "no equals",
                                   "REDRIVE_STORE=x",     NULL};

TEST(only_harmless_names_are_kept)
{
    char **env = environ_new((char *const *)OURS, NULL, NULL);
    assert_true(has(env, "PATH=/bin"));
    assert_true(has(env, "LC_ALL=C"));
    assert_true(has(env, "HOME=/h"));
    assert_int_equal(count(env), 3);
    free(env);
}

TEST(names_can_be_passed_on)
{
    const char *const pass[] = {"DATABASE_URL", NULL};
    char **env = environ_new((char *const *)OURS, pass, NULL);
    assert_true(has(env, "DATABASE_URL=secret"));
    assert_int_equal(count(env), 4);
    free(env);
}

TEST(facts_of_the_job_are_set)
{
    struct run_request request = {
        .job_id = "7", .task = "mail", .queue = "q", .attempt = 1, .max_attempts = 4000000000u};
    char **env = environ_new(NULL, NULL, &request);
    assert_true(has(env, "REDRIVE_JOB_ID=7"));
    assert_true(has(env, "REDRIVE_TASK=mail"));
    assert_true(has(env, "REDRIVE_QUEUE=q"));
    assert_true(has(env, "REDRIVE_TENANT="));
    assert_true(has(env, "REDRIVE_ATTEMPT=1"));
    assert_true(has(env, "REDRIVE_MAX_ATTEMPTS=4000000000"));
    assert_int_equal(count(env), 6);
    free(env);
}

TEST(a_trace_is_a_fact_of_the_job)
{
    struct run_request request = {.job_id = "7", .traceparent = "00-1-2-01"};
    char **env = environ_new(NULL, NULL, &request);
    assert_true(has(env, "TRACEPARENT=00-1-2-01"));
    assert_int_equal(count(env), 7);
    free(env);
}

static const char *value_of(char **env, const char *name)
{
    const size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

TEST(parents_are_a_fact_of_the_job)
{
    const struct job_parent parents[] = {
        {.id = STR("a"), .state = REDRIVE_STATE_COMPLETED, .result = STR("[1]")},
        {.id = STR("b"), .state = REDRIVE_STATE_COMPLETED, .is_omitted = true},
    };
    struct run_request request = {.job_id = "7", .parents = parents, .n_parents = 2};
    char **env = environ_new(NULL, NULL, &request);
    assert_string_equal(value_of(env, "REDRIVE_PARENTS"),
                        "[{\"id\":\"a\",\"state\":\"completed\",\"result\":[1]},"
                        "{\"id\":\"b\",\"state\":\"completed\",\"result_omitted\":true}]");
    free(env);
    request.n_parents = 0;
    env = environ_new(NULL, NULL, &request);
    assert_string_equal(value_of(env, "REDRIVE_PARENTS"), "[]");
    free(env);
    request.parents = NULL;
    env = environ_new(NULL, NULL, &request);
    assert_null(value_of(env, "REDRIVE_PARENTS"));
    free(env);
}

/* A variable that is too long would keep the program from starting at all. */
TEST(parents_are_no_longer_than_a_variable_may_be)
{
    enum {
        LEN = 60 * 1024
    };
    char *text = calloc(1, LEN); /* as JSON six times as long */
    assert_non_null(text);
    const struct job_parent parents[] = {
        {.id = STR("zeros"), .state = REDRIVE_STATE_COMPLETED, .result = {text, LEN}},
        {.id = STR("b"), .state = REDRIVE_STATE_COMPLETED, .result = STR("2")},
    };
    struct run_request request = {.job_id = "7", .parents = parents, .n_parents = 2};
    char **env = environ_new(NULL, NULL, &request);
    const char *value = value_of(env, "REDRIVE_PARENTS");
    assert_true(strlen(value) < 200);
    assert_non_null(strstr(value, "\"zeros\",\"state\":\"completed\",\"result_omitted\":true"));
    assert_non_null(strstr(value, "\"result\":2"));
    free(env);
    free(text);
}
