/* The reader against jansson, on many thousands of damaged documents: both must accept and refuse
 * the same texts, and read the same values.
 *
 * Where the two differ for a reason, a text is left out, and only then:
 *   - jansson refuses numbers that overflow a double; for the reader they are JSON, and only
 *     json_read_double refuses them. (Whole numbers are read as doubles on both sides, because
 *     jansson also refuses those over 64 bits.)
 *   - jansson refuses \u0000 in keys; the reader has lengths.
 *   - jansson 2.14 steps over a NUL byte that follows a number; the reader must refuse it.
 *   - jansson nests to 2048 levels, the reader to 64.
 * jansson stops at the first of these, so that what follows in the text is not known to it.
 */
#include "base/json/json.h"

#include "check.h"
#include "test_json.h"

#include <stdio.h>

#include <jansson.h>

#include "base/rng.h"

static const char *const DOCUMENTS[] = {
    "{\"id\":\"0190f3c2-7b1e-7c3a\",\"task\":\"render\",\"payload\":{\"n\":[1,2.5,-3e+2,0],"
    "\"s\":\"a\\n\\u00e9\\uD83D\\uDE00\"},\"priority\":5,\"deadline\":null,\"ok\":true}",
    "[[],{},[{}],[[[]]],\"\",0,-0,1e10,null,false,true]",
    " { \"a\" : [ 1 , 2 , { \"b\" : \"c\" } ] ,\r\n\t\"d\" : "
    "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\" } ",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud834\\udd1e\"",
    "{\"k1\":1,\"k2\":2,\"k3\":3,\"k4\":4,\"k5\":5,\"k6\":6,\"k7\":7,\"k8\":8,\"k9\":9,\"k10\":10,"
    "\"k11\":1,\"k12\":2,\"k13\":3,\"k14\":4,\"k15\":5,\"k16\":6,\"k17\":7,\"k18\":8,\"k19\":9}",
    "[0.5,1E400,123456789012345678901234567890,1.7976931348623157e308,5e-324,-1.0e-10]",
    "-12.75e-3",
};

/* Pieces that damage a document in telling ways, or leave it whole. */
static const struct str PIECES[] = {
    {" ", 1},
    {",", 1},
    {":", 1},
    {"[", 1},
    {"]", 1},
    {"{", 1},
    {"}", 1},
    {"\"", 1},
    {"\\", 1},
    {"0", 1},
    {"-", 1},
    {".", 1},
    {"e", 1},
    {"1e5", 3},
    {"null", 4},
    {"\\u0000", 6},
    {"\\uD800", 6},
    {"\\uDC00", 6},
    {"\\u0061", 6},
    {"\0", 1},
    {"\x1F", 1},
    {"\x7F", 1},
    {"\xC3\xA9", 2},
    {"\xC3", 1},
    {"\xED\xA0\x80", 3},
    {"\xF4\x90\x80\x80", 4},
    {"\xC0\x80", 2},
    {"\"a\":1,", 6},
    {"\"k1\":0,", 7},
    {"[]", 2},
    {"\n", 1},
    {"//", 2},
    {"\xEF\xBB\xBF", 3},
    {"tru", 3},
    {"true", 4},
};

static uint64_t pick(struct rng *rng, uint64_t n)
{
    return rng_below(rng, n);
}

/* Replaces `drop` bytes at `at`. */
static void splice(struct buf *text, size_t at, size_t drop, struct str piece)
{
    struct buf out;
    buf_init(&out, text->max);
    buf_add(&out, text->data, at);
    buf_add_str(&out, piece);
    buf_add(&out, text->data + at + drop, text->len - at - drop);
    buf_reset(text);
    buf_add_str(text, buf_str(&out));
    buf_release(&out);
}

static void damage(struct buf *text, struct rng *rng)
{
    size_t at = pick(rng, text->len + 1), rest = text->len - at;
    char slice[16], byte;
    switch (pick(rng, 5)) {
    case 0: /* a piece more */
        splice(text, at, 0, PIECES[pick(rng, sizeof PIECES / sizeof PIECES[0])]);
        break;
    case 1: /* something less */
        splice(text, at, rest ? pick(rng, rest < 4 ? rest : 4) + 1 : 0, STR(""));
        break;
    case 2: /* another byte */
        byte = (char)rng_next(rng);
        splice(text, at, rest > 0, (struct str){&byte, 1});
        break;
    case 3: { /* something twice, elsewhere */
        size_t len = rest < sizeof slice ? rest : sizeof slice;
        memcpy(slice, text->data + at, len);
        splice(text, pick(rng, text->len + 1), 0, (struct str){slice, len});
        break;
    }
    default: /* another piece instead */
        splice(text, at, rest > 0, PIECES[pick(rng, sizeof PIECES / sizeof PIECES[0])]);
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void compare_value(struct json_reader *r, const json_t *value);

static void compare_object(struct json_reader *r, const json_t *value)
{
    struct json_string key;
    size_t n = 0;
    json_enter_object(r);
    for (; json_next_key(r, &key) > 0; n++) {
        struct buf decoded;
        buf_init(&decoded, 1u << 16);
        assert_int_equal(json_unescape(key, &decoded), 0);
        const json_t *member = json_object_get(value, buf_cstr(&decoded));
        assert_non_null(member);
        buf_release(&decoded);
        compare_value(r, member);
    }
    assert_int_equal(n, json_object_size(value));
}

static void compare_array(struct json_reader *r, const json_t *value)
{
    size_t n = 0;
    json_enter_array(r);
    while (json_next_item(r) > 0)
        compare_value(r, json_array_get(value, n++));
    assert_int_equal(n, json_array_size(value));
}

static void compare_string(struct json_reader *r, const json_t *value)
{
    struct json_string s;
    struct buf decoded;
    buf_init(&decoded, 1u << 16);
    assert_int_equal(json_read_string(r, &s), 0);
    assert_int_equal(json_unescape(s, &decoded), 0);
    assert_int_equal(decoded.len, json_string_length(value));
    assert_memory_equal(buf_cstr(&decoded), json_string_value(value), decoded.len);
    buf_release(&decoded);
}

static void compare_value(struct json_reader *r, const json_t *value)
{
    double number;
    bool yes;
    switch (json_peek(r)) {
    case JSON_TYPE_NULL:
        assert_int_equal(json_read_null(r), 0);
        assert_true(json_is_null(value));
        break;
    case JSON_TYPE_FALSE:
    case JSON_TYPE_TRUE:
        assert_int_equal(json_read_bool(r, &yes), 0);
        assert_true(yes ? json_is_true(value) : json_is_false(value));
        break;
    case JSON_TYPE_NUMBER:
        assert_int_equal(json_read_double(r, &number), 0);
        assert_true(json_is_real(value) && number == json_real_value(value));
        break;
    case JSON_TYPE_STRING: compare_string(r, value); break;
    case JSON_TYPE_ARRAY: compare_array(r, value); break;
    case JSON_TYPE_OBJECT: compare_object(r, value); break;
    default: fail();
    }
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

enum verdict {
    ACCEPTED,
    REFUSED,
    LEFT_OUT,
};

static enum verdict compare(struct str text)
{
    if (memchr(text.ptr, '\0', text.len)) {
        assert_int_equal(json_check(text, NULL, NULL), REDRIVE_E_PARSE);
        return LEFT_OUT;
    }
    const size_t flags =
        JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    json_error_t error;
    json_t *value = json_loadb(text.ptr, text.len, flags, &error);
    int rc = json_check(text, NULL, NULL);

    if (rc == REDRIVE_E_TOO_DEEP ||
        (!value && (json_error_code(&error) == json_error_numeric_overflow ||
                    json_error_code(&error) == json_error_null_byte_in_key))) {
        json_decref(value);
        return LEFT_OUT;
    }
    if ((rc == 0) != (value != NULL)) {
        fprintf(stderr, "reader: %d, jansson: %s\n%.*s\n", rc, value ? "accepted" : error.text,
                (int)text.len, text.ptr);
        fail();
    }
    if (!value)
        return REFUSED;
    struct json_reader r;
    json_reader_init(&r, text, NULL);
    compare_value(&r, value);
    assert_int_equal(json_end(&r), 0);
    json_reader_release(&r);
    json_decref(value);
    return ACCEPTED;
}

TEST(reader_and_jansson_agree_on_damaged_documents)
{
    int verdicts[3] = {0};
    struct rng rng;
    struct buf text;
    rng_seed(&rng, 6);
    buf_init(&text, 1u << 16);
    for (int i = 0; i < 60000; i++) {
        buf_reset(&text);
        buf_puts(&text, DOCUMENTS[pick(&rng, sizeof DOCUMENTS / sizeof DOCUMENTS[0])]);
        for (uint64_t n = pick(&rng, 4); n > 0; n--)
            damage(&text, &rng);
        assert_int_equal(buf_failed(&text), 0);
        struct str copy = exact_copy(buf_str(&text));
        verdicts[compare(copy)]++;
        free((char *)copy.ptr);
    }
    buf_release(&text);
    /* Enough of each to mean something. */
    assert_true(verdicts[ACCEPTED] > 10000);
    assert_true(verdicts[REFUSED] > 20000);
    assert_true(verdicts[LEFT_OUT] < 10000);
}
