#include "check.h"

#include "fields/query.h"

enum {
    OF_LISTS = 1,
    OF_CHANGES = 2,
};

struct ask {
    struct str task;
    uint32_t states;
    bool dry_run;
    size_t limit;
};

#define ASK(m) offsetof(struct ask, m)

static const struct field FIELDS[] = {
    {"task", &FIELD_WORDING, ASK(task)},
    {"state", &FIELD_TERMS, ASK(states), .vocabulary = VOCABULARY_STATE},
    {"dry_run", &FIELD_BOOL, ASK(dry_run), .uses = OF_CHANGES},
    {"limit", &FIELD_COUNT, ASK(limit), .min = 1, .max = 9, .uses = OF_LISTS},
    {0},
};

static struct arena arena;
static struct redrive_err err;
static struct field_reader r;
static struct ask ask;
static uint64_t given;

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static void begin(unsigned uses)
{
    err = (struct redrive_err){0};
    ask = (struct ask){0};
    given = 0;
    fields_query_open(&r, uses, &arena, 0, &err);
}

static int add(const char *name, const char *value)
{
    return fields_query_add(&r, FIELDS, str_of(name), str_of(value), &ask, &given);
}

TEST(a_field_is_there_for_its_uses_only)
{
    begin(OF_LISTS);
    assert_int_equal(add("limit", "9"), 0);
    assert_int_equal(add("dry_run", "true"), REDRIVE_E_UNKNOWN);
    assert_string_equal(err.message, "dry_run: there is no such parameter");
    assert_string_equal(err.detail, "expected one of task, state, limit");
    assert_string_equal(r.place, "dry_run");
    begin(OF_CHANGES);
    assert_int_equal(add("dry_run", ""), 0);
    assert_true(ask.dry_run);
    assert_int_equal(add("limit", "9"), REDRIVE_E_UNKNOWN);
}

TEST(a_list_may_be_given_in_parts)
{
    begin(0);
    assert_int_equal(add("state", "queued"), 0);
    assert_int_equal(add("state", "failed,running"), 0);
    assert_int_equal(ask.states, 1u << REDRIVE_STATE_QUEUED | 1u << REDRIVE_STATE_FAILED |
                                     1u << REDRIVE_STATE_RUNNING);
}

TEST(what_is_no_list_is_given_once)
{
    begin(0);
    assert_int_equal(add("task", "a"), 0);
    assert_int_equal(add("task", "a"), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "task: it is given twice");
}

TEST(an_empty_value_is_refused)
{
    begin(0);
    assert_int_equal(add("task", ""), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "task: it is empty");
    assert_int_equal(given, 0);
}

TEST(what_is_not_utf_8_is_refused)
{
    begin(0);
    assert_int_equal(add("task", "\xff"), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "task: it is not UTF-8");
}

/* ---- Texts that are sent on ------------------------------------------------------------------ */

static const struct field PRIORITY = {"priority", &FIELD_INT, .min = -100, .max = 100};
static const struct field POLICY = {"retry", &FIELD_OBJECT};

static void refuse(const struct field *field, const char *text, const char *message)
{
    err = (struct redrive_err){0};
    assert_true(fields_check_text(field, "--option", str_of(text), &err) < 0);
    assert_string_equal(err.message, message);
}

TEST(a_text_that_is_sent_on_is_a_value_of_its_field)
{
    assert_int_equal(fields_check_text(&PRIORITY, "-p", STR("-100"), &err), 0);
    assert_int_equal(fields_check_text(&POLICY, "--retry", STR(" {} "), &err), 0);
    refuse(&PRIORITY, "101", "--option: '101' is out of range");
    assert_string_equal(err.detail, "expected a whole number from -100 to 100");
    refuse(&PRIORITY, "", "--option: it is empty");
    refuse(&PRIORITY, "\xff", "--option: it is not UTF-8");
    refuse(&POLICY, "[]", "--option: it is an array");
    refuse(&POLICY, "{} {}", "--option: it is not JSON");
}

TEST(a_text_that_is_sent_on_is_written_as_its_field_is_read)
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(1024);
    struct json_writer w;
    json_writer_init(&w, &out);
    json_begin_object(&w);
    fields_write_text(&PRIORITY, STR("7"), &w);
    fields_write_text(&POLICY, STR("{\"a\":1}"), &w);
    fields_write_text(&FIELDS[0], STR("7 \"x\""), &w);
    json_end_object(&w);
    assert_string_equal(buf_cstr(&out),
                        "{\"priority\":7,\"retry\":{\"a\":1},\"task\":\"7 \\\"x\\\"\"}");
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
