/* tz.h - a time zone: how far local clocks are from UTC at any instant.
 *
 * A zone is made from the bytes of a TZif file (RFC 8536, versions 1 to 3; later versions keep
 * the layout and are read alike). From version 2 on the 64-bit block is used, and the rule in the
 * footer holds from the last listed transition on, for ever. Finding and reading the file is the
 * caller's business.
 *
 * Invariants: transitions are strictly ascending; every offset lies between TZ_OFFSET_MIN_S and
 * TZ_OFFSET_MAX_S, the range of the RFC; a parsed zone never changes, so threads may share it.
 * Files that count leap seconds (`right/…`) are refused: times here are POSIX times.
 */
#ifndef CORE_TIME_TZ_H
#define CORE_TIME_TZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"
#include "core/time/civil.h"
#include "redrive.h"

/* ---- The rule of a zone for all time to come ------------------------------------------------- */

/* The rule of a zone for all time to come: a POSIX TZ string.
 *
 *     CET-1CEST,M3.5.0,M10.5.0/3      IST-1GMT0,M10.5.0,M3.5.0/1      <+03>-3
 *
 * A name and an offset (west is positive, as POSIX has it), then for zones with summer time its
 * name, its offset (an hour more when absent) and the two dates at which it starts and ends. The
 * dates are required here: POSIX leaves their default to the system. Dates are Mm.w.d, Jn or n,
 * with a local time of −167 to 167 hours (RFC 8536, 3.3.1), 02:00 when absent.
 */

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

/* ---- Zones ----------------------------------------------------------------------------------- */

#define TZ_NAME_MAX        64
#define TZ_MAX_TRANSITIONS 4096
#define TZ_FILE_MAX_BYTES  (256u * 1024) /* more than any file with that many transitions */
#define TZ_OFFSET_MIN_S    (-89999)      /* -24:59:59 */
#define TZ_OFFSET_MAX_S    93599         /* 25:59:59 */

struct tz_transition {
    int64_t at_s;     /* UTC */
    int32_t offset_s; /* from then on */
};

struct tz {
    struct tz_transition *transitions; /* owned */
    size_t n_transitions;
    int32_t first_offset_s; /* before the first transition */
    bool has_rule;
    struct tz_rule rule; /* from the last transition on; always, if there is none */
};

/* UTC: no transitions, offset 0. Static: it must not be released. */
const struct tz *tz_utc(void);

/* Reads a zone out of a TZif file's bytes, which are not kept. Allocates. Bytes after the footer
 * are ignored. Fails with REDRIVE_E_PARSE and the position, REDRIVE_E_TOO_BIG, REDRIVE_E_INVALID
 * (leap seconds) or REDRIVE_E_NOMEM, and leaves `ret` as an empty zone, which may be released. */
int tz_parse(struct tz *ret, const void *bytes, size_t len, struct redrive_err *err);
void tz_release(struct tz *tz);

/* The offset at an instant, and how long it lasts. */
struct tz_span tz_span_at(const struct tz *tz, int64_t utc_s);

/* Seconds east of UTC at an instant. */
int32_t tz_offset_at(const struct tz *tz, int64_t utc_s);

/* The local date and time at an instant. */
struct civil tz_local(const struct tz *tz, int64_t utc_s);

/* When local clocks show `local`:
 *   1  once: ret_utc_s[0];
 *   2  twice, because clocks were set back: ret_utc_s[0] is the earlier instant, [1] the next;
 *   0  never, because clocks were set forward over it: ret_utc_s[0] is the first instant after
 *      the gap. */
int tz_local_to_utc(const struct tz *tz, const struct civil *local, int64_t ret_utc_s[2]);

/* Whether a name like `Europe/Berlin` is safe to look up below a directory: 1 to TZ_NAME_MAX
 * bytes of A–Z a–z 0–9 _ + - / and `.`, no `..`, no `/` in front. It need not exist. */
bool tz_name_valid(struct str name);

#endif
