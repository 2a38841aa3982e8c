/* err.c - the table of error codes, and errors as text. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text/encode.h"

struct error_row {
    int code;
    const char *name;
    const char *text;
    bool retryable;
    int http_status;
    int exit_code;
};

static const struct error_row ROWS[] = {
#define XX(name, number, text, retryable, http, exit_code) \
    {(number), #name, text, retryable, http, exit_code},
    REDRIVE_ERROR_MAP(XX)
#undef XX
};

static const struct error_row OK = {0, "OK", "no error", false, 200, 0};

/* Rows are in the order of their numbers, from -1 down. */
static const struct error_row *row_of(int code)
{
    const int n = (int)(sizeof ROWS / sizeof ROWS[0]);
    if (code == 0)
        return &OK;
    if (code < -n || code > 0)
        code = REDRIVE_E_INTERNAL;
    return &ROWS[-code - 1];
}

const char *redrive_err_name(int code)
{
    return row_of(code)->name;
}

const char *redrive_err_text(int code)
{
    return row_of(code)->text;
}

bool redrive_err_retryable(int code)
{
    return row_of(code)->retryable;
}

int redrive_err_http_status(int code)
{
    return row_of(code)->http_status;
}

int redrive_err_exit_code(int code)
{
    return row_of(code)->exit_code;
}

/* Messages quote text from outside, which may contain line breaks. */
static void write_text(char *text, size_t size, const char *format, va_list args)
{
    vsnprintf(text, size, format, args);
    utf8_make_printable(text);
}

#define WRITE_TEXT(text, format)                       \
    do {                                               \
        va_list args_;                                 \
        va_start(args_, format);                       \
        write_text(text, sizeof(text), format, args_); \
        va_end(args_);                                 \
    } while (0)

int err_set(struct redrive_err *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    err->code = code;
    err->detail[0] = '\0';
    err->hint[0] = '\0';
    WRITE_TEXT(err->message, format);
    return code;
}

void err_detail(struct redrive_err *err, const char *format, ...)
{
    if (err)
        WRITE_TEXT(err->detail, format);
}

void err_hint(struct redrive_err *err, const char *format, ...)
{
    if (err)
        WRITE_TEXT(err->hint, format);
}

int err_full(struct redrive_err *err, int code, const char *format, ...)
{
    if (code == REDRIVE_E_NOMEM)
        return err_nomem(err);
    if (!err)
        return code;
    err_set(err, code, "%s", "");
    WRITE_TEXT(err->message, format);
    return code;
}

void err_suggest(struct redrive_err *err, const char *nearest)
{
    if (nearest)
        err_hint(err, "did you mean '%s'?", nearest);
}

int err_nomem(struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_NOMEM, "%s", redrive_err_text(REDRIVE_E_NOMEM));
}
