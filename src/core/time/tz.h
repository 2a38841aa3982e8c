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
#include "core/time/tz_rule.h"
#include "redrive.h"

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
