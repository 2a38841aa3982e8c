/* problem.c - writes problem documents. */
#include "server/http/problem.h"

#include <stdio.h>

static void write_type(struct json_writer *w, int code)
{
    char type[64];
    snprintf(type, sizeof type, "urn:redrive:%s", redrive_err_name(code));
    for (char *p = type; *p; p++) {
        if (*p == '_')
            *p = '-';
        else if (*p >= 'A' && *p <= 'Z')
            *p += 'a' - 'A';
    }
    json_field_cstr(w, "type", type);
}

void problem_write(struct json_writer *w, int status, const struct redrive_err *err,
                   const char *field)
{
    static const struct str EXPECTED = {"expected ", 9};
    const struct str detail = str_of(err->detail);
    const bool expects = str_starts_with(detail, EXPECTED);

    json_begin_object(w);
    write_type(w, err->code);
    json_field_cstr(w, "title", redrive_err_text(err->code));
    json_field_int(w, "status", status ? status : redrive_err_http_status(err->code));
    if (expects || detail.len == 0) {
        json_field_cstr(w, "detail", err->message);
    } else {
        char both[sizeof err->message + sizeof err->detail + 2];
        snprintf(both, sizeof both, "%s: %s", err->message, err->detail);
        json_field_cstr(w, "detail", both);
    }
    if (expects)
        json_field_cstr(w, "expected", err->detail + EXPECTED.len);
    if (err->hint[0])
        json_field_cstr(w, "hint", err->hint);
    if (field)
        json_field_cstr(w, "field", field);
    json_end_object(w);
}
