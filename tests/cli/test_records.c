#include "check.h"

#include <stdlib.h>

#include "base/err.h"
#include "cli/commands/batch/records.h"

/* A text that is read in pieces. */
struct source {
    struct str text;
    size_t step;
    bool fails; /* at the end */
};

static int read_source(void *ctx, char *out, size_t size, size_t *ret_len, struct redrive_err *err)
{
    struct source *s = ctx;
    size_t len = s->text.len < s->step ? s->text.len : s->step;
    len = len < size ? len : size;
    if (len == 0 && s->fails)
        return err_set(err, REDRIVE_E_IO, "the disk is gone");
    if (len > 0)
        memcpy(out, s->text.ptr, len);
    s->text = (struct str){s->text.ptr + len, s->text.len - len};
    *ret_len = len;
    return 0;
}

/* Everything that comes out: `line id payload`, or `! message`; a last `broken` if it is. */
static void read_all(struct records_options options, struct source *source, struct buf *out)
{
    struct records *records = malloc(sizeof *records);
    struct record record;
    struct redrive_err err;
    int rc;
    assert_non_null(records);
    options.read = read_source;
    options.ctx = source;
    buf_init(out, 1 << 20);
    records_init(records, &options);
    while ((rc = records_next(records, &record, &err)) != 0) {
        if (rc < 0)
            buf_printf(out, "! %s\n", err.message);
        else
            buf_printf(out, "%llu %.*s %.*s\n", (unsigned long long)record.line, (int)record.id.len,
                       record.id.ptr, (int)record.payload.len,
                       record.payload.ptr ? record.payload.ptr : "");
    }
    if (records_is_broken(records))
        buf_puts(out, "broken\n");
    records_release(records);
    free(records);
}

static void check_records_of(struct records_options options, struct str text, const char *expected)
{
    const size_t steps[] = {text.len + 1, 1, 3};
    for (size_t i = 0; i < 3; i++) {
        struct source source = {.text = text, .step = steps[i]};
        struct buf out;
        read_all(options, &source, &out);
        assert_string_equal(buf_cstr(&out), expected);
        buf_release(&out);
    }
}

#define check_records(text, expected, ...) \
    check_records_of((struct records_options){__VA_ARGS__}, STR(text), expected)

TEST(json_line_is_its_own_payload)
{
    check_records("{\"sample_id\": \"S-1\", \"v\": 1.50}\n {\"id\":7,\"v\":[ ]} \r\n",
                  "1 S-1 {\"sample_id\": \"S-1\", \"v\": 1.50}\n2 7 {\"id\":7,\"v\":[ ]}\n");
    check_records("\xef\xbb\xbf{\"id\":\"a\"}", "1 a {\"id\":\"a\"}\n");
    check_records("\n\n{\"id\":\"a\"}\n\n", "3 a {\"id\":\"a\"}\n");
    check_records("", "");
}

TEST(id_is_text_or_a_whole_number)
{
    check_records("{\"id\":\"caf\\u00e9\"}\n", "1 caf\xc3\xa9 {\"id\":\"caf\\u00e9\"}\n");
    check_records("{\"id\":-12}\n", "1 -12 {\"id\":-12}\n");
    check_records("{\"id\":1.5}\n{\"id\":true}\n{\"id\":{}}\n",
                  "! line 1: an id is a string or a whole number, not 1.5\n"
                  "! line 2: an id is a string or a whole number, not true\n"
                  "! line 3: an id is a string or a whole number, not {}\n");
    check_records("{\"id\":\"\"}\n{\"v\":1}\n{\"id\":null}\n", "! line 1: the record has no id\n"
                                                               "! line 2: the record has no id\n"
                                                               "! line 3: the record has no id\n");
}

TEST(sample_id_comes_before_id_and_a_named_field_stands_alone)
{
    check_records("{\"id\":1,\"sample_id\":2}\n", "1 2 {\"id\":1,\"sample_id\":2}\n");
    check_records("{\"id\":1,\"sample_id\":null}\n", "1 1 {\"id\":1,\"sample_id\":null}\n");
    check_records("{\"id\":1,\"key\":3}\n{\"id\":1}\n",
                  "1 3 {\"id\":1,\"key\":3}\n! line 2: the record has no id\n", .id_field = "key");
}

TEST(one_field_can_be_the_payload)
{
    check_records("{\"id\":1,\"payload\":{\"a\": 1}}\n{\"id\":2,\"payload\":null}\n{\"id\":3}\n",
                  "1 1 {\"a\": 1}\n2 2 null\n3 3 \n", .payload_field = "payload");
    check_records("{\"id\":1}\n", "1 1 1\n", .payload_field = "id");
}

TEST(bad_line_is_reported_and_costs_no_other)
{
    check_records("{\"id\":1}\n{\"id\":\n[1]\n?\n{\"id\":2}\n",
                  "1 1 {\"id\":1}\n"
                  "! line 2: not JSON\n"
                  "! line 3, column 1: expected an object, found an array\n"
                  "! line 4: not JSON\n"
                  "5 2 {\"id\":2}\n",
                  .format = RECORDS_JSONL);
}

TEST(line_that_is_too_long_costs_no_other)
{
    size_t len = RECORDS_MAX_BYTES + 100;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'x', len);
    memcpy(text, "{\"id\":1}\n", 9);
    memcpy(text + len - 11, "\n{\"id\":2}\n ", 11);
    struct source source = {.text = {text, len}, .step = 60000};
    struct buf out;
    read_all((struct records_options){.format = RECORDS_JSONL}, &source, &out);
    assert_string_equal(buf_cstr(&out), "1 1 {\"id\":1}\n"
                                        "! line 2: a record that is too long\n"
                                        "3 2 {\"id\":2}\n");
    buf_release(&out);
    free(text);
}

TEST(csv_row_becomes_an_object_of_strings)
{
    check_records("sample_id,n,text\r\nS-1,007,\"a \"\"b\"\"\nc\"\r\nS-2,,\r\n",
                  "2 S-1 {\"sample_id\":\"S-1\",\"n\":\"007\",\"text\":\"a \\\"b\\\"\\nc\"}\n"
                  "4 S-2 {\"sample_id\":\"S-2\",\"n\":\"\",\"text\":\"\"}\n",
                  .format = RECORDS_GUESS);
    check_records("id,v\n1,x\n2,\n", "2 1 \"x\"\n3 2 \"\"\n", .format = RECORDS_CSV,
                  .payload_field = "v");
    check_records("id,v\n,x\n2,y\n3\n4,z",
                  "! line 2: the record has no id\n3 2 {\"id\":\"2\",\"v\":\"y\"}\n"
                  "! line 4: 1 field, but the header has 2\n5 4 {\"id\":\"4\",\"v\":\"z\"}\n",
                  .format = RECORDS_CSV);
}

TEST(csv_without_the_column_ends_at_once)
{
    check_records("a,b\n1,2\n3,4\n", "! there is no column 'sample_id' or 'id'\nbroken\n",
                  .format = RECORDS_CSV);
    check_records("id,b\n1,2\n", "! there is no column 'c'\nbroken\n", .format = RECORDS_CSV,
                  .payload_field = "c");
    check_records("id,id\n1,2\n", "! line 1: two columns are called 'id'\nbroken\n",
                  .format = RECORDS_CSV);
}

TEST(format_is_found_by_name_and_else_by_the_first_byte)
{
    assert_int_equal(records_format_of("a/records.JSONL"), RECORDS_JSONL);
    assert_int_equal(records_format_of("x.ndjson"), RECORDS_JSONL);
    assert_int_equal(records_format_of("x.csv"), RECORDS_CSV);
    assert_int_equal(records_format_of("csv"), RECORDS_GUESS);
    assert_int_equal(records_format_of("x.txt"), RECORDS_GUESS);
    check_records("id\n1\n", "2 1 {\"id\":\"1\"}\n", .format = RECORDS_GUESS);
    check_records("{\"id\":1}\n", "1 1 {\"id\":1}\n", .format = RECORDS_GUESS);
}

TEST(input_that_fails_is_the_end)
{
    struct source source = {.text = STR("{\"id\":1}\n{\"id\":"), .step = 100, .fails = true};
    struct buf out;
    read_all((struct records_options){.format = RECORDS_JSONL}, &source, &out);
    assert_string_equal(buf_cstr(&out), "1 1 {\"id\":1}\n! the disk is gone\nbroken\n");
    buf_release(&out);
}
