#include "check.h"

#include "core/limit/limit.h"
#include "fields/json.h"
#include "fields/query.h"

#define NOW INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

static const char *const SIZES[] = {"small", "large", NULL};

struct all {
    struct str name;
    const char *text;
    struct str wording;
    struct field_names names;
    struct field_names queues;
    int64_t whole;
    uint32_t small;
    size_t count;
    double number;
    bool flag;
    struct rate rate;
    int64_t span_ms;
    int64_t age_ms;
    int64_t time_ms;
    int64_t when_ms;
    int size;
    uint32_t states;
    uint64_t group;
    struct str json;
    struct str object;
};

#define ALL(m) offsetof(struct all, m)

static const struct field FIELDS[] = {
    {"name", &FIELD_NAME, ALL(name)},
    {"text", &FIELD_TEXT, ALL(text), .max = 5},
    {"wording", &FIELD_WORDING, ALL(wording)},
    {"names", &FIELD_NAMES, ALL(names), .max = 2},
    {"queues", &FIELD_QUEUES, ALL(queues), .max = 2},
    {"whole", &FIELD_INT, ALL(whole), .min = -3, .max = 12},
    {"small", &FIELD_UINT, ALL(small), .max = UINT32_MAX},
    {"count", &FIELD_COUNT, ALL(count), .min = 1, .max = 100},
    {"number", &FIELD_DOUBLE, ALL(number)},
    {"flag", &FIELD_BOOL, ALL(flag)},
    {"rate", &FIELD_RATE, ALL(rate)},
    {"span", &FIELD_SPAN, ALL(span_ms), .min = 1000, .max = 60000},
    {"age", &FIELD_AGE, ALL(age_ms)},
    {"time", &FIELD_TIME, ALL(time_ms)},
    {"when", &FIELD_WHEN, ALL(when_ms)},
    {"size", &FIELD_WORD, ALL(size), .words = SIZES},
    {"states", &FIELD_TERMS, ALL(states), .vocabulary = VOCABULARY_STATE, .skip = 2},
    {"group", &FIELD_FINGERPRINT, ALL(group)},
    {"json", &FIELD_JSON, ALL(json)},
    {"object", &FIELD_OBJECT, ALL(object)},
    {0},
};

static struct arena arena;
static struct redrive_err err;
static struct all all;

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static int from_json(const char *text)
{
    struct field_reader r;
    uint64_t given;
    err = (struct redrive_err){0};
    all = (struct all){.size = -1, .whole = 99};
    fields_json_open(&r, str_of(text), &arena, NOW, &err);
    int rc = fields_json_object(&r, FIELDS, &all, &given);
    if (rc == 0)
        rc = fields_json_end(&r);
    fields_json_close(&r);
    return rc;
}

static int from_text(const char *name, const char *value)
{
    struct field_reader r;
    uint64_t given = 0;
    err = (struct redrive_err){0};
    all = (struct all){.size = -1, .whole = 99};
    fields_query_open(&r, 0, &arena, NOW, &err);
    return fields_query_add(&r, FIELDS, str_of(name), str_of(value), &all, &given);
}

/* ---- What is read ---------------------------------------------------------------------------- */

TEST(values_are_read_from_json)
{
    assert_int_equal(
        from_json(
            "{\"name\":\"a\\u00fc\",\"text\":\"five5\",\"wording\":\"\",\"names\":[\"x\",\"y\"],"
            "\"queues\":[\"q-1\"],\"whole\":-3,\"small\":4294967295,\"count\":1,"
            "\"number\":2.5,\"flag\":true,\"rate\":7,\"span\":1.0001,\"age\":60,"
            "\"time\":\"2026-01-01T00:00:01Z\",\"when\":2,\"size\":\"large\","
            "\"states\":\"running,queued\",\"group\":\"00000000000000ff\","
            "\"json\": [1, 2] ,\"object\":{\"a\":1}}"),
        0);
    check_str(all.name, "aü");
    assert_string_equal(all.text, "five5");
    assert_int_equal(all.wording.len, 0);
    assert_int_equal(all.names.n, 2);
    check_str(all.names.items[1], "y");
    check_str(all.queues.items[0], "q-1");
    assert_int_equal(all.whole, -3);
    assert_int_equal(all.small, UINT32_MAX);
    assert_int_equal(all.count, 1);
    assert_true(all.number == 2.5);
    assert_true(all.flag);
    assert_int_equal(all.rate.count, 7);
    assert_int_equal(all.rate.period_s, 1);
    assert_int_equal(all.span_ms, 1001); /* never shorter than asked for */
    assert_int_equal(all.age_ms, NOW - 60000);
    assert_int_equal(all.time_ms, NOW + 1000);
    assert_int_equal(all.when_ms, NOW + 2000);
    assert_int_equal(all.size, 1);
    assert_int_equal(all.states, 1u << REDRIVE_STATE_QUEUED | 1u << REDRIVE_STATE_RUNNING);
    assert_int_equal(all.group, 255);
    check_str(all.json, "[1, 2]");
    check_str(all.object, "{\"a\":1}");
}

TEST(values_are_read_from_texts)
{
    assert_int_equal(from_text("whole", "12"), 0);
    assert_int_equal(all.whole, 12);
    assert_int_equal(from_text("number", "-0.5"), 0);
    assert_true(all.number == -0.5);
    assert_int_equal(from_text("span", "1m"), 0);
    assert_int_equal(all.span_ms, 60000);
    assert_int_equal(from_text("rate", "90/min"), 0);
    assert_int_equal(all.rate.count, 90);
    assert_int_equal(all.rate.period_s, 60);
    assert_int_equal(from_text("when", "1h"), 0);
    assert_int_equal(all.when_ms, NOW + 3600000);
    assert_int_equal(from_text("when", "2026-01-01T00:00:01Z"), 0);
    assert_int_equal(all.when_ms, NOW + 1000);
    assert_int_equal(from_text("text", "five5"), 0);
    assert_string_equal(all.text, "five5");
    const char *const yes[] = {"", "true", "1", "True", "TRUE"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(from_text("flag", yes[i]), 0);
        assert_true(all.flag);
    }
    assert_int_equal(from_text("flag", "0"), 0);
    assert_false(all.flag);
}

TEST(an_age_from_before_1970_is_a_bound_all_the_same)
{
    assert_int_equal(from_text("age", "36500d"), 0);
    assert_int_equal(all.age_ms, 1);
}

/* ---- What is refused ------------------------------------------------------------------------- */

struct refusal {
    const char *input;
    int code;
    const char *message;
    const char *detail;
};

static void check_refusal(int rc, const struct refusal *r)
{
    assert_int_equal(rc, r->code);
    assert_string_equal(err.message, r->message);
    assert_string_equal(err.detail, r->detail);
}

TEST(a_wrong_value_is_refused_with_what_is_expected)
{
    static const struct refusal REFUSALS[] = {
        {"{\"name\":\"\"}", REDRIVE_E_INVALID, "name: it is empty",
         "expected a text of 1 to 255 bytes"},
        {"{\"name\":\"a\\nb\"}", REDRIVE_E_INVALID, "name: it has a control character",
         "expected a text of 1 to 255 bytes"},
        {"{\"name\":1}", REDRIVE_E_INVALID, "name: it is a number",
         "expected a text of 1 to 255 bytes"},
        {"{\"text\":\"sixsix\"}", REDRIVE_E_TOO_BIG, "text: it is too long",
         "expected a text of up to 5 bytes"},
        {"{\"text\":\"a\\u0000\"}", REDRIVE_E_INVALID, "text: it has a NUL character",
         "expected a text of up to 5 bytes"},
        {"{\"text\":[]}", REDRIVE_E_INVALID, "text: it is an array",
         "expected a text of up to 5 bytes"},
        {"{\"names\":\"x\"}", REDRIVE_E_INVALID, "names: it is a string",
         "expected an array of 1 to 2 names"},
        {"{\"names\":[]}", REDRIVE_E_INVALID, "names: it is empty",
         "expected an array of 1 to 2 names"},
        {"{\"names\":[\"a\",\"b\",\"c\"]}", REDRIVE_E_RANGE, "names: it is too long",
         "expected an array of 1 to 2 names"},
        {"{\"whole\":13}", REDRIVE_E_RANGE, "whole: it is out of range",
         "expected a whole number from -3 to 12"},
        {"{\"whole\":99999999999999999999}", REDRIVE_E_RANGE, "whole: it is out of range",
         "expected a whole number from -3 to 12"},
        {"{\"whole\":1.5}", REDRIVE_E_INVALID, "whole: it is not a whole number",
         "expected a whole number from -3 to 12"},
        {"{\"flag\":1}", REDRIVE_E_INVALID, "flag: it is a number", "expected true or false"},
        {"{\"rate\":0}", REDRIVE_E_RANGE, "rate: it is out of range",
         "expected jobs a second, 1 to 1000000000, or a text such as 10/s, 90/min, 1000/h or "
         "5000/d"},
        {"{\"rate\":\"fast\"}", REDRIVE_E_INVALID, "rate: it is not a rate",
         "expected jobs a second, 1 to 1000000000, or a text such as 10/s, 90/min, 1000/h or "
         "5000/d"},
        {"{\"span\":61}", REDRIVE_E_RANGE, "span: it is out of range",
         "expected seconds or a duration such as 500ms, 2m or 1h30m, from 1s to 1m"},
        {"{\"span\":-1}", REDRIVE_E_RANGE, "span: it is out of range",
         "expected seconds or a duration such as 500ms, 2m or 1h30m, from 1s to 1m"},
        {"{\"span\":\"soon\"}", REDRIVE_E_INVALID, "span: it is not a duration",
         "expected seconds or a duration such as 500ms, 2m or 1h30m, from 1s to 1m"},
        {"{\"span\":true}", REDRIVE_E_INVALID, "span: it is true",
         "expected seconds or a duration such as 500ms, 2m or 1h30m, from 1s to 1m"},
        {"{\"time\":\"noon\"}", REDRIVE_E_INVALID, "time: it is not a time",
         "expected a time such as 2026-03-28T12:00:00Z"},
        {"{\"when\":\"noon\"}", REDRIVE_E_INVALID, "when: it is neither a time nor a duration",
         "expected a time such as 2026-03-28T12:00:00Z, or a duration such as 1h30m"},
        {"{\"when\":\"2026-13-01T00:00:00Z\"}", REDRIVE_E_INVALID, "when: it is not a time",
         "expected a time such as 2026-03-28T12:00:00Z, or a duration such as 1h30m"},
        {"{\"size\":\"huge\"}", REDRIVE_E_INVALID, "size: there is no 'huge'",
         "expected one of small, large"},
        {"{\"size\":1}", REDRIVE_E_INVALID, "size: it is a number", "expected one of small, large"},
        {"{\"group\":\"xyz\"}", REDRIVE_E_INVALID, "group: it is not a fingerprint",
         "expected 16 hexadecimal digits, as groups of errors have them"},
        {"{\"object\":[]}", REDRIVE_E_INVALID, "object: it is an array", "expected an object"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++)
        check_refusal(from_json(REFUSALS[i].input), &REFUSALS[i]);
}

TEST(a_wrong_text_is_refused_with_what_is_expected)
{
    static const struct {
        const char *name;
        struct refusal refusal;
    } TEXTS[] = {
        {"whole",
         {"1x", REDRIVE_E_INVALID, "whole: '1x' is not a whole number",
          "expected a whole number from -3 to 12"}},
        {"whole",
         {"one", REDRIVE_E_INVALID, "whole: 'one' is not a whole number",
          "expected a whole number from -3 to 12"}},
        {"small",
         {"4294967296", REDRIVE_E_RANGE, "small: '4294967296' is out of range",
          "expected a whole number from 0 to 4294967295"}},
        {"count",
         {"0", REDRIVE_E_RANGE, "count: '0' is out of range",
          "expected a whole number from 1 to 100"}},
        {"number",
         {"many", REDRIVE_E_INVALID, "number: 'many' is not a number",
          "expected a number such as 20 or 0.5"}},
        {"number",
         {".5", REDRIVE_E_INVALID, "number: '.5' is not a number",
          "expected a number such as 20 or 0.5"}},
        {"number",
         {" 5", REDRIVE_E_INVALID, "number: ' 5' is not a number",
          "expected a number such as 20 or 0.5"}},
        {"number",
         {"010", REDRIVE_E_INVALID, "number: '010' is not a number",
          "expected a number such as 20 or 0.5"}},
        {"whole",
         {"010", REDRIVE_E_INVALID, "whole: '010' is not a whole number",
          "expected a whole number from -3 to 12"}},
        {"whole",
         {"a\x1b[31m", REDRIVE_E_INVALID, "whole: 'a?[31m' is not a whole number",
          "expected a whole number from -3 to 12"}},
        {"span",
         {"30", REDRIVE_E_INVALID, "span: '30' has no unit",
          "expected a duration such as 500ms, 2m or 1h30m, from 1s to 1m"}},
        {"span",
         {"-5s", REDRIVE_E_INVALID, "span: '-5s' is negative",
          "expected a duration such as 500ms, 2m or 1h30m, from 1s to 1m"}},
        {"number",
         {"1e999", REDRIVE_E_RANGE, "number: '1e999' is out of range",
          "expected a number such as 20 or 0.5"}},
        {"flag",
         {"yes", REDRIVE_E_INVALID, "flag: 'yes' is neither true nor false",
          "expected true or false"}},
        {"span",
         {"2m", REDRIVE_E_RANGE, "span: '2m' is out of range",
          "expected a duration such as 500ms, 2m or 1h30m, from 1s to 1m"}},
        {"age",
         {"old", REDRIVE_E_INVALID, "age: 'old' is not a duration",
          "expected a duration such as 90m, 24h or 30d, up to 36500d"}},
        {"text",
         {"sixsix", REDRIVE_E_INVALID, "text: it is too long", "expected a text of up to 5 bytes"}},
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        check_refusal(from_text(TEXTS[i].name, TEXTS[i].refusal.input), &TEXTS[i].refusal);
}

TEST(the_nearest_word_is_suggested)
{
    assert_int_equal(from_json("{\"size\":\"smal\"}"), REDRIVE_E_INVALID);
    assert_string_equal(err.hint, "did you mean 'small'?");
    assert_int_equal(from_text("states", "queued,runing"), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "states: there is no 'runing'");
    assert_string_equal(err.hint, "did you mean 'running'?");
    assert_null(strstr(err.detail, "retrying")); /* one of the words that are left out */
}

TEST(what_is_wrong_with_a_duration_is_said)
{
    assert_int_equal(from_text("span", "1.5s500ms"), REDRIVE_E_INVALID);
    assert_string_equal(err.hint, "only the last part may have a fraction");
    assert_int_equal(from_text("flag", "On"), REDRIVE_E_INVALID);
    assert_string_equal(err.hint, "did you mean 'true'?");
}

/* The text of a parameter only: a value of the configuration says true or false. */
TEST(one_is_no_truth_where_there_are_no_parameters)
{
    static const struct field FLAG = {"flag", &FIELD_BOOL, 0};
    static const char *const WORDS[] = {"1", "0", "", "yes"};
    struct field_reader r;
    bool flag = false;
    fields_query_open(&r, 0, &arena, NOW, &err);
    r.is_parameter = false;
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        r.text = str_of(WORDS[i]);
        assert_int_equal(FIELD_BOOL.read(&r, &FLAG, &flag), REDRIVE_E_INVALID);
    }
    r.text = STR("True");
    assert_int_equal(FIELD_BOOL.read(&r, &FLAG, &flag), 0);
    assert_true(flag);
}

TEST(a_secret_is_not_repeated)
{
    static const struct field SECRET = {"secret", &FIELD_INT, 0, .secret = true};
    struct field_reader r;
    int64_t n = 0;
    fields_query_open(&r, 0, &arena, NOW, &err);
    r.text = STR("hunter2");
    assert_int_equal(FIELD_INT.read(&r, &SECRET, &n), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "secret: it is not a whole number");
}

TEST(the_name_of_a_queue_in_a_list_is_checked)
{
    assert_int_equal(from_json("{\"queues\":[\"a b\"]}"), REDRIVE_E_INVALID);
    assert_int_equal(strncmp(err.message, "queues: ", 8), 0);
}

TEST(a_rate_without_a_unit_is_so_many_a_second)
{
    assert_int_equal(from_text("rate", "20"), 0);
    assert_int_equal(all.rate.count, 20);
    assert_int_equal(all.rate.period_s, 1);
    assert_int_equal(from_text("rate", "1000000000"), 0);
    assert_int_equal(from_text("rate", "1000000000/s"), 0);
    assert_int_equal(from_text("rate", "1000000001"), REDRIVE_E_RANGE);
    assert_int_equal(from_text("rate", "1000000001/s"), REDRIVE_E_INVALID);
}

TEST(a_long_text_is_repeated_in_part)
{
    char text[100] = {0};
    memset(text, 'a', 59);
    (void)strcpy(text + 59, "\u00e4bc");
    assert_int_equal(from_text("whole", text), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.message, "aaa\u2026' is not a whole number"));
}

TEST(what_is_refused_leaves_the_member_as_it_was)
{
    assert_int_equal(from_json("{\"names\":[1]}"), REDRIVE_E_INVALID);
    assert_int_equal(all.names.n, 0);
    assert_int_equal(from_json("{\"whole\":\"x\"}"), REDRIVE_E_INVALID);
    assert_int_equal(all.whole, 99);
    assert_int_equal(from_json("{\"when\":-1}"), REDRIVE_E_RANGE);
    assert_int_equal(all.when_ms, 0);
    assert_int_equal(from_text("states", "queued,x"), REDRIVE_E_INVALID);
    assert_int_equal(all.states, 0);
    assert_int_equal(from_text("flag", "x"), REDRIVE_E_INVALID);
    assert_false(all.flag);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
