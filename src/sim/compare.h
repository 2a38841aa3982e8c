/* compare.h - the ways of retrying that `redrive simulate` compares, through one outage.
 *
 * Jobs arrive at a steady rate. After COMPARE_OUTAGE_START_MS of normal work the service is down
 * for a while and then comes back with a limited capacity. Every strategy meets the same arrivals.
 */
#ifndef SIM_COMPARE_H
#define SIM_COMPARE_H

#include <stddef.h>

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"
#include "sim/measure.h"
#include "sim/sim.h"

/* ---- Strategies ------------------------------------------------------------------------------ */

/* What a task is configured with. Borrowed, and has passed its checks. */
struct strategy_config {
    const struct redrive_policy *policy;
    const struct redrive_breaker_config *breaker;
    const struct budget_config *budget; /* NULL: none */
    const struct adaptive_config *adaptive;
    const struct classifier *classifier; /* may be NULL */
    struct classify_context names;
};

struct strategy {
    const char *name;  /* on the command line */
    const char *title; /* in tables and legends */
    struct redrive_backoff backoff;
    enum sim_breaker breaker;
    const struct budget_config *budget;       /* NULL: none */
    const struct adaptive_config *adaptive;   /* likewise */
    const struct strategy_config *configured; /* if set, it replaces `backoff` and attempts */
};

#define STRATEGY_CONFIGURED "configured"

/* In the order in which they are compared. After those that are compared unless others are named
 * come some that are compared only when they are named. */
const struct strategy *strategies(size_t *ret_n);
#define STRATEGIES_USUAL 6

/* NULL when there is none of that name. */
const struct strategy *strategy_find(struct str name);

/* The names of all of them and, the last, STRATEGY_CONFIGURED; returns how many there are. */
#define STRATEGY_NAMES_MAX 16
size_t strategy_names(const char *ret[STRATEGY_NAMES_MAX]);

/* The user's own configuration as a strategy, which is not in the table. */
struct strategy strategy_of_config(const struct strategy_config *configured);

/* The strategy's policy: that many attempts, and no time limit that would end a job earlier; or the
 * configured one as it is. */
void strategy_policy(const struct strategy *strategy, uint32_t attempts,
                     struct redrive_policy *ret);

/* How often a job is run at most. */
uint32_t strategy_attempts(const struct strategy *strategy, uint32_t attempts);

/* ---- The comparison ------------------------------------------------------------------------- */

#define COMPARE_OUTAGE_START_MS 60000
#define COMPARE_MAX_JOBS        1000000
#define COMPARE_MAX_STRATEGIES  16 /* and arms: EXPERIMENT_ARMS_MAX */

/* Called now and then with how many of the jobs of all strategies are done. */
typedef void (*compare_progress_fn)(uint64_t done, uint64_t total, void *ctx);

struct compare_options {
    int64_t outage_ms;   /* 0: none */
    double brownout;     /* the share of calls that fail in the outage; 0 and 1: all */
    int64_t timeout_ms;  /* a call that takes longer fails, and an outage hangs; 0: neither */
    bool overload_waits; /* see service.h */
    int64_t duration_ms; /* jobs arrive for this long; 0: chosen by the length of the outage */
    int64_t latency_ms;
    double jobs_per_s;
    double capacity_per_s;   /* calls that the service can take; 0: unlimited */
    double rate_limit_per_s; /* it answers 429 to calls beyond; 0: it has no such limit */
    double error_rate;
    uint32_t attempts;
    uint32_t workers;
    uint64_t seed;
    const struct strategy *strategies[COMPARE_MAX_STRATEGIES];
    size_t n_strategies;
    /* One run, in which each job has the policy of its arm; the strategies are the arms, in their
     * order, and share the breaker and the limits of the first. NULL: a run for each strategy. */
    const struct experiment *experiment;
    uint64_t max_events;          /* of all strategies together; 0: no limit */
    compare_progress_fn progress; /* may be NULL */
    void *progress_ctx;
};

struct comparison {
    struct compare_options options; /* as used: duration_ms is filled in */
    int64_t outage_start_ms;
    int64_t outage_end_ms;
    struct measure rows[COMPARE_MAX_STRATEGIES]; /* one a strategy */
};

/* Whether only a part of the calls fails in the outage. */
static inline bool compare_is_brownout(const struct compare_options *options)
{
    return options->brownout > 0 && options->brownout < 1;
}

/* Fills in the defaults: 20 jobs/s, 180 s, 8 attempts, all strategies. */
void compare_options_init(struct compare_options *options);

bool compare_is_chosen(const struct compare_options *options, const struct strategy *strategy);
/* Adds one, unless it is there. */
void compare_choose(struct compare_options *options, const struct strategy *strategy);
/* Those of a list with commas, in place of others; STRATEGY_CONFIGURED is `own`. False: there is no
 * strategy `ret_unknown`, which is empty when the list is. */
bool compare_choose_list(struct compare_options *options, struct str list,
                         const struct strategy *own, struct str *ret_unknown);

/* The arms of an experiment as strategies, and what they are configured with. */
struct compare_arms {
    struct strategy_config configured[COMPARE_MAX_STRATEGIES];
    struct strategy strategies[COMPARE_MAX_STRATEGIES];
};

/* Compares the arms of an experiment in place of strategies. All of them have what the experiment's
 * task has but for its policy. Everything is borrowed until the comparison is released. */
void compare_choose_arms(struct compare_options *options, const struct experiment *experiment,
                         const struct strategy_config *task, struct compare_arms *arms);

/* Refuses what makes no sense or would not fit into memory. */
int compare_options_check(const struct compare_options *options, struct redrive_err *err);

/* Runs every strategy; on success `ret` must be released. REDRIVE_E_RANGE: it takes more than
 * max_events. */
int compare_run(const struct compare_options *options, struct comparison *ret,
                struct redrive_err *err);
void comparison_release(struct comparison *comparison);

/* ---- A comparison in words, as JSON and as a picture ----------------------------------------- */

/* What was simulated, in one line without a full stop. */
void comparison_describe(const struct comparison *comparison, struct buf *out);

/* "8 attempts", the word that is to follow, and what differs: " (your policy: 6)"; of arms "3 to 5
 * attempts". */
void comparison_attempts(const struct comparison *comparison, const char *after, struct buf *out);

/* How to read the numbers, in one line: which strategy lost no job at the least waste, or that none
 * did. A job that was refused at submit is lost as well. */
void comparison_read(const struct comparison *comparison, struct buf *out);

/* One object: `options`, as used, `strategies`, an array in the order of the comparison, and the
 * name of the `best`. */
void comparison_json(const struct comparison *comparison, struct buf *out);
/* The members of that object, within an object that is open. */
void comparison_write_members(const struct comparison *comparison, struct json_writer *w);
/* What the picture shows, likewise: `step_ms`, the length of a point of time, and `calls_per_s`, an
 * array for each strategy. */
void comparison_write_series(const struct comparison *comparison, struct json_writer *w);

/* The strategy that lost the fewest jobs and, among equals, wasted the fewest calls. */
size_t comparison_best(const struct comparison *comparison);

/* Appends a picture: calls per second over time, one line a strategy. It is standalone SVG with no
 * scripts, no fonts of its own and nothing to load. Lines differ by colour (the Okabe-Ito palette,
 * which is safe for colour-blind readers) and by dash pattern, so that it also works in print.
 * Returns 0, or the failure of the buffer. */
int chart_svg(const struct comparison *comparison, struct buf *out);

#endif
