/* moment.h - points in time as people and programs write them: RFC 3339.
 *
 *     2026-03-28T12:00:00.123Z      a space may stand for the T, t and z for T and Z; there may be
 *                                   any number of decimals, those beyond the millisecond are cut
 *     2026-03-28T12:00+02:00        so far from UTC, 14 hours at most; seconds may be left out
 *
 * Second 60 is refused: a clock that counts from 1970 does not have it.
 */
#ifndef CORE_TIME_MOMENT_H
#define CORE_TIME_MOMENT_H

#include "base/text/str.h"
#include "core/time/civil.h"

#define MOMENT_EXPECTED "a time such as 2026-03-28T12:00:00Z"

/* What was written: without a time of day it is 00:00, without an offset whose clock it is on is
 * left open. */
struct moment {
    struct civil local;
    int ms;
    bool has_time;
    bool has_offset; /* never without a time */
    int offset_s;
};

/* Reads what may lack its offset, or its time of day and offset. False: it is no time. */
bool moment_read(struct str text, struct moment *ret);

/* Reads what is whole, in milliseconds since 1970: a client on the network may be in any time zone,
 * so a time without Z or an offset is refused. False: it is no such time, or one before 1970. */
bool moment_parse(struct str text, int64_t *ret_ms);

/* Whether the text begins as a date does, and not as a duration. */
bool moment_looks_like_one(struct str text);

#endif
