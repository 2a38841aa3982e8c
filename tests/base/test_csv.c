#include "check.h"

#include <stdio.h>

#include "base/csv/csv.h"

/* What a whole text gives: records as cell|cell, one a line with its number, errors as `! message`.
 */
struct reading {
    struct buf out;
    size_t bad;
    bool broken;
};

static void note(struct reading *r, const struct csv *csv, int rc, const struct redrive_err *err)
{
    if (rc < 0) {
        r->bad++;
        buf_printf(&r->out, "! %s\n", err->message);
        return;
    }
    buf_printf(&r->out, "%llu:", (unsigned long long)csv->line);
    for (size_t i = 0; i < csv->n_cells; i++)
        buf_printf(&r->out, "%s%.*s", i ? "|" : "", (int)csv->cells[i].len, csv->cells[i].ptr);
    buf_putc(&r->out, '\n');
}

static void read_pieces(struct reading *r, const char *text, size_t len, size_t step,
                        const struct csv_limits *limits)
{
    struct csv csv;
    struct redrive_err err;
    int rc = 0;
    *r = (struct reading){0};
    buf_init(&r->out, 1 << 16);
    csv_init(&csv, limits);
    for (size_t at = 0; at < len && !csv_is_broken(&csv); at += step) {
        struct str piece = {text + at, len - at < step ? len - at : step};
        while (!csv_is_broken(&csv) && (rc = csv_next(&csv, &piece, &err)) != 0)
            note(r, &csv, rc, &err);
    }
    r->broken = csv_is_broken(&csv);
    if (!r->broken && (rc = csv_end(&csv, &err)) != 0)
        note(r, &csv, rc, &err);
    csv_release(&csv);
}

/* The same in one piece and byte by byte. */
static void check_csv(const char *text, const char *expected)
{
    const size_t steps[] = {strlen(text) + 1, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct reading r;
        read_pieces(&r, text, strlen(text), steps[i], NULL);
        assert_string_equal(buf_cstr(&r.out), expected);
        buf_release(&r.out);
    }
}

TEST(plain_fields_are_read_as_they_stand)
{
    check_csv("id,name\n1,one\n2, two \n", "2:1|one\n3:2| two \n");
    check_csv("id,name\n1,\n,\n", "2:1|\n3:|\n");
    check_csv("id\n1", "2:1\n");
    check_csv("id,name\n1,", "2:1|\n");
}

TEST(lines_end_with_lf_or_crlf)
{
    check_csv("id,name\r\n1,one\r\n2,two\n", "2:1|one\n3:2|two\n");
}

TEST(quoted_fields_hold_commas_quotes_and_line_breaks)
{
    check_csv("id,text\n1,\"a, b\"\n", "2:1|a, b\n");
    check_csv("id,text\n1,\"say \"\"hi\"\"\"\n", "2:1|say \"hi\"\n");
    check_csv("id,text\n1,\"\"\"\"\n", "2:1|\"\n");
    check_csv("id,text\n1,\"a\r\nb\"\n2,x\n", "2:1|a\r\nb\n4:2|x\n");
    check_csv("\"id\",\"te,xt\"\n1,x\n", "2:1|x\n");
    check_csv("id,text\n1,\"last\"", "2:1|last\n");
}

TEST(byte_order_mark_is_no_text)
{
    struct csv csv;
    struct str text = STR("\xef\xbb\xbf\"id\"\n1\n");
    csv_init(&csv, NULL);
    assert_int_equal(csv_next(&csv, &text, NULL), 1);
    check_str(csv.names[0], "id");
    csv_release(&csv);
    /* Another character that begins with the same bytes is one. */
    text = STR("\xef\xbb\x80\n1\n");
    csv_init(&csv, NULL);
    assert_int_equal(csv_next(&csv, &text, NULL), 1);
    check_str(csv.names[0], "\xef\xbb\x80");
    csv_release(&csv);
}

TEST(empty_lines_are_passed_over_and_counted)
{
    check_csv("\n\r\nid\n\n1\n\r\n\n2\n\n", "5:1\n8:2\n");
    /* A field of nothing in quotes is a record. */
    check_csv("id\n\"\"\r\n1\n", "2:\n3:1\n");
}

TEST(bad_record_is_refused_alone)
{
    check_csv("id,v\n1,a\"b\n2,ok\n",
              "! line 2: a quote inside a field that is not quoted\n3:2|ok\n");
    check_csv("id,v\n1,\"a\"b\n2,ok\n", "! line 2: text after a closing quote\n3:2|ok\n");
    check_csv("id,v\n1\n2,ok\n", "! line 2: 1 field, but the header has 2\n3:2|ok\n");
    check_csv("id,v\n1,2,3\n2,ok\n", "! line 2: 3 fields, but the header has 2\n3:2|ok\n");
    check_csv("id,v\n1,a\rb\n2,ok\n", "! line 2: a carriage return without a line feed\n3:2|ok\n");
    check_csv("id,v\n1,\xff\n2,ok\n", "! line 2: bytes that are not UTF-8\n3:2|ok\n");
    /* Two halves of a character in two fields are not one. */
    check_csv("id,v\n\xc3,\xa9\n2,ok\n", "! line 2: bytes that are not UTF-8\n3:2|ok\n");
}

TEST(error_names_the_line_it_is_on)
{
    check_csv("id,v\n1,\"a\nb\"x\n2,ok\n", "! line 3: text after a closing quote\n4:2|ok\n");
    check_csv("id,v\n1,x\n2,\"open\n3,y\n4,z\n", "2:1|x\n! line 3: a quote that is never closed\n");
}

TEST(bad_header_ends_it_all)
{
    static const struct {
        const char *text;
        const char *message;
    } CASES[] = {
        {"id,id\n1,2\n", "! line 1: two columns are called 'id'\n"},
        {"id,,x\n1,2,3\n", "! line 1: column 2 has no name\n"},
        {"\nid,a\"\n1,2\n", "! line 2: a quote inside a field that is not quoted\n"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct reading r;
        read_pieces(&r, CASES[i].text, strlen(CASES[i].text), 100, NULL);
        assert_string_equal(buf_cstr(&r.out), CASES[i].message);
        assert_true(r.broken);
        buf_release(&r.out);
    }
}

TEST(record_over_a_limit_is_refused_and_the_next_one_read)
{
    const struct csv_limits limits = {.max_bytes = 8, .max_fields = 3};
    static const char TEXT[] = "id,v\n1,1234567\n2,\"12345678\n9\"\n3,ok\n1,2,3,4\n4,ok\n";
    struct reading r;
    read_pieces(&r, TEXT, sizeof TEXT - 1, 5, &limits);
    assert_string_equal(buf_cstr(&r.out), "2:1|1234567\n"
                                          "! line 3: a record that is too long\n"
                                          "5:3|ok\n"
                                          "! line 6: a record of too many fields\n"
                                          "7:4|ok\n");
    buf_release(&r.out);
}

TEST(nothing_is_no_record)
{
    check_csv("", "");
    check_csv("\n\n", "");
    check_csv("id,v\n", "");
    check_csv("\xef\xbb\xbf", "");
}
