/* redrive.h - the public C interface of Redrive.
 *
 * Redrive runs work that fails: it retries by a policy one can reason about, classifies errors
 * by a table, holds work back while a service is down, and keeps what could not be done as dead
 * letters. This header gives all of that to a C program with no server and no store: make a
 * handler, submit functions to it.
 *
 *     struct redrive_handler *h = redrive_handler_new(NULL, NULL);
 *     int rc = redrive_call(h, "fetch-rates", fetch_rates, &rates, NULL);
 *     redrive_handler_free(h);
 *
 * Conventions
 *   - Functions that can fail return 0 or a negative code of REDRIVE_ERROR_MAP. Detail goes into
 *     the caller's struct redrive_err, which is untouched on success and may always be NULL.
 *   - `const char *` arguments are borrowed for the time of the call unless a comment says
 *     otherwise. Objects made by *_new are freed by *_free; structs filled by a call are emptied
 *     by *_release. Both accept NULL and empty objects.
 *   - All times are milliseconds. A zeroed field means "the default" or "absent". Policies, their
 *     rules and breaker configurations are the exception: there 0 is a value like others, and
 *     redrive_policy_init or redrive_breaker_config_init is where to begin.
 *   - A handler may be shared by any number of threads. Everything else belongs to one thread.
 *   - A handler or a queue that is NULL is REDRIVE_E_INVALID where a code is returned; elsewhere
 *     nothing is done, unless a comment says otherwise. A run is what your function was given, and
 *     never NULL.
 *   - A function of yours must return. What it runs under lies on the stack of its thread, and an
 *     exception that leaves it, a longjmp, a pthread_exit or a cancelled thread takes that away
 *     while the library still knows it. In C++ catch everything yourself; from C++17 on, with
 *     REDRIVE_STRICT_CALLBACKS defined before this header, the types of callbacks are noexcept, so
 *     that the compiler asks.
 *   - Until version 1.0 structs may grow between minor versions: recompile when you upgrade. The
 *     shared libraries are named after major and minor version for that reason, libredrive.so.0.1,
 *     and none replaces another; from 1.0 on they have the major version alone.
 */
#ifndef REDRIVE_H
#define REDRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDRIVE_VERSION_MAJOR 0
#define REDRIVE_VERSION_MINOR 1
#define REDRIVE_VERSION_PATCH 0
#define REDRIVE_VERSION       "0.1.0"

#if defined(__GNUC__)
#define REDRIVE_API __attribute__((visibility("default")))
#else
#define REDRIVE_API
#endif

/* C++17 made it a part of the type of a function; before that a typedef could not say it. It is not
 * the default, so that what is written for C compiles. */
#if defined(REDRIVE_STRICT_CALLBACKS) && defined(__cpp_noexcept_function_type)
#define REDRIVE_NOEXCEPT noexcept
#else
#define REDRIVE_NOEXCEPT
#endif

/* The version of the library that is linked, which may differ from REDRIVE_VERSION. */
REDRIVE_API const char *redrive_version(void);

/* ---- Errors -------------------------------------------------------------------------------
 *
 * One row an error: name, number, text, worth retrying?, HTTP status, exit code of the program.
 * Every surface (return codes, problem documents, exit codes) is made from this table. Numbers
 * are never reused.
 */
#define REDRIVE_ERROR_MAP(XX)                                      \
    XX(NOMEM, -1, "out of memory", true, 503, 1)                   \
    XX(INVALID, -2, "invalid argument", false, 400, 2)             \
    XX(PARSE, -3, "malformed input", false, 400, 2)                \
    XX(TOO_BIG, -4, "input is over the size limit", false, 413, 2) \
    XX(TOO_DEEP, -5, "input is nested too deeply", false, 400, 2)  \
    XX(RANGE, -6, "value is out of range", false, 400, 2)          \
    XX(UNKNOWN, -7, "unknown name", false, 400, 2)                 \
    XX(USAGE, -8, "wrong usage", false, 400, 2)                    \
    XX(CONFIG, -9, "invalid configuration", false, 400, 2)         \
    XX(NOT_FOUND, -10, "not found", false, 404, 1)                 \
    XX(EXISTS, -11, "already exists", false, 409, 1)               \
    XX(STATE, -12, "not possible in this state", false, 409, 1)    \
    XX(IO, -13, "input or output failed", true, 503, 1)            \
    XX(DENIED, -14, "permission denied", false, 403, 1)            \
    XX(BREAKER_OPEN, -15, "circuit breaker is open", true, 503, 1) \
    XX(CANCELLED, -16, "cancelled", false, 409, 1)                 \
    XX(DEADLINE, -17, "deadline passed", false, 504, 3)            \
    XX(JOB_FAILED, -18, "the job failed", false, 500, 3)           \
    XX(STOPPING, -19, "shutting down", true, 503, 1)               \
    XX(INTERNAL, -20, "internal error", false, 500, 1)             \
    XX(CORRUPT, -21, "stored data is damaged", false, 500, 1)

enum redrive_error {
#define REDRIVE_XX(name, number, text, retryable, http, exit_code) REDRIVE_E_##name = (number),
    REDRIVE_ERROR_MAP(REDRIVE_XX)
#undef REDRIVE_XX
};

/* What went wrong, for people: a short fact, a detail, a hint. Unused parts are empty strings. */
struct redrive_err {
    int code; /* 0 or one of enum redrive_error */
    char message[256];
    char detail[512];
    char hint[256];
};

/* Facts about a code; a number that is not in the table gives those of REDRIVE_E_INTERNAL. */
REDRIVE_API const char *redrive_err_name(int code);
REDRIVE_API const char *redrive_err_text(int code);
REDRIVE_API bool redrive_err_retryable(int code);
REDRIVE_API int redrive_err_http_status(int code);
REDRIVE_API int redrive_err_exit_code(int code);

/* ---- Vocabulary ------------------------------------------------------------------------------ */

/* Failure classes: name, is it retried?, does it count against the breaker?, default severity. */
#define REDRIVE_CLASS_MAP(XX)                              \
    XX(SUCCESS, "success", false, false, INFO)             \
    XX(TRANSIENT, "transient", true, true, WARNING)        \
    XX(RATE_LIMITED, "rate_limited", true, false, WARNING) \
    XX(NETWORK, "network", true, true, WARNING)            \
    XX(SYSTEM, "system", true, false, ERROR)               \
    XX(DATABASE, "database", true, true, WARNING)          \
    XX(PERMANENT, "permanent", false, false, ERROR)        \
    XX(VALIDATION, "validation", false, false, ERROR)      \
    XX(AUTHENTICATION, "authentication", false, true, CRITICAL)

enum redrive_class {
#define REDRIVE_XX(name, text, retried, counts, severity) REDRIVE_CLASS_##name,
    REDRIVE_CLASS_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_CLASS_COUNT
};

#define REDRIVE_SEVERITY_MAP(XX) \
    XX(INFO, "info")             \
    XX(WARNING, "warning")       \
    XX(ERROR, "error")           \
    XX(CRITICAL, "critical")

enum redrive_severity {
    REDRIVE_SEVERITY_OF_CLASS, /* no severity: in a redrive_classify_row, as its class says */
#define REDRIVE_XX(name, text) REDRIVE_SEVERITY_##name,
    REDRIVE_SEVERITY_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_SEVERITY_COUNT
};

/* States of a job. `scheduled` and `retrying` are time-locked; those from `completed` to
 * `cancelled` have ended; `waiting` is for other jobs to end. */
#define REDRIVE_STATE_MAP(XX)      \
    XX(SCHEDULED, "scheduled")     \
    XX(RETRYING, "retrying")       \
    XX(QUEUED, "queued")           \
    XX(RUNNING, "running")         \
    XX(PARKED, "parked")           \
    XX(COMPLETED, "completed")     \
    XX(FAILED, "failed")           \
    XX(DEAD_LETTER, "dead_letter") \
    XX(CANCELLED, "cancelled")     \
    XX(WAITING, "waiting")

enum redrive_state {
#define REDRIVE_XX(name, text) REDRIVE_STATE_##name,
    REDRIVE_STATE_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_STATE_COUNT
};

/* Why a job ended without success. */
#define REDRIVE_REASON_MAP(XX)         \
    XX(NONE, "none")                   \
    XX(EXHAUSTED, "exhausted")         \
    XX(NOT_RETRIABLE, "not_retriable") \
    XX(DEADLINE, "deadline")           \
    XX(POISON, "poison")               \
    XX(BREAKER_OPEN, "breaker_open")   \
    XX(MANUAL, "manual")               \
    XX(DAMAGED, "damaged")             \
    XX(SKIPPED, "skipped") /* a job that it waited for did not end as it must */

enum redrive_reason {
#define REDRIVE_XX(name, text) REDRIVE_REASON_##name,
    REDRIVE_REASON_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_REASON_COUNT
};

#define REDRIVE_BREAKER_STATE_MAP(XX) \
    XX(CLOSED, "closed")              \
    XX(OPEN, "open")                  \
    XX(HALF_OPEN, "half_open")        \
    XX(FORCED_OPEN, "forced_open")    \
    XX(DISABLED, "disabled")

enum redrive_breaker_state {
#define REDRIVE_XX(name, text) REDRIVE_BREAKER_##name,
    REDRIVE_BREAKER_STATE_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_BREAKER_STATE_COUNT
};

/* What a job meets when its breaker is open: it waits without using an attempt, it ends, or the
 * submit is refused. */
#define REDRIVE_ON_OPEN_MAP(XX)    \
    XX(PARK, "park")               \
    XX(DEAD_LETTER, "dead_letter") \
    XX(REJECT, "reject")

enum redrive_on_open {
#define REDRIVE_XX(name, text) REDRIVE_ON_OPEN_##name,
    REDRIVE_ON_OPEN_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_ON_OPEN_COUNT
};

#define REDRIVE_STRATEGY_MAP(XX)   \
    XX(EXPONENTIAL, "exponential") \
    XX(LINEAR, "linear")           \
    XX(FIXED, "fixed")             \
    XX(IMMEDIATE, "immediate")     \
    XX(POLYNOMIAL, "polynomial")   \
    XX(DELAYS, "delays")           \
    XX(CUSTOM, "custom")

enum redrive_strategy {
#define REDRIVE_XX(name, text) REDRIVE_STRATEGY_##name,
    REDRIVE_STRATEGY_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_STRATEGY_COUNT
};

#define REDRIVE_JITTER_MAP(XX)       \
    XX(NONE, "none")                 \
    XX(FULL, "full")                 \
    XX(EQUAL, "equal")               \
    XX(ADD, "add")                   \
    XX(SPREAD, "spread")             \
    XX(STEP, "step")                 \
    XX(DECORRELATED, "decorrelated") \
    XX(AUTO, "auto")

enum redrive_jitter_mode {
#define REDRIVE_XX(name, text) REDRIVE_JITTER_##name,
    REDRIVE_JITTER_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_JITTER_COUNT
};

/* The names of the tables above; a number out of range gives "unknown". */
REDRIVE_API const char *redrive_class_name(enum redrive_class class_);
REDRIVE_API const char *redrive_severity_name(enum redrive_severity severity);
REDRIVE_API const char *redrive_state_name(enum redrive_state state);
REDRIVE_API const char *redrive_reason_name(enum redrive_reason reason);
REDRIVE_API const char *redrive_breaker_state_name(enum redrive_breaker_state state);
REDRIVE_API const char *redrive_on_open_name(enum redrive_on_open on_open);
REDRIVE_API const char *redrive_strategy_name(enum redrive_strategy strategy);
REDRIVE_API const char *redrive_jitter_name(enum redrive_jitter_mode mode);

/* ---- Retry policy -------------------------------------------------------------------------
 *
 * For retry n = 1, 2, …:
 *   exponential  initial_delay · multiplier^(n−1)
 *   linear       initial_delay + backoff_factor · (n−1)
 *   fixed        initial_delay
 *   immediate    0, whatever jitter and min_delay say
 *   polynomial   initial_delay + (n−1)^exponent seconds
 *   delays       number n of a list, of which the last one repeats; neither max_delay nor min_delay
 *                holds for it
 *   custom       what the callback returns
 * The delay is capped at max_delay, then jittered, then clamped to [min_delay, max_delay].
 */

/* The delay in ms before retry n. `seed` is the job's: the same (n, seed) must give the same
 * answer, so that a schedule can be replayed. */
typedef int64_t (*redrive_delay_fn)(uint32_t n, uint64_t seed, void *ctx) REDRIVE_NOEXCEPT;

/*   none          d
 *   full          U(0, d)
 *   equal         d/2 + U(0, d/2)
 *   add           d + U(min·d, max·d)
 *   spread        d · U(1 − max, 1 + max)
 *   step          d + U(0, step_ms) · n
 *   decorrelated  min(max_delay, U(initial_delay, 3 · previous delay)); the strategy has no say
 *   auto          full for exponential and polynomial, none for the others
 */
struct redrive_jitter {
    enum redrive_jitter_mode mode;
    double min; /* add */
    double max; /* add, spread */
    int64_t step_ms;
};

struct redrive_backoff {
    enum redrive_strategy strategy;
    int64_t initial_delay_ms;
    int64_t min_delay_ms;
    int64_t max_delay_ms;
    double multiplier;
    double backoff_factor; /* seconds */
    double exponent;
    struct redrive_jitter jitter;
    const int64_t *delays_ms; /* strategy delays; borrowed */
    size_t n_delays;          /* 1 to REDRIVE_DELAYS_MAX */
    redrive_delay_fn custom;
    void *custom_ctx;
};

#define REDRIVE_DELAYS_MAX 1000

/* How one failure class is retried, where it differs from the rest of the policy. Begin with a copy
 * of the policy's backoff: a rule has no defaults of its own. */
struct redrive_class_rule {
    struct redrive_backoff backoff;
    int32_t max_retries; /* of the job, whatever their class; 0: none, -1: as the policy says */
};

/* Every class but success, for redrive_match.classes. */
#define REDRIVE_ALL_FAILURES ((1u << REDRIVE_CLASS_COUNT) - 1 - (1u << REDRIVE_CLASS_SUCCESS))

/* A list of failure classes and error type names. A type name matches the whole type, its last
 * component (`httpx.HTTPError` is matched by `HTTPError`), or as a glob (`*Timeout*`); any of the
 * types that a failure names may be the one that matches. */
struct redrive_match {
    uint32_t classes; /* bit 1u << enum redrive_class */
    const char *const *types;
    size_t n_types;
};

struct redrive_policy {
    struct redrive_backoff backoff;
    int32_t max_retries;      /* 0: none */
    int64_t total_timeout_ms; /* from the first start; parked time does not count; 0: none */
    bool enable_dlq;
    int32_t dlq_retention_days;                               /* 0: kept until it is removed */
    const struct redrive_class_rule *on[REDRIVE_CLASS_COUNT]; /* borrowed; NULL: `backoff` */
    /* Both are borrowed. give_up_on beats retry_on, which beats the class's own verdict. With
     * retry_on, what it does not list is not retried, except for what is not the job's doing: a
     * lost lease or a worker that was killed, which give_up_on stops if it lists `system`. */
    struct redrive_match retry_on; /* empty: the class decides */
    struct redrive_match give_up_on;
};

#define REDRIVE_MAX_RETRIES 100000

/* Fills in the defaults: exponential 1 s × 3 up to 60 s with full jitter, 5 retries within
 * 5 minutes, dead letters kept for 7 days. */
REDRIVE_API void redrive_policy_init(struct redrive_policy *policy);

/* Fills in a named profile (`redrive policy explain --help` lists them), or fails with UNKNOWN. */
REDRIVE_API int redrive_policy_profile(struct redrive_policy *policy, const char *name,
                                       struct redrive_err *err);

/* Refuses what cannot be meant: negative or NaN delays, a multiplier below 1, max_delay below
 * min_delay, more than REDRIVE_MAX_RETRIES retries, a custom strategy with no callback, a list of
 * delays with nothing in it. */
REDRIVE_API int redrive_policy_check(const struct redrive_policy *policy, struct redrive_err *err);

/* The delay in ms before retry n = 1, 2, … of a job, by the policy's own backoff. `epoch` is 0 for
 * a job that was never redriven, and one more with each redrive. Pure. */
REDRIVE_API int64_t redrive_policy_delay(const struct redrive_policy *policy, uint32_t n,
                                         const char *job_id, uint32_t epoch);

/* ---- Breakers -------------------------------------------------------------------------------- */

struct redrive_breaker_config {
    uint32_t failure_threshold;  /* consecutive counted failures that open it; 0: rule off */
    double failure_rate;         /* share of failures in the window that opens it; 0: rule off */
    uint32_t min_calls;          /* fewer calls than this in the window prove nothing */
    int64_t window_ms;           /* it looks back on so much time … */
    uint32_t window_calls;       /* … or, unless this is 0, on so many calls */
    int64_t slow_call_ms;        /* a call that takes longer is slow; 0: rule off */
    double slow_rate;            /* share of slow calls in the window that opens it; 0: rule off */
    int64_t recovery_timeout_ms; /* open for this long before a probe */
    double recovery_multiplier;  /* growth of recovery_timeout with each failed probe */
    int64_t recovery_max_ms;
    double recovery_jitter; /* 0.1: ±10 % */
    uint32_t half_open_max; /* probes out at one time, at most REDRIVE_MAX_PROBES */
    uint32_t success_threshold;
    double half_open_rate;  /* unless 0: half_open_max probes go, and this share of failures among
                             * them opens it again, less closes it */
    int64_t probe_lease_ms; /* a probe without a result for this long has failed */
    enum redrive_on_open on_open;
    double release_rate;   /* jobs/s let go after closing */
    double release_growth; /* added to it with each healthy second */
};

#define REDRIVE_MAX_PROBES       16
#define REDRIVE_MAX_WINDOW_CALLS 1024

/* Fills in the defaults: 5 in a row or half of at least 20 calls in 10 s open it for 30 s. */
REDRIVE_API void redrive_breaker_config_init(struct redrive_breaker_config *config);
REDRIVE_API int redrive_breaker_config_check(const struct redrive_breaker_config *config,
                                             struct redrive_err *err);

struct redrive_breaker_status {
    const char *name; /* owned by the handler, valid as long as it */
    enum redrive_breaker_state state;
    uint64_t generation;
    uint32_t failure_count; /* consecutive, counted */
    uint32_t success_count; /* of the probes, while half open */
    double rate;            /* of failures in the window; -1 below min_calls */
    double slow_rate;       /* of slow calls in the window; -1 below min_calls, or rule off */
    int64_t opened_at_ms;   /* 0: never */
    int64_t next_probe_ms;  /* 0: none is due */
    uint32_t parked;
    struct redrive_breaker_config config;
};

/* ---- Outcomes ------------------------------------------------------------------------------
 *
 * The facts about how a run ended. Whatever is known is set; the classification table makes a class
 * of it. Strings are borrowed for the time of the call.
 */
#define REDRIVE_ERROR_TYPES_MAX 64

struct redrive_failure {
    const char *status;     /* SUCCESS, TRANSIENT_FAIL, PERMANENT_FAIL or a class; beats the rest */
    const char *error_type; /* "httpx.ConnectError", "java.net.SocketTimeoutException" … */
    /* The types that it is an instance of, the most derived first, with or without error_type
     * itself: lists and rows that name one of them match, as `except` does in Python. Those beyond
     * REDRIVE_ERROR_TYPES_MAX are not looked at. */
    const char *const *error_types;
    size_t n_error_types;
    const char *message;
    const char *stacktrace;
    const char *sqlstate;
    int http_status;
    int curl_code;
    int errnum;
    int signal;
    int exit_code;
    int64_t retry_after_ms; /* what the other side asked for: a floor, up to one hour */
    bool failed;            /* it failed, even if nothing above says so */
};

/* The value of an HTTP Retry-After header, seconds or a date, in ms from now: for retry_after_ms.
 * 0 when it is NULL, malformed or past. */
REDRIVE_API int64_t redrive_retry_after_ms(const char *value, int64_t now_ms);

/* What a row looks at, in the order in which an outcome that carries several is tried. */
#define REDRIVE_SOURCE_MAP(XX)     \
    XX(STATUS, "status")           \
    XX(ERROR_TYPE, "error_type")   \
    XX(HTTP_STATUS, "http_status") \
    XX(SQLSTATE, "sqlstate")       \
    XX(CURL, "curl")               \
    XX(ERRNO, "errno")             \
    XX(SIGNAL, "signal")           \
    XX(EXIT_CODE, "exit_code")     \
    XX(MESSAGE, "message")

enum redrive_source {
#define REDRIVE_XX(name, text) REDRIVE_SOURCE_##name,
    REDRIVE_SOURCE_MAP(REDRIVE_XX)
#undef REDRIVE_XX
    REDRIVE_SOURCE_COUNT
};

/* A row of the classification table: the first that matches wins, and yours come before the
 * built-in ones. The pattern is
 *   status       the word, exactly
 *   error_type   the type, its last component, or a glob
 *   http_status, curl, exit_code   a number or a range, "500-599"
 *   errno, signal   a name or a number, "ECONNRESET", "SIGKILL"
 *   sqlstate     a prefix, "40"
 *   message      a POSIX extended regular expression, found anywhere, case ignored
 * `task`, `queue`, `service` and `user` limit the row to jobs that carry them; NULL: all. */
struct redrive_classify_row {
    enum redrive_source source;
    const char *pattern;
    enum redrive_class class_;
    enum redrive_severity severity; /* zeroed: that of the class */
    const char *task;
    const char *queue;
    const char *service;
    const char *user;
};

/* ---- The core by itself ---------------------------------------------------------------------
 *
 * The functions that decide, for programs that keep their jobs themselves and for bindings of other
 * languages. The handler, the queue and the simulator call the same ones. Time is an argument, and
 * nothing waits.
 */

/* Rows of classification, compiled. It does not change: threads may share it. */
struct redrive_classifier;

/* Copies and compiles `rows`, which come before the built-in ones. NULL when a pattern is wrong,
 * and `err` has the number of the row, or when memory is out. */
REDRIVE_API struct redrive_classifier *redrive_classifier_new(
    const struct redrive_classify_row *rows, size_t n_rows, struct redrive_err *err);
REDRIVE_API void redrive_classifier_free(struct redrive_classifier *classifier);

/* Whose failure it is, for rows that are limited to a task, queue, service or user; NULL: unknown.
 */
struct redrive_names {
    const char *task;
    const char *queue;
    const char *service;
    const char *user;
};

struct redrive_verdict {
    enum redrive_class class_;
    enum redrive_severity severity;
    bool unclassified; /* no row matched: it is taken for transient */
};

/* The class of an outcome; one in which nothing indicates a failure is a success. A NULL classifier
 * has the built-in rows alone; NULL names are all unknown. */
REDRIVE_API struct redrive_verdict redrive_classify(const struct redrive_classifier *classifier,
                                                    const struct redrive_failure *failure,
                                                    const struct redrive_names *names);

/* What the decision about a job depends on, beside its failure. */
struct redrive_facts {
    const char *job_id;     /* with `epoch` the seed of its delays; NULL is as "" */
    uint32_t epoch;         /* redrives so far */
    uint32_t attempts;      /* starts of this epoch, the one that just ended included */
    int64_t elapsed_ms;     /* since the first start of the epoch, less the time spent parked */
    int64_t deadline_in_ms; /* until the job's own deadline; 0: none */
    bool is_probe;          /* it ran as the probe of a breaker */
    struct redrive_names names;
};

/* How a call went, as far as a breaker is concerned. */
enum redrive_call_result {
    REDRIVE_CALL_SUCCESS,
    REDRIVE_CALL_FAILURE,
    REDRIVE_CALL_NEUTRAL,  /* it failed in a way that says nothing about the service */
    REDRIVE_CALL_RETURNED, /* it did not come to an end: a probe is given back */
};

struct redrive_decision {
    enum redrive_state state; /* completed, retrying, dead_letter or failed */
    int64_t delay_ms;         /* retrying: until the next attempt */
    enum redrive_reason reason;
    enum redrive_class class_;
    enum redrive_severity severity;
    enum redrive_call_result breaker; /* to be reported to the breaker */
    bool unclassified;
};

/* What becomes of a job that has just run. A NULL failure, or one that says nothing, is a success.
 * The policy has passed redrive_policy_check. Pure, unless the policy has a custom strategy. */
REDRIVE_API struct redrive_decision redrive_decide(const struct redrive_facts *facts,
                                                   const struct redrive_failure *failure,
                                                   const struct redrive_policy *policy,
                                                   const struct redrive_classifier *classifier);

/* A circuit breaker without a handler. It has no lock: one thread at a time. All times are those of
 * one clock of the caller's, which may start anywhere. */
struct redrive_circuit;

/* Leave to make one call; it goes back through redrive_circuit_record. */
struct redrive_permit {
    uint64_t generation;
    uint64_t probe; /* not 0: the call is a probe */
};

/* NULL config: redrive_breaker_config_init. `seed` is of the recovery jitter. NULL when the
 * configuration is wrong or memory is out. */
REDRIVE_API struct redrive_circuit *redrive_circuit_new(const struct redrive_breaker_config *config,
                                                        uint64_t seed, struct redrive_err *err);
REDRIVE_API void redrive_circuit_free(struct redrive_circuit *circuit);
/* May a call go now? If so fills the permit. */
REDRIVE_API bool redrive_circuit_allow(struct redrive_circuit *circuit, int64_t now_ms,
                                       struct redrive_permit *ret);
/* Reports how a permitted call went, and how long it took. A permit of before the last change of
 * state changes nothing. */
REDRIVE_API void redrive_circuit_record(struct redrive_circuit *circuit,
                                        struct redrive_permit permit,
                                        enum redrive_call_result result, int64_t took_ms,
                                        int64_t now_ms);
/* When a call may next be let through; 0: now, or not before a reset. */
REDRIVE_API int64_t redrive_circuit_next_ms(const struct redrive_circuit *circuit);
/* `name` is NULL and `parked` 0: there is no handler that could know them. */
REDRIVE_API void redrive_circuit_status(const struct redrive_circuit *circuit, int64_t now_ms,
                                        struct redrive_breaker_status *ret);
/* By hand: close it, hold it open, or let everything through; the last two until a reset. */
REDRIVE_API void redrive_circuit_reset(struct redrive_circuit *circuit);
REDRIVE_API void redrive_circuit_trip(struct redrive_circuit *circuit, int64_t now_ms);
REDRIVE_API void redrive_circuit_disable(struct redrive_circuit *circuit);

/* ---- The in-process handler ----------------------------------------------------------------
 *
 * A handler starts no threads: a job runs, waits and is retried in the thread that submits it.
 * Threads meet in the handler's breakers, its limit on concurrency, its dead letters and its
 * counters. One mutex guards these; it is never held while a function of yours is called, with
 * the one exception of redrive_clock.now_ms.
 */

struct redrive_handler; /* opaque; shared by threads */
struct redrive_run;     /* one attempt, inside your function; its thread only */

/* Your work. Return 0 for success. For failure return a negative errno (-ECONNREFUSED), or call
 * redrive_run_fail() with what is known and return its value. Any other value is a failure about
 * which nothing is known: class transient, counted as unclassified.
 *
 * It must return. If an exception, longjmp or pthread_exit leaves redrive_submit, or its thread is
 * cancelled there, the job stays in the handler for ever: its id is REDRIVE_E_EXISTS, its slot
 * under `concurrency` is taken, redrive_handler_stop waits for it without end, and the thread must
 * not call any handler again. */
typedef int (*redrive_fn)(struct redrive_run *run, void *arg) REDRIVE_NOEXCEPT;

/* What the job is. Pointers are valid until the function returns. */
REDRIVE_API const char *redrive_run_job_id(const struct redrive_run *run);
REDRIVE_API const char *redrive_run_task(const struct redrive_run *run);
REDRIVE_API const void *redrive_run_payload(const struct redrive_run *run, size_t *ret_len);
REDRIVE_API uint32_t redrive_run_attempt(const struct redrive_run *run); /* 1, 2, … */
/* The most attempts that the policy allows after any class of failure. */
REDRIVE_API uint32_t redrive_run_max_attempts(const struct redrive_run *run);
/* Until the job's deadline or its policy's total_timeout, whichever is sooner: what to give to a
 * connect or a read as its time-out. INT64_MAX when there is neither, never below 0. */
REDRIVE_API int64_t redrive_run_remaining_ms(const struct redrive_run *run);
/* True once the job was cancelled or the handler is being stopped: return soon. Costs two atomic
 * loads. */
REDRIVE_API bool redrive_run_cancelled(const struct redrive_run *run);

/* Copies the facts of a failure and returns a value to return from the function; the last call
 * counts, and none of them if the function returns 0 after all. Text beyond the limits is cut. If
 * there is no memory for the strings, the numbers are kept. */
REDRIVE_API int redrive_run_fail(struct redrive_run *run, const struct redrive_failure *failure);

#define REDRIVE_MESSAGE_MAX    4096
#define REDRIVE_STACKTRACE_MAX 65536

/* Copies a result for struct redrive_result. What the last attempt gave is handed out, also when
 * the job failed. 0 or REDRIVE_E_NOMEM, which leaves the earlier result. */
REDRIVE_API int redrive_run_result(struct redrive_run *run, const void *data, size_t len);

enum redrive_event_type {
    REDRIVE_EVENT_RECEIVED,
    REDRIVE_EVENT_STARTED,
    REDRIVE_EVENT_COMPLETED,
    REDRIVE_EVENT_RETRYING,
    REDRIVE_EVENT_PARKED,
    REDRIVE_EVENT_DEAD_LETTER,
    REDRIVE_EVENT_FAILED,
    REDRIVE_EVENT_CANCELLED,
    REDRIVE_EVENT_REDRIVEN,
    REDRIVE_EVENT_BREAKER,
};
REDRIVE_API const char *redrive_event_name(enum redrive_event_type type);

/* One thing that happened. All pointers are borrowed for the time of the callback. */
struct redrive_event {
    enum redrive_event_type type;
    int64_t at_ms;
    const char *job_id;  /* NULL for breaker events */
    const char *task;    /* NULL for breaker events */
    const char *service; /* the breaker's name */
    uint32_t attempt;
    uint32_t max_attempts;
    enum redrive_class class_;
    enum redrive_severity severity;
    enum redrive_reason reason;
    const char *message; /* of the failure, or NULL */
    int64_t delay_ms;    /* retrying */
    enum redrive_breaker_state breaker;
    double health_score;
    double error_rate;
};

/* Called from the thread that caused the event, with no lock held; it may call the handler, but
 * not redrive_handler_free. The events of one job come in their order; those of different threads
 * may arrive at the same time. */
typedef void (*redrive_monitor_fn)(const struct redrive_event *event, void *ctx) REDRIVE_NOEXCEPT;

/* Time, injected: give both functions, or neither for the system's clock (waiting and measuring
 * by the monotonic one, timestamps by the wall clock).
 *
 * An injected clock is virtual time, which makes tests with many threads repeatable. It moves
 * only when nothing else can happen: once every thread inside the handler is waiting, one of them
 * calls `wait_ms` with the time to the nearest thing that is due, and no second one does so
 * meanwhile. So time stands still while a function runs, unless the function moves the clock. The
 * usual `wait_ms` adds `ms` to the clock; it may also sleep, and may return early. `now_ms` may be
 * called with the handler locked, so it must not call it, and by several threads at once, also
 * during a `wait_ms`. The clock may start anywhere and should not go back; if it does, things
 * happen late, never early. */
struct redrive_clock {
    int64_t (*now_ms)(void *ctx) REDRIVE_NOEXCEPT;
    void (*wait_ms)(int64_t ms, void *ctx) REDRIVE_NOEXCEPT;
    void *ctx;
};

/* Zeroed fields mean the defaults. Everything is copied by redrive_handler_new, strings and what
 * the policy points at too; only the contexts of callbacks are borrowed, for the lifetime of the
 * handler. */
struct redrive_handler_options {
    const char *name;                             /* "redrive" */
    const struct redrive_policy *policy;          /* redrive_policy_init */
    const struct redrive_breaker_config *breaker; /* redrive_breaker_config_init */
    const struct redrive_classify_row *classify;  /* your rows, before the built-in ones */
    size_t n_classify;
    uint32_t concurrency;    /* runs at one time, by priority, then oldest first; 0: no limit */
    size_t max_dead_letters; /* 10 000; beyond it the oldest is dropped and counted */
    double healthy_from;     /* the least health_score that is "healthy"; 0.8 */
    double degraded_from;    /* the least that is "degraded"; 0.5 */
    uint64_t seed;           /* of job ids; 0: from the system */
    redrive_monitor_fn monitor;
    void *monitor_ctx;
    struct redrive_clock clock;
};

/* NULL options mean all defaults. NULL when something in them is invalid or memory is out; `err`
 * says which. Free it with redrive_handler_free. */
REDRIVE_API struct redrive_handler *redrive_handler_new(
    const struct redrive_handler_options *options, struct redrive_err *err);

/* No thread may be inside the handler any more: see redrive_handler_stop. NULL does nothing. */
REDRIVE_API void redrive_handler_free(struct redrive_handler *handler);

/* Cancels every job that is waiting, asks running ones to return, refuses new ones with
 * REDRIVE_E_STOPPING, and waits until all callers have left. It cannot be undone; the dead
 * letters can still be read.
 *
 * Called from inside a job, that is from its function or from the monitor during an event of this
 * job, it asks, but does not wait. A monitor that was called by redrive_breaker_trip and its like,
 * or by a submit that is refused, is inside of none: there it waits. */
REDRIVE_API void redrive_handler_stop(struct redrive_handler *handler);

REDRIVE_API const char *redrive_handler_name(const struct redrive_handler *handler);

/* The handler with all defaults that redrive_call uses when it is given none: made on first use,
 * shared by the process; do not free it. NULL when memory was out. */
REDRIVE_API struct redrive_handler *redrive_handler_default(void);

/* The longest id of a job in bytes, here and in a queue. */
#define REDRIVE_ID_MAX 255

/* What to run. Only `task` is required. All pointers are borrowed until the call returns; a dead
 * letter keeps copies. */
struct redrive_job {
    const char *id; /* up to REDRIVE_ID_MAX bytes, unique among live jobs; NULL: a new UUIDv7 */
    const char *task;
    const char *service; /* the breaker's name; NULL: the task */
    const char *queue;
    const char *user;
    const char *project;
    int priority; /* -100 … 100, higher first, where `concurrency` makes jobs wait */
    const void *payload;
    size_t payload_len;
    const struct redrive_policy *policy; /* NULL: the handler's. A dead letter's copy has the same
                                            contexts of custom strategies */
    int64_t deadline_ms; /* from now; waiting of every kind counts, unlike total_timeout; 0: none */
};

struct redrive_result {
    char id[REDRIVE_ID_MAX + 1];
    enum redrive_state state; /* completed, failed, dead_letter or cancelled */
    enum redrive_reason reason;
    enum redrive_class class_; /* of the last failure */
    uint32_t attempts;
    int64_t elapsed_ms;
    int64_t parked_ms;
    void *data; /* what redrive_run_result gave; freed by redrive_result_release */
    size_t len;
    struct redrive_err error; /* code 0 on success */
};

REDRIVE_API void redrive_result_release(struct redrive_result *result);

/* Runs `fn` in the calling thread until it succeeds or the policy gives up. Returns 0 when it
 * completed. `ret` may be NULL; it is filled either way, whatever was in it, and belongs to the
 * caller.
 *
 *   JOB_FAILED, DEADLINE   it ended without success: `ret` says how, and a dead letter was kept if
 *                          the policy wants them (state dead_letter) and memory sufficed (else
 *                          state failed)
 *   CANCELLED              by redrive_cancel or redrive_handler_stop
 *   INVALID, RANGE, EXISTS, STOPPING, BREAKER_OPEN, NOMEM
 *                          refused: `fn` was not called, and there is neither event nor count
 *                          (state failed). INVALID and RANGE: a field or the policy is wrong;
 *                          EXISTS: a live job has this id; BREAKER_OPEN: on_open is reject
 *
 * Time spent parked or waiting for a turn does not count for total_timeout, but does for the
 * deadline. A function may submit to its own handler: the inner job needs no further turn. */
REDRIVE_API int redrive_submit(struct redrive_handler *handler, const struct redrive_job *job,
                               redrive_fn fn, void *arg, struct redrive_result *ret);

/* redrive_submit in one line, for a job that is nothing but its task name. A NULL handler means
 * redrive_handler_default(). */
REDRIVE_API int redrive_call(struct redrive_handler *handler, const char *task, redrive_fn fn,
                             void *arg, struct redrive_result *ret);

/* From another thread, or from a monitor: a waiting job ends at once, a running one is asked to
 * return and then is not retried (it completes if it succeeds nevertheless). NOT_FOUND when no
 * such job is in the handler. With an injected clock a call of wait_ms is not interrupted. */
REDRIVE_API int redrive_cancel(struct redrive_handler *handler, const char *job_id);

/* ---- Jobs in steps ----------------------------------------------------------------------------
 *
 * redrive_submit for programs that must not sleep in a call: event loops, and languages whose
 * functions may raise an exception or be interrupted. The program asks what is next, and does it:
 *
 *     while ((type = redrive_step_next(step, &wait_ms)) != REDRIVE_STEP_END) {
 *         if (type == REDRIVE_STEP_WAIT)
 *             wait_for(wait_ms);                            // or until `wake` is called
 *         else
 *             redrive_step_done(step, work(&failure) ? NULL : &failure);
 *     }
 *     rc = redrive_step_end(step, &result);
 *
 * Such a job is one of the handler's like all others: it meets the same breakers, limits, monitor,
 * counters and dead letters. A step belongs to one thread at a time, which may change.
 *
 * redrive_handler_stop waits for it as for others, so it must not be called from between two of
 * these calls by the thread that would make the next. With an injected clock a step that waits
 * moves no time.
 */
struct redrive_step;

enum redrive_step_type {
    REDRIVE_STEP_RUN,  /* make the attempt now, then redrive_step_done */
    REDRIVE_STEP_WAIT, /* ask again after the time, or when `wake` was called */
    REDRIVE_STEP_END,  /* redrive_step_end says how it went */
};

struct redrive_step_options {
    /* There is reason to ask again before the time: a turn is free, the breaker lets it go, it was
     * cancelled. Called by any thread; it may call the handler. Not called after the job has come
     * to its end: the call that brings it there waits until other threads have returned from
     * `wake`, which therefore must not wait for the thread that makes that call. May be NULL: then
     * a job that waits for its turn or its breaker, or is cancelled, finds out when the program
     * asks. */
    void (*wake)(void *ctx) REDRIVE_NOEXCEPT;
    void *wake_ctx;
    /* It is begun from inside another job of this handler that waits for it: it needs no turn of
     * its own where `concurrency` is limited. */
    bool is_nested;
};

/* Accepts a job. All that `job` points at must be valid until redrive_step_end. NULL when it is
 * refused: `err` says why, with the codes of redrive_submit. `options` may be NULL. */
REDRIVE_API struct redrive_step *redrive_step_begin(struct redrive_handler *handler,
                                                    const struct redrive_job *job,
                                                    const struct redrive_step_options *options,
                                                    struct redrive_err *err);
/* The same for a dead letter, as redrive_dlq_retry. */
REDRIVE_API struct redrive_step *redrive_step_retry(struct redrive_handler *handler, const char *id,
                                                    const struct redrive_step_options *options,
                                                    struct redrive_err *err);
/* `ret_wait_ms` is set with REDRIVE_STEP_WAIT; INT64_MAX: until `wake`. Calling it again without
 * having waited does no harm. */
REDRIVE_API enum redrive_step_type redrive_step_next(struct redrive_step *step,
                                                     int64_t *ret_wait_ms);
/* The attempt that REDRIVE_STEP_RUN asked for is over; NULL: it succeeded. The failure is copied.
 * Without such an attempt it does nothing. */
REDRIVE_API void redrive_step_done(struct redrive_step *step,
                                   const struct redrive_failure *failure);
/* The job, for redrive_run_attempt and its like; valid as long as the step. */
REDRIVE_API struct redrive_run *redrive_step_run(struct redrive_step *step);
/* Frees the step. Returns what redrive_submit would, and fills `ret`, unless it is NULL, likewise.
 * A job that has not come to its end is cancelled. */
REDRIVE_API int redrive_step_end(struct redrive_step *step, struct redrive_result *ret);

/* ---- Dead letters of a handler --------------------------------------------------------------
 *
 * Kept in memory, oldest first, one for each job id: a later job with the same id that dies too
 * replaces the earlier. An entry older than its policy's dlq_retention_days goes by itself (0:
 * stays until removed).
 */

#define REDRIVE_HISTORY_MAX 100

struct redrive_attempt_info {
    uint32_t attempt;
    int64_t started_ms;
    int64_t ended_ms;
    enum redrive_class class_;
    int64_t delay_ms; /* chosen after it */
    const char *message;
};

/* Absent strings are NULL. */
struct redrive_dead_letter {
    uint64_t seq; /* its position: rises with each entry that is added, never used again */
    const char *id;
    const char *task;
    const char *service;
    const char *queue;
    const char *user;
    const char *project;
    int priority;
    enum redrive_reason reason;
    enum redrive_class class_; /* of the last failure; success: it never ran */
    const char *error_type;
    const char *message;
    const char *stacktrace;
    uint32_t attempts; /* of the last epoch */
    uint32_t max_attempts;
    uint32_t epoch; /* redrives so far */
    int64_t failed_at_ms;
    uint64_t fingerprint;
    const void *payload;
    size_t payload_len;
    const struct redrive_attempt_info *history; /* of all epochs, oldest first */
    size_t n_history;                           /* the last REDRIVE_HISTORY_MAX are kept */
};

/* Which ones; zeroed fields match everything. */
struct redrive_dlq_filter {
    const char *task;
    const char *service;
    const char *queue;
    const char *error_type; /* exact, last component, or glob */
    const char *text;       /* found in the message */
    uint32_t classes;       /* bit 1u << enum redrive_class */
    uint32_t reasons;       /* bit 1u << enum redrive_reason */
    uint64_t fingerprint;
    int64_t failed_after_ms;  /* at or after */
    int64_t failed_before_ms; /* before */
    uint64_t after_seq;       /* the next page: `seq` of the last entry of the page before */
    size_t limit;
};

/* Called for each match, oldest first, with no lock held: it may call the handler, also to retry,
 * edit or remove what it is shown. The entry is borrowed for the time of the call and does not
 * change under it. A nonzero return ends the walk and is returned by it: a positive one cannot be
 * mistaken for a code of the library, all of which are negative. */
typedef int (*redrive_dlq_fn)(const struct redrive_dead_letter *entry, void *ctx) REDRIVE_NOEXCEPT;

/* Walks over the matches; a NULL filter matches all. Entries that come or go meanwhile may be seen
 * or not; none is seen twice. 0, or what `fn` returned, or INVALID before the first call of it. */
REDRIVE_API int redrive_dlq_list(struct redrive_handler *handler,
                                 const struct redrive_dlq_filter *filter, redrive_dlq_fn fn,
                                 void *ctx);
/* Shows one. What `fn` returned; or, and then it was not called, NOT_FOUND, INVALID, or STATE while
 * it is being retried. */
REDRIVE_API int redrive_dlq_show(struct redrive_handler *handler, const char *id, redrive_dlq_fn fn,
                                 void *ctx);

/* Runs it again, as redrive_submit would, with fresh attempts in a new epoch, under the policy
 * and with the deadline (counted from now) that it had. The entry is gone exactly when the job is
 * back; if the job dies again it returns, as the youngest, with the history of both. If the job is
 * cancelled, or memory is out when it dies, the entry returns as it was. NOT_FOUND; STATE: it is
 * being retried already; EXISTS: a job with its id is live; and all that redrive_submit returns. */
REDRIVE_API int redrive_dlq_retry(struct redrive_handler *handler, const char *id, redrive_fn fn,
                                  void *arg, struct redrive_result *ret);

/* Retries every match, one after the other in the calling thread, at most `per_second` starts a
 * second (0: no limit). With `dry_run` it only counts. An entry that dies again is not retried
 * twice. `ret_matched` counts those tried, `ret_completed` those that succeeded; either may be
 * NULL. Returns 0 when all have been tried, whatever became of them, or STOPPING. */
REDRIVE_API int redrive_dlq_retry_all(struct redrive_handler *handler,
                                      const struct redrive_dlq_filter *filter, redrive_fn fn,
                                      void *arg, double per_second, bool dry_run,
                                      size_t *ret_matched, size_t *ret_completed);

/* Replaces the payload by a copy of `payload`; the rest stays as it is. NOT_FOUND; STATE while it
 * is being retried; INVALID: `payload` is NULL, but `len` is not 0; NOMEM. redrive_dlq_remove
 * returns the first two alike. */
REDRIVE_API int redrive_dlq_edit(struct redrive_handler *handler, const char *id,
                                 const void *payload, size_t len);
REDRIVE_API int redrive_dlq_remove(struct redrive_handler *handler, const char *id);

/* Removes what died at least `older_than_ms` ago; 0 means all. `ret_removed` may be NULL. */
REDRIVE_API int redrive_dlq_purge(struct redrive_handler *handler, int64_t older_than_ms,
                                  size_t *ret_removed);

struct redrive_dlq_stats {
    size_t total_jobs;
    size_t by_class[REDRIVE_CLASS_COUNT];
    size_t by_reason[REDRIVE_REASON_COUNT];
    uint64_t dropped; /* pushed out by max_dead_letters since the start */
    uint64_t lost;    /* never stored, for lack of memory, since the start */
};
REDRIVE_API void redrive_dlq_stats_get(struct redrive_handler *handler,
                                       struct redrive_dlq_stats *ret);

/* Entries whose errors look alike once numbers, ids and quoted words are taken out. */
struct redrive_dlq_group {
    uint64_t fingerprint;
    size_t count;
    int64_t first_ms;
    int64_t last_ms;
    struct redrive_dead_letter example; /* the latest */
};
typedef int (*redrive_dlq_group_fn)(const struct redrive_dlq_group *group,
                                    void *ctx) REDRIVE_NOEXCEPT;
/* Largest first, then latest first; `limit` counts groups. The rules of redrive_dlq_list apply.
 * NOMEM and INVALID before the first call, or not at all. */
REDRIVE_API int redrive_dlq_groups(struct redrive_handler *handler,
                                   const struct redrive_dlq_filter *filter, redrive_dlq_group_fn fn,
                                   void *ctx);

/* ---- Breakers, health and metrics of a handler ----------------------------------------------
 *
 * A breaker is made by its service's first job, or by redrive_breaker_configure, and is kept as
 * long as the handler: name a service after what is called, not after the user or customer it is
 * called for. The functions that take a service return NOT_FOUND while it has no breaker.
 */

/* Gives a service its own breaker configuration, which is copied. STATE after its first job. */
REDRIVE_API int redrive_breaker_configure(struct redrive_handler *handler, const char *service,
                                          const struct redrive_breaker_config *config,
                                          struct redrive_err *err);
REDRIVE_API int redrive_breaker_get(struct redrive_handler *handler, const char *service,
                                    struct redrive_breaker_status *ret);
/* Fills up to `max` entries, in the order in which the breakers were made; returns how many there
 * are. */
REDRIVE_API size_t redrive_breaker_list(struct redrive_handler *handler,
                                        struct redrive_breaker_status *ret, size_t max);
/* By hand: close it, hold it open, or take it out of service. Parked jobs are let go at the pace
 * of release_rate by the first and the last. */
REDRIVE_API int redrive_breaker_reset(struct redrive_handler *handler, const char *service);
REDRIVE_API int redrive_breaker_trip(struct redrive_handler *handler, const char *service);
REDRIVE_API int redrive_breaker_disable(struct redrive_handler *handler, const char *service);
/* Feeds in one counted failure, to try it out. */
REDRIVE_API int redrive_breaker_simulate_failure(struct redrive_handler *handler,
                                                 const char *service);

struct redrive_health {
    const char *status;  /* "healthy" from 0.8, "degraded" from 0.5, else "unhealthy" */
    double health_score; /* success_rate × share of breakers not open × latency factor */
    double success_rate; /* 0–1, over about the last minute; 1 when idle */
    double error_rate;
    double latency_factor;
    uint32_t breakers;
    uint32_t breakers_open; /* that hold work back: open, half open or forced open */
};
REDRIVE_API void redrive_health_get(struct redrive_handler *handler, struct redrive_health *ret);

/* Every job that was accepted has ended or is inside: jobs_received + jobs_redriven =
 * jobs_completed + jobs_dlq + jobs_failed + jobs_cancelled + running + waiting + parked +
 * queued. */
struct redrive_metrics {
    uint64_t jobs_received;
    uint64_t jobs_redriven; /* from the dead letters */
    uint64_t jobs_completed;
    uint64_t jobs_retried; /* retries, not jobs */
    uint64_t jobs_dlq;
    uint64_t jobs_failed;
    uint64_t jobs_cancelled;
    uint64_t jobs_parked; /* times that a job was parked */
    uint64_t attempts;
    uint64_t unclassified;
    uint64_t failures_by_class[REDRIVE_CLASS_COUNT];
    double average_retries; /* per job that ended */
    double p50_ms;          /* time of one attempt */
    double p90_ms;
    double p99_ms;
    uint32_t running;
    uint32_t waiting; /* for a retry */
    uint32_t parked;
    uint32_t queued; /* for their turn, where concurrency is limited */
};
REDRIVE_API void redrive_metrics_get(struct redrive_handler *handler, struct redrive_metrics *ret);

#ifdef __cplusplus
}
#endif

#endif
