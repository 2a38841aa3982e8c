/* Who is heard when several speak: the file, .env, the environment, flags, other programs. */
#include "sandbox.h"

#define ENVIRON(...) ((const char *[]){__VA_ARGS__, NULL})
#define FLAGS(s, ...)                                                \
    do {                                                             \
        static const struct config_setting flags_[] = {__VA_ARGS__}; \
        (s)->flags = flags_;                                         \
        (s)->n_flags = sizeof flags_ / sizeof flags_[0];             \
    } while (0)

SANDBOX_TEST(the_louder_source_wins)
{
    static const char *const EXPECTED[16] = {
        "1m",  "11s", "12s", "12s", "13s", "13s", "13s", "13s",
        "14s", "14s", "14s", "14s", "14s", "14s", "14s", "14s",
    };
    static const struct config_setting flag = {"retry-max-delay", "14s"};
    const char *variables[] = {"REDRIVE_RETRY_MAX_DELAY=13s", NULL};

    for (int sources = 0; sources < 16; sources++) {
        sandbox_write("redrive.yaml", sources & 1 ? "defaults: {retry: {max_delay: 11s}}\n" : "");
        sandbox_write(".env", sources & 2 ? "REDRIVE_RETRY_MAX_DELAY=12s\n" : "");
        s->environ = sources & 4 ? variables : NULL;
        s->flags = &flag;
        s->n_flags = sources & 8 ? 1 : 0;
        assert_int_equal(sandbox_load(s), 0);
        check_dumped(s, "defaults.retry.max_delay", EXPECTED[sources]);
    }
}

SANDBOX_TEST(settings_reach_tasks_that_say_nothing)
{
    FLAGS(s, {"retry-max-delay", "9s"}, {"breaker-failure-threshold", "2"});
    sandbox_good(s, "tasks:\n  a:\n  b: {retry: {max_delay: 20s}, breaker: {min_calls: 3}}\n");
    check_dumped(s, "tasks.a.retry.max_delay", "9s");
    check_dumped(s, "tasks.b.retry.max_delay", "20s");
    check_dumped(s, "tasks.b.breaker.failure_threshold", "2");
    assert_int_equal(config_task(s->config, STR("other"))->retry.backoff.max_delay_ms, 9000);
    assert_int_equal(config_task(s->config, STR("other"))->breaker.config.failure_threshold, 2);
}

SANDBOX_TEST(errors_name_where_a_setting_comes_from)
{
    sandbox_write(".env", "# comment\n\nexport REDRIVE_BREAKER_WINDOW=5\n");
    s->environ = ENVIRON("REDRIVE_RETRY_MAX_DELAY=5");
    FLAGS(s, {"retry-initial-delay", "soon"});
    assert_int_equal(sandbox_load_text(s, "lgo: {}\n"), REDRIVE_E_CONFIG);
    assert_int_equal(s->report.n_errors, 4);
    assert_string_equal(sandbox_error(s, ".env:3: REDRIVE_BREAKER_WINDOW: '5' has no unit")->hint,
                        "add a unit: 5s");
    sandbox_error(s, "REDRIVE_RETRY_MAX_DELAY: '5' has no unit");
    sandbox_error(s, "--retry-initial-delay: 'soon' is not a duration");
    /* Settings come before the file. */
    assert_string_equal(s->report.errors[3].message, "redrive.yaml:1: unknown key 'lgo'");
}

SANDBOX_TEST(a_flag_given_twice_counts_as_the_last)
{
    FLAGS(s, {"store", "memory:"}, {"store", "sqlite:a.db"});
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "sqlite:a.db");
}

SANDBOX_TEST(a_louder_alternative_takes_the_other_away)
{
    FLAGS(s, {"retry-max-attempts", "3"});
    sandbox_good(s, "defaults: {retry: {max_retries: 9}}\n");
    check_dumped(s, "defaults.retry.max_retries", "2");

    FLAGS(s, {"retry-max-retries", "3"});
    sandbox_good(s, "defaults: {retry: {max_attempts: 9}}\n");
    check_dumped(s, "defaults.retry.max_retries", "3");

    FLAGS(s, {"retry-initial-delay", "3s"});
    sandbox_good(s, "defaults: {retry: {base_backoff_minutes: 2}}\n");
    check_dumped(s, "defaults.retry.initial_delay", "3s");
    check_dumped(s, "defaults.retry.jitter", "auto");
}

SANDBOX_TEST(two_alternatives_said_equally_loud_are_refused)
{
    FLAGS(s, {"retry-max-attempts", "3"}, {"retry-max-retries", "3"});
    assert_int_equal(sandbox_load(s), REDRIVE_E_CONFIG);
    sandbox_error(s, "--retry-max-attempts: both 'max_attempts' and 'max_retries' are given in "
                     "defaults.retry");
}

SANDBOX_TEST(a_profile_said_louder_beats_the_keys_of_the_file)
{
    FLAGS(s, {"retry-profile", "thumbnail"}, {"retry-min-delay", "2s"});
    sandbox_good(
        s, "defaults: {retry: {strategy: linear, initial_delay: 9s, max_attempts: 9, jitter: full, "
           "enable_dlq: false}}\n");
    check_dumped(s, "defaults.retry.strategy", "fixed");
    check_dumped(s, "defaults.retry.initial_delay", "5s");
    check_dumped(s, "defaults.retry.max_retries", "2");
    check_dumped(s, "defaults.retry.jitter", "none");
    check_dumped(s, "defaults.retry.min_delay", "2s");
    /* A profile is a schedule, and no more. */
    check_dumped(s, "defaults.retry.enable_dlq", "false");

    FLAGS(s, {"retry-base-backoff-minutes", "2"});
    sandbox_good(
        s,
        "defaults: {retry: {strategy: linear, initial_delay: 9s, max_delay: 10s, jitter: full}}\n");
    check_dumped(s, "defaults.retry.strategy", "exponential");
    check_dumped(s, "defaults.retry.initial_delay", "2m");
    check_dumped(s, "defaults.retry.jitter", "none");
}

SANDBOX_TEST(an_empty_variable_counts_as_not_set)
{
    s->environ = ENVIRON("REDRIVE_STORE=", "DATABASE_URL=");
    sandbox_write(".env", "REDRIVE_LOG_LEVEL=\n");
    sandbox_good(s, "store: memory\n");
    assert_string_equal(s->config->store, "memory:");
}

SANDBOX_TEST(a_value_that_is_not_text_is_refused)
{
    s->environ = ENVIRON("REDRIVE_STORE=sqlite:\xFF");
    assert_int_equal(sandbox_load(s), REDRIVE_E_CONFIG);
    sandbox_error(s, "REDRIVE_STORE: the value is not UTF-8 text");
}

/* ---- .env ------------------------------------------------------------------------------------ */

SANDBOX_TEST(dotenv_stands_beside_the_file)
{
    assert_int_equal(mkdir("etc", 0700), 0);
    sandbox_write("etc/redrive.yaml", "store: memory\n");
    sandbox_write("etc/.env", "REDRIVE_LOG_LEVEL=loud\n");
    sandbox_write(".env", "REDRIVE_STORE=sqlite:wrong.db\n");
    s->environ = ENVIRON("REDRIVE_CONFIG=etc/redrive.yaml");
    assert_int_equal(sandbox_load(s), REDRIVE_E_CONFIG);
    assert_int_equal(s->report.n_errors, 1);
    sandbox_error(s, "etc/.env:1: REDRIVE_LOG_LEVEL: there is no 'loud'");

    sandbox_write("etc/.env", "REDRIVE_LOG_LEVEL=off\n");
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->path, "etc/redrive.yaml");
    assert_string_equal(s->config->store, "memory:");
    assert_int_equal(s->config->log.level, LOG_LEVEL_OFF);
}

SANDBOX_TEST(every_bad_line_of_dotenv_is_told)
{
    sandbox_write(".env", "A=1\nwrong\nREDRIVE_STORE='memory:\nREDRIVE_LOG_LEVEL=info\n"
                          "REDRIVE_LOG_LEVEL=debug\n");
    assert_int_equal(sandbox_load(s), REDRIVE_E_CONFIG);
    assert_int_equal(s->report.n_errors, 3);
    sandbox_error(s, ".env:2: there is no '=' after the name");
    sandbox_error(s, ".env:3: the quote is not closed");
    assert_string_equal(sandbox_error(s, ".env:5: REDRIVE_LOG_LEVEL: is given twice")->detail,
                        "first at .env:4: REDRIVE_LOG_LEVEL");
}

SANDBOX_TEST(a_dotenv_directory_is_somebody_elses)
{
    assert_int_equal(mkdir(".env", 0700), 0);
    assert_int_equal(sandbox_load(s), 0);
    sandbox_warning(s, ".env: is not a file");
}

SANDBOX_TEST(a_dotenv_that_is_too_big_is_refused)
{
    FILE *file = fopen(".env", "w");
    for (int i = 0; i < 300 * 1024; i++)
        fputc('#', file);
    fclose(file);
    assert_int_equal(sandbox_load(s), REDRIVE_E_TOO_BIG);
    sandbox_error(s, ".env: cannot read file: input is over the size limit");
}

/* ---- The file -------------------------------------------------------------------------------- */

SANDBOX_TEST(no_file_means_the_defaults)
{
    assert_int_equal(sandbox_load(s), 0);
    assert_null(s->config->path);
    assert_string_equal(s->config->store, "sqlite:redrive.db");
    sandbox_good(s, "");
    assert_string_equal(s->config->path, "redrive.yaml");
}

SANDBOX_TEST(a_file_that_was_asked_for_must_be_there)
{
    struct config_sources sources = {.path = "x.yaml", .path_required = true};
    assert_int_equal(config_load(&sources, &s->config, &s->report), REDRIVE_E_NOT_FOUND);
    sandbox_error(s, "x.yaml: cannot read file: not found");

    sources.path_required = false;
    assert_int_equal(config_load(&sources, &s->config, &s->report), 0);
    config_free(s->config);
    s->config = NULL;

    s->environ = ENVIRON("REDRIVE_CONFIG=y.yaml");
    assert_int_equal(sandbox_load(s), REDRIVE_E_NOT_FOUND);
    sandbox_error(s, "y.yaml: cannot read file: not found");
}

SANDBOX_TEST(a_broken_file_is_told_with_its_line)
{
    assert_int_equal(sandbox_load_text(s, "a: 1\na: 2\n"), REDRIVE_E_CONFIG);
    sandbox_error(s, "redrive.yaml:2: key 'a' is given twice");
    assert_int_equal(sandbox_load_text(s, "- a\n"), REDRIVE_E_CONFIG);
    sandbox_error(s, "redrive.yaml:1: found a list");
    assert_int_equal(sandbox_load_text(s, "just text\n"), REDRIVE_E_CONFIG);
    sandbox_error(s, "redrive.yaml:1: found a plain value");
}

/* ---- Sections ------------------------------------------------------------------------------- */

SANDBOX_TEST(keys_of_the_defaults_stand_in_the_defaults)
{
    sandbox_load_text(s, "retry: {max_delay: 7s}\nbreaker: {window: 8s}\n");
    assert_string_equal(sandbox_error(s, "redrive.yaml:1: unknown key 'retry'")->hint,
                        "did you mean 'defaults.retry'?");
    assert_string_equal(sandbox_error(s, "redrive.yaml:2: unknown key 'breaker'")->hint,
                        "did you mean 'defaults.breaker'?");
}

SANDBOX_TEST(settings_do_not_hide_a_section_of_the_wrong_kind)
{
    FLAGS(s, {"retry-max-delay", "5s"}, {"log-level", "debug"});
    sandbox_load_text(s, "log: loud\n");
    sandbox_error(s, "redrive.yaml:1: log: found a plain value");
}

/* ---- Variables of other programs ------------------------------------------------------------- */

SANDBOX_TEST(numbers_of_other_programs_mean_what_the_keys_mean)
{
    s->environ = ENVIRON("MAX_RETRIES=5");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "5");
    const char *in_file = "defaults: {retry: {max_retries: 5}}\n";
    s->environ = ENVIRON("HOME=/");
    sandbox_good(s, in_file);
    check_dumped(s, "defaults.retry.max_retries", "5");
    assert_int_equal(unlink("redrive.yaml"), 0);
    s->environ = ENVIRON("MAX_RETRY_ATTEMPTS=3");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "2");
    s->environ = ENVIRON("MAX_RETRY_ATTEMPTS=3", "MAX_RETRIES=5");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "5");
    s->environ = ENVIRON("MAX_RETRIES=0");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "0");
    s->environ = ENVIRON("MAX_RETRY_ATTEMPTS=0");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "0");
}

SANDBOX_TEST(delays_of_other_programs_are_seconds)
{
    s->environ = ENVIRON("RETRY_BASE_DELAY=2.0", "RETRY_MAX_DELAY=300.0", "MAX_RETRIES=5");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.strategy", "exponential");
    check_dumped(s, "defaults.retry.initial_delay", "2s");
    check_dumped(s, "defaults.retry.multiplier", "2");
    check_dumped(s, "defaults.retry.max_delay", "5m");
    check_dumped(s, "defaults.retry.jitter", "none");

    s->environ = ENVIRON("RETRY_DELAY_SECONDS=5");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.strategy", "fixed");
    check_dumped(s, "defaults.retry.initial_delay", "5s");
    check_dumped(s, "defaults.retry.max_delay", "1m");
    check_dumped(s, "defaults.retry.jitter", "none");

    s->environ = ENVIRON("RETRY_DELAY_SECONDS=90");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_delay", "1m30s");
    assert_int_equal(s->config->n_warnings, 0);

    s->environ = ENVIRON("RETRY_DELAY_SECONDS=5", "RETRY_BASE_DELAY=0.5");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.strategy", "exponential");
    check_dumped(s, "defaults.retry.initial_delay", "500ms");
}

SANDBOX_TEST(any_key_of_ours_beats_other_programs)
{
    s->environ = ENVIRON("MAX_RETRIES=5", "RETRY_BASE_DELAY=2", "REDRIVE_RETRY_STRATEGY=linear",
                         "DATABASE_URL=postgres://h/db");
    sandbox_good(s, "defaults: {retry: {max_retries: 9}}\nstore: memory\n");
    check_dumped(s, "defaults.retry.max_retries", "9");
    check_dumped(s, "defaults.retry.strategy", "linear");
    check_dumped(s, "defaults.retry.initial_delay", "2s");
    assert_string_equal(s->config->store, "memory:");

    s->environ = ENVIRON("MAX_RETRIES=5", "RETRY_BASE_DELAY=2", "RETRY_MAX_DELAY=7");
    sandbox_good(s, "defaults: {retry: {profile: thumbnail}}\n");
    check_dumped(s, "defaults.retry.max_retries", "2");
    check_dumped(s, "defaults.retry.initial_delay", "5s");
    check_dumped(s, "defaults.retry.max_delay", "1m");
    sandbox_good(s, "defaults: {retry: {base_backoff_minutes: 2}}\n");
    check_dumped(s, "defaults.retry.initial_delay", "2m");
    check_dumped(s, "defaults.retry.jitter", "none");

    sandbox_good(s, "tasks: {a: {retry: {max_retries: 9, initial_delay: 1s}}, b: }\n");
    check_dumped(s, "tasks.a.retry.max_retries", "9");
    check_dumped(s, "tasks.b.retry.max_retries", "5");
}

SANDBOX_TEST(variables_of_jobs_and_of_kubernetes_are_no_settings)
{
    s->environ =
        ENVIRON("REDRIVE_JOB_ID=7", "REDRIVE_PARENTS=[]", "REDRIVE_SERVICE_HOST=10.0.0.1",
                "REDRIVE_SERVICE_PORT=7070", "REDRIVE_SERVICE_PORT_HTTP=7070",
                "REDRIVE_PORT=tcp://10.0.0.1:7070", "REDRIVE_PORT_7070_TCP=tcp://10.0.0.1:7070",
                "REDRIVE_PORT_7070_TCP_PROTO=tcp", "REDRIVE_PORT_7070_TCP_PORT=7070",
                "REDRIVE_PORT_7070_TCP_ADDR=10.0.0.1", "REDRIVE_JOBS_SERVICE_HOST=10.0.0.2",
                "REDRIVE_JOBS_SERVICE_PORT=7419", "REDRIVE_JOBS_PORT_7419_TCP_ADDR=10.0.0.2",
                "REDRIVE_LISTEN_PORT=7070");
    assert_int_equal(sandbox_load(s), 0);
    assert_int_equal(s->config->n_warnings, 1);
    sandbox_warning(s, "REDRIVE_LISTEN_PORT: is not a setting");
    /* A setting of such a name would be ignored by accident. */
    struct config_flag flag;
    for (size_t i = 0; config_flag_enumerate(i, &flag); i++) {
        assert_false(str_starts_with(str_of(flag.variable), STR("REDRIVE_PORT")));
        assert_false(str_starts_with(str_of(flag.variable), STR("REDRIVE_SERVICE_")));
    }
}

SANDBOX_TEST(other_programs_may_speak_in_dotenv)
{
    sandbox_write(".env", "MAX_RETRY_ATTEMPTS=3\nRETRY_DELAY_SECONDS=5\n");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "2");
    s->environ = ENVIRON("MAX_RETRY_ATTEMPTS=8");
    assert_int_equal(sandbox_load(s), 0);
    check_dumped(s, "defaults.retry.max_retries", "7");
    check_dumped(s, "defaults.retry.strategy", "fixed");
}

SANDBOX_TEST(what_makes_no_sense_of_other_programs_is_ignored)
{
    s->environ = ENVIRON("MAX_RETRIES=many", "RETRY_BASE_DELAY=-1", "RETRY_DELAY_SECONDS=soon",
                         "RETRY_MAX_DELAY=1e99", "DATABASE_URL=mysql://u:secret@h/db");
    assert_int_equal(sandbox_load(s), 0);
    assert_int_equal(s->config->n_warnings, 5);
    sandbox_warning(s, "MAX_RETRIES: is ignored: it makes no sense as a number of retries");
    sandbox_warning(s, "RETRY_BASE_DELAY: is ignored: it makes no sense as a number of seconds");
    sandbox_warning(s, "DATABASE_URL: is ignored: it makes no sense as a store");
    assert_string_equal(s->config->store, "sqlite:redrive.db");
    check_dumped(s, "defaults.retry.max_retries", "5");
}

SANDBOX_TEST(urls_of_other_programs_name_the_store)
{
    s->environ = ENVIRON("DATABASE_URL=postgresql+asyncpg://u:p@h/db");
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "postgresql://u:p@h/db");
    s->environ = ENVIRON("REDIS_URL=redis://h:6379/0");
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "redis://h:6379/0");
    s->environ = ENVIRON("REDIS_URL=redis://h:6379/0", "DATABASE_URL=postgres://a+b@h/db");
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "postgres://a+b@h/db");
    FLAGS(s, {"store", "memory:"});
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "memory:");
}

/* The store, where it comes from, and whether another program named it. */
#define check_origin(s, from, is_borrowed)                               \
    do {                                                                 \
        assert_string_equal((s)->config->store_from, (from));            \
        assert_int_equal((s)->config->store_is_borrowed, (is_borrowed)); \
    } while (0)

SANDBOX_TEST(origin_of_the_store_is_known)
{
    assert_int_equal(sandbox_load(s), 0);
    check_origin(s, "default", false);
    s->environ = ENVIRON("DATABASE_URL=postgres://h/db");
    assert_int_equal(sandbox_load(s), 0);
    check_origin(s, "DATABASE_URL", true);
    sandbox_good(s, "paths: {retry_queue: /data/queue}\n");
    check_origin(s, "redrive.yaml:1: paths.retry_queue", false);
    sandbox_good(s, "log: {level: info}\nstore: memory\n");
    check_origin(s, "redrive.yaml:2", false);
    sandbox_good(s, "store: {shards: ['sqlite:a.db', 'sqlite:b.db']}\n");
    check_origin(s, "redrive.yaml:1", false);
    s->environ = ENVIRON("REDRIVE_STORE=sqlite:x.db", "REDIS_URL=redis://h");
    sandbox_good(s, "log: {level: info}\n");
    check_origin(s, "REDRIVE_STORE", false);
    FLAGS(s, {"store", "memory:"});
    assert_int_equal(sandbox_load(s), 0);
    check_origin(s, "--store", false);
    s->n_flags = 0;
    s->environ = ENVIRON("HOME=/");
    sandbox_write(".env", "X=1\nREDIS_URL=redis://h\n");
    assert_int_equal(sandbox_load(s), 0);
    check_origin(s, ".env:2: REDIS_URL", true);
}

SANDBOX_TEST(origins_name_settings_of_variables_and_flags)
{
    s->environ = ENVIRON("MAX_RETRIES=5", "REDRIVE_LOG_LEVEL=debug");
    FLAGS(s, {"retry-max-delay", "5s"});
    sandbox_good(s, "defaults: {retry: {initial_delay: 2s}}\n");
    const struct config *config = s->config;
    assert_int_equal(config->n_origins, 3);
    assert_string_equal(config->origins[0].key, "log.level");
    assert_string_equal(config->origins[0].from, "REDRIVE_LOG_LEVEL");
    assert_false(config->origins[0].is_borrowed);
    assert_string_equal(config->origins[1].key, "retry.max_delay");
    assert_string_equal(config->origins[1].from, "--retry-max-delay");
    assert_string_equal(config->origins[2].key, "retry.max_retries");
    assert_string_equal(config->origins[2].from, "MAX_RETRIES");
    assert_true(config->origins[2].is_borrowed);
}

SANDBOX_TEST(borrowed_store_that_is_missing_is_told_with_its_variable)
{
    struct redrive_err err = {.code = REDRIVE_E_NOT_FOUND, .message = "no file"};
    s->environ = ENVIRON("DATABASE_URL=postgres://u:secret@h/db");
    assert_int_equal(sandbox_load(s), 0);
    assert_int_equal(config_store_missing(s->config, 0, &err), 0);
    assert_int_equal(config_store_missing(s->config, REDRIVE_E_IO, &err), REDRIVE_E_IO);
    assert_string_equal(err.message, "no file");
    assert_int_equal(config_store_missing(s->config, REDRIVE_E_NOT_FOUND, &err),
                     REDRIVE_E_NOT_FOUND);
    assert_string_equal(err.message, "the store that DATABASE_URL names is not set up");
    assert_string_equal(err.detail, "postgres://u:***@h/db");
    assert_non_null(strstr(err.hint, "redrive migrate"));
    assert_non_null(strstr(err.hint, "`store:`"));
}

SANDBOX_TEST(directory_of_a_record_pipeline_holds_the_store)
{
    s->environ = ENVIRON("DATABASE_URL=postgres://h/db", "REDRIVE_PATHS_RETRY_QUEUE=/data/queue");
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "sqlite:/data/queue/redrive.db");
    s->environ = ENVIRON("REDRIVE_PATHS_RETRY_QUEUE=/data/queue", "REDRIVE_STORE=sqlite:x.db");
    assert_int_equal(sandbox_load(s), 0);
    assert_string_equal(s->config->store, "sqlite:x.db");
}
