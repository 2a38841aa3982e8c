#include "check.h"

#include "fields/describe.h"

enum {
    OF_LISTS = 1,
    OF_CHANGES = 2,
};

static const char *const ORDERS[] = {"oldest", "newest", NULL};

static const struct field FIELDS[] = {
    {"task", &FIELD_NAME, .required = true, .help = "of this task"},
    {"class", &FIELD_TERMS, .vocabulary = VOCABULARY_STRATEGY, .skip = 1, .uses = OF_CHANGES},
    {"limit", &FIELD_COUNT, .min = 1, .max = 9, .default_text = "5", .uses = OF_LISTS},
    {"order", &FIELD_WORD, .words = ORDERS, .uses = OF_LISTS},
    {"seed", &FIELD_INT, .max = INT64_MAX, .uses = OF_LISTS},
    {"share", &FIELD_DOUBLE, .min_double = 0, .max_double = 0.5, .uses = OF_LISTS},
    {0},
};

static const char *describe(const struct field_part *part, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    fields_describe(part, &w);
    return buf_cstr(out);
}

TEST(a_field_is_described_with_what_its_row_says)
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(2000);
    const struct field_part part = {FIELDS, OF_LISTS};
    assert_string_equal(
        describe(&part, &out),
        "[{\"name\":\"task\",\"type\":\"string\",\"required\":true,\"help\":\"of this task\"},"
        "{\"name\":\"limit\",\"type\":\"int\",\"default\":\"5\",\"min\":1,\"max\":9},"
        "{\"name\":\"order\",\"type\":\"choice\",\"choices\":[\"oldest\",\"newest\"]},"
        "{\"name\":\"seed\",\"type\":\"int\",\"min\":0},"
        "{\"name\":\"share\",\"type\":\"double\",\"min\":0,\"max\":0.5}]");
}

TEST(words_of_a_vocabulary_are_choices_without_those_that_are_skipped)
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(2000);
    const struct field_part part = {FIELDS + 1, OF_CHANGES};
    size_t n;
    const char *const *words = vocabulary_words(VOCABULARY_STRATEGY, &n);
    const char *text = describe(&part, &out);
    assert_null(strstr(text, words[0]));
    for (size_t i = 1; i < n; i++)
        assert_non_null(strstr(text, words[i]));
}

TEST(no_table_has_no_fields)
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(2000);
    assert_string_equal(describe(&(struct field_part){0}, &out), "[]");
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, NULL);
}
