#include "core/classify/classify.h"

#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "core/classify/table.h"

#define CLASS_OF(...) \
    redrive_class_name(classify(NULL, &(struct redrive_failure){__VA_ARGS__}, NULL).class_)

TEST(nothing_that_speaks_of_failure_is_success)
{
    assert_string_equal(CLASS_OF(.exit_code = 0), "success");
    assert_string_equal(CLASS_OF(.http_status = 204), "success");
    assert_string_equal(CLASS_OF(.message = "done: connection refused twice"), "success");
    assert_string_equal(CLASS_OF(.failed = true), "transient");
}

TEST(an_exception_after_http_200_is_no_success)
{
    assert_string_equal(CLASS_OF(.http_status = 200, .error_type = "ValueError"), "validation");
    assert_string_equal(CLASS_OF(.http_status = 200, .error_type = "Nobody"), "transient");
}

TEST(the_handlers_own_word_beats_the_rest)
{
    assert_string_equal(CLASS_OF(.status = "SUCCESS", .http_status = 500), "success");
    assert_string_equal(CLASS_OF(.status = "PERMANENT_FAIL", .http_status = 503), "permanent");
    assert_string_equal(CLASS_OF(.status = "database", .exit_code = 65), "database");
    assert_string_equal(CLASS_OF(.status = "Success", .http_status = 500), "success");
    assert_string_equal(CLASS_OF(.status = "Permanent_Fail"), "permanent");
    assert_string_equal(CLASS_OF(.status = "DATABASE"), "database");
    assert_string_equal(CLASS_OF(.status = "FAIL"), "transient");
    assert_string_equal(CLASS_OF(.status = "FAIL", .http_status = 404), "permanent");
    assert_string_equal(CLASS_OF(.status = "GREEN"), "transient");
    assert_string_equal(CLASS_OF(.status = "GREEN", .http_status = 404), "permanent");
}

TEST(sources_are_tried_in_their_order)
{
    assert_string_equal(CLASS_OF(.error_type = "ValueError", .http_status = 503), "validation");
    assert_string_equal(CLASS_OF(.error_type = "Nobody", .http_status = 503), "transient");
    assert_string_equal(CLASS_OF(.error_type = "Nobody", .sqlstate = "40001"), "database");
    assert_string_equal(CLASS_OF(.sqlstate = "ZZ000", .curl_code = 7), "network");
    assert_string_equal(CLASS_OF(.curl_code = 99, .errnum = EACCES), "authentication");
    assert_string_equal(CLASS_OF(.errnum = 9999, .signal = SIGKILL), "system");
    assert_string_equal(CLASS_OF(.signal = 9999, .exit_code = 65), "validation");
    assert_string_equal(CLASS_OF(.exit_code = 42, .message = "No space left on device"), "system");
    assert_string_equal(CLASS_OF(.exit_code = 42, .message = "who knows"), "transient");
}

#define TYPES(...)                                     \
    .error_types = (const char *const[]){__VA_ARGS__}, \
    .n_error_types = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

TEST(base_types_speak_after_the_type_and_the_numbers)
{
    assert_string_equal(
        CLASS_OF(.error_type = "Own", TYPES("Own", "ConnectionError", "ValueError")), "network");
    assert_string_equal(CLASS_OF(TYPES("ValueError", "ConnectionError")), "validation");
    assert_string_equal(CLASS_OF(TYPES("TimeoutError"), .http_status = 404), "transient");
    assert_string_equal(CLASS_OF(TYPES("Own", "IOException"), .http_status = 404), "permanent");
    assert_string_equal(CLASS_OF(TYPES("Own", "ConnectionError"), .sqlstate = "23505"),
                        "validation");
    assert_string_equal(CLASS_OF(TYPES("Own", "ConnectionError"), .exit_code = 1), "network");
    assert_string_equal(CLASS_OF(TYPES("Own", "Other"), .message = "deadlock"), "database");
    assert_string_equal(CLASS_OF(TYPES("Own", "Other")), "transient");
}

TEST(a_row_of_a_type_matches_what_derives_from_it)
{
    const struct redrive_classify_row rows[] = {
        {.source = REDRIVE_SOURCE_ERROR_TYPE,
         .pattern = "HTTPError",
         .class_ = REDRIVE_CLASS_NETWORK},
        {.source = REDRIVE_SOURCE_ERROR_TYPE, .pattern = "Own", .class_ = REDRIVE_CLASS_PERMANENT},
    };
    struct classifier *c = NULL;
    assert_int_equal(classifier_new(rows, 2, &c, NULL), 0);
    const struct redrive_failure derived = {TYPES("lib.Own", "lib.HTTPError")};
    assert_int_equal(classify(c, &derived, NULL).class_, REDRIVE_CLASS_NETWORK);
    const struct redrive_failure own = {TYPES("lib.Own", "lib.Base")};
    assert_int_equal(classify(c, &own, NULL).class_, REDRIVE_CLASS_PERMANENT);
    classifier_free(c);
}

TEST(types_beyond_the_maximum_are_not_looked_at)
{
    const char *types[REDRIVE_ERROR_TYPES_MAX + 1];
    for (size_t i = 0; i < REDRIVE_ERROR_TYPES_MAX; i++)
        types[i] = "Unknown";
    types[REDRIVE_ERROR_TYPES_MAX] = "ValueError";
    const struct redrive_failure failure = {.error_types = types,
                                            .n_error_types = REDRIVE_ERROR_TYPES_MAX + 1};
    assert_true(classify(NULL, &failure, NULL).unclassified);
    struct redrive_failure copy;
    void *block = failure_copy(&failure, &(struct failure_limits){.name = 3}, &copy);
    assert_int_equal(copy.n_error_types, REDRIVE_ERROR_TYPES_MAX);
    assert_string_equal(copy.error_types[REDRIVE_ERROR_TYPES_MAX - 1], "Unk");
    free(block);
}

TEST(whole_ranges_of_numbers_have_a_class)
{
    assert_string_equal(CLASS_OF(.http_status = 302), "permanent");
    assert_string_equal(CLASS_OF(.http_status = 418), "permanent");
    assert_string_equal(CLASS_OF(.http_status = 599), "transient");
    assert_string_equal(CLASS_OF(.http_status = 511), "authentication");
    assert_string_equal(CLASS_OF(.http_status = 100), "transient");
    assert_string_equal(CLASS_OF(.exit_code = 137), "system");
    assert_string_equal(CLASS_OF(.exit_code = 192), "system");
    assert_string_equal(CLASS_OF(.exit_code = 193), "transient");
    assert_string_equal(CLASS_OF(.sqlstate = "42501"), "authentication");
    assert_string_equal(CLASS_OF(.curl_code = 27), "system");
}

TEST(what_matches_nothing_is_marked)
{
    struct redrive_failure unknown = {.error_type = "SomethingNobodyKnows"};
    assert_true(classify(NULL, &unknown, NULL).unclassified);
    struct redrive_failure known = {.exit_code = 1};
    assert_false(classify(NULL, &known, NULL).unclassified);
    struct redrive_failure empty = {.error_type = ""};
    assert_true(classify(NULL, &empty, NULL).unclassified);
}

TEST(rate_limits_hide_behind_other_statuses)
{
    assert_string_equal(CLASS_OF(.http_status = 503, .retry_after_ms = 7000), "rate_limited");
    assert_string_equal(CLASS_OF(.http_status = 403, .message = "API rate limit exceeded"),
                        "rate_limited");
    assert_string_equal(CLASS_OF(.http_status = 403, .message = "forbidden"), "authentication");
    assert_string_equal(CLASS_OF(.http_status = 403), "authentication");
}

TEST(time_outs_are_told_from_other_failures)
{
    static const char *const TYPES[] = {"httpx.NetworkError", "httpx.ReadTimeout"};
    static const struct redrive_failure TIMED_OUT[] = {
        {.http_status = 408},
        {.http_status = 504},
        {.curl_code = 28},
        {.errnum = ETIMEDOUT},
        {.exit_code = 124},
        {.sqlstate = "57014"},
        {.error_type = "java.net.SocketTimeoutException"},
        {.error_types = TYPES, .n_error_types = 2},
        {.message = "Read timed out."},
        {.message = "Timeout after 5 s"},
    };
    static const struct redrive_failure OTHERS[] = {
        {.failed = true},
        {.http_status = 503, .message = "unavailable"},
        {.sqlstate = "57P01", .error_type = "timeouts.OperationalError"},
        {.exit_code = 1, .error_types = TYPES, .n_error_types = 1},
    };
    for (size_t i = 0; i < sizeof TIMED_OUT / sizeof TIMED_OUT[0]; i++)
        assert_true(failure_is_timeout(&TIMED_OUT[i]));
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        assert_false(failure_is_timeout(&OTHERS[i]));
}

TEST(a_reason_far_down_a_message_is_not_looked_for)
{
    char message[2000];
    memset(message, 'x', sizeof message);
    memcpy(message + 1000, "rate limit", 10);
    message[1999] = '\0';
    assert_string_equal(CLASS_OF(.http_status = 403, .message = message), "authentication");
}

TEST(error_types_are_in_the_order_of_the_search)
{
    for (size_t i = 1; table_error_type_at(i); i++)
        assert_true(strcmp(table_error_type_at(i - 1), table_error_type_at(i)) < 0);
}

TEST(every_error_type_is_found)
{
    for (size_t i = 0; table_error_type_at(i); i++)
        assert_true(table_error_type(str_of(table_error_type_at(i))) > 0);
    assert_int_equal(table_error_type(STR("Timeou")), -1);
    assert_int_equal(table_error_type(STR("TimeoutErrorX")), -1);
    assert_string_equal(CLASS_OF(.error_type = "Errno::EHOSTUNREACH"), "network");
    assert_string_equal(CLASS_OF(.error_type = "EWOULDBLOCK"), "system");
}

TEST(names_of_signals_and_errors_are_known)
{
    assert_int_equal(classify_signal_number(STR("SIGKILL")), SIGKILL);
    assert_int_equal(classify_signal_number(STR("term")), SIGTERM);
    assert_int_equal(classify_signal_number(STR("SIGNONSENSE")), 0);
    assert_int_equal(classify_errno_number(STR("econnreset")), ECONNRESET);
    assert_int_equal(classify_errno_number(STR("ENONSENSE")), 0);
}

static enum redrive_class class_by_row(const struct redrive_classify_row *row,
                                       const struct redrive_failure *failure)
{
    struct classifier *c = NULL;
    assert_int_equal(classifier_new(row, 1, &c, NULL), 0);
    enum redrive_class found = classify(c, failure, NULL).class_;
    classifier_free(c);
    return found;
}

TEST(rows_match_by_every_source)
{
    static const struct {
        enum redrive_source source;
        const char *pattern;
        struct redrive_failure yes;
        struct redrive_failure no;
    } CASES[] = {
        {REDRIVE_SOURCE_STATUS, "BUSY", {.status = "BUSY"}, {.status = "busy"}},
        {REDRIVE_SOURCE_ERROR_TYPE, "Quota*", {.error_type = "app.QuotaHit"}, {.error_type = "Q"}},
        {REDRIVE_SOURCE_ERROR_TYPE, "QuotaHit", {.error_type = "a.QuotaHit"}, {.failed = true}},
        {REDRIVE_SOURCE_HTTP_STATUS, "520-529", {.http_status = 522}, {.http_status = 530}},
        {REDRIVE_SOURCE_HTTP_STATUS, "404", {.http_status = 404}, {.http_status = 405}},
        {REDRIVE_SOURCE_SQLSTATE, "23", {.sqlstate = "23505"}, {.sqlstate = "2"}},
        {REDRIVE_SOURCE_CURL, "60", {.curl_code = 60}, {.curl_code = 6}},
        {REDRIVE_SOURCE_ERRNO, "ENOENT", {.errnum = ENOENT}, {.errnum = EACCES}},
        {REDRIVE_SOURCE_ERRNO, "13", {.errnum = 13}, {.errnum = 14}},
        {REDRIVE_SOURCE_SIGNAL, "SIGTERM", {.signal = SIGTERM}, {.signal = SIGKILL}},
        {REDRIVE_SOURCE_EXIT_CODE, "3", {.exit_code = 3}, {.exit_code = 4}},
        {REDRIVE_SOURCE_MESSAGE,
         "no such (bucket|key)",
         {.exit_code = 1, .message = "error: No such bucket"},
         {.exit_code = 1, .message = "no such luck"}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct redrive_classify_row row = {.source = CASES[i].source,
                                           .pattern = CASES[i].pattern,
                                           .class_ = REDRIVE_CLASS_RATE_LIMITED,
                                           .severity = REDRIVE_SEVERITY_OF_CLASS};
        assert_int_equal(class_by_row(&row, &CASES[i].yes), REDRIVE_CLASS_RATE_LIMITED);
        assert_int_not_equal(class_by_row(&row, &CASES[i].no), REDRIVE_CLASS_RATE_LIMITED);
    }
}

TEST(the_first_row_that_matches_wins)
{
    const struct redrive_classify_row rows[] = {
        {REDRIVE_SOURCE_HTTP_STATUS, "404", REDRIVE_CLASS_SUCCESS, REDRIVE_SEVERITY_INFO, NULL,
         NULL, NULL, NULL},
        {REDRIVE_SOURCE_HTTP_STATUS, "400-499", REDRIVE_CLASS_TRANSIENT, REDRIVE_SEVERITY_CRITICAL,
         NULL, NULL, NULL, NULL},
    };
    struct classifier *c = NULL;
    assert_int_equal(classifier_new(rows, 2, &c, NULL), 0);
    struct redrive_failure gone = {.http_status = 404};
    assert_int_equal(classify(c, &gone, NULL).class_, REDRIVE_CLASS_SUCCESS);
    struct redrive_failure teapot = {.http_status = 418};
    struct verdict verdict = classify(c, &teapot, NULL);
    assert_int_equal(verdict.class_, REDRIVE_CLASS_TRANSIENT);
    assert_int_equal(verdict.severity, REDRIVE_SEVERITY_CRITICAL);
    classifier_free(c);
    classifier_free(NULL);
}

TEST(a_row_that_says_nothing_of_severity_has_that_of_its_class)
{
    struct redrive_classify_row row = {.source = REDRIVE_SOURCE_HTTP_STATUS,
                                       .pattern = "404",
                                       .class_ = REDRIVE_CLASS_AUTHENTICATION};
    const struct redrive_failure gone = {.http_status = 404};
    struct classifier *c = NULL;
    assert_int_equal(classifier_new(&row, 1, &c, NULL), 0);
    assert_int_equal(classify(c, &gone, NULL).severity, REDRIVE_SEVERITY_CRITICAL);
    classifier_free(c);
    row.severity = REDRIVE_SEVERITY_INFO;
    assert_int_equal(classifier_new(&row, 1, &c, NULL), 0);
    assert_int_equal(classify(c, &gone, NULL).severity, REDRIVE_SEVERITY_INFO);
    classifier_free(c);
}

TEST(a_row_keeps_to_its_task_queue_service_and_user)
{
    struct redrive_failure failure = {.http_status = 404};
    struct classify_context all = {"enrich", "slow", "maps", "ann"};
    for (int i = 0; i < 4; i++) {
        struct redrive_classify_row row = {.source = REDRIVE_SOURCE_HTTP_STATUS,
                                           .pattern = "404",
                                           .class_ = REDRIVE_CLASS_TRANSIENT,
                                           .severity = REDRIVE_SEVERITY_OF_CLASS};
        const char **limits[] = {&row.task, &row.queue, &row.service, &row.user};
        const char *values[] = {"enrich", "slow", "maps", "ann"};
        struct classifier *c = NULL;
        *limits[i] = values[i];
        assert_int_equal(classifier_new(&row, 1, &c, NULL), 0);
        assert_int_equal(classify(c, &failure, &all).class_, REDRIVE_CLASS_TRANSIENT);
        assert_int_equal(classify(c, &failure, NULL).class_, REDRIVE_CLASS_PERMANENT);
        struct classify_context other = {"x", "x", "x", "x"};
        assert_int_equal(classify(c, &failure, &other).class_, REDRIVE_CLASS_PERMANENT);
        classifier_free(c);
    }
}

TEST(bad_rows_are_refused_with_their_number)
{
    static const struct {
        enum redrive_source source;
        const char *pattern;
    } BAD[] = {
        {REDRIVE_SOURCE_HTTP_STATUS, "5xx"},   {REDRIVE_SOURCE_HTTP_STATUS, "599-500"},
        {REDRIVE_SOURCE_HTTP_STATUS, ""},      {REDRIVE_SOURCE_HTTP_STATUS, "5-"},
        {REDRIVE_SOURCE_EXIT_CODE, "1234567"}, {REDRIVE_SOURCE_ERRNO, "ENONSENSE"},
        {REDRIVE_SOURCE_SIGNAL, "SIGNOTHING"}, {REDRIVE_SOURCE_MESSAGE, "(unclosed"},
        {REDRIVE_SOURCE_ERROR_TYPE, ""},       {REDRIVE_SOURCE_STATUS, NULL},
        {REDRIVE_SOURCE_COUNT, "x"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct redrive_classify_row rows[2] = {
            {.source = REDRIVE_SOURCE_HTTP_STATUS,
             .pattern = "404",
             .class_ = REDRIVE_CLASS_TRANSIENT,
             .severity = REDRIVE_SEVERITY_OF_CLASS},
            {.source = BAD[i].source,
             .pattern = BAD[i].pattern,
             .class_ = REDRIVE_CLASS_TRANSIENT,
             .severity = REDRIVE_SEVERITY_OF_CLASS},
        };
        struct redrive_err err = {0};
        struct classifier *c = NULL;
        assert_int_equal(classifier_new(rows, 2, &c, &err), REDRIVE_E_INVALID);
        assert_null(c);
        assert_memory_equal(err.message, "classify row 2: ", 16);
        assert_int_equal(classify_row_check(&rows[1], NULL), REDRIVE_E_INVALID);
        assert_int_equal(classify_row_check(&rows[0], NULL), 0);
    }
}

TEST(a_regular_expression_that_would_eat_memory_is_refused)
{
    static const char *const PATTERNS[] = {
        "((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+",
        "a+++++++++++++++++++++++",
        "(a*)*\\1b",
        "((a{1,200}){1,200}){1,200}",
        "a{1001}",
        "(x{50}){50}",
        "a{99999999999999999999}",
        "(a{40,}){40,}",
    };
    for (size_t i = 0; i < sizeof PATTERNS / sizeof PATTERNS[0]; i++) {
        struct redrive_err err = {0};
        struct redrive_classify_row row = {.source = REDRIVE_SOURCE_MESSAGE,
                                           .pattern = PATTERNS[i],
                                           .class_ = REDRIVE_CLASS_NETWORK,
                                           .severity = REDRIVE_SEVERITY_OF_CLASS};
        assert_int_equal(classify_row_check(&row, &err), REDRIVE_E_INVALID);
        assert_string_equal(err.detail, "expected a smaller regular expression");
    }
    char longest[2000];
    memset(longest, 'a', sizeof longest);
    longest[1024] = '\0';
    struct redrive_classify_row row = {.source = REDRIVE_SOURCE_MESSAGE,
                                       .pattern = longest,
                                       .class_ = REDRIVE_CLASS_NETWORK,
                                       .severity = REDRIVE_SEVERITY_OF_CLASS};
    assert_int_equal(classify_row_check(&row, NULL), 0);
    longest[1024] = 'a';
    longest[1025] = '\0';
    assert_int_equal(classify_row_check(&row, NULL), REDRIVE_E_INVALID);
    row.pattern = "a+ b+ c+ d+ e+ f+ g+ h+ i+ j+ k+ l+ (m+)+ \\. 5";
    assert_int_equal(classify_row_check(&row, NULL), 0);
    row.pattern = "a{3} b{20}";
    assert_int_equal(classify_row_check(&row, NULL), 0);
}

TEST(classes_and_severities_out_of_range_are_refused)
{
    struct redrive_classify_row row = {.source = REDRIVE_SOURCE_STATUS,
                                       .pattern = "x",
                                       .class_ = REDRIVE_CLASS_COUNT,
                                       .severity = REDRIVE_SEVERITY_OF_CLASS};
    assert_int_equal(classify_row_check(&row, NULL), REDRIVE_E_INVALID);
    row.class_ = REDRIVE_CLASS_NETWORK;
    row.severity = 99;
    assert_int_equal(classify_row_check(&row, NULL), REDRIVE_E_INVALID);
}
