/* cron.h - when a periodic task is due.
 *
 * An expression has five fields: minute (0–59), hour (0–23), day of the month (1–31), month (1–12
 * or jan–dec), day of the week (0–7 or sun–sat; 0 and 7 are Sunday). A field is a list, separated
 * by commas, of
 *
 *     *        all values
 *     5        one value
 *     1-5      a range
 *     1-10/3   every third of a range
 *     5/15     every fifteenth from 5 to the end; after `*`, from the first
 *
 * Case is ignored. A range of weekdays may end on Sunday (`fri-sun`) but not go on into the next
 * week. @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly stand for the usual
 * expressions.
 *
 * Days. When both day fields are restricted, that is when neither starts with `*`, a day that
 * matches either of them matches: `0 0 13 * fri` is every 13th and every Friday. Else both must
 * match. This is the rule of Vixie cron and its successors.
 *
 * Clock changes. A tick is an instant of UTC; none is lost and none comes twice.
 *   - An expression for every hour (its hour field allows all 24) is an interval and follows
 *     elapsed time: it fires at every real minute whose local time matches. While an hour
 *     repeats, both passes fire; local times that are jumped over do not exist.
 *   - Any other expression names hours of the local day, and each local time that it names fires
 *     once: in an hour that repeats, on the first pass only; if it is jumped over, at the first
 *     instant after the gap. Several times within one gap give one tick, and so does a time in
 *     the gap together with one that is due at its end.
 * Cron daemons tell these two apart by the character `*`, and so a job for every sixth hour loses
 * its first tick on a day that starts at 01:00. Here the set of hours decides, however written.
 */
#ifndef CORE_CRON_CRON_H
#define CORE_CRON_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"
#include "core/time/tz.h"
#include "redrive.h"

/* Bit n is set when the value n matches. Plain data: it may be copied and compared. */
struct cron {
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;    /* bits 1–31 */
    uint16_t months;  /* bits 1–12 */
    uint8_t weekdays; /* bits 0–6, Sunday first */
    bool either_day;  /* a day matches by `days` or by `weekdays`, else by both */
};

/* Reads an expression, with spaces or tabs between and around its fields. Fails with
 * REDRIVE_E_PARSE, _RANGE or _UNKNOWN (a misspelt name, with the nearest one in the hint); the
 * detail says field, position and what was expected. An expression that can never fire, like
 * `0 0 31 2 *`, is REDRIVE_E_INVALID. Allocates nothing. */
int cron_parse(struct str text, struct cron *ret, struct redrive_err *err);

/* The first tick later than `after_ms`, in ms of UTC. It looks ahead 41 years, which is longer
 * than the longest wait of any expression (29 February on a given weekday, over a century that is
 * no leap year); REDRIVE_E_NOT_FOUND if there is none or if it would not fit. `cron` comes from
 * cron_parse. */
int cron_next(const struct cron *cron, const struct tz *tz, int64_t after_ms, int64_t *ret_ms);

#endif
