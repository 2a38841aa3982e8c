#include "cli/remote/unpack.h"

#include "check.h"

struct thing {
    struct str text;
    struct str json;
    bool flag;
    uint64_t large;
    int64_t at_ms;
    enum redrive_state state;
    struct {
        uint64_t code;
    } inside;
};

static const struct unpack INSIDE[] = {{"code", UNPACK_U64, 0}, {0}};

#define THING(m) offsetof(struct thing, m)
static const struct unpack THINGS[] = {
    {"text", UNPACK_STR, THING(text)},
    {"json", UNPACK_JSON, THING(json)},
    {"flag", UNPACK_BOOL, THING(flag)},
    {"large", UNPACK_U64, THING(large)},
    {"at", UNPACK_TIME, THING(at_ms)},
    {"state", UNPACK_WORD, THING(state), .words = VOCABULARY_STATE},
    {"inside", UNPACK_OBJECT, THING(inside), .object = INSIDE},
    {0},
};

TEST(every_type_is_read)
{
    struct arena arena = {0};
    struct thing t = {0};
    assert_int_equal(
        unpack_object(STR("{\"text\":\"a\\u20ac\\n\",\"json\": {\"a\" :[1, 2]} ,\"flag\":true,"
                          "\"large\":9007199254740993,\"at\":\"1970-01-01T00:00:01.500Z\","
                          "\"state\":\"parked\",\"inside\":{\"code\":7,\"more\":{}}}"),
                      THINGS, &arena, &t, NULL),
        0);
    assert_true(str_is(t.text, "a€\n"));
    assert_true(str_is(t.json, "{\"a\" :[1, 2]}"));
    assert_true(t.flag);
    assert_int_equal(t.large, INT64_C(9007199254740993));
    assert_int_equal(t.at_ms, 1500);
    assert_int_equal(t.state, REDRIVE_STATE_PARKED);
    assert_int_equal(t.inside.code, 7);
    arena_release(&arena);
}

TEST(what_is_null_missing_or_unknown_changes_nothing)
{
    struct arena arena = {0};
    struct thing t = {.at_ms = -1, .large = 5};
    assert_int_equal(unpack_object(STR("{\"at\":null,\"inside\":null,\"new\":[{\"large\":1}]}"),
                                   THINGS, &arena, &t, NULL),
                     0);
    assert_int_equal(t.at_ms, -1);
    assert_int_equal(t.large, 5);
    arena_release(&arena);
}

/* A newer server may have more words: the rest of its answer can be read all the same. */
TEST(a_word_that_is_not_known_here_is_unknown)
{
    struct arena arena = {0};
    struct unpack_list list = {0};
    assert_int_equal(
        unpack_list(STR("{\"items\":[{\"state\":\"asleep\",\"large\":1},{\"state\":\"queued\"}]}"),
                    THINGS, sizeof(struct thing), NULL, &arena, &list, NULL),
        0);
    const struct thing *things = list.rows;
    assert_int_equal(list.n, 2);
    assert_int_equal(things[0].state, REDRIVE_STATE_COUNT);
    assert_string_equal(redrive_state_name(things[0].state), "unknown");
    assert_int_equal(things[0].large, 1);
    assert_int_equal(things[1].state, REDRIVE_STATE_QUEUED);
    arena_release(&arena);
}

TEST(what_is_no_such_value_is_refused)
{
    static const char *const WRONG[] = {
        "",
        "<html>",
        "[]",
        "{\"text\":1}",
        "{\"flag\":\"true\"}",
        "{\"large\":-1}",
        "{\"large\":1.5}",
        "{\"at\":\"yesterday\"}",
        "{\"state\":7}",
        "{\"inside\":[]}",
        "{\"inside\":{\"code\":-5}}",
        "{\"text\":\"a\"",
        "{\"text\":\"a\"} x",
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        struct redrive_err err = {0};
        struct arena arena = {0};
        struct thing t = {0};
        assert_int_equal(unpack_object(str_of(WRONG[i]), THINGS, &arena, &t, &err),
                         REDRIVE_E_PARSE);
        assert_int_equal(err.code, REDRIVE_E_PARSE);
        assert_true(err.detail[0] != '\0');
        arena_release(&arena);
    }
}

TEST(a_list_grows_over_pages_and_has_a_cursor)
{
    static const struct thing BLANK = {.at_ms = -1};
    struct unpack_list list = {0};
    struct arena arena = {0};
    assert_int_equal(unpack_list(STR("{\"items\":[{\"large\":1},{\"at\":\"1970-01-01T00:00:00."
                                     "002Z\"}],\"next\":\"c1\"}"),
                                 THINGS, sizeof BLANK, &BLANK, &arena, &list, NULL),
                     0);
    assert_true(str_is(list.next, "c1"));
    assert_int_equal(unpack_list(STR("{\"next\":null,\"items\":[{\"large\":3}],\"more\":1}"),
                                 THINGS, sizeof BLANK, &BLANK, &arena, &list, NULL),
                     0);
    const struct thing *things = list.rows;
    assert_int_equal(list.n, 3);
    assert_null(list.next.ptr);
    assert_true(things[0].large == 1 && things[0].at_ms == -1);
    assert_true(things[1].large == 0 && things[1].at_ms == 2);
    assert_true(things[2].large == 3 && things[2].at_ms == -1);
    arena_release(&arena);
}

TEST(a_list_without_items_is_refused)
{
    struct unpack_list list = {0};
    struct arena arena = {0};
    assert_int_equal(unpack_list(STR("{\"next\":null}"), THINGS, sizeof(struct thing), NULL, &arena,
                                 &list, NULL),
                     REDRIVE_E_PARSE);
    arena_release(&arena);
}
