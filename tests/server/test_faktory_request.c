#include "check.h"

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "server/faktory/format/request.h"

static struct arena arena;

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

TEST(hello_tells_who_it_is)
{
    struct faktory_hello hello;
    const struct str json =
        STR("{\"hostname\":\"h\",\"wid\":\"w\\u0031\",\"pid\":7,\"labels\":[\"a\"],"
            "\"v\":2,\"pwdhash\":\"ab\",\"x\":{}}");
    assert_int_equal(faktory_hello_read(json, &arena, &hello, NULL), 0);
    check_str(hello.wid, "w1");
    check_str(hello.pwdhash, "ab");
    assert_int_equal(hello.version, 2);
    assert_true(faktory_hello_read(STR("{\"wid\":5}"), &arena, &hello, NULL) < 0);
    assert_true(faktory_hello_read(STR("{} x"), &arena, &hello, NULL) < 0);
    assert_int_equal(faktory_hello_read(STR("{\"wid\":null}"), &arena, &hello, NULL), 0);
    assert_int_equal(hello.wid.len, 0);
}

/* A value that Faktory itself is held to. */
TEST(password_hash_matches_the_published_example)
{
    char out[FAKTORY_HASH_TEXT];
    faktory_password_hash(STR("foobar"), STR("55104dc76695721d"), 1545, out);
    assert_string_equal(out, "6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30");
}

TEST(a_failure_is_trimmed_and_filled_in)
{
    struct faktory_fail fail;
    const struct str json =
        STR("{\"jid\":\"12345678\",\"errtype\":\" IOError \",\"message\":\"a\\u0000b\","
            "\"backtrace\":[\"one\",\"two\\n\"]}");
    assert_int_equal(faktory_fail_read(json, &arena, &fail, NULL), 0);
    check_str(fail.jid, "12345678");
    assert_string_equal(fail.error_type, "IOError");
    assert_string_equal(fail.message, "a b");
    assert_string_equal(fail.backtrace, "one\ntwo");
    assert_int_equal(
        faktory_fail_read(STR("{\"jid\":\"12345678\",\"backtrace\":null}"), &arena, &fail, NULL),
        0);
    assert_string_equal(fail.error_type, "unknown");
    assert_string_equal(fail.message, "unknown");
    assert_null(fail.backtrace);
    assert_true(faktory_fail_read(STR("{\"backtrace\":\"x\"}"), &arena, &fail, NULL) < 0);
    assert_true(faktory_fail_read(STR("{\"backtrace\":[1]}"), &arena, &fail, NULL) < 0);
}

TEST(a_failure_may_name_base_types)
{
    struct faktory_fail fail;
    const struct str json =
        STR("{\"jid\":\"12345678\",\"errtypes\":[\"ConnectTimeout\",\" HTTPError \"]}");
    assert_int_equal(faktory_fail_read(json, &arena, &fail, NULL), 0);
    assert_string_equal(fail.error_type, "ConnectTimeout");
    assert_int_equal(fail.n_error_types, 2);
    assert_string_equal(fail.error_types[1], "HTTPError");
    assert_true(faktory_fail_read(STR("{\"errtypes\":\"x\"}"), &arena, &fail, NULL) < 0);
}

static const char *type_of(const char *json)
{
    struct faktory_fail fail;
    assert_int_equal(faktory_fail_read(str_of(json), &arena, &fail, NULL), 0);
    return fail.error_type;
}

TEST(a_missing_type_is_read_off_the_stack)
{
    assert_string_equal(type_of("{\"errtype\":\"undefined\",\"message\":\"x is not a function\","
                                "\"backtrace\":[\"TypeError: x is not a function\",\"  at f\"]}"),
                        "TypeError");
    assert_string_equal(type_of("{\"message\":\"a\\nb\",\"backtrace\":[\"Error: a\",\"b\"]}"),
                        "Error");
    assert_string_equal(type_of("{\"errtype\":\"EPIPE\",\"message\":\"gone\","
                                "\"backtrace\":[\"Error: gone\"]}"),
                        "EPIPE");
    static const char *const NONE[] = {
        "{\"errtype\":\"undefined\",\"message\":\"gone\",\"backtrace\":[\"main: other\"]}",
        "{\"errtype\":\"undefined\",\"message\":\"gone\",\"backtrace\":[\": gone\"]}",
        "{\"errtype\":\"undefined\",\"message\":\"gone\",\"backtrace\":[\"E\"]}",
        "{\"errtype\":\"undefined\",\"message\":\"\",\"backtrace\":[\"E: x\"]}",
        "{\"errtype\":\"undefined\",\"message\":\"gone\",\"backtrace\":[]}",
        "{\"errtype\":\"undefined\"}",
    };
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        assert_string_equal(type_of(NONE[i]), "undefined");
}

TEST(a_long_failure_is_cut)
{
    struct faktory_fail fail;
    struct buf json;
    buf_init(&json, 1 << 22);
    (void)buf_puts(&json, "{\"jid\":\"12345678\",\"message\":\"");
    for (int i = 0; i < 10000; i++)
        (void)buf_puts(&json, "\xc3\xa4");
    (void)buf_puts(&json, "\",\"backtrace\":[\"0\"");
    for (int i = 0; i < 3000; i++)
        (void)buf_puts(&json, ",\"a line of some length that is like all the others of its kind\"");
    (void)buf_puts(&json, "]}");
    assert_int_equal(faktory_fail_read(buf_str(&json), &arena, &fail, NULL), 0);
    assert_in_range(strlen(fail.message), REDRIVE_MESSAGE_MAX - 4, REDRIVE_MESSAGE_MAX - 1);
    assert_in_range(strlen(fail.backtrace), 40000, REDRIVE_STACKTRACE_MAX);
    buf_release(&json);
}

TEST(a_mutation_has_a_filter)
{
    struct faktory_mutation m;
    const struct str json =
        STR("{\"cmd\":\"kill\",\"target\":\"retries\",\"filter\":{\"jobtype\":\"T\","
            "\"jids\":[\"a\",\"b\"],\"regexp\":\"*x*\"}}");
    assert_int_equal(faktory_mutation_read(json, &arena, &m, NULL), 0);
    check_str(m.command, "kill");
    check_str(m.target, "retries");
    assert_int_equal(m.n_jids, 2);
    check_str(m.jids[1], "b");
    check_str(m.jobtype, "T");
    assert_true(faktory_pattern_fits(m.pattern, STR("axb")));
    assert_false(faktory_pattern_fits(m.pattern, STR("ab")));
    assert_true(faktory_mutation_read(STR("{\"filter\":[]}"), &arena, &m, NULL) < 0);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, release);
}
