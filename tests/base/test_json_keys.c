/* Duplicate keys: in small and large objects, written plainly and with escapes, and at a cost that
 * does not grow with the square of their number. calloc is wrapped so that it can fail. */
#include "base/json/json.h"

#include "check.h"
#include "test_json.h"

#include <stdio.h>
#include <time.h>

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static int callocs_until_failure = -1;
static int n_callocs;

void *__wrap_calloc(size_t n, size_t size)
{
    n_callocs++;
    if (callocs_until_failure >= 0 && callocs_until_failure-- == 0)
        return NULL;
    return __real_calloc(n, size);
}

/* An object with the keys k0 … k(n-1), then `last`. */
static void make_object(struct buf *out, int n, const char *last)
{
    buf_reset(out);
    buf_putc(out, '{');
    for (int i = 0; i < n; i++)
        buf_printf(out, "\"k%d\":%d,", i, i);
    buf_printf(out, "\"%s\":0}", last);
    assert_int_equal(buf_failed(out), 0);
}

TEST(a_repeated_key_is_found_in_objects_of_any_size)
{
    static const int sizes[] = {1, 2, 7, 15, 16, 17, 18, 47, 48, 49, 96, 97, 200, 1000};
    struct buf text;
    buf_init(&text, 1u << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int n = sizes[i];
        make_object(&text, n, "new");
        assert_int_equal(check_exact(buf_str(&text), NULL), 0);
        for (int again = 0; again < n; again += 1 + n / 20) {
            char key[20], escaped[40];
            snprintf(key, sizeof key, "k%d", again);
            make_object(&text, n, key);
            assert_int_equal(check_exact(buf_str(&text), NULL), REDRIVE_E_PARSE);
            snprintf(escaped, sizeof escaped, "\\u006b%d", again);
            make_object(&text, n, escaped);
            assert_int_equal(check_exact(buf_str(&text), NULL), REDRIVE_E_PARSE);
        }
    }
    buf_release(&text);
}

TEST(a_walk_by_keys_finds_it_too)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    for (int n = 1; n < 40; n++) {
        struct json_reader r;
        struct json_string key;
        struct redrive_err err;
        int seen = 0, rc;
        make_object(&text, n, "k0");
        json_reader_init(&r, buf_str(&text), NULL);
        json_enter_object(&r);
        while ((rc = json_next_key(&r, &key)) > 0) {
            seen++;
            json_skip(&r, NULL);
        }
        assert_int_equal(rc, REDRIVE_E_PARSE);
        assert_int_equal(seen, n);
        json_error(&r, &err);
        assert_non_null(strstr(err.message, "expected each key once, found \"k0\" again"));
        json_reader_release(&r);
    }
    buf_release(&text);
}

/* Each way of writing is equal to itself and to the others, and to none of another key. */
TEST(keys_are_compared_as_decoded_text)
{
    static const char *const keys[][3] = {
        {"a", "\\u0061", "\\u0061"},
        {"abcdefgh", "\\u0061bcdefgh", "abcdefg\\u0068"},
        {"abcdefghi", "abcdefgh\\u0069", "\\u0061bcdefghi"},
        {"abcdefghijklmnop", "abcdefgh\\u0069jklmnop", "abcdefghijklmno\\u0070"},
        {"/", "\\/", "\\u002f"},
        {"\\n", "\\u000a", "\\u000A"},
        {"\\\"", "\\u0022", "\\u0022"},
        {"\\\\", "\\u005c", "\\u005C"},
        {"\xC3\xA9", "\\u00e9", "\\u00E9"},
        {"xxxxxxx\xE2\x82\xAC", "xxxxxxx\\u20ac", "xxxxxx\\u0078\xE2\x82\xAC"},
        {"\xF0\x9F\x98\x80", "\\ud83d\\ude00", "\\uD83D\\uDE00"},
        {"a\\u0000", "\\u0061\\u0000", "a\\u0000"},
        {"", "", ""},
    };
    const size_t n = sizeof keys / sizeof keys[0];
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            for (int way = 0; way < 9; way++) {
                char text[200];
                snprintf(text, sizeof text, "{\"%s\":1,\"other\":2,\"%s\":3}", keys[a][way / 3],
                         keys[b][way % 3]);
                assert_int_equal(check_exact(str_of(text), NULL), a == b ? REDRIVE_E_PARSE : 0);
            }
}

TEST(a_long_key_is_shown_in_part)
{
    struct redrive_err err;
    char key[101], text[300];
    memset(key, 'x', 100);
    key[100] = '\0';
    snprintf(text, sizeof text, "{\"%s\":1,\"%s\":2}", key, key);
    assert_int_equal(check_exact(str_of(text), &err), REDRIVE_E_PARSE);
    key[64] = '\0';
    snprintf(text, sizeof text, "line 1, column 107: expected each key once, found \"%s\" again",
             key);
    assert_string_equal(err.message, text);
}

TEST(a_key_may_be_used_again_in_another_object)
{
    struct buf text, inner;
    buf_init(&text, 1u << 20);
    buf_init(&inner, 1u << 20);
    make_object(&inner, 30, "x");
    buf_puts(&text, "{");
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "%s\"k%d\":%s", i ? "," : "", i, buf_cstr(&inner));
    buf_puts(&text, "}");
    assert_int_equal(check_exact(buf_str(&text), NULL), 0);
    buf_truncate(&text, text.len - 1);
    buf_puts(&text, ",\"k29\":1}");
    assert_int_equal(check_exact(buf_str(&text), NULL), REDRIVE_E_PARSE);
    buf_release(&text);
    buf_release(&inner);
}

/* As many small objects within one another as may be, each full: no memory is asked for. */
TEST(only_the_seventeenth_key_needs_memory)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    for (int depth = 0; depth < JSON_MAX_DEPTH; depth++) {
        buf_putc(&text, '{');
        for (int i = 1; i < JSON_FEW_KEYS; i++)
            buf_printf(&text, "\"k%d\":0,", i);
        buf_puts(&text, "\"down\":");
    }
    buf_puts(&text, "null");
    for (int depth = 0; depth < JSON_MAX_DEPTH; depth++)
        buf_putc(&text, '}');
    n_callocs = 0;
    assert_int_equal(json_check(buf_str(&text), NULL, NULL), 0);
    assert_int_equal(n_callocs, 0);

    /* Two keys outside and sixteen inside are not eighteen. */
    struct buf outer;
    buf_init(&outer, 1u << 20);
    make_object(&text, 15, "x");
    buf_printf(&outer, "{\"a\":0,\"b\":[%s,", buf_cstr(&text));
    make_object(&text, 16, "x");
    buf_printf(&outer, "%s]}", buf_cstr(&text));
    assert_int_equal(json_check(buf_str(&outer), NULL, NULL), 0);
    assert_int_equal(n_callocs, 1);
    buf_release(&outer);
    buf_release(&text);
}

TEST(running_out_of_memory_is_an_error_like_others)
{
    struct buf text;
    struct redrive_err err;
    buf_init(&text, 1u << 20);
    make_object(&text, 200, "x");
    for (int n = 0; n < 3; n++) {
        callocs_until_failure = n;
        assert_int_equal(json_check(buf_str(&text), NULL, &err), REDRIVE_E_NOMEM);
        assert_string_equal(err.message, "out of memory");
    }
    callocs_until_failure = -1;
    buf_release(&text);
}

TEST(release_frees_objects_that_were_not_finished)
{
    struct buf text;
    struct json_reader r;
    struct json_string key;
    buf_init(&text, 1u << 20);
    buf_puts(&text, "[");
    struct buf inner;
    buf_init(&inner, 1u << 20);
    make_object(&inner, 30, "x");
    buf_add(&text, inner.data, inner.len - 1); /* without its bracket */
    buf_puts(&text, ",\"y\":");
    buf_add_str(&text, buf_str(&inner));
    json_reader_init(&r, buf_str(&text), NULL);
    json_enter_array(&r);
    json_next_item(&r);
    json_enter_object(&r);
    while (json_next_key(&r, &key) > 0 && !json_string_is(key, "y"))
        json_skip(&r, NULL);
    json_enter_object(&r);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(json_next_key(&r, &key), 1);
        json_skip(&r, NULL);
    }
    json_reader_release(&r);
    json_reader_release(&r);
    buf_release(&text);
    buf_release(&inner);
}

static double check_seconds(struct str text, int expected)
{
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    assert_int_equal(json_check(text, NULL, NULL), expected);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

/* A quadratic search would need minutes; the limit leaves room for sanitizers and slow machines. */
TEST(a_million_keys_take_no_time)
{
    struct buf text;
    buf_init(&text, 64u << 20);
    make_object(&text, 1000000, "new");
    assert_true(check_seconds(buf_str(&text), 0) < 10);
    make_object(&text, 1000000, "k0");
    assert_true(check_seconds(buf_str(&text), REDRIVE_E_PARSE) < 10);

    /* Keys that differ in their last bytes only, and keys that all need decoding. */
    buf_reset(&text);
    buf_puts(&text, "{\"\":0");
    for (int i = 0; i < 300000; i++)
        buf_printf(&text, ",\"a rather long common beginning %06d\":0", i);
    for (int i = 0; i < 300000; i++)
        buf_printf(&text, ",\"\\u00e9\\n%06d\":0", i);
    buf_puts(&text, "}");
    assert_int_equal(buf_failed(&text), 0);
    assert_true(check_seconds(buf_str(&text), 0) < 10);
    buf_release(&text);
}
