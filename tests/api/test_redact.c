/* What rules hide in values and in texts. */
#include "check.h"

#include <string.h>
#include <time.h>

#include "api/redact.h"

static struct arena arena;

static int begin(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static const char *const ITEMS[] = {"password", "card.number", "a.*.z", NULL};
static const struct config_strings RULES = {ITEMS, 3};

static void value_becomes(const char *value, const char *expected)
{
    struct redactor r;
    redactor_init(&r, &RULES, &arena);
    const struct str shown = redact_value(&r, str_of(value));
    assert_string_equal(arena_dup(&arena, shown), expected);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, begin, end)

FIXTURE_TEST(keys_are_found_at_every_depth)
{
    value_becomes("{\"password\":1}", "{\"password\":\"[redacted]\"}");
    value_becomes("{\"x\":[[{\"PassWord\":{\"y\":[1]}}]]}",
                  "{\"x\":[[{\"PassWord\":\"[redacted]\"}]]}");
    value_becomes("{\"pass\\u0077ord\":null}", "{\"password\":\"[redacted]\"}");
    value_becomes("{\"card\":[{\"number\":5,\"n\":1e2}]}",
                  "{\"card\":[{\"number\":\"[redacted]\",\"n\":1e2}]}");
    value_becomes("{\"a\":{\"b\":{\"z\":1}}}", "{\"a\":{\"b\":{\"z\":\"[redacted]\"}}}");
}

FIXTURE_TEST(what_no_rule_names_stays_byte_for_byte)
{
    static const char *const SAME[] = {
        "{ \"number\" : 1 }",
        "{\"passwords\": 1}",
        "{\"a\":{\"z\":1}}",
        "\"password\"",
        "[]",
        "12",
        "",
    };
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        value_becomes(SAME[i], SAME[i]);
}

FIXTURE_TEST(what_is_no_json_is_a_text)
{
    value_becomes("password=hunter2, user=ann", "password=[redacted], user=ann");
    value_becomes("PASSWORD: 'a b' {", "PASSWORD: '[redacted]' {");
    value_becomes("{\"password\": \"a\\\\b\"", "{\"password\": \"[redacted]\"");
    value_becomes("\"password\":\"se\\\"cret\" x", "\"password\":\"[redacted]\" x");
    value_becomes("password=>'x' y", "password=>'[redacted]' y");
    value_becomes("a, password: {\"b\":1} and 2", "a, password: [redacted]");
    value_becomes("mypassword=x password= ", "mypassword=x password= ");
    value_becomes("password", "password");
}

FIXTURE_TEST(texts_of_a_job_lose_what_was_hidden_in_it)
{
    struct redactor r;
    struct job job = {
        .spec = {.payload = STR("{\"password\":[\"tom\",\"se\\\"cret\",12345],\"x\":\"12345!\"}")},
        .status = {.error = {.class_ = REDRIVE_CLASS_PERMANENT,
                             .message = STR("tom, se\"cret, se\\\"cret and 12345"),
                             .stacktrace = STR("12345")}},
    };
    redactor_init(&r, &RULES, &arena);
    const struct job shown = redact_job(&r, &job);
    assert_string_equal(arena_dup(&arena, shown.spec.payload),
                        "{\"password\":\"[redacted]\",\"x\":\"[redacted]!\"}");
    /* Three characters are too few to look for. */
    assert_string_equal(arena_dup(&arena, shown.status.error.message),
                        "tom, [redacted], [redacted] and [redacted]");
    assert_string_equal(arena_dup(&arena, shown.status.error.stacktrace), "[redacted]");
    /* A value that looks shorter than it is. */
    const struct job named = {
        .spec = {.payload = STR("{\"password\":\"correct horse, battery\"}")},
        .status = {.error = {.message = STR("password=correct horse, battery is wrong")}}};
    assert_string_equal(arena_dup(&arena, redact_job(&r, &named).status.error.message),
                        "password=[redacted] is wrong");
    const struct job overlap = {
        .spec = {.payload = STR("{\"password\":[\"abcdef\",\"defghi\"]}")},
        .status = {.error = {.message = STR("x=abcdefghi, bearer abcdef")}}};
    assert_string_equal(arena_dup(&arena, redact_job(&r, &overlap).status.error.message),
                        "x=[redacted], bearer [redacted]");
    /* Another job knows nothing of it. */
    job.spec.payload = STR("{}");
    const struct job other = redact_job(&r, &job);
    assert_string_equal(arena_dup(&arena, other.status.error.stacktrace), "12345");
}

static void message_becomes(const char *message, const char *expected)
{
    struct redactor r;
    const struct job job = {.spec = {.payload = STR("{\"password\":\"hunter2longer\"}")},
                            .status = {.error = {.message = str_of(message)}}};
    redactor_init(&r, &RULES, &arena);
    assert_string_equal(arena_dup(&arena, redact_job(&r, &job).status.error.message), expected);
}

/* Messages are cut at their end, and of what a program writes the last part is kept. */
FIXTURE_TEST(a_secret_that_was_cut_is_hidden)
{
    message_becomes("x hunter2lo", "x [redacted]");
    message_becomes("x hunt", "x [redacted]");
    message_becomes("x hun", "x hun");
    message_becomes("x hunter2lo.", "x hunter2lo.");
    message_becomes("r2longer is wrong", "[redacted] is wrong");
    message_becomes("longer", "[redacted]");
    message_becomes("nger", "[redacted]");
    message_becomes("ger", "ger");
    message_becomes("2long hunter2longer", "2long [redacted]");
    message_becomes("longerhunter2longer, hunter2longe", "[redacted][redacted], [redacted]");
    message_becomes("password=hunter2lon", "password=[redacted]");
    message_becomes("", "");
    /* Other texts of a job are whole. */
    value_becomes("{\"password\":\"hunter2longer\",\"x\":\"longer hunt\"}",
                  "{\"password\":\"[redacted]\",\"x\":\"longer hunt\"}");
}

FIXTURE_TEST(too_many_secrets_hide_the_whole_text)
{
    struct redactor r;
    struct buf payload;
    buf_init(&payload, 100000);
    buf_puts(&payload, "{\"password\":[0");
    for (int i = 0; i <= REDACT_SECRETS_MAX; i++)
        buf_printf(&payload, ",\"secret-%d\"", i);
    buf_puts(&payload, "]}");
    const struct job job = {.spec = {.payload = buf_str(&payload)},
                            .status = {.error = {.message = STR("secret-128")}}};
    redactor_init(&r, &RULES, &arena);
    const struct job shown = redact_job(&r, &job);
    assert_string_equal(arena_dup(&arena, shown.status.error.message), REDACTED);
    buf_release(&payload);
}

/* Secrets that differ in their last byte, and texts that are nearly one of them everywhere. */
static void put_hostile_payload(struct buf *out)
{
    char secret[1000], text[7800];
    memset(secret, 'a', sizeof secret);
    memset(text, 'a', sizeof text);
    buf_puts(out, "{\"password\":[0");
    for (int i = 0; i < REDACT_SECRETS_MAX; i++)
        buf_printf(out, ",\"%.*s%c%c\"", (int)sizeof secret - 2, secret, 'b' + i / 16,
                   'b' + i % 16);
    buf_puts(out, "],\"texts\":[0");
    for (int i = 0; i < 115; i++)
        buf_printf(out, ",\"%.*s\"", (int)sizeof text, text);
    buf_puts(out, "]}");
}

FIXTURE_TEST(a_payload_that_is_made_for_it_does_not_take_long)
{
    struct redactor r;
    struct buf payload;
    buf_init(&payload, 2000000);
    put_hostile_payload(&payload);
    const struct job job = {.spec = {.payload = buf_str(&payload)},
                            .status = {.error = {.message = STR("password was wrong")}}};
    redactor_init(&r, &RULES, &arena);
    const clock_t began = clock();
    const struct job shown = redact_job(&r, &job);
    /* Some milliseconds. Every text at every place with every secret would take minutes. */
    assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 5);
    /* The last text came too late. */
    const char *all = arena_dup(&arena, shown.spec.payload);
    assert_string_equal(strrchr(all, ','), ",\"" REDACTED "\"]}");
    assert_string_equal(arena_dup(&arena, shown.status.error.message), REDACTED);
    /* Another job has its own time. */
    const struct job next = {.spec = {.payload = STR("{\"password\":\"hunter2\"}")},
                             .status = {.error = {.message = STR("hunter2 is wrong")}}};
    assert_string_equal(arena_dup(&arena, redact_job(&r, &next).status.error.message),
                        "[redacted] is wrong");
    buf_release(&payload);
}

/* As many steps as there is text are no reason to hide it. */
FIXTURE_TEST(a_large_text_with_some_secrets_is_shown)
{
    struct redactor r;
    struct buf payload;
    buf_init(&payload, 2000000);
    buf_puts(&payload, "{\"password\":[0");
    for (int i = 0; i < 20; i++)
        buf_printf(&payload, ",\"%c-0123456789012345678901234567890123456789\"", 'a' + i);
    buf_puts(&payload, "],\"text\":\"");
    while (payload.len < 1000000)
        buf_puts(&payload, "the quick brown fox ");
    buf_puts(&payload, "\"}");
    const struct job job = {.spec = {.payload = buf_str(&payload)}};
    redactor_init(&r, &RULES, &arena);
    const struct job shown = redact_job(&r, &job);
    assert_non_null(strstr(arena_dup(&arena, shown.spec.payload), "quick brown fox"));
    buf_release(&payload);
}

static const char *error_of(struct job_status status)
{
    struct redactor r;
    status.error.message = STR("hunter2 is wrong");
    const struct job job = {.spec = {.payload = STR("{\"password\":\"hunter3\"}")},
                            .status = status};
    redactor_init(&r, &RULES, &arena);
    return arena_dup(&arena, redact_job(&r, &job).status.error.message);
}

FIXTURE_TEST(errors_about_an_earlier_payload_are_hidden_whole)
{
    const struct job_status dead = {
        .state = REDRIVE_STATE_DEAD_LETTER, .attempts = 1, .finished_ms = 1000, .updated_ms = 1000};
    struct job_status changed = dead;
    assert_string_equal(error_of(dead), "hunter2 is wrong");
    changed.updated_ms++;
    assert_string_equal(error_of(changed), REDACTED);
    changed = (struct job_status){.state = REDRIVE_STATE_QUEUED, .epoch = 1};
    assert_string_equal(error_of(changed), REDACTED);
    changed = (struct job_status){.state = REDRIVE_STATE_RUNNING, .epoch = 1, .attempts = 1};
    assert_string_equal(error_of(changed), REDACTED);
    changed.attempts = 2;
    assert_string_equal(error_of(changed), "hunter2 is wrong");
    changed = (struct job_status){.state = REDRIVE_STATE_RETRYING, .epoch = 1, .attempts = 1};
    assert_string_equal(error_of(changed), "hunter2 is wrong");
}

FIXTURE_TEST(without_rules_nothing_is_hidden)
{
    struct redactor r;
    const struct job job = {.spec = {.payload = STR("{\"password\":1}")},
                            .status = {.error = {.message = STR("password=1")}}};
    redactor_init(&r, NULL, &arena);
    const struct job shown = redact_job(&r, &job);
    assert_ptr_equal(shown.spec.payload.ptr, job.spec.payload.ptr);
    assert_ptr_equal(shown.status.error.message.ptr, job.status.error.message.ptr);
}
