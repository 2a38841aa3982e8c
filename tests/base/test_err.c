#include "base/err.h"

#include "check.h"

static void every_row_stands_where_its_number_says(void **state)
{
    (void)state;
#define XX(name, number, text, retryable, http, exit_code)          \
    assert_string_equal(redrive_err_name(REDRIVE_E_##name), #name); \
    assert_string_equal(redrive_err_text(number), text);            \
    assert_int_equal(redrive_err_retryable(number), retryable);     \
    assert_int_equal(redrive_err_http_status(number), http);        \
    assert_int_equal(redrive_err_exit_code(number), exit_code);
    REDRIVE_ERROR_MAP(XX)
#undef XX
}

static void numbers_out_of_the_table_are_internal_errors(void **state)
{
    (void)state;
    assert_string_equal(redrive_err_name(-9999), "INTERNAL");
    assert_string_equal(redrive_err_name(1), "INTERNAL");
    assert_string_equal(redrive_err_name(0), "OK");
    assert_int_equal(redrive_err_exit_code(0), 0);
}

static void set_returns_its_code_and_empties_the_rest(void **state)
{
    (void)state;
    struct redrive_err err = {.detail = "old", .hint = "old"};
    assert_int_equal(err_set(&err, REDRIVE_E_IO, "cannot open %s", "store"), REDRIVE_E_IO);
    assert_string_equal(err.message, "cannot open store");
    assert_string_equal(err.detail, "");
    assert_string_equal(err.hint, "");
    err_detail(&err, "path %s", "/x");
    err_hint(&err, "run as the owner");
    assert_string_equal(err.detail, "path /x");
    assert_string_equal(err.hint, "run as the owner");
}

static void null_is_accepted_by_all(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, REDRIVE_E_IO, "x"), REDRIVE_E_IO);
    assert_int_equal(err_nomem(NULL), REDRIVE_E_NOMEM);
    err_detail(NULL, "x");
    err_hint(NULL, "x");
}

static void long_messages_are_cut_not_overflowed(void **state)
{
    (void)state;
    struct redrive_err err;
    err_set(&err, REDRIVE_E_IO, "%01000d", 1);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

static void what_strangers_wrote_stays_on_one_line(void **state)
{
    (void)state;
    struct redrive_err err;
    err_set(&err, REDRIVE_E_INVALID, "bad pattern '%s'", "a\nb\x1b[2J");
    err_detail(&err, "found %s", "\r");
    err_hint(&err, "not %s", "\xc3");
    assert_string_equal(err.message, "bad pattern 'a b?[2J'");
    assert_string_equal(err.detail, "found  ");
    assert_string_equal(err.hint, "not ?");
}

static void nearest_word_is_a_hint(void **state)
{
    (void)state;
    struct redrive_err err;
    err_set(&err, REDRIVE_E_UNKNOWN, "there is no task 'enrch'");
    err_suggest(&err, NULL);
    assert_string_equal(err.hint, "");
    err_suggest(&err, "enrich");
    assert_string_equal(err.hint, "did you mean 'enrich'?");
}

CHECK_FILE(err)
{
    const struct CMUnitTest tests[] = {
        T(every_row_stands_where_its_number_says),
        T(numbers_out_of_the_table_are_internal_errors),
        T(set_returns_its_code_and_empties_the_rest),
        T(null_is_accepted_by_all),
        T(long_messages_are_cut_not_overflowed),
        T(what_strangers_wrote_stays_on_one_line),
        T(nearest_word_is_a_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
