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

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
