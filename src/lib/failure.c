#include "lib/failure.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

#define SHORT_MAX 255

/* The strings of a failure, each with its limit. */
#define FAILURE_TEXTS(XX)                  \
    XX(status, SHORT_MAX)                  \
    XX(error_type, SHORT_MAX)              \
    XX(message, REDRIVE_MESSAGE_MAX)       \
    XX(stacktrace, REDRIVE_STACKTRACE_MAX) \
    XX(sqlstate, SHORT_MAX)

/* Room for a copy of `s` and its terminator. */
static size_t room_for(const char *s, size_t max)
{
    return s ? strnlen(s, max) + 1 : 0;
}

static const char *copy_text(char **at, const char *s, size_t max)
{
    size_t room = room_for(s, max);
    if (room == 0)
        return NULL;
    char *copy = *at;
    str_copy(copy, room, str_of(s));
    *at += room;
    return copy;
}

char *failure_copy(const struct redrive_failure *failure, struct redrive_failure *ret)
{
    static const struct redrive_failure nothing_known = {0};
    if (!failure)
        failure = &nothing_known;

    size_t room = 0;
#define XX(field, max) room += room_for(failure->field, max);
    FAILURE_TEXTS(XX)
#undef XX
    char *text = room > 0 ? malloc(room) : NULL;
    struct redrive_failure copy = *failure;
    char *at = text;
#define XX(field, max) copy.field = text ? copy_text(&at, failure->field, max) : NULL;
    FAILURE_TEXTS(XX)
#undef XX
    *ret = copy;
    ret->failed = true;
    return text;
}

void failure_of_return(int code, struct redrive_failure *ret, char *said, size_t size)
{
    ret->failed = true;
    if (code < 0 && code > INT_MIN) {
        char text[FAILURE_SAID_MAX];
        ret->errnum = -code;
        str_copy(said, size, str_of(strerror_r(-code, text, sizeof text)));
    } else {
        (void)snprintf(said, size, "the function returned %d", code);
    }
}
