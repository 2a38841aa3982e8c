/* budget.h - how many retries there may be beside first attempts.
 *
 * When a service fails, every retry is a further call of a service that cannot keep up. A budget
 * bounds them, whatever the policies of the jobs say: a retry for which there is no room waits. It
 * is reckoned in one of two ways.
 *
 *   by share    Over the window, retries are at most `ratio` of the first attempts. Those are
 *               counted in BUDGET_SLOTS slots, the last of which is not over yet. Beside them a
 *               reserve fills by min_per_second, up to what it fills in one window and at least
 *               one: a retry that the share has no room for takes 1 of the reserve. So in any
 *               stretch of time there are at most ratio · first attempts (of that time and one
 *               window before) + min_per_second · time + the reserve retries.
 *   by tokens   As gRPC does it (max_tokens above 0): there are at most max_tokens, and as many at
 *               first. A failed attempt that is to be retried takes 1, a success adds token_ratio,
 *               and min_per_second fills them as time passes. Retries start while there are more
 *               than half.
 *
 * min_per_second is above 0, so that no retry waits for ever: not even after the last first attempt
 * or the last success. Plain data without pointers; time is an argument. A clock that goes back
 * adds nothing (elapsed.h).
 */
#ifndef CORE_LIMIT_BUDGET_H
#define CORE_LIMIT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "redrive.h"

#define BUDGET_SLOTS            10
#define BUDGET_RATIO            0.1
#define BUDGET_WINDOW_MS        10000
#define BUDGET_MIN_PER_SECOND   1
#define BUDGET_TOKEN_RATIO      0.1
#define BUDGET_WINDOW_LEAST_MS  1000
#define BUDGET_WINDOW_MOST_MS   3600000
#define BUDGET_LEAST_PER_SECOND 0.01
#define BUDGET_MOST             1e5

/* All zero: there is none. */
struct budget_config {
    double min_per_second; /* of a budget BUDGET_LEAST_PER_SECOND or more */
    double ratio;          /* by share: retries for each first attempt, 0 to 1 */
    int64_t window_ms;     /* by share */
    double max_tokens;     /* by tokens; 0: by share */
    double token_ratio;    /* by tokens */
};

static inline bool budget_is_set(const struct budget_config *config)
{
    return config->min_per_second > 0;
}

/* Whether every number is in its range; of none, too. */
bool budget_config_is_valid(const struct budget_config *config);

struct budget_slot {
    uint32_t firsts;
    uint32_t retries;  /* within the share */
    uint32_t reserved; /* retries from the reserve */
};

struct budget {
    double tokens; /* by share: the reserve */
    int64_t tokens_ms;
    int64_t slot_ms; /* when the newest slot has begun */
    uint32_t newest;
    struct budget_slot slots[BUDGET_SLOTS];
};

/* A new one: its reserve, or its tokens, are full. */
void budget_init(struct budget *b, const struct budget_config *config, int64_t now_ms);

/* Follows a clock that has been set back (elapsed.h): what was counted grows old from now on.
 * Whether that has changed anything. */
bool budget_follow_clock(struct budget *b, int64_t now_ms);

/* How many retries may start now. By tokens: so many that some are above half if they all fail. */
uint32_t budget_room(const struct budget *b, const struct budget_config *config, int64_t now_ms);

/* How long until time alone gives room for a retry; 0: there is some. */
int64_t budget_wait_ms(const struct budget *b, const struct budget_config *config, int64_t now_ms);

/* An attempt starts. */
void budget_start(struct budget *b, const struct budget_config *config, bool is_retry,
                  int64_t now_ms);

/* A start that was not carried out, or used no attempt, is taken back: its job starts again, and
 * would count twice. Of one that the window has left nothing is known, and nothing changes. */
void budget_take_back(struct budget *b, const struct budget_config *config, bool was_retry,
                      int64_t now_ms);

/* An attempt has succeeded, or has failed and is to be retried. */
void budget_settle(struct budget *b, const struct budget_config *config, bool has_failed,
                   int64_t now_ms);

/* Whether it says no more than a new one would. */
bool budget_is_full(const struct budget *b, const struct budget_config *config, int64_t now_ms);

/* What a person may ask. */
struct budget_status {
    uint32_t firsts; /* by share: of the window */
    uint32_t retries;
    double tokens; /* by share: of the reserve */
    uint32_t room;
};
void budget_status(const struct budget *b, const struct budget_config *config, int64_t now_ms,
                   struct budget_status *ret);

#endif
