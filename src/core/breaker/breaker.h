/* breaker.h - a circuit breaker as plain data and pure functions.
 *
 * The struct has no pointers and no locks: its owner (a handler under its mutex, a store in a
 * transaction) calls these functions with the time and keeps the result.
 *
 *   closed     everything passes; failure_threshold counted failures in a row open it, and so does
 *              a share of failure_rate failures, or of slow_rate slow calls, among at least
 *              min_calls within the window
 *   open       nothing passes until recovery_timeout is over
 *   half_open  at most half_open_max probes are out, each under a lease; success_threshold
 *              successes close it, one failure or one lapsed lease opens it again; after a probe
 *              that proved nothing the next one waits for its turn at release_rate, so that a
 *              service which answers "too many requests" is not called by all jobs at once. While
 *              there is a rule for slow calls, a slow probe has failed. With half_open_rate
 *              half_open_max probes go in all, and are judged together when all have an answer: a
 *              share of half_open_rate failures, or of slow_rate slow ones, opens it again, less
 *              closes it. A lapsed lease is a failure among them
 *   forced_open, disabled   by hand: nothing passes, everything passes; results change nothing
 *
 * Invariants
 *   1. Every state change starts a new generation. A permit carries the generation it was given
 *      in, and a result with another generation changes nothing.
 *   2. A probe is out from breaker_allow until its result or the end of its lease, never longer:
 *      a half-open breaker cannot get stuck.
 *   3. In half_open only probes have a say.
 *   4. Time that runs backwards never lets more through. After a clock that was ahead and has been
 *      set back (core/elapsed.h) a recovery, and the lease of a probe, begin anew from now.
 */
#ifndef CORE_BREAKER_BREAKER_H
#define CORE_BREAKER_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/elapsed.h"
#include "redrive.h"

/* ---- The window: how recent calls went ---------------------------------------------------------
 *
 * Ten buckets, each a tenth of the time window wide. They begin at multiples of their width, so
 * that the counts of two processes can be added up bucket by bucket. A clock that goes back a
 * little counts in the newest bucket.
 *
 * With window_calls it looks back on the last so many calls instead, whenever they were: a bit for
 * each that says whether it failed, and one that says whether it was slow.
 */

#define BREAKER_BUCKETS 10

#define BREAKER_LAST_WORDS (REDRIVE_MAX_WINDOW_CALLS / 64)

struct breaker_counts {
    uint32_t calls;
    uint32_t failures;
    uint32_t slow; /* whether they failed or not */
};

/* The latest calls, the newest in the lowest bit of the first word. */
struct breaker_last {
    uint32_t calls; /* at most window_calls */
    uint64_t failed[BREAKER_LAST_WORDS];
    uint64_t slow[BREAKER_LAST_WORDS];
};

struct breaker_window {
    int64_t start_ms; /* of the newest bucket */
    uint32_t newest;
    struct breaker_counts buckets[BREAKER_BUCKETS];
    struct breaker_last last; /* empty without window_calls */
};

/* Empties it; start_ms stays. */
void breaker_window_clear(struct breaker_window *w);

/* Turns it to now: what is older than the window is gone. */
void breaker_window_advance(struct breaker_window *w, const struct redrive_breaker_config *config,
                            int64_t now_ms);

/* A window that begins ahead of now, since the clock has been set back, begins now: its calls grow
 * old from now on. Whether it did. */
bool breaker_window_follow_clock(struct breaker_window *w,
                                 const struct redrive_breaker_config *config, int64_t now_ms);

/* One more call. */
void breaker_window_add(struct breaker_window *w, const struct redrive_breaker_config *config,
                        bool failed, bool slow, int64_t now_ms);

/* More calls, at a time that may lie back. In which order they came is not known: with window_calls
 * they must all be successes that were not slow. */
void breaker_window_add_counts(struct breaker_window *w,
                               const struct redrive_breaker_config *config,
                               struct breaker_counts counts, int64_t at_ms);

/* Adds the calls of `more`, each to the bucket of its time; likewise. */
void breaker_window_merge(struct breaker_window *w, const struct redrive_breaker_config *config,
                          const struct breaker_window *more);

/* Everything in it, as of the last time that it was turned to. */
struct breaker_counts breaker_window_sum(const struct breaker_window *w,
                                         const struct redrive_breaker_config *config);

/* Sets it to these calls, of now, and nothing else. */
void breaker_window_set(struct breaker_window *w, const struct redrive_breaker_config *config,
                        struct breaker_counts counts, int64_t now_ms);

/* ---- The breaker ----------------------------------------------------------------------------- */

struct breaker_probe {
    uint64_t token; /* 0: free */
    int64_t expires_ms;
};

struct breaker {
    enum redrive_breaker_state state;
    uint32_t consecutive; /* counted failures in a row, while closed */
    uint32_t probe_successes;
    uint32_t probe_failures; /* with half_open_rate */
    uint32_t probe_slow;     /* likewise; whether they failed or not */
    uint32_t reopened;       /* failed recoveries in a row, for growing recovery times */
    uint64_t generation;
    uint64_t next_token;
    uint64_t seed; /* of the recovery jitter */
    int64_t opened_at_ms;
    int64_t retry_at_ms; /* open, half open: when the next probe may go */
    struct breaker_window window;
    struct breaker_probe probes[REDRIVE_MAX_PROBES];
};

/* Leave to run one call. Plain data: it may be stored with the job. */
struct breaker_permit {
    uint64_t generation;
    uint64_t probe; /* token, or 0 for an ordinary call */
};

enum breaker_result {
    BREAKER_SUCCESS,
    BREAKER_FAILURE,
    BREAKER_NEUTRAL,  /* it failed in a way that does not count: a probe has proved nothing */
    BREAKER_RETURNED, /* cancelled, released: it never found out, and gives its probe back */
};

void breaker_init(struct breaker *b, uint64_t seed);

/* The slow part of breaker_allow. */
bool breaker_admit(struct breaker *b, const struct redrive_breaker_config *config, int64_t now_ms,
                   struct breaker_permit *ret);

/* May a call go now? If so fills the permit, which must be passed to breaker_record later. An open
 * breaker answers from a few comparisons. */
static inline bool breaker_allow(struct breaker *b, const struct redrive_breaker_config *config,
                                 int64_t now_ms, struct breaker_permit *ret)
{
    if (b->state == REDRIVE_BREAKER_OPEN && now_ms < b->retry_at_ms &&
        !elapsed_mark_is_ahead(b->opened_at_ms, now_ms))
        return false;
    if (b->state == REDRIVE_BREAKER_CLOSED) {
        *ret = (struct breaker_permit){.generation = b->generation};
        return true;
    }
    return breaker_admit(b, config, now_ms, ret);
}

/* Whether it holds work back: open, half open or forced open. What counts, alarms and health scores
 * mean by an open breaker. */
static inline bool breaker_is_open(enum redrive_breaker_state state)
{
    return state != REDRIVE_BREAKER_CLOSED && state != REDRIVE_BREAKER_DISABLED;
}

/* Whether a call was slow, by a rule that is on. */
static inline bool breaker_is_slow(const struct redrive_breaker_config *config, int64_t run_ms)
{
    return config->slow_call_ms > 0 && config->slow_rate > 0 && run_ms > config->slow_call_ms;
}

/* Reports how a permitted call went, and how long it took. */
void breaker_record(struct breaker *b, const struct redrive_breaker_config *config,
                    struct breaker_permit permit, enum breaker_result result, int64_t run_ms,
                    int64_t now_ms);

/* Follows a clock that has been set back. Whether that has changed anything. breaker_tick does it
 * as well. */
bool breaker_follow_clock(struct breaker *b, const struct redrive_breaker_config *config,
                          int64_t now_ms);

/* Lets time pass: a lapsed probe has failed. True when that has changed anything. */
bool breaker_tick(struct breaker *b, const struct redrive_breaker_config *config, int64_t now_ms);

/* How many probes breaker_allow would let out now; 0 unless it is half open or due to be. */
uint32_t breaker_probe_room(const struct breaker *b, const struct redrive_breaker_config *config,
                            int64_t now_ms);

/* When breaker_allow may next say yes or breaker_tick may next change something: 0 when nothing
 * is waited for (closed, by hand). */
int64_t breaker_next_ms(const struct breaker *b, const struct redrive_breaker_config *config);

/* By hand. Reset closes it and forgets everything; trip and disable hold until a reset. */
void breaker_reset(struct breaker *b);
void breaker_trip(struct breaker *b, int64_t now_ms);
void breaker_disable(struct breaker *b);

/* One counted failure without a call, to try the breaker out. */
void breaker_simulate_failure(struct breaker *b, const struct redrive_breaker_config *config,
                              int64_t now_ms);

/* Everything a person may ask, but for name and parked, which the owner knows. */
void breaker_status(const struct breaker *b, const struct redrive_breaker_config *config,
                    int64_t now_ms, struct redrive_breaker_status *ret);

/* ---- Releasing parked jobs ------------------------------------------------------------------- */

/* How fast parked jobs are let go after a breaker has closed.
 *
 * A service that has just come back falls over again if everything that waited runs at once. So
 * the pace starts at release_rate jobs/s, grows by release_growth with each whole second without
 * a counted failure, and is halved by a failure (never below one job a second). Growth is
 * additive on purpose: doubling overshoots by as much as it has gained.
 */

struct release {
    double rate;       /* jobs/s */
    double credit;     /* jobs that may go now; at most one second's worth, or two */
    int64_t credit_ms; /* up to when credit has been given */
    int64_t grown_ms;  /* up to when growth has been given */
};

/* Follows a clock that has been set back. Whether that has changed anything. The others do it as
 * well. */
bool release_follow_clock(struct release *r, int64_t now_ms);

/* The breaker has closed. */
void release_start(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms);

/* How many of `waiting` may go now; they are taken as gone. */
uint32_t release_take(struct release *r, const struct redrive_breaker_config *config,
                      int64_t now_ms, uint32_t waiting);

/* A counted failure while jobs are being let go. */
void release_failed(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms);

/* When the next one may go. */
int64_t release_next_ms(const struct release *r);

/* ---- Which job is the next probe ------------------------------------------------------------- */

/* Which of the waiting jobs is sent ahead to see whether a service is back.
 *
 * A parked job uses no attempt, but a probe is a real run: when it fails, its job has one attempt
 * less. If the oldest job were sent each time, an outage of eight recovery times would kill a job
 * that has eight attempts, while thousands beside it have used none. So the job with the most
 * attempts left goes, the oldest of these first: failed probes spread over all that wait, and a
 * job dies of them only when every other one is as close to its end.
 *
 * Jobs may be to blame themselves: a run of bad ones in front of the good ones would be probed to
 * its last job before the first good one is, at one recovery time each. So after a probe that has
 * failed the next one comes from the other end: among those with the most attempts left the oldest
 * and the newest go in turn. Whichever end the good ones are at, the second probe reaches one; and
 * whatever order is taken, a job is not sent twice before all others have been once.
 */

struct probe_candidate {
    uint32_t attempts; /* used in this epoch */
    uint32_t max_attempts;
    uint64_t age_order; /* the lower, the older; see probe_age */
};

/* The age order of the nth job: turned round where the newest goes first. */
static inline uint64_t probe_age(uint64_t n, bool takes_newest)
{
    return takes_newest ? UINT64_MAX - n : n;
}

/* Whether the newest is to be sent rather than the oldest, of those with the most attempts left,
 * after so many recoveries in a row have failed. */
static inline bool probe_takes_newest(uint32_t failed_recoveries)
{
    return failed_recoveries % 2 == 1;
}

/* Whether `a` is to be sent rather than `b`: a strict order, so that the best of any number can
 * be found in one walk or kept in an index. */
static inline bool probe_precedes(struct probe_candidate a, struct probe_candidate b)
{
    int64_t left_a = (int64_t)a.max_attempts - a.attempts;
    int64_t left_b = (int64_t)b.max_attempts - b.attempts;
    return left_a != left_b ? left_a > left_b : a.age_order < b.age_order;
}

#endif
