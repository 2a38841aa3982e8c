/* What config_write says: everything that is in force, and no secrets. */
#include "sandbox.h"

#include "config/schema/types.h"

static char *dump(const struct config *config)
{
    struct json_writer writer;
    struct buf out;
    buf_init(&out, 1u << 20);
    json_writer_init(&writer, &out);
    config_write(config, &writer);
    return buf_detach(&out, NULL);
}

SANDBOX_TEST(a_dump_can_be_loaded_again)
{
    sandbox_good(
        s,
        "store: postgres://db.example.com/jobs\n"
        "listen: {http: off, faktory: localhost:7419, max_connections: 500}\n"
        "strict_tasks: true\n"
        "defaults:\n"
        "  retry: {profile: faktory, give_up_on: [validation, Bad*]}\n"
        "  on: {network: {max_retries: 3, jitter: {mode: spread, max: 0.25}}}\n"
        "tasks:\n"
        "  a:\n"
        "    payload: required\n"
        "    run: {exec: [a, \"--x=\\\"1\\\"\"], timeout: 0, kill_grace: 9s, pass_env: [X]}\n"
        "    retry: {jitter: decorrelated, max_attempts: 1, enable_dlq: false}\n"
        "    on: {database: {jitter: {mode: add, min: 0.5, max: 1.5}, max_attempts: 9}}\n"
        "    limits: {rate: 7/h, burst: 3, per: key, key: \"{user}\", concurrency: 2}\n"
        "    lease: 1m\n"
        "  b: {run: {stream: [b], processes: 2, in_flight: 3}, breaker: {key: \"{payload.x}\"}}\n"
        "  c: {run: {http: \"http://127.0.0.1:1/x\", allow_private: true}}\n"
        "  d:\n"
        "classify:\n"
        "  - {message: \"a|b\", class: permanent, severity: info, task: a, queue: q}\n"
        "  - {http_status: 418, class: success}\n"
        "cron:\n"
        "  x: {task: a, schedule: \"0 4 * * *\", timezone: Asia/Tokyo, payload: [1, {a: b}]}\n"
        "experiments:\n"
        "  patience:\n"
        "    task: a\n"
        "    arms:\n"
        "      control: {share: 0.25}\n"
        "      slow: {share: 0.75, retry: {profile: records}, on: {network: {max_retries: 9}}}\n"
        "alerts:\n"
        "  - {when: error_rate >= 0.05, command: [x, y], task: a}\n"
        "redact: [password, card.number]\n"
        "paths: {retry_queue: /q}\n"
        "health: {healthy: 0.9}\n"
        "retention: {completed: 90m, cancelled: 0}\n");
    char *first = dump(s->config);
    sandbox_good(s, first);
    char *second = dump(s->config);
    assert_string_equal(first, second);
    assert_int_equal(s->config->n_warnings, 0);
    free(first);
    free(second);
}

SANDBOX_TEST(secrets_are_not_written)
{
    sandbox_good(s, "store: postgres://app:hunter2@db/jobs?password=hunter2\n"
                    "tasks:\n"
                    "  a: {run: {http: \"https://u:hunter2@h/path?key=hunter2\"}}\n"
                    "  b: {run: {http: \"https://user@h/#hunter2\"}}\n"
                    "  c: {run: {http: {url: \"https://h/\", headers: {X-Key: hunter2},\n"
                    "      secret: whsec_aHVudGVyMmh1bnRlcjJodW50ZXIy}}}\n"
                    "tokens: [{name: t, scopes: [read], hash: sha256:"
                    "deadbeef89abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]\n"
                    "alerts:\n"
                    "  - {when: dead_letters > 1, webhook: \"https://hooks.example.com/hunter2\"}\n"
                    "  - {when: dead_letters > 1, webhook: \"https://hunter2:x@h\"}\n"
                    "  - {when: dead_letters > 1, webhook: \"https://h?hunter2\"}\n"
                    "  - {when: dead_letters > 1, webhook: \"https://h/\"}\n");
    char *text = dump(s->config);
    assert_null(strstr(text, "hunter2"));
    assert_null(strstr(text, "deadbeef"));
    assert_null(strstr(text, "aHVudGVy"));
    assert_non_null(strstr(text, "\"sha256:***\""));
    assert_non_null(strstr(text, "\"https://hooks.example.com/***\""));
    assert_non_null(strstr(text, "\"https://***@h\""));
    assert_non_null(strstr(text, "\"https://h/***\""));
    assert_non_null(strstr(text, "\"webhook\":\"https://h/\""));
    check_dumped(s, "store", "postgres://app:***@db/jobs?password=***");
    check_dumped(s, "tasks.a.run.http", "https://u:***@h/path?***");
    check_dumped(s, "tasks.b.run.http", "https://user@h/?***");
    /* What is used is not touched. */
    assert_string_equal(s->config->store, "postgres://app:hunter2@db/jobs?password=hunter2");
    free(text);
}

/* The dump's text for a member of the table, or NULL where it says nothing. */
static const char *default_in_dump(struct sandbox *s, const char *section, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", name);
    const char *found = sandbox_dumped(s, path);
    return strcmp(found, "(none)") == 0 || strcmp(found, "(part)") == 0 ? NULL : found;
}

SANDBOX_TEST(default_texts_are_the_defaults)
{
    static const struct {
        const struct table *table;
        const char *section;
    } SECTIONS[] = {
        {&TABLE_ROOT, ""},
        {&TABLE_LISTEN, "listen"},
        {&TABLE_LOG, "log"},
        {&TABLE_RETRY, "defaults.retry"},
        {&TABLE_BREAKER, "defaults.breaker"},
        {&TABLE_HEALTH, "health"},
        {&TABLE_RETENTION, "retention"},
        {&TABLE_TASK, "tasks.a"},
        {&TABLE_CRON, "cron.c"},
        {&TABLE_RUN, "tasks.a.run"},
        {&TABLE_LIMITS, "tasks.a.limits"},
    };
    size_t compared = 0;
    sandbox_good(s, "tasks: {a: {run: {stream: [x]}}}\ncron: {c: {task: a, schedule: '@daily'}}\n");
    for (size_t i = 0; i < sizeof SECTIONS / sizeof SECTIONS[0]; i++) {
        for (size_t j = 0; j < SECTIONS[i].table->n_fields; j++) {
            const struct field *field = &SECTIONS[i].table->fields[j];
            const char *found = default_in_dump(s, SECTIONS[i].section, field->name);
            /* Some defaults follow from other keys and are told in words. */
            if (!found || !field->default_text || strchr(field->default_text, '`') ||
                field->required)
                continue;
            assert_string_equal(field->default_text, found);
            compared++;
        }
    }
    assert_true(compared > 35);
}

TEST(tables_are_complete)
{
    const struct table *table;
    for (size_t i = 0; (table = section_at(i)); i++) {
        assert_true(table->n_fields > 0 && table->n_fields <= 32);
        for (size_t j = 0; j < table->n_fields; j++) {
            const struct field *field = &table->fields[j];
            char expects[EXPECTS_MAX];
            assert_true(strlen(field->help) > 3);
            assert_true(strlen(field_expects(field, expects)) < EXPECTS_MAX - 1);
            assert_ptr_equal(table_find(table, str_of(field->name)), field);
            if (field->instead_of)
                assert_non_null(table_find(table, str_of(field->instead_of)));
            for (const char *const *name = field->replaces; name && *name; name++)
                assert_non_null(table_find(table, str_of(*name)));
        }
    }
}
