/* bench.h - a loop, a runner on it, and a record of what became of each job.
 *
 * Nothing here waits without end: see waiting.h.
 */
#ifndef TESTS_RUN_BENCH_H
#define TESTS_RUN_BENCH_H

#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "core/classify/classify.h"
#include "run/runner.h"
#include "waiting.h"

#define BENCH_MAX_RUNS 64

extern char **environ;

/* A copy of an outcome, which ends with the callback. */
struct record {
    bool is_done;
    int order; /* from 1 */
    enum ending ending;
    struct redrive_failure failure;
    enum redrive_class class_;
    char *status, *error_type, *message, *stacktrace;
    char *result;
    size_t result_len;
    uint64_t dropped_bytes;
    enum run_fault fault;
    struct run *run;
    struct bench *bench;
};

struct bench {
    uv_loop_t loop;
    uv_timer_t limit;
    struct runner *runner;
    struct record records[BENCH_MAX_RUNS];
    int n_records;
    int n_done;
    bool stopped;
};

static inline void bench_init(struct bench *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    uv_timer_init(&b->loop, &b->limit);
}

static inline char *bench_copy(const char *s)
{
    return s ? strdup(s) : NULL;
}

static inline void bench_done(const struct run_outcome *o, void *ctx)
{
    struct record *r = ctx;
    assert_false(r->is_done);
    r->is_done = true;
    r->order = ++r->bench->n_done;
    r->ending = o->outcome.ending;
    r->failure = o->outcome.failure;
    r->class_ = classify(NULL, &o->outcome.failure, NULL).class_;
    r->failure.status = r->status = bench_copy(o->outcome.failure.status);
    r->failure.error_type = r->error_type = bench_copy(o->outcome.failure.error_type);
    r->failure.message = r->message = bench_copy(o->outcome.failure.message);
    r->failure.stacktrace = r->stacktrace = bench_copy(o->outcome.failure.stacktrace);
    r->result = malloc(o->result.len + 1);
    if (o->result.len > 0)
        memcpy(r->result, o->result.ptr, o->result.len);
    r->result[o->result.len] = '\0';
    r->result_len = o->result.len;
    r->dropped_bytes = o->dropped_bytes;
    r->fault = o->fault;
    uv_stop(&r->bench->loop);
}

/* Starts a job; payload may be NULL. */
static inline struct record *bench_start_as(struct bench *b, const struct run_request *request)
{
    struct record *r = &b->records[b->n_records++];
    assert_true(b->n_records <= BENCH_MAX_RUNS);
    r->bench = b;
    struct redrive_err err;
    if (runner_start(b->runner, request, bench_done, r, &r->run, &err) < 0)
        fail_msg("%s", err.message);
    assert_false(r->is_done);
    return r;
}

static inline struct record *bench_start(struct bench *b, const char *payload, int64_t timeout_ms)
{
    static char ids[BENCH_MAX_RUNS][16];
    snprintf(ids[b->n_records], sizeof ids[0], "job-%d", b->n_records);
    struct run_request request = {
        .job_id = ids[b->n_records],
        .task = "resize",
        .queue = "default",
        .tenant = "acme",
        .attempt = 2,
        .max_attempts = 5,
        .payload = str_of(payload),
        .timeout_ms = timeout_ms,
    };
    return bench_start_as(b, &request);
}

static inline void bench_give_up(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "a run did not end in time\n");
    abort();
}

/* Runs the loop until `flag` is set. */
static inline void bench_until(struct bench *b, const bool *flag)
{
    uv_update_time(&b->loop);
    uv_timer_start(&b->limit, bench_give_up, WAIT_LIMIT_MS, 0);
    while (!*flag)
        uv_run(&b->loop, UV_RUN_DEFAULT);
    uv_timer_stop(&b->limit);
}

/* Until neither the loop nor another thread has anything to do, but for timers and programs. */
static inline void bench_until_rest(struct bench *b)
{
    for (int turn = 0; turn < TURNS_TO_REST; turn++) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
        WAIT_RUNNING(process_rests("self"), uv_run(&b->loop, UV_RUN_NOWAIT));
    }
}

static inline void bench_stopped(void *ctx)
{
    struct bench *b = ctx;
    b->stopped = true;
    uv_stop(&b->loop);
}

static inline void bench_release(struct bench *b)
{
    if (!b->stopped) {
        runner_stop(b->runner, 0, bench_stopped, b);
        bench_until(b, &b->stopped);
    }
    runner_free(b->runner);
    uv_close((uv_handle_t *)&b->limit, NULL);
    while (uv_run(&b->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&b->loop), 0);
    for (int i = 0; i < b->n_records; i++) {
        struct record *r = &b->records[i];
        assert_true(r->is_done);
        free(r->status);
        free(r->error_type);
        free(r->message);
        free(r->stacktrace);
        free(r->result);
    }
}

/* Whether a process is there and not a zombie. */
static inline bool process_lives(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *paren = strrchr(text, ')');
    return paren && paren[2] != 'Z' && paren[2] != 'X';
}

#endif
