/* failure_from_stderr.c - exit code, signal and standard error as a failure. */
#include "run/exec/failure_from_stderr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "run/exec/trace.h"

static char *how_it_ended(const struct child *child)
{
    char text[64];
    if (child->signal != 0) {
        const char *name = sigabbrev_np(child->signal);
        if (name)
            snprintf(text, sizeof text, "killed by SIG%s", name);
        else
            snprintf(text, sizeof text, "killed by signal %d", child->signal);
    } else {
        snprintf(text, sizeof text, "exited with code %d", child->exit_code);
    }
    return strdup(text);
}

void failure_from_stderr_read(struct failure_from_stderr *words, const struct child *child,
                              struct redrive_failure *failure)
{
    *words = (struct failure_from_stderr){.stacktrace = tail_text(&child->tail)};
    struct trace trace = trace_read(str_of(words->stacktrace));
    words->message = trace.message.len > 0 ? str_dup(trace.message) : how_it_ended(child);
    if (trace.error_type.len > 0)
        words->error_type = str_dup(trace.error_type);
    *failure = (struct redrive_failure){
        .failed = true,
        .exit_code = child->exit_code,
        .signal = child->signal,
        .message = words->message,
        .stacktrace = words->stacktrace,
        .error_type = words->error_type,
    };
}

void failure_from_stderr_release(struct failure_from_stderr *words)
{
    free(words->stacktrace);
    free(words->message);
    free(words->error_type);
}
