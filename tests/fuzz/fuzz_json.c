/* Whatever the text: json_check and a walk by the pull interface say the same, to the word; a valid
 * document, decoded and written anew, is valid and writes the same again; numbers are those of
 * strtod. */
#include "fuzz.h"

#include <math.h>

#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/text/encode.h"

#define MAX_OUTPUT (64u << 20)

static void check_number(struct str raw)
{
    struct json_reader r;
    int64_t whole;
    double real;

    json_reader_init(&r, raw, NULL);
    int rc = json_read_int(&r, &whole);
    FUZZ_CHECK(rc == 0 || rc == REDRIVE_E_RANGE || rc == REDRIVE_E_INVALID);
    json_reader_release(&r);

    char *text = str_dup(raw);
    FUZZ_CHECK(text);
    double expected = strtod(text, NULL);
    if (rc == 0)
        FUZZ_CHECK(whole == strtoll(text, NULL, 10));
    free(text);
    json_reader_init(&r, raw, NULL);
    rc = json_read_double(&r, &real);
    FUZZ_CHECK(rc == (isinf(expected) ? REDRIVE_E_RANGE : 0));
    if (rc == 0)
        FUZZ_CHECK(memcmp(&real, &expected, sizeof real) == 0);
    json_reader_release(&r);
}

static void copy_value(struct json_reader *r, struct json_writer *w);

/* Decoded text is UTF-8 and equal to itself. */
static void copy_string(struct json_string s, struct json_writer *w, bool as_key)
{
    struct buf decoded;
    buf_init(&decoded, MAX_OUTPUT);
    FUZZ_CHECK(json_unescape(s, &decoded) == 0);
    FUZZ_CHECK(utf8_valid(buf_str(&decoded)));
    FUZZ_CHECK(json_string_is(s, buf_cstr(&decoded)) ==
               (strlen(buf_cstr(&decoded)) == decoded.len));
    if (as_key)
        json_key_str(w, buf_str(&decoded));
    else
        json_put_string(w, buf_str(&decoded));
    buf_release(&decoded);
}

/* A level deeper than the writer's is never entered, because the reader has the same limit. */
static void copy_container(struct json_reader *r, struct json_writer *w, bool object)
{
    struct json_string key;
    if ((object ? json_enter_object(r) : json_enter_array(r)) < 0) {
        json_put_null(w);
    } else if (object) {
        json_begin_object(w);
        while (json_next_key(r, &key) > 0) {
            copy_string(key, w, true);
            copy_value(r, w);
        }
        json_end_object(w);
    } else {
        json_begin_array(w);
        while (json_next_item(r) > 0)
            copy_value(r, w);
        json_end_array(w);
    }
}

/* Always writes one value, even after an error, so that the writer stays in step. */
static void copy_value(struct json_reader *r, struct json_writer *w)
{
    struct json_string s;
    struct str raw;
    bool yes = false;

    switch (json_peek(r)) {
    case JSON_TYPE_FALSE:
    case JSON_TYPE_TRUE:
        json_read_bool(r, &yes);
        json_put_bool(w, yes);
        break;
    case JSON_TYPE_NUMBER:
        if (json_skip(r, &raw) == 0) {
            check_number(raw);
            json_put_raw(w, raw);
        } else {
            json_put_null(w);
        }
        break;
    case JSON_TYPE_STRING:
        if (json_read_string(r, &s) == 0)
            copy_string(s, w, false);
        else
            json_put_null(w);
        break;
    case JSON_TYPE_ARRAY: copy_container(r, w, false); break;
    case JSON_TYPE_OBJECT: copy_container(r, w, true); break;
    default: json_read_null(r); json_put_null(w);
    }
}

/* Walks over the text and writes it anew; returns the verdict. */
static int rewrite(struct str text, struct buf *out, struct redrive_err *err)
{
    struct json_reader r;
    struct json_writer w;
    json_reader_init(&r, text, NULL);
    json_writer_init(&w, out);
    copy_value(&r, &w);
    json_end(&r);
    int rc = json_error(&r, err);
    json_reader_release(&r);
    FUZZ_CHECK(buf_failed(out) == 0 && w.depth == 0);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str text = {(const char *)data, size};
    struct redrive_err checked = {0}, walked = {0};
    struct buf once, twice;
    buf_init(&once, MAX_OUTPUT);
    buf_init(&twice, MAX_OUTPUT);

    int rc = json_check(text, NULL, &checked);
    FUZZ_CHECK(rewrite(text, &once, &walked) == rc);
    FUZZ_CHECK(strcmp(checked.message, walked.message) == 0);
    FUZZ_CHECK(utf8_valid(str_of(checked.message)));
    for (const char *p = checked.message; *p; p++)
        FUZZ_CHECK((unsigned char)*p >= 0x20 && *p != 0x7F);
    if (rc == 0) {
        FUZZ_CHECK(json_check(buf_str(&once), NULL, NULL) == 0);
        FUZZ_CHECK(rewrite(buf_str(&once), &twice, NULL) == 0);
        FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
    }
    buf_release(&once);
    buf_release(&twice);
    return 0;
}
