/* copies.c - copies what a function said about its failure. */
#include "lib/copies.h"

#include <limits.h>
#include <stdio.h>

#include "base/text/str.h"
#include "core/classify/classify.h"

char *failure_keep(const struct redrive_failure *failure, struct redrive_failure *ret)
{
    static const struct redrive_failure nothing_known = {0};
    static const struct failure_limits limits = {255, REDRIVE_MESSAGE_MAX, REDRIVE_STACKTRACE_MAX};
    char *text = failure_copy(failure ? failure : &nothing_known, &limits, ret);
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
