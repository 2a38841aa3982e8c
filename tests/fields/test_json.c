#include "check.h"

#include "fields/json.h"

struct item {
    int64_t n;
    struct str name;
    struct str payload;
};

#define ITEM(m) offsetof(struct item, m)

static const struct field FIELDS[] = {
    {"n", &FIELD_INT, ITEM(n), .min = 1, .max = 9},
    {"name", &FIELD_NAME, ITEM(name)},
    {"payload", &FIELD_JSON, ITEM(payload)},
    {0},
};

static struct arena arena;
static struct redrive_err err;
static struct field_reader r;
static struct item item;
static uint64_t given;

static int teardown(void **state)
{
    (void)state;
    fields_json_close(&r);
    arena_release(&arena);
    return 0;
}

static void begin(const char *text)
{
    err = (struct redrive_err){0};
    item = (struct item){.n = 5};
    fields_json_open(&r, str_of(text), &arena, 0, &err);
}

static int read_object(const char *text)
{
    begin(text);
    return fields_json_object(&r, FIELDS, &item, &given);
}

TEST(what_is_not_given_keeps_its_default)
{
    assert_int_equal(read_object("{\"name\":\"a\"}"), 0);
    assert_int_equal(item.n, 5);
    assert_false(field_given(given, 0));
    assert_true(field_given(given, 1));
}

TEST(null_is_as_good_as_absent_unless_it_is_a_value)
{
    assert_int_equal(read_object("{\"n\":null,\"payload\":null}"), 0);
    assert_int_equal(item.n, 5);
    assert_false(field_given(given, 0));
    assert_true(field_given(given, 2));
    check_str(item.payload, "null");
}

TEST(a_member_that_the_table_does_not_have_is_refused)
{
    assert_int_equal(read_object("{\"nmae\":\"a\"}"), REDRIVE_E_UNKNOWN);
    assert_string_equal(err.message, "nmae: there is no such member");
    assert_string_equal(err.detail, "expected one of n, name, payload");
    assert_string_equal(err.hint, "did you mean 'name'?");
    assert_string_equal(r.place, "nmae");
}

TEST(the_input_as_a_whole_has_no_place)
{
    assert_int_equal(read_object("[1]"), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "it is no object");
    assert_string_equal(r.place, "");
    assert_int_equal(read_object("{\"n\":"), REDRIVE_E_PARSE);
    assert_string_equal(r.place, "");
}

TEST(an_error_in_an_array_names_its_item)
{
    begin("[{\"n\":1},{\"n\":10}]");
    assert_true(fields_json_is_array(&r));
    assert_int_equal(fields_json_enter(&r, ""), 0);
    assert_int_equal(fields_json_next(&r, "", 0), 1);
    assert_int_equal(fields_json_object(&r, FIELDS, &item, &given), 0);
    assert_int_equal(fields_json_next(&r, "", 1), 1);
    assert_int_equal(fields_json_object(&r, FIELDS, &item, &given), REDRIVE_E_RANGE);
    assert_string_equal(r.place, "[1].n");
    assert_string_equal(err.message, "[1].n: it is out of range");
}

TEST(an_item_that_is_no_object_is_named_without_a_dot)
{
    begin("[7]");
    assert_int_equal(fields_json_enter(&r, ""), 0);
    assert_int_equal(fields_json_next(&r, "items", 0), 1);
    assert_int_equal(fields_json_object(&r, FIELDS, &item, &given), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "items[0]: it is no object");
}

TEST(an_array_is_asked_for)
{
    begin("{}");
    assert_int_equal(fields_json_enter(&r, "items"), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "items: it is an object");
    assert_string_equal(err.detail, "expected an array");
}

TEST(items_are_counted_up_to_one_more_than_the_limit)
{
    assert_int_equal(fields_json_count(STR("[]"), 3), 0);
    assert_int_equal(fields_json_count(STR("[1,[2],{}]"), 3), 3);
    assert_int_equal(fields_json_count(STR("[1,2,3,4,5,6]"), 3), 4);
    assert_int_equal(fields_json_count(STR("{\"a\":1}"), 3), 0);
}

TEST(nothing_may_follow)
{
    assert_int_equal(read_object("{} {}"), 0);
    assert_int_equal(fields_json_end(&r), REDRIVE_E_PARSE);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
