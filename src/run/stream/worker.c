/* worker.c - the long-lived programs: starts them, gives each its jobs, reads their answers. */
#include "run/stream/private.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "core/classify/classify.h"
#include "run/exec/spawn.h"
#include "run/exec/failure_from_stderr.h"

/* Of a message that is put together. */
#define SHARED_MAX_BYTES (64u * 1024)

static struct stream_worker *worker_of(struct child *child)
{
    return (struct stream_worker *)(void *)((char *)child - offsetof(struct stream_worker, child));
}

static void log_death(const struct stream_worker *worker, const char *event, const char *why)
{
    log_event(worker->runner->base.log, LOG_LEVEL_WARNING, clock_wall_ms(), event,
              LOG_S("program", worker->runner->options.argv[0]), LOG_I("pid", worker->child.pid),
              LOG_I("jobs", (int64_t)worker->n_jobs), LOG_S("error", why));
}

/* ---- Runs that never began ------------------------------------------------------------------- */

static void finish_unbegun(struct run *base)
{
    struct stream_run *run = (struct stream_run *)base;
    struct run_outcome outcome = {
        .outcome.failure =
            {
                .failed = true,
                .status = run->status,
                .errnum = run->why.errnum,
                .exit_code = run->why.exit_code,
                .message = run->err.message,
            },
        .fault = run->cannot_run ? RUN_FAULT_CERTAIN : RUN_FAULT_NONE,
    };
    run_finish(base, &outcome);
}

void stream_fail_unbegun(struct stream_run *run)
{
    list_remove(&run->place);
    run_later(&run->base, finish_unbegun);
}

static bool any_is_ready(const struct stream_runner *runner)
{
    for (size_t i = 0; i < runner->options.processes; i++)
        if (runner->workers[i].state == WORKER_READY)
            return true;
    return false;
}

/* The program cannot run: fails the jobs that wait for it, unless another process of it is at work.
 */
static void fail_waiting(struct stream_runner *runner, const struct spawn_failure *why,
                         const struct redrive_err *err)
{
    if (any_is_ready(runner))
        return;
    LIST_FOREACH (&runner->waiting, link) {
        struct stream_run *run = LIST_ENTRY(link, struct stream_run, place);
        run->why = *why;
        run->err = *err;
        run->cannot_run = why->errnum == 0;
        stream_fail_unbegun(run);
    }
}

/* ---- Its answers ----------------------------------------------------------------------------- */

static void distrust(struct stream_worker *worker, const char *complaint)
{
    worker->state = WORKER_DYING;
    worker->cause = DIED_OF_PROTOCOL;
    str_copy(worker->complaint, sizeof worker->complaint, str_of(complaint));
    log_death(worker, "stream_protocol_error", complaint);
    child_kill(&worker->child);
}

uint64_t stream_hash_id(const char *id)
{
    return rng_hash(id, strlen(id), 0);
}

/* Ids are unique within a tenant only, and answers carry no more than the id. */
static struct stream_run *find_job(const struct stream_worker *worker, const char *id,
                                   uint64_t id_hash)
{
    LIST_FOREACH (&worker->jobs, link) {
        struct stream_run *run = LIST_ENTRY(link, struct stream_run, place);
        if (run->id_hash == id_hash && strcmp(run->base.request.job_id, id) == 0)
            return run;
    }
    return NULL;
}

static void finish(struct stream_worker *worker, struct stream_run *run,
                   const struct run_outcome *outcome)
{
    list_remove(&run->place);
    worker->n_jobs--;
    run->worker = NULL;
    run_finish(&run->base, outcome);
}

/* A user's row may know the word all the same; for people it is named. */
static void name_unknown_status(const struct stream_answer *answer, struct buf *message,
                                struct redrive_failure *failure)
{
    buf_printf(message, "unknown status '%.64s'", answer->status);
    if (answer->message)
        buf_printf(message, ": %s", answer->message);
    if (!buf_failed(message))
        failure->message = buf_cstr(message);
    if (!failure_type(failure))
        failure->error_type = "ProtocolError";
}

static void finish_as_answered(struct stream_worker *worker, struct stream_run *run,
                               const struct stream_answer *answer)
{
    const int class_ = classify_status(str_of(answer->status));
    struct buf message;
    struct run_outcome outcome = {.outcome.failure = {
                                      .status = answer->status,
                                      .message = answer->message,
                                      .error_type = answer->error_type,
                                      .error_types = answer->error_types,
                                      .n_error_types = answer->n_error_types,
                                      .stacktrace = answer->stacktrace,
                                      .sqlstate = answer->sqlstate,
                                      .http_status = answer->http_status,
                                      .retry_after_ms = answer->retry_after_ms,
                                      .failed = class_ != REDRIVE_CLASS_SUCCESS,
                                  }};
    buf_init(&message, 2 * STREAM_LINE_MAX_BYTES);
    if (class_ < 0)
        name_unknown_status(answer, &message, &outcome.outcome.failure);
    /* Half of a JSON value is none. */
    if (answer->result.len <= RUN_RESULT_MAX_BYTES)
        outcome.result = answer->result;
    else
        outcome.dropped_bytes = answer->result.len;
    finish(worker, run, &outcome);
    buf_release(&message);
}

static void finish_snoozed(struct stream_worker *worker, struct stream_run *run, int64_t snooze_ms)
{
    const struct run_outcome outcome = {
        .outcome = {.ending = ENDING_SNOOZED, .snooze_ms = snooze_ms}};
    finish(worker, run, &outcome);
}

static void read_answer(struct stream_worker *worker, struct str line)
{
    struct stream_answer answer;
    struct redrive_err err;
    char complaint[sizeof worker->complaint];
    int rc = stream_answer_read(&answer, line, &err);
    struct stream_run *run =
        rc == 0 ? find_job(worker, answer.id, stream_hash_id(answer.id)) : NULL;
    if (rc < 0) {
        snprintf(complaint, sizeof complaint, "not an answer: %s", err.message);
        distrust(worker, complaint);
    } else if (!run) {
        snprintf(complaint, sizeof complaint, "an answer to '%.64s', a job that it does not have",
                 answer.id);
        distrust(worker, complaint);
    } else {
        worker->has_answered = worker->runner->has_answered = true;
        if (answer.is_snoozed)
            finish_snoozed(worker, run, answer.snooze_ms);
        else
            finish_as_answered(worker, run, &answer);
    }
    stream_answer_release(&answer);
}

/* Takes bytes up to the next line end; returns how many. */
static size_t take_line(struct stream_worker *worker, const char *bytes, size_t len)
{
    const char *end = memchr(bytes, '\n', len);
    size_t n = end ? (size_t)(end - bytes) : len;
    if (buf_add(&worker->line, bytes, n) < 0) {
        distrust(worker, buf_failed(&worker->line) == REDRIVE_E_NOMEM
                             ? "out of memory for its answer"
                             : "a line of over 2 MiB");
        return len;
    }
    if (!end)
        return n;
    /* `done` may start a job, which writes to this worker but reads nothing from it. */
    read_answer(worker, buf_str(&worker->line));
    buf_reset(&worker->line);
    return n + 1;
}

static void on_output(struct child *child, const char *bytes, size_t len)
{
    struct stream_worker *worker = worker_of(child);
    while (len > 0 && worker->state == WORKER_READY) {
        size_t n = take_line(worker, bytes, len);
        bytes += n;
        len -= n;
    }
    stream_dispatch(worker->runner);
}

/* ---- Its end --------------------------------------------------------------------------------- */

/* The failure of a job that it had when it died. */
static struct redrive_failure failure_of(const struct stream_worker *worker,
                                         const struct redrive_failure *words)
{
    struct redrive_failure failure = {.failed = true, .stacktrace = words->stacktrace};
    switch (worker->cause) {
    case DIED_OF_PROTOCOL: break;
    case DIED_OF_SILENCE:
        if (worker->child.signal == SIGTERM)
            break;
        return *words; /* it was dying anyway, and closed its input thereby */
    case DIED_FOR_A_JOB:
        failure.status = "system";
        failure.message = worker->complaint;
        return failure;
    case DIED_BY_ITSELF: return *words;
    }
    failure.error_type = "ProtocolError";
    failure.message = worker->complaint;
    return failure;
}

/* Answers come in any order, so it is not known which job it was busy with when it died. Its
 * standard error may be about another job, and the message says so. */
static void tell_of_others(const struct stream_worker *worker, struct redrive_failure *failure,
                           struct buf *ret)
{
    if (worker->n_jobs < 2 || worker->cause == DIED_FOR_A_JOB)
        return;
    (void)buf_printf(ret,
                     "%s; the program had %zu jobs, and which of them this is about is "
                     "not known",
                     failure->message ? failure->message : "the program died", worker->n_jobs);
    if (!buf_failed(ret))
        failure->message = buf_cstr(ret);
}

/* It never got as far as an answer, and we did not make it end. */
static bool could_not_run(const struct stream_worker *worker)
{
    return !worker->has_answered &&
           (worker->cause == DIED_BY_ITSELF || worker->cause == DIED_OF_SILENCE);
}

/* Where no program has ever answered, jobs that wait would only see the next one die. */
static void release_waiting(struct stream_runner *runner, const struct redrive_failure *failure)
{
    const struct spawn_failure why = {.exit_code = failure->exit_code};
    struct redrive_err err;
    err_set(&err, REDRIVE_E_IO, "%s", failure->message ? failure->message : "the program died");
    fail_waiting(runner, &why, &err);
}

static void fail_jobs(struct stream_worker *worker)
{
    struct failure_from_stderr words;
    struct redrive_failure facts;
    failure_from_stderr_read(&words, &worker->child, &facts);
    struct run_outcome outcome = {
        .outcome = {.failure = failure_of(worker, &facts),
                    .was_killed = worker->cause == DIED_FOR_A_JOB},
        .fault = could_not_run(worker) ? RUN_FAULT_LIKELY : RUN_FAULT_NONE,
    };
    if (outcome.fault != RUN_FAULT_NONE && !worker->runner->has_answered)
        release_waiting(worker->runner, &outcome.outcome.failure);
    RELEASED_BY(buf_release) struct buf shared = BUF_MAX(SHARED_MAX_BYTES);
    tell_of_others(worker, &outcome.outcome.failure, &shared);
    while (!list_empty(&worker->jobs))
        finish(worker, LIST_ENTRY(worker->jobs.next, struct stream_run, place), &outcome);
    failure_from_stderr_release(&words);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct stream_worker *worker = timer->data;
    if (--worker->runner->n_open == 0)
        runner_closed(&worker->runner->base);
}

static void on_ended(struct child *child)
{
    struct stream_worker *worker = worker_of(child);
    bool is_closing = worker->state == WORKER_CLOSING;
    worker->is_running = false;
    if (!is_closing && worker->cause == DIED_BY_ITSELF)
        log_death(worker, "stream_worker_died",
                  child->signal ? strsignal(child->signal) : "it exited by itself");
    if (is_closing)
        uv_close((uv_handle_t *)&worker->timer, on_timer_closed);
    /* The callbacks may start jobs; they must not start this worker while its tail is read. */
    worker->state = WORKER_DYING;
    fail_jobs(worker);
    child_release(child);
    buf_release(&worker->line);
    worker->state = is_closing ? WORKER_CLOSING : WORKER_ABSENT;
    if (!is_closing)
        stream_dispatch(worker->runner);
}

void stream_worker_end_for(struct stream_worker *worker, const struct stream_run *run)
{
    if (worker->state != WORKER_READY)
        return;
    worker->state = WORKER_DYING;
    worker->cause = DIED_FOR_A_JOB;
    snprintf(worker->complaint, sizeof worker->complaint,
             "its process was stopped, because job %.64s %s", run->base.request.job_id,
             run->base.stop == RUN_TIMED_OUT   ? "timed out"
             : run->base.stop == RUN_CANCELLED ? "was cancelled"
                                               : "was released");
    child_terminate(&worker->child, worker->runner->options.kill_grace_ms);
}

/* ---- Its start and its work ------------------------------------------------------------------ */

static const struct child_ops CHILD_OPS = {on_output, on_ended};

void stream_worker_init(struct stream_worker *worker, struct stream_runner *runner)
{
    worker->runner = runner;
    list_init(&worker->jobs);
    uv_timer_init(runner->base.loop, &worker->timer);
    worker->timer.data = worker;
    runner->n_open++;
}

static int start_program(struct stream_worker *worker, struct spawn_failure *ret_why,
                         struct redrive_err *err)
{
    const struct stream_options *options = &worker->runner->options;
    char **envp = environ_new(options->environ, options->pass, NULL);
    int rc = envp ? 0 : err_nomem(err);
    struct spawn_request request = {options->argv, envp};
    if (rc == 0)
        rc = child_start(&worker->child, worker->runner->base.loop, &request, &CHILD_OPS, ret_why,
                         err);
    free(envp);
    if (rc < 0)
        return rc;
    buf_init(&worker->line, STREAM_LINE_MAX_BYTES);
    worker->is_running = true;
    worker->has_answered = false;
    worker->cause = DIED_BY_ITSELF;
    worker->state = WORKER_READY;
    return 0;
}

/* Lines of jobs that are written together. An answer can come before all of a line is written, so
 * that a line outlives its run. */
struct stream_lines {
    uv_write_t request;
    struct stream_worker *worker;
    struct buf text;
};

static void lines_free(struct stream_lines *lines)
{
    if (lines)
        buf_release(&lines->text);
    free(lines);
}

static void on_written(uv_write_t *request, int status)
{
    struct stream_lines *lines = request->data;
    struct stream_worker *worker = lines->worker;
    if (status < 0 && status != UV_ECANCELED && worker->state == WORKER_READY) {
        worker->state = WORKER_DYING;
        worker->cause = DIED_OF_SILENCE;
        str_copy(worker->complaint, sizeof worker->complaint, STR("it has closed its input"));
        child_terminate(&worker->child, worker->runner->options.kill_grace_ms);
    }
    lines_free(lines);
}

/* The lines that wait to be written; NULL without memory. */
static struct stream_lines *unsent_of(struct stream_worker *worker)
{
    if (!worker->unsent)
        worker->unsent = calloc(1, sizeof *worker->unsent);
    if (!worker->unsent || worker->unsent->worker)
        return worker->unsent;
    worker->unsent->worker = worker;
    worker->unsent->request.data = worker->unsent;
    buf_init(&worker->unsent->text, SIZE_MAX / 2);
    return worker->unsent;
}

/* Gives a job to a ready worker; on failure (see stream_line_write) nothing has changed. */
static int give(struct stream_worker *worker, struct stream_run *run, struct redrive_err *err)
{
    struct stream_lines *lines = unsent_of(worker);
    if (!lines)
        return err_nomem(err);
    const size_t before = lines->text.len;
    int rc = stream_line_write(&run->base.request, &lines->text, err);
    if (rc < 0) {
        buf_truncate(&lines->text, before);
        lines->text.failed = 0; /* what came before is whole */
        return rc;
    }
    list_remove(&run->place);
    list_insert(&worker->jobs, &run->place);
    worker->n_jobs++;
    run->worker = worker;
    return 0;
}

static void write_lines_of(struct stream_worker *worker)
{
    struct stream_lines *lines = worker->unsent;
    worker->unsent = NULL;
    if (lines->text.len == 0) {
        lines_free(lines);
        return;
    }
    uv_buf_t bytes = {lines->text.data, lines->text.len};
    int rc = uv_write(&lines->request, (uv_stream_t *)&worker->child.in, &bytes, 1, on_written);
    if (rc < 0)
        on_written(&lines->request, rc);
}

void stream_write_lines(struct stream_runner *runner)
{
    if (runner->is_corked)
        return;
    for (size_t i = 0; i < runner->options.processes; i++)
        if (runner->workers[i].unsent)
            write_lines_of(&runner->workers[i]);
}

static void on_end_of_input_ignored(uv_timer_t *timer)
{
    struct stream_worker *worker = timer->data;
    child_terminate(&worker->child, worker->runner->options.kill_grace_ms);
}

void stream_worker_close(struct stream_worker *worker)
{
    uv_timer_stop(&worker->timer);
    worker->state = WORKER_CLOSING;
    if (!worker->is_running) {
        uv_close((uv_handle_t *)&worker->timer, on_timer_closed);
        return;
    }
    child_close_input(&worker->child);
    uv_update_time(worker->timer.loop);
    uv_timer_start(&worker->timer, on_end_of_input_ignored,
                   (uint64_t)worker->runner->options.kill_grace_ms, 0);
}

/* ---- Which program gets which job ------------------------------------------------------------ */

/* One that has exited is ready until its output has been read: it may have answered before. */
static bool has_room(const struct stream_worker *worker, const struct stream_run *run)
{
    return worker->state == WORKER_READY && !worker->child.has_exited &&
           worker->n_jobs < worker->runner->options.in_flight &&
           !find_job(worker, run->base.request.job_id, run->id_hash);
}

/* An idle program, or else one to be started, or else the one with the fewest jobs; NULL: wait. */
static struct stream_worker *choose(struct stream_runner *runner, const struct stream_run *run)
{
    struct stream_worker *best = NULL, *absent = NULL;
    for (size_t i = 0; i < runner->options.processes; i++) {
        struct stream_worker *worker = &runner->workers[i];
        if (has_room(worker, run) && (!best || worker->n_jobs < best->n_jobs))
            best = worker;
        if (worker->state == WORKER_ABSENT && !absent)
            absent = worker;
    }
    return absent && (!best || best->n_jobs > 0) ? absent : best;
}

static void give_waiting(struct stream_runner *runner)
{
    while (!list_empty(&runner->waiting)) {
        struct stream_run *run = LIST_ENTRY(runner->waiting.next, struct stream_run, place);
        struct stream_worker *worker = choose(runner, run);
        if (!worker)
            return;
        struct spawn_failure why = {0};
        struct redrive_err err;
        if (worker->state == WORKER_ABSENT && start_program(worker, &why, &err) < 0) {
            fail_waiting(runner, &why, &err);
            return; /* those that still wait have a program that is at work */
        } else if (give(worker, run, &run->err) < 0) {
            run->status = run->err.code == REDRIVE_E_NOMEM ? "system" : "validation";
            stream_fail_unbegun(run);
        }
    }
}

void stream_dispatch(struct stream_runner *runner)
{
    give_waiting(runner);
    stream_write_lines(runner);
}
