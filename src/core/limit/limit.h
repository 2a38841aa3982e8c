/* limit.h - how much at once, and how much over time.
 *
 * A rate is a number of tokens over a second, a minute, an hour or a day. Its bucket fills evenly
 * up to the burst, and each start takes a token. In any stretch of t ms at most burst + count · t /
 * period tokens are given, exactly. The bucket counts in parts of a token, so small that one ms of
 * any rate is a whole number of them: nothing is ever rounded.
 *
 * Both kinds of state are plain data without pointers, for a store to keep. A bucket outlives a
 * change of its rate: its parts are the same for all rates, and a smaller burst cuts it down.
 */
#ifndef CORE_LIMIT_LIMIT_H
#define CORE_LIMIT_LIMIT_H

#include <stdint.h>

#include "base/text/str.h"
#include "redrive.h"

#define RATE_MAX_COUNT UINT32_C(1000000000)

struct rate {
    uint32_t count;    /* 1 to RATE_MAX_COUNT */
    uint32_t period_s; /* 1, 60, 3600 or 86400 */
    uint32_t burst;    /* the most that can be saved up; 0: count */
};

/* Reads `60/min`: a whole number, `/`, and s, min, h or d; the burst is 0. No spaces, no signs.
 * REDRIVE_E_PARSE, _RANGE (the number) or _UNKNOWN (the unit). */
int rate_parse(struct str text, struct rate *ret, struct redrive_err *err);
/* The unit of its period: s, min, h or d. */
const char *rate_unit(const struct rate *rate);

/* One token in parts: the milliseconds of a day, which every period divides. */
#define BUCKET_TOKEN INT64_C(86400000)

struct bucket {
    int64_t parts;      /* 0 to burst · BUCKET_TOKEN */
    int64_t updated_ms; /* up to when it has been filled */
};

/* A full one. */
void bucket_init(struct bucket *b, const struct rate *rate, int64_t now_ms);

/* Follows a clock that has been set back, for an owner that looks at a copy of it. Whether that has
 * changed anything. bucket_take does it as well. */
bool bucket_follow_clock(struct bucket *b, int64_t now_ms);

/* Takes up to `want` tokens and returns how many there were. A clock that goes back gives none
 * and takes none away (elapsed.h). */
uint32_t bucket_take(struct bucket *b, const struct rate *rate, int64_t now_ms, uint32_t want);

/* Gives tokens back that nothing came of; never more than a full bucket. */
void bucket_give(struct bucket *b, const struct rate *rate, uint32_t n);

/* Whether it would be full if it were filled up to now. */
bool bucket_is_full(const struct bucket *b, const struct rate *rate, int64_t now_ms);

/* How long until bucket_take gives a token, to the millisecond; 0: now. After a clock has been set
 * back, the wait may turn out one round too short. */
int64_t bucket_wait_ms(const struct bucket *b, const struct rate *rate, int64_t now_ms);

/* How many may run at the same time. */
struct slots {
    uint32_t used;
    uint32_t max; /* 0: no limit; may be changed, and those over it run to their end */
};

/* Takes up to `want` and returns how many were free. */
uint32_t slots_take(struct slots *s, uint32_t want);

/* Gives back; more than was taken counts as all. */
void slots_give(struct slots *s, uint32_t n);

#endif
