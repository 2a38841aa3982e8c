/* error.c - the error messages of the JSON reader. */
#include "base/json/private.h"

#include <stdio.h>

#include "base/err.h"
#include "base/text/utf8.h"

static int fail(struct json_reader *r, const char *at, int code, const char *format, va_list args)
{
    if (r->error)
        return r->error;
    r->error = code;
    r->error_at = at;
    vsnprintf(r->error_text, sizeof r->error_text, format, args);
    utf8_make_printable(r->error_text);
    return code;
}

int json_fail_at(struct json_reader *r, const char *at, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    code = fail(r, at, code, format, args);
    va_end(args);
    return code;
}

int json_fail(struct json_reader *r, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    code = fail(r, r->token_at, code, format, args);
    va_end(args);
    return code;
}

int json_unexpected(struct json_reader *r, const char *at, const char *expected)
{
    char found[24];
    int len = at < r->end ? utf8_next(at, r->end) : 0;

    if (len == 0)
        snprintf(found, sizeof found, "the end of the text");
    else if (at == r->text && r->end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        snprintf(found, sizeof found, "a byte order mark");
    else if (len < 0 || (unsigned char)*at < 0x20 || *at == 0x7F)
        snprintf(found, sizeof found, "byte 0x%02X", (unsigned)(unsigned char)*at);
    else
        snprintf(found, sizeof found, *at == '\'' ? "\"%.*s\"" : "'%.*s'", len, at);
    return json_fail_at(r, at, REDRIVE_E_PARSE, "expected %s, found %s", expected, found);
}

int json_wrong_type(struct json_reader *r, const char *expected)
{
    int type = json_peek(r);
    if (type < 0)
        return r->error;
    const char *article = type == JSON_TYPE_ARRAY || type == JSON_TYPE_OBJECT    ? "an "
                          : type == JSON_TYPE_NUMBER || type == JSON_TYPE_STRING ? "a "
                                                                                 : "";
    return json_fail_at(r, r->p, REDRIVE_E_INVALID, "expected %s, found %s%s", expected, article,
                        json_type_name((enum json_type)type));
}

int json_error(const struct json_reader *r, struct redrive_err *err)
{
    if (!r->error)
        return 0;
    if (!r->error_at)
        return err_set(err, r->error, "%s", r->error_text);

    size_t line = 1;
    const char *line_start = r->text;
    for (const char *p = r->text; p < r->error_at; p++) {
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
    }
    return err_set(err, r->error, "line %zu, column %zu: %s", line,
                   (size_t)(r->error_at - line_start) + 1, r->error_text);
}
