#include "base/json/writer.h"

#include "check.h"
#include "test_json.h"

#include "base/rng.h"
#include "base/text/encode.h"

struct fixture {
    struct buf out;
    struct json_writer w;
};

static void start(struct fixture *f)
{
    buf_init(&f->out, 1u << 20);
    json_writer_init(&f->w, &f->out);
}

static void check_output(struct fixture *f, const char *expected)
{
    assert_int_equal(buf_failed(&f->out), 0);
    assert_int_equal(f->w.depth, 0);
    assert_string_equal(buf_cstr(&f->out), expected);
    buf_release(&f->out);
}

TEST(commas_and_colons_come_by_themselves)
{
    struct fixture f;
    start(&f);
    json_begin_object(&f.w);
    json_key(&f.w, "a");
    json_begin_array(&f.w);
    json_put_int(&f.w, -1);
    json_put_uint(&f.w, UINT64_MAX);
    json_begin_array(&f.w);
    json_end_array(&f.w);
    json_begin_object(&f.w);
    json_end_object(&f.w);
    json_put_bool(&f.w, true);
    json_put_bool(&f.w, false);
    json_put_null(&f.w);
    json_end_array(&f.w);
    json_key_str(&f.w, STR("raw"));
    json_put_raw(&f.w, STR("{ \"x\" : 1 }"));
    json_key(&f.w, "o");
    json_begin_object(&f.w);
    json_key(&f.w, "i");
    json_put_int(&f.w, INT64_MIN);
    json_end_object(&f.w);
    json_end_object(&f.w);
    check_output(&f, "{\"a\":[-1,18446744073709551615,[],{},true,false,null],"
                     "\"raw\":{ \"x\" : 1 },\"o\":{\"i\":-9223372036854775808}}");
}

TEST(fields_are_key_and_value)
{
    struct fixture f;
    start(&f);
    json_begin_object(&f.w);
    json_field_cstr(&f.w, "c", "x");
    json_field_cstr(&f.w, "absent", NULL);
    json_field_string(&f.w, "s", STR("y"));
    json_field_int(&f.w, "i", 3);
    json_field_double(&f.w, "d", 2.5);
    json_field_bool(&f.w, "b", true);
    json_end_object(&f.w);
    check_output(&f, "{\"c\":\"x\",\"absent\":null,\"s\":\"y\",\"i\":3,\"d\":2.5,\"b\":true}");
}

TEST(outermost_values_follow_each_other)
{
    struct fixture f;
    start(&f);
    json_put_int(&f.w, 1);
    buf_putc(&f.out, '\n');
    json_begin_array(&f.w);
    json_end_array(&f.w);
    check_output(&f, "1\n[]");
}

TEST(strings_are_escaped_where_they_must_be)
{
    static const struct {
        struct str from;
        const char *to;
    } cases[] = {
        {{"", 0}, "\"\""},
        {{NULL, 0}, "\"\""},
        {{"plain /", 7}, "\"plain /\""},
        {{"\"\\\b\f\n\r\t", 7}, "\"\\\"\\\\\\b\\f\\n\\r\\t\""},
        {{"\0\x01\x1F\x7F", 4}, "\"\\u0000\\u0001\\u001f\x7F\""},
        {{"\xC3\xA9\n\xE2\x82\xAC\xF0\x9F\x98\x80", 10},
         "\"\xC3\xA9\\n\xE2\x82\xAC\xF0\x9F\x98\x80\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        start(&f);
        json_put_string(&f.w, cases[i].from);
        check_output(&f, cases[i].to);
    }
}

#define FFFD "\xEF\xBF\xBD"

TEST(what_is_not_utf8_is_replaced)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\xFF", "\"" FFFD "\""},
        {"a\x80z", "\"a" FFFD "z\""},
        {"\xC3\xA9\xC3", "\"\xC3\xA9" FFFD "\""},
        {"\xE2\x82(", "\"" FFFD "(\""},
        {"\xF0\x9F\x98\"", "\"" FFFD "\\\"\""},
        {"\xC0\x80", "\"" FFFD FFFD "\""},
        {"\xED\xA0\x80", "\"" FFFD FFFD FFFD "\""},
        {"\xF4\x90\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        start(&f);
        json_put_cstr(&f.w, cases[i].from);
        assert_int_equal(json_check(buf_str(&f.out), NULL, NULL), 0);
        check_output(&f, cases[i].to);
    }
}

TEST(keys_are_escaped_too)
{
    struct fixture f;
    start(&f);
    json_begin_object(&f.w);
    json_key_str(&f.w, (struct str){"a\"\0\xFF", 4});
    json_put_null(&f.w);
    json_end_object(&f.w);
    check_output(&f, "{\"a\\\"\\u0000" FFFD "\":null}");
}

TEST(a_full_buffer_is_noticed_at_the_end)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 10);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    for (int i = 0; i < 10; i++)
        json_put_cstr(&w, "abc");
    json_end_array(&w);
    assert_int_equal(buf_failed(&out), REDRIVE_E_TOO_BIG);
    buf_release(&out);
}

TEST(sixty_four_levels_can_be_written)
{
    struct fixture f;
    start(&f);
    for (int i = 0; i < 64; i++) {
        if (i % 2) {
            json_key(&f.w, "k");
            json_begin_array(&f.w);
        } else {
            json_begin_object(&f.w);
        }
    }
    for (int i = 63; i >= 0; i--) {
        if (i % 2)
            json_end_array(&f.w);
        else
            json_end_object(&f.w);
    }
    assert_int_equal(json_check(buf_str(&f.out), NULL, NULL), 0);
    assert_int_equal(f.w.depth, 0);
    buf_release(&f.out);
}

/* ---- The way back ---------------------------------------------------------------------------- */

/* Any bytes; often enough good UTF-8, quotes and controls. */
static struct str random_bytes(struct rng *rng, char *out, size_t max)
{
    size_t len = rng_below(rng, max + 1), n = 0;
    while (n + 4 <= len) {
        switch (rng_below(rng, 5)) {
        case 0: n += utf8_encode((uint32_t)rng_below(rng, 0xD800), out + n); break;
        case 1: n += utf8_encode(0xE000 + (uint32_t)rng_below(rng, 0x102000), out + n); break;
        case 2: out[n++] = (char)rng_below(rng, 0x20); break;
        case 3: out[n++] = "\"\\/u"[rng_below(rng, 4)]; break;
        default: out[n++] = (char)('a' + rng_below(rng, 26));
        }
    }
    return (struct str){out, n};
}

static void put_random(struct rng *rng, struct json_writer *w, int depth)
{
    char bytes[60];
    switch (rng_below(rng, depth > 0 ? 8 : 6)) {
    case 0: json_put_null(w); break;
    case 1: json_put_bool(w, rng_below(rng, 2)); break;
    case 2: json_put_int(w, (int64_t)rng_next(rng) >> rng_below(rng, 64)); break;
    case 3: json_put_uint(w, rng_next(rng)); break;
    case 4: json_put_double(w, rng_double(rng) * 1e6); break;
    case 5: json_put_string(w, random_bytes(rng, bytes, sizeof bytes)); break;
    case 6:
        json_begin_array(w);
        for (uint64_t n = rng_below(rng, 6); n > 0; n--)
            put_random(rng, w, depth - 1);
        json_end_array(w);
        break;
    default:
        json_begin_object(w);
        for (uint64_t n = rng_below(rng, 25); n > 0; n--) {
            struct str tail = random_bytes(rng, bytes + 2, sizeof bytes - 2);
            bytes[0] = (char)('A' + n); /* so that no two keys are equal */
            bytes[1] = ':';
            json_key_str(w, (struct str){bytes, tail.len + 2});
            put_random(rng, w, depth - 1);
        }
        json_end_object(w);
    }
}

static void copy_value(struct json_reader *r, struct json_writer *w);

static void copy_string(struct json_string s, struct json_writer *w, bool as_key)
{
    struct buf decoded;
    buf_init(&decoded, 1u << 20);
    assert_int_equal(json_unescape(s, &decoded), 0);
    if (as_key)
        json_key_str(w, buf_str(&decoded));
    else
        json_put_string(w, buf_str(&decoded));
    buf_release(&decoded);
}

static void copy_container(struct json_reader *r, struct json_writer *w, bool object)
{
    struct json_string key;
    if (object) {
        json_enter_object(r);
        json_begin_object(w);
        while (json_next_key(r, &key) > 0) {
            copy_string(key, w, true);
            copy_value(r, w);
        }
        json_end_object(w);
    } else {
        json_enter_array(r);
        json_begin_array(w);
        while (json_next_item(r) > 0)
            copy_value(r, w);
        json_end_array(w);
    }
}

static void copy_value(struct json_reader *r, struct json_writer *w)
{
    struct json_string s;
    struct str raw;
    bool yes;
    switch (json_peek(r)) {
    case JSON_TYPE_NULL:
        json_read_null(r);
        json_put_null(w);
        break;
    case JSON_TYPE_FALSE:
    case JSON_TYPE_TRUE:
        assert_int_equal(json_read_bool(r, &yes), 0);
        json_put_bool(w, yes);
        break;
    case JSON_TYPE_NUMBER:
        assert_int_equal(json_skip(r, &raw), 0);
        json_put_raw(w, raw);
        break;
    case JSON_TYPE_STRING:
        assert_int_equal(json_read_string(r, &s), 0);
        copy_string(s, w, false);
        break;
    case JSON_TYPE_ARRAY: copy_container(r, w, false); break;
    case JSON_TYPE_OBJECT: copy_container(r, w, true); break;
    default: fail();
    }
}

TEST(what_was_written_reads_back_and_writes_the_same)
{
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 3000; i++) {
        struct fixture f, copy;
        struct json_reader r;
        start(&f);
        start(&copy);
        put_random(&rng, &f.w, 4);
        struct str text = exact_copy(buf_str(&f.out));
        json_reader_init(&r, text, NULL);
        copy_value(&r, &copy.w);
        assert_int_equal(json_end(&r), 0);
        json_reader_release(&r);
        free((char *)text.ptr);
        check_output(&copy, buf_cstr(&f.out));
        buf_release(&f.out);
    }
}

TEST(any_string_reads_back_as_it_was)
{
    struct rng rng;
    rng_seed(&rng, 4);
    for (int i = 0; i < 20000; i++) {
        struct fixture f;
        struct json_reader r;
        struct json_string s;
        struct buf decoded;
        char bytes[200];
        struct str from = random_bytes(&rng, bytes, sizeof bytes);
        assert_true(utf8_valid(from));
        start(&f);
        buf_init(&decoded, 1u << 20);
        json_put_string(&f.w, from);
        json_reader_init(&r, buf_str(&f.out), NULL);
        assert_int_equal(json_read_string(&r, &s), 0);
        assert_int_equal(json_end(&r), 0);
        assert_int_equal(json_unescape(s, &decoded), 0);
        assert_true(str_eq(buf_str(&decoded), from));
        json_reader_release(&r);
        buf_release(&decoded);
        buf_release(&f.out);
    }
}

TEST(any_bytes_become_valid_json)
{
    struct rng rng;
    rng_seed(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        struct fixture f;
        char bytes[40];
        size_t len = rng_below(&rng, sizeof bytes + 1);
        for (size_t k = 0; k < len; k++)
            bytes[k] = (char)(rng_below(&rng, 2) ? rng_next(&rng) : 0xC0 + rng_below(&rng, 64));
        struct str copy = exact_copy((struct str){bytes, len});
        start(&f);
        json_put_string(&f.w, copy);
        assert_int_equal(json_check(buf_str(&f.out), NULL, NULL), 0);
        free((char *)copy.ptr);
        buf_release(&f.out);
    }
}
