/* log.h - structured log lines, as text for people or JSON for machines.
 *
 *     2026-05-01T12:00:00.000Z WARN  retrying job_id=0190… task=enrich attempt=2 delay_ms=4000
 *     {"at":"2026-05-01T12:00:00.000Z","level":"warning","event":"retrying","job_id":"0190…",…}
 *
 * A line is an event name and fields. A key means the same, and has the same type, in every line;
 * numbers are numbers, and their key ends with the unit. docs/monitoring.md lists events and
 * keys, and a test holds the sources to it. Values are quoted where they must be, so that one event
 * is always one line, whatever a job's error message contains. Lines go to a sink whole, in one
 * call each unless they are gathered; sinks are called from the logging thread.
 */
#ifndef BASE_OS_LOG_H
#define BASE_OS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"

enum log_level {
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_OFF,
};

enum log_format {
    LOG_TEXT,
    LOG_JSON,
};

typedef void (*log_sink_fn)(struct str line, void *ctx);

struct log {
    enum log_level level; /* the least that is written */
    enum log_format format;
    log_sink_fn sink; /* each line ends with a newline */
    void *ctx;
    bool takes_several; /* the sink may be given several lines in one call (log_gather_begin) */
};

enum log_field_type {
    LOG_FIELD_STR,
    LOG_FIELD_INT,
    LOG_FIELD_DOUBLE,
    LOG_FIELD_BOOL,
};

struct log_field {
    const char *key;
    enum log_field_type type;
    union {
        struct str str;
        int64_t i;
        double d;
        bool b;
    };
};

#define LOG_S(key, value)   ((struct log_field){(key), LOG_FIELD_STR, {.str = str_of(value)}})
#define LOG_STR(key, value) ((struct log_field){(key), LOG_FIELD_STR, {.str = (value)}})
#define LOG_I(key, value)   ((struct log_field){(key), LOG_FIELD_INT, {.i = (value)}})
#define LOG_D(key, value)   ((struct log_field){(key), LOG_FIELD_DOUBLE, {.d = (value)}})
#define LOG_B(key, value)   ((struct log_field){(key), LOG_FIELD_BOOL, {.b = (value)}})

/* Writes to standard error, with one write() a call. */
void log_to_stderr(struct str line, void *ctx);

const char *log_level_name(enum log_level level);

static inline bool log_wants(const struct log *log, enum log_level level)
{
    return log && log->sink && level >= log->level && level < LOG_LEVEL_OFF;
}

/* A NULL log, or one that does not want the level, costs one comparison. Fields that make a line
 * of over 64 KiB are left out, and the line says so. */
void log_write(const struct log *log, enum log_level level, int64_t at_ms, const char *event,
               const struct log_field *fields, size_t n_fields);

#define log_event(log, level, at_ms, event, ...)                     \
    do {                                                             \
        if (log_wants((log), (level))) {                             \
            const struct log_field log_fields_[] = {__VA_ARGS__};    \
            log_write((log), (level), (at_ms), (event), log_fields_, \
                      sizeof log_fields_ / sizeof log_fields_[0]);   \
        }                                                            \
    } while (0)

/* ---- Several lines in one call --------------------------------------------------------------- */

/* Gathers lines that are written one after another, and gives them to the sink of another log in
 * few calls: a write() costs more than the line.
 *
 *     struct log_gather gather;
 *     const struct log *log = log_gather_begin(&gather, to);
 *     ... log_write(log, ...) ...
 *     log_gather_end(&gather);
 *
 * Lines stay in their order. A call has 4 KiB at most, which a pipe takes as a whole, so that lines
 * of other threads do not get in between; a longer line has a call of its own. */
#define LOG_GATHER_BYTES 4096
struct log_gather {
    struct log log;
    const struct log *to; /* borrowed */
    size_t n_bytes;
    char bytes[LOG_GATHER_BYTES];
};

/* The log to write to until log_gather_end: part of `gather`, or `to` itself if that is NULL or its
 * sink takes one line a call. */
const struct log *log_gather_begin(struct log_gather *gather, const struct log *to);
void log_gather_end(struct log_gather *gather);

/* ---- A limit on how often a line is written -------------------------------------------------- */

/* Limits how often a log line is written that a client can cause at will.
 *
 * The lines in between are counted, and the next one that is written says how many there were. The
 * caller sees to it that one thread at a time uses it.
 */

struct log_pace {
    int64_t next_ms;   /* before that nothing is written */
    int64_t held_back; /* lines since the last one that was */
};

/* Whether to write a line now; then `ret_held_back` is how many were not before it. */
static inline bool log_pace_allows(struct log_pace *pace, int64_t now_ms, int64_t every_ms,
                                   int64_t *ret_held_back)
{
    if (now_ms < pace->next_ms) {
        pace->held_back++;
        return false;
    }
    *ret_held_back = pace->held_back;
    *pace = (struct log_pace){.next_ms = now_ms + every_ms};
    return true;
}

#endif
