/* line.h - the JSON lines of stream/stream.h. */
#ifndef RUN_STREAM_LINE_H
#define RUN_STREAM_LINE_H

#include "base/text/buf.h"
#include "run/runner.h"

/* Appends the line for a job. INVALID (PARSE …) when the payload is not JSON; the buffer is then
 * unchanged. */
int stream_line_write(const struct run_request *request, struct buf *out, struct redrive_err *err);

/* An answer. Strings are terminated and NULL when absent; `text` holds them. */
struct stream_answer {
    struct buf text;
    const char *id;
    const char *status;
    const char *message;
    const char *error_type;
    const char *stacktrace;
    const char *sqlstate;
    const char *error_types[REDRIVE_ERROR_TYPES_MAX]; /* the most derived first */
    size_t n_error_types;
    struct str result; /* JSON, a slice of the line; absent for null */
    int64_t retry_after_ms;
    int http_status;
};

/* Reads a line without its end; 0, or a code and what is wrong. Released either way. */
int stream_answer_read(struct stream_answer *answer, struct str line, struct redrive_err *err);
void stream_answer_release(struct stream_answer *answer);

#endif
