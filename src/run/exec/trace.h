/* trace.h - finds the cause of a failure in what a program wrote to standard error. */
#ifndef RUN_EXEC_TRACE_H
#define RUN_EXEC_TRACE_H

#include "base/text/str.h"

/* Slices of the text that was read. */
struct trace {
    struct str message;    /* a line: the exception's, or else the last that is not empty */
    struct str error_type; /* absent when there is no traceback */
};

/* Knows the tracebacks of Python, Java, Node, Ruby and Go. Of several the last counts, and of
 * Java's the innermost cause, because that is what the policies know by name. */
struct trace trace_read(struct str text);

#endif
