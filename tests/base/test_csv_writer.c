#include "check.h"

#include "base/csv/csv.h"

static struct buf out;
static struct csv_writer w;

static int start(void **state)
{
    (void)state;
    buf_init(&out, 4096);
    csv_writer_init(&w, &out);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    buf_release(&out);
    return 0;
}

#define FIXTURE_TEST(test) TEST_AROUND(test, start, stop)

FIXTURE_TEST(cells_stand_between_commas)
{
    csv_put_cstr(&w, "id");
    csv_put_int(&w, -42);
    csv_put_cstr(&w, NULL);
    csv_put_cstr(&w, "a b;c'd");
    csv_end_row(&w);
    csv_put_int(&w, INT64_MIN);
    csv_end_row(&w);
    assert_string_equal(buf_cstr(&out), "id,-42,,a b;c'd\r\n-9223372036854775808\r\n");
}

FIXTURE_TEST(comma_quote_and_line_break_are_quoted)
{
    csv_put_cstr(&w, "a,b");
    csv_put_cstr(&w, "say \"hi\"");
    csv_put_cstr(&w, "one\ntwo");
    csv_put_cstr(&w, "one\rtwo");
    csv_put_cstr(&w, "\"");
    csv_end_row(&w);
    assert_string_equal(buf_cstr(&out),
                        "\"a,b\",\"say \"\"hi\"\"\",\"one\ntwo\",\"one\rtwo\",\"\"\"\"\r\n");
}

FIXTURE_TEST(only_cell_of_a_row_shows_when_it_is_empty)
{
    csv_put_cstr(&w, "");
    csv_end_row(&w);
    csv_put_cstr(&w, "");
    csv_put_cstr(&w, "");
    csv_end_row(&w);
    csv_put_cstr(&w, "x");
    csv_end_row(&w);
    assert_string_equal(buf_cstr(&out), "\"\"\r\n,\r\nx\r\n");
}

FIXTURE_TEST(bytes_of_every_kind_are_kept)
{
    csv_put_str(&w, STR("a\0b"));
    csv_put_str(&w, STR("\xff\xfe"));
    csv_put_str(&w, STR("=1+2"));
    csv_end_row(&w);
    assert_int_equal(out.len, sizeof "a\0b,\xff\xfe,=1+2\r\n" - 1);
    assert_memory_equal(out.data, "a\0b,\xff\xfe,=1+2\r\n", out.len);
}
