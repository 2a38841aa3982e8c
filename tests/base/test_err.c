#include "base/err.h"

#include "check.h"

TEST(every_row_stands_where_its_number_says)
{
#define XX(name, number, text, retryable, http, exit_code)          \
    assert_string_equal(redrive_err_name(REDRIVE_E_##name), #name); \
    assert_string_equal(redrive_err_text(number), text);            \
    assert_int_equal(redrive_err_retryable(number), retryable);     \
    assert_int_equal(redrive_err_http_status(number), http);        \
    assert_int_equal(redrive_err_exit_code(number), exit_code);
    REDRIVE_ERROR_MAP(XX)
#undef XX
}

TEST(numbers_out_of_the_table_are_internal_errors)
{
    assert_string_equal(redrive_err_name(-9999), "INTERNAL");
    assert_string_equal(redrive_err_name(1), "INTERNAL");
    assert_string_equal(redrive_err_name(0), "OK");
    assert_int_equal(redrive_err_exit_code(0), 0);
}

TEST(set_returns_its_code_and_empties_the_rest)
{
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

TEST(null_is_accepted_by_all)
{
    assert_int_equal(err_set(NULL, REDRIVE_E_IO, "x"), REDRIVE_E_IO);
    assert_int_equal(err_nomem(NULL), REDRIVE_E_NOMEM);
    err_detail(NULL, "x");
    err_hint(NULL, "x");
}

TEST(long_messages_are_cut_not_overflowed)
{
    struct redrive_err err;
    err_set(&err, REDRIVE_E_IO, "%01000d", 1);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

TEST(what_strangers_wrote_stays_on_one_line)
{
    struct redrive_err err;
    err_set(&err, REDRIVE_E_INVALID, "bad pattern '%s'", "a\nb\x1b[2J");
    err_detail(&err, "found %s", "\r");
    err_hint(&err, "not %s", "\xc3");
    assert_string_equal(err.message, "bad pattern 'a b?[2J'");
    assert_string_equal(err.detail, "found  ");
    assert_string_equal(err.hint, "not ?");
}

TEST(nearest_word_is_a_hint)
{
    struct redrive_err err;
    err_set(&err, REDRIVE_E_UNKNOWN, "there is no task 'enrch'");
    err_suggest(&err, NULL);
    assert_string_equal(err.hint, "");
    err_suggest(&err, "enrich");
    assert_string_equal(err.hint, "did you mean 'enrich'?");
}
