#include "vectors.h"

#include "core/classify/classify.h"
#include "core/vocabulary.h"

/* A value is a number or a name; names are kept in `text`. */
static int read_value(struct json_reader *r, char *text, size_t size)
{
    int64_t number = 0;
    if (json_peek(r) == JSON_TYPE_NUMBER)
        assert_int_equal(json_read_int(r, &number), 0);
    else
        vectors_text(r, text, size);
    return (int)number;
}

static void fill(struct redrive_failure *f, const char *source, int number, const char *text)
{
    switch (vocabulary_find(VOCABULARY_SOURCE, str_of(source))) {
    case REDRIVE_SOURCE_STATUS: f->status = text; break;
    case REDRIVE_SOURCE_ERROR_TYPE: f->error_type = text; break;
    case REDRIVE_SOURCE_HTTP_STATUS: f->http_status = number; break;
    case REDRIVE_SOURCE_SQLSTATE: f->sqlstate = text; break;
    case REDRIVE_SOURCE_CURL: f->curl_code = number; break;
    case REDRIVE_SOURCE_ERRNO: f->errnum = classify_errno_number(str_of(text)); break;
    case REDRIVE_SOURCE_SIGNAL: f->signal = classify_signal_number(str_of(text)); break;
    case REDRIVE_SOURCE_EXIT_CODE: f->exit_code = number; break;
    default: fail_msg("unknown source %s", source);
    }
}

static void check_case(struct json_reader *r)
{
    char source[64] = "", text[128] = "", class_[64] = "", message[128] = "";
    int number = 0;
    int64_t retry_after_s = 0;
    struct json_string key;

    assert_int_equal(json_enter_object(r), 0);
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, "source"))
            vectors_text(r, source, sizeof source);
        else if (json_string_is(key, "value"))
            number = read_value(r, text, sizeof text);
        else if (json_string_is(key, "class"))
            vectors_text(r, class_, sizeof class_);
        else if (json_string_is(key, "message"))
            vectors_text(r, message, sizeof message);
        else if (json_string_is(key, "retry_after"))
            json_read_int(r, &retry_after_s);
        else
            fail_msg("unknown key in a case");
    }
    struct redrive_failure failure = {.message = message[0] ? message : NULL,
                                      .retry_after_ms = retry_after_s * 1000};
    fill(&failure, source, number, text);
    const char *found = redrive_class_name(classify(NULL, &failure, NULL).class_);
    if (strcmp(found, class_) != 0)
        fail_msg("%s %s%d: expected %s, found %s", source, text, number, class_, found);
}

TEST(the_built_in_table_has_at_least_these_rows)
{
    struct vectors v;
    int cases = 0;
    vectors_open(&v, "classify.json");
    for (; vectors_next(&v); cases++)
        check_case(&v.reader);
    vectors_close(&v);
    assert_in_range(cases, 100, 1000);
}
