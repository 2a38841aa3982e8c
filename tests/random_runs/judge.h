/* judge.h - whether what processes answer and what the store holds agrees with the invariants of
 * docs/architecture.md.
 *
 * The judge shares no code with the engine or a store. It keeps its own account of each job from
 * the answers that clients and workers were given, and compares it with all rows of the store after
 * each step. An answer that was lost leaves both possibilities open until a row decides.
 */
#ifndef TESTS_SIMULATION_JUDGE_H
#define TESTS_SIMULATION_JUDGE_H

#include "core/decide.h"
#include "store/store.h"

#define JUDGE_JOBS_MAX 4096 /* of one run; ended jobs that are gone make room */
#define JUDGE_ID_MAX   40
#define JUDGE_AFTER    3 /* parents of a job, at the most */

enum belief {
    IS_NOT,   /* it has surely not happened */
    MAYBE,    /* its answer was lost */
    IS_SURELY /* it was acknowledged */
};

/* One job that another one waits for, as the client has asked for it, and what has become of it. */
enum waiting_for {
    AWAITED,
    ALLOWED, /* the parent has ended as it must */
    FORBIDDEN
};
struct known_edge {
    char parent[JUDGE_ID_MAX];
    int64_t parent_seq; /* 0: not seen yet */
    struct after_rule rule;
    enum waiting_for outcome;
};

/* What is known of a job. */
struct known {
    char id[JUDGE_ID_MAX];
    char key[JUDGE_ID_MAX];
    int task; /* number in TASKS, judge.c */
    int queue;
    int priority;
    uint64_t payload_hash;
    enum belief submitted;
    enum belief removed;
    int64_t not_before_ms; /* no start before the clock has shown this time */

    /* The latest run that was handed out. */
    uint64_t token; /* 0: none */
    int64_t lease_until_ms;
    enum belief run_ended;
    struct breaker_permit permit; /* under which it runs */
    enum redrive_state expected;  /* by an answer in this step; REDRIVE_STATE_COUNT: none */

    /* The row as it was after the last step. */
    bool was_there;
    int64_t seq; /* also of a job that was started in this step; 0: not known */
    enum redrive_state state;
    uint32_t epoch, attempts;
    int64_t finished_ms;
    int64_t due_ms; /* its process_after_ms */
    bool was_due;   /* the clock has shown that time, though it may have been set back since */
    enum belief redriven; /* in this step */

    /* Jobs that it waits for. */
    struct known_edge after[JUDGE_AFTER];
    size_t n_after;
    bool ended_waiting;     /* it was ended while it waited: what is left is decided by hand */
    unsigned ends;          /* bits of states in which answers of this step have ended it */
    enum redrive_state was; /* the state before the last step; _COUNT: no row */
    uint32_t was_in;        /* and the epoch */
    bool is_redriven_now;   /* in the last step, surely or maybe */
    uint32_t open;          /* parents, by the row */
};

/* The breaker of the task `call`, as far as answers tell: failures in a row open it. */
struct heard {
    bool counts;           /* it was closed, and nothing is in doubt since */
    uint64_t generation;   /* of the permits that count */
    int64_t called_ms;     /* the latest end of a call that counts */
    unsigned in_a_row;     /* failures */
    int64_t open_until_ms; /* no call before the clock has shown it, unless it is reset by hand */
};

/* A periodic task. */
struct known_cron {
    int64_t mark_ms; /* its last tick, after the last step; 0: none */
    size_t live;     /* its jobs that had not ended then */
    unsigned made;   /* jobs in this step, and when */
    int64_t made_ms;
};

/* The tasks, queues and settings that the judge knows; world.c gives the engines the same. */
enum {
    TASK_PLAIN,
    TASK_CALL,
    TASK_SLOW,
    TASK_COUNT /* those that clients submit; then those of cron entries, in judge_cron.c */
};
#define CRON_COUNT 3
extern const char *const TASK_NAMES[TASK_COUNT + CRON_COUNT];
extern const char *const QUEUE_NAMES[2];

struct judge {
    struct known *jobs; /* JUDGE_JOBS_MAX */
    size_t n;
    unsigned long ids; /* given out so far */
    enum belief paused[2];
    enum belief tripped; /* the breaker of the task `call`, by hand */
    struct heard breaker;
    struct known_cron crons[CRON_COUNT];
    int64_t latest_ms;        /* the latest time that the clock has shown in this step, */
    int64_t looked_ms;        /* and what it showed at the last look, after the step before */
    bool has_ticked;          /* a process has ticked in this step, or tried */
    int64_t ticked_ms;        /* the time of the last one that succeeded; 0: none */
    struct shared_page notes; /* while edges are judged: rows about jobs that are skipped later */
    char complaint[256];      /* empty: none */
    int invariant;
};

#define MAX_ATTEMPTS  4
#define SLOW_LIMIT    2
#define CALL_FAILURES 3
#define RECOVERY_MS   30000
#define DAY_MS        INT64_C(86400000)
#define CALL_PROBES   1
#define COMPLETED_MS  (60 * 60 * 1000) /* how long a completed or cancelled job is kept */
#define DEAD_DAYS     1
#define CRON_PAYLOAD  "{}"
#define JUDGE_CONFIG                                                                               \
    "retention: {completed: 1h, cancelled: 1h}\n"                                                  \
    "defaults:\n"                                                                                  \
    "  retry: {strategy: fixed, initial_delay: 5s, max_attempts: 4, jitter: false, "               \
    "total_timeout: 0s, dlq_retention_days: 1}\n"                                                  \
    "tasks:\n"                                                                                     \
    "  plain: {breaker: {failure_threshold: 0, failure_rate: 0}}\n"                                \
    "  call: {breaker: {failure_threshold: 3, failure_rate: 0, recovery_timeout: 30s, "            \
    "recovery_jitter: 0, half_open_max: 1}}\n"                                                     \
    "  slow: {breaker: {failure_threshold: 0, failure_rate: 0}, limits: {concurrency: 2}}\n"       \
    "  every: {breaker: {failure_threshold: 0, failure_rate: 0}}\n"                                \
    "  skips: {breaker: {failure_threshold: 0, failure_rate: 0}}\n"                                \
    "  queues: {breaker: {failure_threshold: 0, failure_rate: 0}}\n"                               \
    "cron:\n"                                                                                      \
    "  every: {task: every, schedule: \"* * * * *\", payload: " CRON_PAYLOAD ", overlap: allow}\n" \
    "  skips: {task: skips, schedule: \"*/2 * * * *\", payload: " CRON_PAYLOAD                     \
    ", overlap: skip}\n"                                                                           \
    "  queues: {task: queues, schedule: \"*/5 * * * *\", payload: " CRON_PAYLOAD                   \
    ", overlap: queue_one}\n"

void judge_init(struct judge *judge);
void judge_release(struct judge *judge);

/* Keeps the first complaint. */
void judge_complain(struct judge *judge, int invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The machine's clock shows this time, after it has moved on or was set. A time that it has shown
 * has come, and what waited for it may go: also after the clock was set back. */
void judge_time(struct judge *judge, int64_t now_ms);

/* Whether a request with this answer was carried out. */
enum belief judge_happened(int op_code, int code);
struct known *judge_find(struct judge *judge, struct str id);
struct known *judge_find_seq(struct judge *judge, int64_t seq);

/* A client submits; the answer follows. A repetition has the id of a job that is known. */
struct known *judge_submits(struct judge *judge, const struct job_spec *spec, int task, int queue);
void judge_submitted(struct judge *judge, struct known *known, int op_code, int code, bool existed);

/* A worker was given a job, now; it was started at another time if processes act in between. */
void judge_started(struct judge *judge, const struct job *job, int64_t start_ms, int64_t now_ms);
/* After a claim: whether a better job was left in the queue. `given` are those handed out. */
void judge_order(struct judge *judge, struct store *eye, const struct job *given, size_t n);

/* A worker has settled a run, by a transaction of this time. */
void judge_settled(struct judge *judge, int64_t seq, uint64_t token, int op_code, int code,
                   const struct decision *decision, int64_t at_ms);
void judge_extended(struct judge *judge, int64_t seq, uint64_t token, int op_code, int code,
                    int64_t until_ms, int64_t at_ms);
/* An operator has changed a job. */
void judge_changed(struct known *known, enum move_kind kind, int op_code, int code);

/* The breaker, in judge_breaker.c: it was tripped or reset by hand, or may have been. */
void judge_controlled(struct judge *judge, bool trip, int op_code);
/* A call has begun; has ended, or may have; the clock shows this time. */
void judge_breaker_started(struct judge *judge, const struct job *job, int64_t start_ms);
void judge_breaker_ended(struct judge *judge, const struct known *known, enum belief done,
                         enum breaker_result result, int64_t at_ms);
void judge_breaker_time(struct judge *judge, int64_t now_ms);

/* Jobs that wait, in judge_edges.c: compares the edges of the store with what was asked for, the
 * rows of the children and those of the parents. `jobs` are all rows; jobs that are gone are still
 * known. */
void judge_edges(struct judge *judge, struct store *eye, const struct job *jobs, size_t n);
/* A parent of the same request was not taken in: another job, which holds its unique key, stands
 * for it. */
void judge_stands_for(struct judge *judge, struct known *child, const char *name, struct str other);
/* Whether a job has to wait until a person does something about a dead parent. */
bool judge_is_held_up(struct judge *judge, const struct known *known);
/* Whether a live job waits, or has waited, for this one. */
bool judge_is_needed(const struct judge *judge, const struct known *known);

/* Periodic tasks, in judge_cron.c: makes a job known that a tick has made. NULL: it is no such job.
 */
struct known *judge_adopt(struct judge *judge, const struct job *job);
/* A process has ticked, with this answer and in a transaction of this time. */
void judge_ticked(struct judge *judge, int code, int64_t at_ms);
/* Compares the jobs and the marks of all entries with their schedules. */
void judge_crons(struct judge *judge, struct store *eye, int64_t now_ms);

/* Compares all rows of the store with what is known. `thorough`: counts and histories too. */
void judge_look(struct judge *judge, struct store *eye, int64_t now_ms, bool thorough);

#endif
