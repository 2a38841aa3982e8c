/* tz.c - parses TZif files and looks up offsets. */
#include "core/time/tz.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "core/time/civil.h"

/* ---- POSIX rules ----------------------------------------------------------------------------- */

#define HOUR_S         3600
#define MAX_RULE_HOURS 167 /* of a date's time: a week less an hour, RFC 8536 */

/* Reads from left to right; the first thing that is not as expected is remembered and stops it. */
struct rule_reader {
    struct str text;
    size_t at;
    const char *expected; /* NULL: all is well */
    size_t failed_at;
};

static bool expect(struct rule_reader *r, bool met, const char *what)
{
    if (!met && !r->expected) {
        r->expected = what;
        r->failed_at = r->at;
    }
    return r->expected == NULL;
}

static char peek(const struct rule_reader *r)
{
    if (r->at == r->text.len)
        return '\0';
    return r->text.ptr[r->at];
}

static bool accept(struct rule_reader *r, char c)
{
    if (r->expected || r->at == r->text.len || r->text.ptr[r->at] != c)
        return false;
    r->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* At least three letters, or between < and > letters, digits and signs. */
static void read_name(struct rule_reader *r)
{
    bool quoted = accept(r, '<');
    size_t start = r->at;
    while (is_letter(peek(r)) ||
           (quoted && (str_is_digit(peek(r)) || peek(r) == '+' || peek(r) == '-')))
        r->at++;
    bool long_enough = r->at - start >= 3;
    if (!long_enough)
        r->at = start;
    expect(r, long_enough, "a name of three letters or more");
    if (quoted)
        expect(r, accept(r, '>'), "`>`");
}

static int read_number(struct rule_reader *r, int min, int max, const char *what)
{
    int n = 0;
    size_t start = r->at;
    while (r->at - start < 3 && str_is_digit(peek(r)))
        n = n * 10 + (r->text.ptr[r->at++] - '0');
    bool met = r->at > start && n >= min && n <= max;
    if (!met)
        r->at = start;
    expect(r, met, what);
    return n;
}

/* [+-]hh[:mm[:ss]] */
static int32_t read_rule_time(struct rule_reader *r, int max_hours)
{
    int sign = accept(r, '-') ? -1 : 1;
    if (sign > 0)
        accept(r, '+');
    int32_t seconds = HOUR_S * read_number(r, 0, max_hours, "hours");
    if (accept(r, ':')) {
        seconds += 60 * read_number(r, 0, 59, "minutes");
        if (accept(r, ':'))
            seconds += read_number(r, 0, 59, "seconds");
    }
    return sign * seconds;
}

static struct tz_date read_date(struct rule_reader *r)
{
    struct tz_date date = {.time_s = 2 * HOUR_S};

    expect(r, accept(r, ','), "`,` and a date");
    if (accept(r, 'M')) {
        date.form = TZ_DATE_MONTH;
        date.month = read_number(r, 1, 12, "a month from 1 to 12");
        expect(r, accept(r, '.'), "`.`");
        date.week = read_number(r, 1, 5, "a week from 1 to 5");
        expect(r, accept(r, '.'), "`.`");
        date.day = read_number(r, 0, 6, "a weekday from 0 to 6");
    } else if (accept(r, 'J')) {
        date.form = TZ_DATE_JULIAN;
        date.day = read_number(r, 1, 365, "a day from 1 to 365");
    } else {
        date.form = TZ_DATE_DAY;
        date.day = read_number(r, 0, 365, "a day from 0 to 365");
    }
    if (accept(r, '/'))
        date.time_s = read_rule_time(r, MAX_RULE_HOURS);
    return date;
}

int tz_rule_parse(struct str text, struct tz_rule *ret, struct redrive_err *err)
{
    struct rule_reader r = {.text = text};
    struct tz_rule rule = {0};

    read_name(&r);
    rule.std_offset_s = -read_rule_time(&r, 24);
    if (!r.expected && r.at < text.len) {
        rule.has_dst = true;
        read_name(&r);
        bool given = peek(&r) != ',' && peek(&r) != '\0';
        rule.dst_offset_s = given ? -read_rule_time(&r, 24) : rule.std_offset_s + HOUR_S;
        rule.dst_start = read_date(&r);
        rule.dst_end = read_date(&r);
    }
    if (!expect(&r, r.at == text.len, "the end")) {
        err_set(err, REDRIVE_E_PARSE, "invalid time zone rule");
        err_detail(err, "position %zu: expected %s", r.failed_at + 1, r.expected);
        return REDRIVE_E_PARSE;
    }
    *ret = rule;
    return 0;
}

/* Seconds from 1970 to the date's moment in a year, on the clock that it is told by. */
static int64_t date_in_year(const struct tz_date *date, int64_t year)
{
    int64_t day = 0;
    switch (date->form) {
    case TZ_DATE_MONTH: {
        int64_t first = civil_to_days(year, date->month, 1);
        int day_of_month = 1 + (date->day - civil_weekday(first) + 7) % 7 + 7 * (date->week - 1);
        if (day_of_month > civil_days_in_month(year, date->month))
            day_of_month -= 7;
        day = first + day_of_month - 1;
        break;
    }
    case TZ_DATE_JULIAN: {
        bool after_leap_day = date->day >= 60 && civil_is_leap(year);
        day = civil_to_days(year, 1, 1) + date->day - 1 + after_leap_day;
        break;
    }
    case TZ_DATE_DAY: day = civil_to_days(year, 1, 1) + date->day; break;
    }
    return day * CIVIL_DAY_S + date->time_s;
}

struct change {
    int64_t at_s; /* UTC */
    int32_t offset_s;
};

/* The two changes of a year, in their order. */
static void changes_of_year(const struct tz_rule *rule, int64_t year, struct change ret[2])
{
    struct change start = {date_in_year(&rule->dst_start, year) - rule->std_offset_s,
                           rule->dst_offset_s};
    struct change end = {date_in_year(&rule->dst_end, year) - rule->dst_offset_s,
                         rule->std_offset_s};
    bool south = end.at_s < start.at_s;
    ret[south] = start;
    ret[!south] = end;
}

/* A date can lie up to a week outside of its year, so that the changes next to an instant belong
 * to its year or to one of two on either side. */
struct tz_span tz_rule_span_at(const struct tz_rule *rule, int64_t utc_s)
{
    struct tz_span span = {rule->std_offset_s, INT64_MAX};
    int64_t latest = INT64_MIN;

    if (!rule->has_dst)
        return span;
    int64_t year = civil_from_seconds(utc_s).year;
    for (int64_t y = year - 2; y <= year + 2; y++) {
        struct change changes[2];
        changes_of_year(rule, y, changes);
        for (int i = 0; i < 2; i++) {
            if (changes[i].at_s > utc_s) {
                if (changes[i].at_s < span.until_s)
                    span.until_s = changes[i].at_s;
            } else if (changes[i].at_s >= latest) {
                latest = changes[i].at_s;
                span.offset_s = changes[i].offset_s;
            }
        }
    }
    return span;
}

/* ---- Zones ----------------------------------------------------------------------------------- */

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
