/* tz_rule.h - the rule of a zone for all time to come: a POSIX TZ string.
 *
 *     CET-1CEST,M3.5.0,M10.5.0/3      IST-1GMT0,M10.5.0,M3.5.0/1      <+03>-3
 *
 * A name and an offset (west is positive, as POSIX has it), then for zones with summer time its
 * name, its offset (an hour more when absent) and the two dates at which it starts and ends. The
 * dates are required here: POSIX leaves their default to the system. Dates are Mm.w.d, Jn or n,
 * with a local time of −167 to 167 hours (RFC 8536, 3.3.1), 02:00 when absent.
 */
#ifndef CORE_TIME_TZ_RULE_H
#define CORE_TIME_TZ_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"
#include "redrive.h"

/* A stretch of time without change, seen from one instant in it. */
struct tz_span {
    int32_t offset_s; /* seconds east of UTC */
    int64_t until_s;  /* the next instant at which the offset may differ; INT64_MAX: never */
};

enum tz_date_form {
    TZ_DATE_MONTH,  /* Mm.w.d: weekday d of week w (5: the last) in month m */
    TZ_DATE_JULIAN, /* Jn: day 1–365, 29 February is never counted */
    TZ_DATE_DAY,    /* n: day 0–365, 29 February counts */
};

struct tz_date {
    enum tz_date_form form;
    int month;
    int week;
    int day;
    int32_t time_s; /* after local midnight of that day; may be negative or beyond the day */
};

struct tz_rule {
    int32_t std_offset_s; /* seconds east of UTC */
    int32_t dst_offset_s; /* used only with has_dst */
    bool has_dst;
    struct tz_date dst_start; /* on the standard clock */
    struct tz_date dst_end;   /* on the summer clock */
};

/* Reads a whole TZ string; REDRIVE_E_PARSE with the position if it is none. */
int tz_rule_parse(struct str text, struct tz_rule *ret, struct redrive_err *err);

/* The span around an instant, which must lie within ±2^60 seconds. Where two changes fall on one
 * instant the later one in the order of years counts, so that summer time which ends at the
 * moment it starts again lasts all year. */
struct tz_span tz_rule_span_at(const struct tz_rule *rule, int64_t utc_s);

#endif
