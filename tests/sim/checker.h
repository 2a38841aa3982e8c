/* checker.h - an observer that believes nothing.
 *
 * It is fed with the events of a run and keeps books of its own: what state each job is in, how
 * many starts it has had, when it may start again, what the breaker has been told. It uses the
 * rules as they are written down, not the code that is meant to follow them; where it asks the
 * core at all (the bounds of a delay, the same decision once more) it says so.
 *
 * What it holds every event against
 *   1. time does not go back, and each event begins where the last one left the job
 *   2. a job moves only along the table of moves; ended is final but for a redrive
 *   3. attempt numbers rise by one and never pass the limit; a released start does not count, and
 *      nothing but a start counts
 *   4. no start before process_after
 *   5. a failure is retried when, and only when, class, lists, limits and time allow it
 *   6. a delay lies within the policy's bounds, and the same question gets the same answer
 *   7. an open breaker lets nothing through, a half-open one at most half_open_max probes, each
 *      until its result or the end of its lease; it changes state when it must and only then
 *   8. nothing is lost: at the end, submitted = ended + waiting, job by job
 *
 * The first violation sticks.
 */
#ifndef TESTS_SIM_CHECKER_H
#define TESTS_SIM_CHECKER_H

#include <stdio.h>

#include "sim/sim.h"

/* The books of one job. */
struct checker_job {
    enum redrive_state state;
    uint32_t epoch;
    uint32_t attempts;
    uint32_t limit; /* attempts that the last failure leaves it */
    uint32_t crashes;
    int64_t process_after_ms;
    int64_t first_start_ms; /* -1: none in this epoch */
    int64_t parked_at_ms;
    int64_t parked_ms;
    uint64_t period; /* of the breaker, at the start */
    bool is_probe;
};

/* The books of the breaker. A period is the time between two changes of state. */
struct checker_probe {
    uint32_t job;
    int64_t expires_ms;
};

struct checker_breaker {
    enum redrive_breaker_state state;
    uint64_t period;
    uint64_t generation;
    uint32_t consecutive;
    uint32_t successes; /* of probes in this period */
    uint32_t probe_failures;
    uint32_t slow_probes;
    bool probe_failed;    /* and is not judged together with others */
    int64_t lapsed_at_ms; /* the latest lease that ended, of probes that are judged together */
    int64_t opened_at_ms;
    struct checker_probe probes[REDRIVE_MAX_PROBES];
    uint32_t n_probes;
    int64_t *failures; /* times of counted failures in this period, a ring */
    size_t n_failures;
    int64_t *slow; /* the same of slow calls */
    size_t n_slow;
};

/* What the runs have shown, so that a test can tell whether it tested anything. */
struct checker_seen {
    uint64_t moves[REDRIVE_STATE_COUNT][REDRIVE_STATE_COUNT];
    uint64_t reasons[REDRIVE_REASON_COUNT];
    uint64_t classes[REDRIVE_CLASS_COUNT];
    uint64_t breaker[REDRIVE_BREAKER_STATE_COUNT][REDRIVE_BREAKER_STATE_COUNT];
    uint64_t endings[ENDING_BREAKER_OPEN + 1];
    uint64_t whys[DELAY_SNOOZE + 1];
    uint64_t probes;
    uint64_t lapsed;
    uint64_t judged_open; /* probes that were judged together, and opened it again */
    uint64_t judged_closed;
    uint64_t slow; /* slow calls opened it */
    uint64_t rejected;
    uint64_t starts;
    uint64_t last_attempts; /* starts that were the last allowed */
};

/* One line of a life, for the account. */
struct checker_line {
    int64_t at_ms;
    int64_t delay_ms;
    uint32_t job;
    uint32_t attempts;
    uint8_t type;
    uint8_t from;
    uint8_t to;
    uint8_t class_;
    uint8_t reason;
    uint8_t breaker;
    bool is_probe;
};

struct checker {
    const struct redrive_policy *policy;
    const struct redrive_breaker_config *breaker_config; /* NULL: there is no breaker */
    struct checker_breaker breaker;
    struct checker_job *jobs;
    uint32_t n_jobs;
    uint32_t jobs_capacity;
    struct checker_line *lines;
    size_t n_lines;
    size_t lines_capacity;
    int64_t now_ms;
    struct checker_seen seen;
    char violation[256]; /* empty: none so far */
    uint32_t violated_by;
};

void checker_init(struct checker *c);
void checker_release(struct checker *c);

/* Begins a new run; what has been seen is kept, memory too. */
void checker_begin(struct checker *c, const struct redrive_policy *policy,
                   const struct redrive_breaker_config *breaker);

/* The observer; its context is the struct checker. */
void checker_observe(const struct sim_event *event, void *ctx);

/* After the run: nothing is lost, and as every fault has stopped, nothing waits any more. */
void checker_finish(struct checker *c, const struct sim_totals *totals);

/* Prints the violation and the life of the job that it happened to. */
void checker_explain(const struct checker *c, FILE *out);

/* The table of moves as it is written down; for a test that compares it with the core's. */
bool checker_may_move(enum redrive_state from, enum redrive_state to);

/* For the files of the checker only: records the first violation; returns false. */
bool checker_violated(struct checker *c, uint32_t job, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* checker_settle.c: is this what must become of the job? False after a violation. */
bool checker_settled(struct checker *c, const struct sim_event *event, struct checker_job *j);

/* checker_breaker.c. Each returns false after a violation. */
void checker_breaker_begin(struct checker *c);
bool checker_breaker_start(struct checker *c, const struct sim_event *event);
void checker_breaker_result(struct checker *c, const struct sim_event *event);
bool checker_breaker_changed(struct checker *c, const struct sim_event *event);

#endif
