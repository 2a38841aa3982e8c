/* redrive_queue.h - the durable queue of Redrive for C programs: submit jobs, and work them with
 * functions.
 *
 * redrive.h retries within one call of one process. Here jobs are kept in a store, survive the
 * process, and are shared with all other users of the store: other processes of this program,
 * `redrive enqueue`, `redrive work`, `redrive dlq`. Policies, failure classes, breakers and limits
 * are those of the configuration; a task that it does not have gets the defaults.
 *
 *     struct redrive_queue *q;
 *     redrive_queue_open(&(struct redrive_queue_options){.store = "sqlite:mail.db"}, &q, &err);
 *     redrive_queue_submit(q, &(struct redrive_job_spec){.task = "mail"}, 1, 0, NULL, &err);
 *     redrive_queue_handle(q, "mail", send_mail, NULL, NULL, &err);
 *     redrive_queue_work(q, 0, &err);           until redrive_queue_stop
 *     redrive_queue_close(q);
 *
 * The conventions of redrive.h hold. In addition:
 *   - A queue may be used by any number of threads, also from inside functions that it runs. Only
 *     redrive_queue_close needs to be alone.
 *   - What submit and a look answer has been committed: it is as durable as the store is.
 *   - Delivery is at least once: when a process dies, its jobs are taken back as soon as their
 *     leases have ended, and run again. Settling is exactly once.
 *   - After fork() the child must not use its parent's queues.
 *   - Signals are the host's: they are blocked in every thread that the queue starts, except those
 *     that report a fault (SIGSEGV, SIGABRT …).
 *
 * Link with libredrive-queue and libredrive: pkg-config redrive-queue names both.
 */
#ifndef REDRIVE_QUEUE_H
#define REDRIVE_QUEUE_H

#include "redrive.h"

#ifdef __cplusplus
extern "C" {
#endif

struct redrive_queue;    /* opaque; shared by threads */
struct redrive_task_run; /* one run of a job, inside your function; its thread only */

/* ---- A queue --------------------------------------------------------------------------------- */

/* One line of the log, without its newline and not terminated; for the time of the call. Called
 * from any thread of the queue, from several at once, and now and then while the store is in use:
 * it must not call the queue. */
typedef void (*redrive_log_fn)(const char *line, size_t len, void *ctx) REDRIVE_NOEXCEPT;

/* Zeroed fields mean the defaults. Strings are copied; log_ctx is borrowed for the lifetime of the
 * queue. */
struct redrive_queue_options {
    const char *store;  /* "sqlite:PATH", "postgres://…", "redis://…", "memory:"; NULL: what the
                           configuration says */
    const char *config; /* a file that must be there; NULL: REDRIVE_CONFIG of the environment, or
                           else redrive.yaml of the working directory if there is one */
    const char *worker; /* its name in leases, history and statistics; NULL: HOST:PID */
    const char *tenant; /* whose jobs it submits, sees and works; NULL: it submits and sees those
                           of `default`, and works those of all */
    redrive_log_fn log; /* NULL: nothing is logged; redrive_queue_log_to_stderr is ready to use */
    void *log_ctx;
    const char *log_level; /* debug, info, warning, error, off; NULL: what the configuration says */
};

/* Reads the configuration and opens the store, which is set up if it is empty. Starts the threads
 * that talk to the store. NULL options mean all defaults. CONFIG, UNKNOWN, NOT_FOUND, IO, NOMEM …:
 * `err` says what is wrong, and of several errors in a configuration the first. `ret` is NULL on
 * failure. Of several shards some, and not all, may be away: they are opened when they are back,
 * and until then what is asked of their tenants fails with IO. */
REDRIVE_API int redrive_queue_open(const struct redrive_queue_options *options,
                                   struct redrive_queue **ret, struct redrive_err *err);

/* Waits for what was handed to the store, then frees everything. No other thread may be inside the
 * queue, redrive_queue_work included. NULL does nothing. */
REDRIVE_API void redrive_queue_close(struct redrive_queue *queue);

/* For redrive_queue_options.log: one write to standard error a line. */
REDRIVE_API void redrive_queue_log_to_stderr(const char *line, size_t len, void *ctx);

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* A job that another one waits for: one that is there, or that comes earlier in the same call. The
 * other is queued when all have ended as it wants, and is cancelled, with reason skipped, when one
 * did not. */
enum redrive_after_on {
    REDRIVE_AFTER_SUCCESS,
    REDRIVE_AFTER_END,
    REDRIVE_AFTER_FAILURE, /* any end but success */
};
/* With REDRIVE_AFTER_SUCCESS: what is done when it dies, or has failed. */
enum redrive_on_dead {
    REDRIVE_ON_DEAD_WAIT, /* for a redrive and its success */
    REDRIVE_ON_DEAD_CANCEL,
    REDRIVE_ON_DEAD_RUN,
};
struct redrive_job_after {
    const char *id;
    enum redrive_after_on on;
    enum redrive_on_dead on_dead;
};

/* What to do. Only `task` is required. All pointers are borrowed until the call returns. */
struct redrive_job_spec {
    const char *task;
    const char *payload; /* JSON, kept byte for byte; NULL: none */
    size_t payload_len;  /* 0: the payload is a terminated string */
    const char *id;    /* up to REDRIVE_ID_MAX bytes, unique in the store; submitting it again does
                          nothing; NULL: a new UUIDv7 */
    const char *queue; /* NULL: the task's */
    int priority;      /* -100 … 100, higher first */
    int64_t delay_ms;  /* not before so long from now */
    int64_t process_after_ms; /* not before this wall time; with delay_ms: INVALID */
    int64_t deadline_ms;      /* from now; not started by then, it becomes a dead letter; 0: none */
    const char *unique_key;   /* one live job at most has it; NULL: none */
    bool unique_forever;      /* one job ever */
    const char *user;         /* for limits */
    const char *project;      /* for limits */
    const char *service;      /* for breakers */
    const char *retry;        /* JSON, the keys of a `retry` section; NULL: as its task says */
    const char *traceparent;  /* the span of the caller, by W3C Trace Context: attempts are its
                                 children; NULL, or not one: none */
    const struct redrive_job_after *after; /* jobs that it waits for; see below */
    size_t n_after;
    /* It has failed in a handler of this program (redrive.h), and is kept as a dead letter at once,
     * without an attempt: reason, class_, error_type, message and stacktrace of this one are taken,
     * everything else from the fields above. NULL: it has not. */
    const struct redrive_dead_letter *failed;
};

/* What became of one of them. */
struct redrive_submitted {
    int code;     /* 0, or why it was refused */
    bool existed; /* no new job: the one with this id is the answer */
    enum redrive_state
        state; /* queued, scheduled or waiting; of one that existed, whatever it is now */
    char id[REDRIVE_ID_MAX + 1];
};

enum redrive_submit_flags {
    REDRIVE_SUBMIT_WHOLE = 1 << 0, /* if one is refused, all are: the others with CANCELLED */
};

/* Submits `n` jobs in one commit. Without REDRIVE_SUBMIT_WHOLE the good ones of a batch are taken
 * whatever the others are. `ret` has space for `n` answers, or is NULL.
 *
 * 0 when every job was taken, or had been before. Otherwise the code of the first that was refused,
 * with its position in `err`: INVALID, RANGE, PARSE, TOO_BIG, TOO_DEEP (of the payload), UNKNOWN
 * (strict_tasks; a job to wait for that is not there), BREAKER_OPEN (on_open: reject), NOMEM. Of
 * them all: STOPPING, the queue is being closed; IO, the store could take none of them; if the hint
 * of `err` says so it may have done so nevertheless, and ids or unique keys make it safe to submit
 * them again. */
REDRIVE_API int redrive_queue_submit(struct redrive_queue *queue,
                                     const struct redrive_job_spec *jobs, size_t n, unsigned flags,
                                     struct redrive_submitted *ret, struct redrive_err *err);

/* A job as it is now. Absent strings are NULL, times are wall-clock milliseconds or 0. */
struct redrive_job_status {
    enum redrive_state state;
    enum redrive_reason reason; /* of one that ended without success */
    uint32_t attempts;          /* starts that count, of this epoch */
    uint32_t max_attempts;
    uint32_t epoch;            /* redrives so far, as in a redrive_dead_letter */
    enum redrive_class class_; /* of the last failure; success: there was none */
    const char *task;
    const char *queue;
    const char *error_type; /* of the last failure */
    const char *message;
    const char *worker; /* the last that had it */
    const char *payload;
    size_t payload_len;
    const void *result; /* what the run that succeeded gave */
    size_t result_len;
    int64_t created_ms;
    int64_t process_after_ms;
    int64_t started_ms; /* of the last run */
    int64_t finished_ms;
    void *memory; /* of the strings */
};

/* Looks at a job. The answer belongs to the caller, who gives it to redrive_queue_job_release. On
 * failure `ret` is empty: NOT_FOUND, IO, NOMEM. */
REDRIVE_API int redrive_queue_job(struct redrive_queue *queue, const char *id,
                                  struct redrive_job_status *ret, struct redrive_err *err);
REDRIVE_API void redrive_queue_job_release(struct redrive_job_status *status);

/* Cancels a job that has not ended. A running one is asked to stop at its worker's next heartbeat,
 * and its outcome does not count. NOT_FOUND; STATE: it has ended. */
REDRIVE_API int redrive_queue_cancel(struct redrive_queue *queue, const char *id,
                                     struct redrive_err *err);

/* ---- Work ------------------------------------------------------------------------------------ */

/* Your work, called from a thread of redrive_queue_work. Return 0 for success. For failure return a
 * negative errno (-ECONNREFUSED), or call redrive_task_run_fail() with what is known and return its
 * value. Any other value is a failure about which nothing is known: class transient, counted as
 * unclassified. The policy decides what happens to the job.
 *
 * It must return. An exception that leaves it ends the program; after a pthread_exit or a longjmp
 * the job keeps its lease, its slot is lost, and redrive_queue_work does not return any more.
 *
 * Signals are blocked while it runs, except those that report a fault. A program that it starts
 * inherits that: give it a mask of its own, by posix_spawnattr_setsigmask or before exec. */
typedef int (*redrive_task_fn)(struct redrive_task_run *run, void *arg) REDRIVE_NOEXCEPT;

/* Zeroed fields mean the defaults. */
struct redrive_handle_options {
    uint32_t concurrency; /* runs at one time in this process, a thread each; 0: 1 */
    int64_t timeout_ms;   /* a run is asked to end after so long; 0: never */
    /* The delay before retry n of a job that this process has run, in place of the strategy of the
     * job's policy; the policy's other fields hold, min_delay and max_delay too, and so does a rule
     * for a failure class. NULL: as the policy says. Called from a thread of the queue while the
     * store is in use: it must be quick, and must not call the queue. A job whose lease was lost is
     * taken back by any process, and waits as its policy says. */
    redrive_delay_fn delay;
    void *delay_ctx; /* borrowed for the lifetime of the queue */
    /* Jobs are claimed when a thread is free for them, and not before. Without it a process claims
     * a few more while runs are short, so that its threads need not wait for the store: up to four
     * for each thread, as many as they run in the time that the store takes to answer. What no
     * thread has taken after 100 ms is given back and costs no attempt; after a crash it is taken
     * back when its lease ends, like what ran. */
    bool no_claim_ahead;
};

#define REDRIVE_CONCURRENCY_MAX 1024

/* From now on this process runs the jobs of `task` by calling `fn` with `arg`, which is borrowed
 * for the lifetime of the queue. NULL options mean all defaults. Before redrive_queue_work only:
 * STATE while it works. EXISTS: the task has a function. INVALID; RANGE; TOO_BIG: its name is too
 * long; NOMEM. UNKNOWN: the configuration says strict_tasks and does not have the task. */
REDRIVE_API int redrive_queue_handle(struct redrive_queue *queue, const char *task,
                                     redrive_task_fn fn, void *arg,
                                     const struct redrive_handle_options *options,
                                     struct redrive_err *err);

enum redrive_work_flags {
    /* Return when nothing is ready and nothing runs. Jobs that wait for their time, for a retry or
     * for a breaker are left where they are. */
    REDRIVE_WORK_UNTIL_IDLE = 1 << 0,
};

/* Takes jobs and runs them until redrive_queue_stop, or until there is nothing to do. Starts a
 * thread for each slot of each function; the calling thread extends leases and waits. Nothing is
 * polled: a thread without a job sleeps until there is one. Periodic tasks of the configuration
 * tick, also in a queue that is only open.
 *
 * While a function runs, its lease is extended at the task's `heartbeat`, and again soon after an
 * extension that failed. A job that was cancelled, or that another process has taken back (this one
 * was suspended, say), sees redrive_task_run_cancelled() become true, and what it returns does not
 * count. A job whose lease is over by the clock of this process, since the store was out of reach,
 * sees it too: if it returns a failure from then on, it is released, which costs no attempt; if it
 * returns 0, it has succeeded; neither counts if another process has taken the job back by then.
 * While a function runs no other attempt of its job starts in this queue.
 *
 * A store in trouble (a full disk, a locked file) does not end the work: what has ended is kept and
 * tried again, and the log says so.
 *
 * 0 after a stop or when idle; every run has returned and was settled by then, unless the store
 * would not take it: those are in the log, and run again when their lease has ended. STATE: another
 * thread works this queue, or no function was registered; NOMEM: no thread could be started; IO:
 * the tasks of the configuration could not be published, or, until idle, a shard was away, so that
 * its jobs were not looked at. */
REDRIVE_API int redrive_queue_work(struct redrive_queue *queue, unsigned flags,
                                   struct redrive_err *err);

/* Makes redrive_queue_work return: no more jobs are taken, and those that run have `grace_ms` to
 * end. Then they are asked to: redrive_task_run_cancelled() is true, and one that returns a failure
 * from then on is released, which costs no attempt; one that returns 0 has succeeded.
 *
 * A C function cannot be killed. Until the last one has returned, redrive_queue_work does not, and
 * leases are kept. If you cannot wait, leave by _exit(): the jobs are taken back when their leases
 * end, which counts as an attempt.
 *
 * From any thread, from inside a function, and from a signal handler (it is async-signal-safe).
 * Before redrive_queue_work it makes that return at once. Called again with less it shortens the
 * grace, 0: now. It cannot be undone; to work again, open the queue again. Submits and looks go
 * on. */
REDRIVE_API void redrive_queue_stop(struct redrive_queue *queue, int64_t grace_ms);

/* ---- Inside your function -------------------------------------------------------------------- */

/* What the job is. Pointers are valid until the function returns. */
REDRIVE_API const char *redrive_task_run_id(const struct redrive_task_run *run);
REDRIVE_API const char *redrive_task_run_task(const struct redrive_task_run *run);
REDRIVE_API const char *redrive_task_run_queue(const struct redrive_task_run *run);
REDRIVE_API const char *redrive_task_run_tenant(const struct redrive_task_run *run);
/* Terminated, so that it can be used as a string; "" when there is none. ret_len may be NULL. */
REDRIVE_API const char *redrive_task_run_payload(const struct redrive_task_run *run,
                                                 size_t *ret_len);
REDRIVE_API uint32_t redrive_task_run_attempt(const struct redrive_task_run *run); /* 1, 2, … */
REDRIVE_API uint32_t redrive_task_run_max_attempts(const struct redrive_task_run *run);
/* The traceparent that the job came with; NULL: none. */
REDRIVE_API const char *redrive_task_run_traceparent(const struct redrive_task_run *run);
/* The jobs that it has waited for, in the order of their submission: up to 100, with up to 256 KiB
 * of results together. One that was removed is not among them. Returns NULL and 0 for a job that
 * has waited for none. */
struct redrive_parent {
    const char *id;
    enum redrive_state state; /* as it is when this job is taken */
    const char *result;       /* terminated; "" when there is none */
    size_t result_len;
    bool result_omitted; /* it has a result, which does not fit: redrive_queue_job gives it */
};
REDRIVE_API const struct redrive_parent *redrive_task_run_parents(
    const struct redrive_task_run *run, size_t *ret_n);
/* The queue that runs it, to submit to. */
REDRIVE_API struct redrive_queue *redrive_task_run_owner(const struct redrive_task_run *run);

/* Until the job's deadline or the end of timeout_ms, whichever is sooner: what to give to a connect
 * or a read as its time-out. INT64_MAX when there is neither, never below 0. */
REDRIVE_API int64_t redrive_task_run_remaining_ms(const struct redrive_task_run *run);

/* True once the job was cancelled, its lease was lost or is over, its time-out has passed, or the
 * grace of a stop is over: return soon. Costs an atomic load, and with a time-out a look at the
 * clock. From any thread while the function runs. */
REDRIVE_API bool redrive_task_run_cancelled(const struct redrive_task_run *run);

/* Copies the facts of a failure and returns a value to return from the function; the last call
 * counts, and none of them if the function returns 0 after all. Text beyond REDRIVE_MESSAGE_MAX and
 * REDRIVE_STACKTRACE_MAX is cut. If there is no memory for the strings, the numbers are kept. NULL:
 * nothing is known. */
REDRIVE_API int redrive_task_run_fail(struct redrive_task_run *run,
                                      const struct redrive_failure *failure);

#define REDRIVE_RESULT_MAX (1024 * 1024)

/* Copies a result, any bytes, which is kept with the job if the function returns 0; the last call
 * counts. 0, TOO_BIG above REDRIVE_RESULT_MAX, or NOMEM; these leave the earlier result. Do not
 * return them from the function: it returns an errno, and NOMEM would be EPERM, a failure for good.
 */
REDRIVE_API int redrive_task_run_result(struct redrive_task_run *run, const void *data, size_t len);

/* Extends the lease now, to at least `lease_ms` from now (0: as the task says), and so shows
 * whether it is still held. Leases are extended by themselves; this is for a function that is about
 * to do what cannot be undone, or to suspend the process. STATE: it was lost or the job was
 * cancelled, and the outcome of the function does not count any more. RANGE: negative, or over 100
 * years. IO: the store could not be asked. */
REDRIVE_API int redrive_task_run_extend(struct redrive_task_run *run, int64_t lease_ms,
                                        struct redrive_err *err);

#ifdef __cplusplus
}
#endif

#endif
