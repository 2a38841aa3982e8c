/* event.h - what has happened to a job or a breaker, told once it has been committed.
 *
 * Each move of a job that is of interest outside is one event. A breaker whose state a transaction
 * has changed is one as well, told only by the process whose transaction it was. Counters, the log,
 * health and live views are all made from events, so that they cannot disagree.
 */
#ifndef ENGINE_EVENT_H
#define ENGINE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"
#include "redrive.h"

struct engine;
struct job;
struct gate;

/* Name in the log, in streams and in metrics, and name of its counter ("": none). An event that
 * ends an attempt has the name of the state that the job is in then, as in the history and in SQL.
 */
#define ENGINE_EVENT_MAP(XX)                     \
    XX(SUBMITTED, "submitted", "jobs_received")  \
    XX(STARTED, "started", "jobs_started")       \
    XX(COMPLETED, "completed", "jobs_completed") \
    XX(RETRYING, "retrying", "jobs_retried")     \
    XX(RELEASED, "released", "jobs_released")    \
    XX(DEAD, "dead_letter", "jobs_dlq")          \
    XX(FAILED, "failed", "jobs_failed")          \
    XX(CANCELLED, "cancelled", "jobs_cancelled") \
    XX(PARKED, "parked", "jobs_parked")          \
    XX(REDRIVEN, "redriven", "jobs_redriven")    \
    XX(BREAKER, "breaker", "")

enum engine_event_kind {
#define XX(name, text, counter) ENGINE_EVENT_##name,
    ENGINE_EVENT_MAP(XX)
#undef XX
    ENGINE_EVENT_COUNT
};

/* Strings live until the callback returns. */
struct engine_event {
    enum engine_event_kind kind;
    int64_t at_ms;
    int64_t seq;
    struct str tenant;
    struct str id;
    struct str task;
    struct str queue;
    struct str worker;
    uint32_t epoch;
    uint32_t attempt;
    uint32_t max_attempts;
    int64_t created_ms;        /* the job */
    int64_t first_started_ms;  /* likewise; 0: never */
    struct str traceparent;    /* that the job came with; absent: none */
    struct str arm;            /* `EXPERIMENT/ARM` of a job that was not redriven; absent: none */
    bool ran;                  /* an attempt has ended with it */
    int64_t run_ms;            /* how long that attempt took */
    int64_t wait_ms;           /* STARTED: since the job was due */
    int64_t delay_ms;          /* RETRYING, RELEASED */
    enum redrive_class class_; /* of an attempt that failed */
    enum redrive_severity severity;
    enum redrive_reason reason; /* DEAD, FAILED */
    bool unclassified;
    struct str message;

    /* BREAKER; of the above it has kind, at_ms and tenant only. */
    struct str breaker; /* its key */
    enum redrive_breaker_state was;
    enum redrive_breaker_state state;
    uint32_t failures;     /* in a row */
    double rate;           /* of failures in the window; negative: too few calls */
    int64_t next_probe_ms; /* 0: none is due */
};

typedef void (*engine_event_fn)(const struct engine_event *event, void *ctx);

const char *engine_event_name(enum engine_event_kind kind);
/* "jobs_received" …, "": it is not counted. */
const char *engine_event_counter(enum engine_event_kind kind);
/* The kind of event that a counter counts, or -1. */
int engine_event_counted(struct str counter);

/* Counters have a label of kind and name: "partition:main/mail" is what happened to jobs of the
 * task `mail` in the queue `main`, "class:network" are failures, "arm:patience/slow" are jobs of an
 * arm (report/experiments.h); without a label they are totals.
 *
 * Of the events that end an attempt some say nothing about how runs of a task go. They are counted
 * once more, for partitions alone: the end of a job that was not run (its deadline passed, it was
 * killed by hand), and runs that failed by the fault of the job itself.
 */
#define COUNTER_WITHOUT_RUN "ended_without_run"
#define COUNTER_OWN_FAULT   "failed_by_own_fault"

/* Takes the label of a partition apart; false: it is another one. A queue's name has no slash. */
bool counter_partition(struct str label, struct str *ret_queue, struct str *ret_task);

/* ---- Within the engine, in report/events.c --------------------------------------------------- */

/* An event about a job, with the names of the job and the transaction's time filled in. */
struct engine_event event_of(const struct engine *engine, enum engine_event_kind kind,
                             const struct job *job);

/* Keeps a copy until the transaction ends. Running out of memory shows in the transaction's arena.
 */
void event_add(struct engine *engine, const struct engine_event *event);

/* A breaker of which this transaction writes the row, if its state is not what the store has. */
void event_add_breaker(struct engine *engine, const struct gate *gate);

/* Adds what the transaction's events count to the counters of the store. */
int events_count(struct engine *engine, struct redrive_err *err);

/* After the commit: health, the log, the callback. */
void events_publish(struct engine *engine);

#endif
