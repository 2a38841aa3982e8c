/* alert.h - alert rules: reported once when a figure goes where it should not be, and once when
 * that is over.
 *
 * The rules are those of the configuration. An episode begins when a condition holds and is over
 * when it has not held for ALERT_CLEAR_MS, so that a figure on the edge does not send a message at
 * every look; both are reported once. What is known of an episode is a row of the store that is
 * compared and set: of several processes one reports, and a restart does not report again. The
 * report follows the commit of the row: if the process ends in that moment, there is no report.
 *
 *   dead_letters    jobs in the dead letters
 *   retry_backlog   jobs that wait for another attempt
 *   error_rate      share of runs that failed: of about the last minute, of all workers that are
 *                   alive (report/worker_row.h); of a task, of the last whole minute by its
 *                   counters. Runs that failed by the fault of the job itself are no failures
 *   health_score    report/stats.h; of a task, 1 minus its error rate, and 0 while its breaker is
 *                   open
 *
 * Runs count for a rate from the rule's min_runs on; fewer are taken for successes, as if nothing
 * had run. Rates are told with three digits.
 *
 * An engine looks every ALERT_EVERY_MS, in its tick, if it was given an on_alert, and a process
 * whose work is done has it look a last time (alert_op_init): a run of a few seconds would
 * otherwise end before anything is noticed.
 */
#ifndef ENGINE_CLOCK_ALERT_H
#define ENGINE_CLOCK_ALERT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"
#include "config/config.h"
#include "engine/op.h"

struct engine;

#define ALERT_EVERY_MS  10000
#define ALERT_CLEAR_MS  60000
#define ALERT_WINDOW_MS 60000

/* ---- The decision ---------------------------------------------------------------------------- */

bool alert_holds(const struct config_condition *when, double value);

/* Of an episode; zeroed: there is none. */
struct alert_state {
    bool firing;
    int64_t since_ms;
    int64_t clear_ms; /* since when the condition has not held; 0: it holds */
    /* Of rules about the error rate or the health of a task: its counters when the window began,
     * and the rate of the window before. */
    int64_t window_ms;
    uint64_t runs;
    uint64_t failures;
    double rate;
};

enum alert_step {
    ALERT_NOTHING,
    ALERT_BEGINS,
    ALERT_IS_OVER,
};
enum alert_step alert_advance(struct alert_state *state, bool holds, int64_t now_ms);

/* The error rate of a task whose counters stand like this now; 0 when the last window had fewer
 * runs than `min_runs`. */
double alert_window(struct alert_state *state, uint64_t runs, uint64_t failures, uint32_t min_runs,
                    int64_t now_ms);
/* The same at the end of a run: a window that has runs enough is over, however short it was. */
double alert_window_end(struct alert_state *state, uint64_t runs, uint64_t failures,
                        uint32_t min_runs, int64_t now_ms);

/* A figure as people say it: rates with three digits, sizes in full. */
double alert_rounded(const struct config_condition *when, double value);

/* ---- What is told ---------------------------------------------------------------------------- */

struct alert_event {
    const struct config_alert *alert; /* as long as the configuration */
    bool firing;                      /* false: it is over */
    double value;
    int64_t at_ms;
    int64_t since_ms; /* of the episode */
    struct str json;  /* {"status":"firing"|"recovered","condition":…,"task":…,"value":…,
                       * "since":…,"at":…}; until the callback returns */
};

/* ---- The last look --------------------------------------------------------------------------- */

/* Looks at every rule now, whenever the last look was, and never again. What this process has run
 * counts, although its row has been taken away by then. */
void alert_op_init(struct op *op);

/* ---- Within the engine ----------------------------------------------------------------------- */

/* Looks if it is time, and asks to be woken for the next time. */
int alerts_look(struct engine *e, struct redrive_err *err);

/* After the commit: the log, the callback. */
void alerts_publish(struct engine *e);

#endif
