/* tz.c - parses TZif files and looks up offsets. */
#include "core/time/tz.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* Beyond this nothing is told apart: 36 billion years. It keeps sums of a time and an offset
 * within int64_t. */
#define TIME_LIMIT_S (INT64_C(1) << 60)

#define HEADER_BYTES 44
#define MAX_TYPES    256 /* their index is a byte */
#define TYPE_BYTES   6

const struct tz *tz_utc(void)
{
    static const struct tz UTC = {0};
    return &UTC;
}

void tz_release(struct tz *tz)
{
    if (!tz)
        return;
    free(tz->transitions);
    *tz = (struct tz){0};
}

bool tz_name_valid(struct str name)
{
    if (name.len == 0 || name.len > TZ_NAME_MAX || name.ptr[0] == '/')
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && (c == '\0' || !strchr("_+-/.", c)))
            return false;
    }
    return !str_contains(name, STR(".."));
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct reader {
    const unsigned char *bytes;
    size_t len;
    size_t at;
    struct redrive_err *err;
};

/* The six counts of a TZif header, in the order of the file. */
struct header {
    char version;
    uint32_t n_ut_flags;
    uint32_t n_std_flags;
    uint32_t n_leaps;
    uint32_t n_times;
    uint32_t n_types;
    uint32_t n_chars;
};

static int refuse(const struct reader *r, int code, const char *expected)
{
    err_set(r->err, code, "invalid time zone file");
    err_detail(r->err, "at byte %zu: expected %s", r->at, expected);
    return code;
}

static uint64_t big_endian(const unsigned char *p, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value = value << 8 | p[i];
    return value;
}

static uint32_t take_u32(struct reader *r)
{
    uint32_t value = (uint32_t)big_endian(r->bytes + r->at, 4);
    r->at += 4;
    return value;
}

static int read_header(struct reader *r, struct header *ret)
{
    if (r->len - r->at < HEADER_BYTES)
        return refuse(r, REDRIVE_E_PARSE, "a header of 44 bytes");
    if (memcmp(r->bytes + r->at, "TZif", 4) != 0)
        return refuse(r, REDRIVE_E_PARSE, "`TZif`");
    ret->version = (char)r->bytes[r->at + 4];
    if (ret->version != '\0' && ret->version < '2')
        return refuse(r, REDRIVE_E_PARSE, "a version of 1, 2, 3 or later");
    r->at += 20; /* magic, version, and 15 bytes kept for the future */
    ret->n_ut_flags = take_u32(r);
    ret->n_std_flags = take_u32(r);
    ret->n_leaps = take_u32(r);
    ret->n_times = take_u32(r);
    ret->n_types = take_u32(r);
    ret->n_chars = take_u32(r);
    return 0;
}

/* The size of what follows a header. Counts have 32 bits, so this cannot overflow. */
static uint64_t block_bytes(const struct header *h, uint64_t time_bytes)
{
    return h->n_times * (time_bytes + 1) + (uint64_t)h->n_types * TYPE_BYTES + h->n_chars +
           h->n_leaps * (time_bytes + 4) + h->n_std_flags + h->n_ut_flags;
}

static int check_counts(const struct reader *r, const struct header *h, uint64_t time_bytes)
{
    if (h->n_leaps > 0) {
        refuse(r, REDRIVE_E_INVALID, "no leap seconds");
        err_hint(r->err, "use the zone of that name outside of `right/`");
        return REDRIVE_E_INVALID;
    }
    if (h->n_times > TZ_MAX_TRANSITIONS)
        return refuse(r, REDRIVE_E_TOO_BIG, "at most 4096 transitions");
    if (h->n_types < 1 || h->n_types > MAX_TYPES)
        return refuse(r, REDRIVE_E_PARSE, "1 to 256 types of local time");
    if (h->n_chars < 1)
        return refuse(r, REDRIVE_E_PARSE, "names of local time");
    if ((h->n_std_flags != 0 && h->n_std_flags != h->n_types) ||
        (h->n_ut_flags != 0 && h->n_ut_flags != h->n_types))
        return refuse(r, REDRIVE_E_PARSE, "as many indicators as types");
    if (block_bytes(h, time_bytes) > r->len - r->at)
        return refuse(r, REDRIVE_E_PARSE, "more bytes: the file is cut short");
    return 0;
}

static int read_types(struct reader *r, const struct header *h, int32_t ret_offsets[MAX_TYPES])
{
    for (uint32_t i = 0; i < h->n_types; i++, r->at += TYPE_BYTES) {
        const unsigned char *type = r->bytes + r->at;
        int32_t offset = (int32_t)big_endian(type, 4);
        if (offset < TZ_OFFSET_MIN_S || offset > TZ_OFFSET_MAX_S)
            return refuse(r, REDRIVE_E_PARSE, "an offset of less than 26 hours");
        if (type[4] > 1)
            return refuse(r, REDRIVE_E_PARSE, "a flag for summer time");
        if (type[5] >= h->n_chars)
            return refuse(r, REDRIVE_E_PARSE, "the index of a name");
        ret_offsets[i] = offset;
    }
    return 0;
}

static int64_t read_time(const unsigned char *p, size_t time_bytes)
{
    return time_bytes == 8 ? (int64_t)big_endian(p, 8) : (int32_t)big_endian(p, 4);
}

/* Reads a block whose counts have been checked: times, an index of a type for each, the types.
 * Names and indicators tell how the zone was compiled and are skipped. */
static int read_block(struct reader *r, const struct header *h, size_t time_bytes, struct tz *ret)
{
    const unsigned char *times = r->bytes + r->at;
    size_t times_at = r->at, indexes_at = times_at + h->n_times * time_bytes;
    int32_t offsets[MAX_TYPES];

    r->at = indexes_at + h->n_times;
    int rc = read_types(r, h, offsets);
    if (rc < 0)
        return rc;
    ret->first_offset_s = offsets[0];
    if (h->n_times == 0)
        return 0;

    ret->transitions = calloc(h->n_times, sizeof *ret->transitions);
    if (!ret->transitions)
        return err_nomem(r->err);
    for (uint32_t i = 0; i < h->n_times; i++) {
        struct tz_transition *t = &ret->transitions[i];
        unsigned type = r->bytes[indexes_at + i];
        if (type >= h->n_types) {
            r->at = indexes_at + i;
            return refuse(r, REDRIVE_E_PARSE, "the index of a type");
        }
        *t = (struct tz_transition){read_time(times + i * time_bytes, time_bytes), offsets[type]};
        if (i > 0 && t->at_s <= t[-1].at_s) {
            r->at = times_at + i * time_bytes;
            return refuse(r, REDRIVE_E_PARSE, "transitions in ascending order");
        }
    }
    ret->n_transitions = h->n_times;
    return 0;
}

/* A TZ string between two newlines; an empty one means that nothing is known. */
static int read_footer(struct reader *r, struct tz *ret)
{
    if (r->at == r->len || r->bytes[r->at] != '\n')
        return refuse(r, REDRIVE_E_PARSE, "a footer");
    const char *start = (const char *)r->bytes + r->at + 1;
    const char *end = memchr(start, '\n', r->len - r->at - 1);
    if (!end)
        return refuse(r, REDRIVE_E_PARSE, "a footer that ends with a newline");
    if (end == start)
        return 0;
    ret->has_rule = true;
    return tz_rule_parse((struct str){start, (size_t)(end - start)}, &ret->rule, r->err);
}

static int parse(struct reader *r, struct tz *ret)
{
    struct header h;
    uint64_t time_bytes = 4;

    int rc = read_header(r, &h);
    if (rc < 0)
        return rc;
    bool has_second_block = h.version != '\0';
    if (has_second_block) {
        if (block_bytes(&h, 4) > r->len - r->at)
            return refuse(r, REDRIVE_E_PARSE, "more bytes: the file is cut short");
        r->at += block_bytes(&h, 4);
        rc = read_header(r, &h);
        if (rc < 0)
            return rc;
        time_bytes = 8;
    }
    rc = check_counts(r, &h, time_bytes);
    if (rc < 0)
        return rc;
    size_t block_end = r->at + block_bytes(&h, time_bytes);
    rc = read_block(r, &h, time_bytes, ret);
    if (rc < 0)
        return rc;
    r->at = block_end;
    return has_second_block ? read_footer(r, ret) : 0;
}

int tz_parse(struct tz *ret, const void *bytes, size_t len, struct redrive_err *err)
{
    struct reader r = {bytes, len, 0, err};

    *ret = (struct tz){0};
    int rc = parse(&r, ret);
    if (rc < 0)
        tz_release(ret);
    return rc;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int64_t within_limit(int64_t utc_s)
{
    if (utc_s > TIME_LIMIT_S)
        return TIME_LIMIT_S;
    return utc_s < -TIME_LIMIT_S ? -TIME_LIMIT_S : utc_s;
}

/* How many transitions have happened by then. */
static size_t count_until(const struct tz *tz, int64_t utc_s)
{
    size_t low = 0, high = tz->n_transitions;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tz->transitions[middle].at_s <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct tz_span tz_span_at(const struct tz *tz, int64_t utc_s)
{
    size_t n = count_until(tz, utc_s);
    if (n == tz->n_transitions && tz->has_rule) {
        struct tz_span span = tz_rule_span_at(&tz->rule, within_limit(utc_s));
        if (utc_s > TIME_LIMIT_S)
            span.until_s = INT64_MAX;
        return span;
    }
    return (struct tz_span){
        .offset_s = n == 0 ? tz->first_offset_s : tz->transitions[n - 1].offset_s,
        .until_s = n == tz->n_transitions ? INT64_MAX : tz->transitions[n].at_s,
    };
}

int32_t tz_offset_at(const struct tz *tz, int64_t utc_s)
{
    return tz_span_at(tz, utc_s).offset_s;
}

struct civil tz_local(const struct tz *tz, int64_t utc_s)
{
    utc_s = within_limit(utc_s);
    return civil_from_seconds(utc_s + tz_offset_at(tz, utc_s));
}

/* Walks over all spans in which clocks could show that time. Local time rises within a span, so
 * that each span shows it at most once; if none does, it was jumped over between two. */
int tz_local_to_utc(const struct tz *tz, const struct civil *local, int64_t ret_utc_s[2])
{
    const int64_t wanted = civil_to_seconds(local);
    const int64_t end = wanted - TZ_OFFSET_MIN_S;
    int64_t at = wanted - TZ_OFFSET_MAX_S;
    int found = 0;
    bool passed = false;

    while (at <= end && found < 2) {
        struct tz_span span = tz_span_at(tz, at);
        int64_t utc = wanted - span.offset_s;
        if (utc >= at && utc < span.until_s) {
            ret_utc_s[found++] = utc;
        } else if (utc < at && found == 0 && !passed) {
            ret_utc_s[0] = at;
            passed = true;
        }
        at = span.until_s;
    }
    return found;
}
