/* private.h - what stream/stream.c (the runner), stream/worker.c (its programs) and stream/line.c
 * (the JSON lines) share. */
#ifndef RUN_STREAM_PRIVATE_H
#define RUN_STREAM_PRIVATE_H

#include "base/text/buf.h"
#include "run/exec/child.h"
#include "run/runner.h"
#include "run/stream/stream.h"

/* ---- JSON lines (stream/line.c) -------------------------------------------------------------- */

/* Appends the line for a job. INVALID (PARSE …) when the payload is not JSON; the buffer is then
 * unchanged. */
int stream_line_write(const struct run_request *request, struct buf *out, struct redrive_err *err);

/* An answer. Strings are terminated and NULL when absent; `text` holds them. It has an id, and a
 * status unless it is snoozed. */
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
    bool is_snoozed; /* the job is to be run later: the other members do not count */
    int64_t snooze_ms;
};

/* Reads a line without its end; 0, or a code and what is wrong. Released either way. */
int stream_answer_read(struct stream_answer *answer, struct str line, struct redrive_err *err);
void stream_answer_release(struct stream_answer *answer);

/* ---- Runs and programs ----------------------------------------------------------------------- */

struct stream_worker;

struct stream_run {
    struct run base;
    struct list place; /* in runner->waiting or worker->jobs */
    struct stream_worker *worker;
    uint64_t id_hash;   /* of the job's id */
    const char *status; /* of a run that never began */
    bool cannot_run;    /* there is no program to give it to */
    struct spawn_failure why;
    struct redrive_err err;
};

/* A slot for a program; it outlives each of them. */
struct stream_worker {
    struct stream_runner *runner;
    enum {
        WORKER_ABSENT, /* to be started when there is work */
        WORKER_READY,
        WORKER_DYING, /* its end was asked for, by us */
        WORKER_CLOSING,
    } state;
    struct child child;
    bool is_running; /* there is a process: READY, DYING or CLOSING */
    struct list jobs;
    size_t n_jobs;
    struct stream_lines *unsent; /* lines that are not written yet; NULL: none */
    struct buf line;             /* the beginning of one */
    uv_timer_t timer;            /* when closing, until SIGTERM */
    bool has_answered;           /* since its start */
    enum {
        DIED_BY_ITSELF,
        DIED_OF_PROTOCOL, /* it sent an invalid line */
        DIED_OF_SILENCE,  /* it closed its input */
        DIED_FOR_A_JOB,   /* one of its jobs was made to end */
    } cause;
    char complaint[320]; /* says more about the cause */
};

struct stream_runner {
    struct runner base;
    struct stream_options options;
    struct list waiting;
    bool is_corked;
    bool has_answered; /* one of its programs has, at any time */
    size_t n_open;     /* workers whose timer is open */
    struct stream_worker workers[];
};

/* The hash by which a program's jobs are looked through. */
uint64_t stream_hash_id(const char *id);
/* Gives waiting jobs to programs that are free, starting programs as needed. */
void stream_dispatch(struct stream_runner *runner);
/* Writes the lines of jobs that were given, unless the runner is corked. */
void stream_write_lines(struct stream_runner *runner);
/* Ends a run that no program has been given, in the loop's next turn. */
void stream_fail_unbegun(struct stream_run *run);

void stream_worker_init(struct stream_worker *worker, struct stream_runner *runner);
/* Ends the program because this job of it was made to end. */
void stream_worker_end_for(struct stream_worker *worker, const struct stream_run *run);
/* There will be no more work. Calls runner_closed after the last. */
void stream_worker_close(struct stream_worker *worker);

#endif
