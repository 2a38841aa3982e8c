/* cron.c - reads cron expressions; the next tick of one, over the changes of a time zone. */
#include "core/cron/cron.h"

#include <stdio.h>

#include "base/err.h"
#include "base/text/str.h"

#define ALL_HOURS 0xFFFFFFu
#define HOUR_S    3600

/* 29 February falls on a given weekday every 28 years, or 40 over a year like 2100. */
#define HORIZON_S (INT64_C(41) * 366 * CIVIL_DAY_S)

/* A local time that was shown longer ago than this is in the past in every zone. */
#define LOOK_BACK_S (TZ_OFFSET_MAX_S - TZ_OFFSET_MIN_S)

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The lowest value from `from` on whose bit is set, or -1. */
static int next_bit(uint64_t bits, int from)
{
    bits = bits >> from << from;
    return bits ? __builtin_ctzll(bits) : -1;
}

static bool day_matches(const struct cron *cron, int64_t days, int day_of_month)
{
    bool by_month = cron->days >> day_of_month & 1;
    bool by_week = cron->weekdays >> civil_weekday(days) & 1;
    return cron->either_day ? by_month || by_week : by_month && by_week;
}

/* The first matching day from `days` on, or one that starts at `to` or later. */
static int64_t next_day(const struct cron *cron, int64_t days, int64_t to)
{
    while (days * CIVIL_DAY_S < to) {
        struct civil date = civil_from_days(days);
        if (!(cron->months >> date.month & 1)) {
            days += civil_days_in_month(date.year, date.month) - date.day + 1;
            continue;
        }
        if (day_matches(cron, days, date.day))
            break;
        days++;
    }
    return days;
}

/* The first matching second of a day from `second` on, or -1. */
static int next_in_day(const struct cron *cron, int second)
{
    int hour = second / HOUR_S;
    int minute = -1;
    if (cron->hours >> hour & 1)
        minute = next_bit(cron->minutes, second % HOUR_S / 60);
    if (minute < 0) {
        hour = next_bit(cron->hours, hour + 1);
        minute = next_bit(cron->minutes, 0);
    }
    return hour < 0 ? -1 : hour * HOUR_S + minute * 60;
}

/* The first matching local time in [from, to). Jumps over months, days and hours that do not
 * match. */
static bool next_local(const struct cron *cron, int64_t from, int64_t to, int64_t *ret)
{
    from = floor_div(from + 59, 60) * 60;
    while (from < to) {
        int64_t start = floor_div(from, CIVIL_DAY_S);
        int64_t days = next_day(cron, start, to);
        int second = next_in_day(cron, days == start ? (int)floor_mod(from, CIVIL_DAY_S) : 0);
        if (second >= 0) {
            *ret = days * CIVIL_DAY_S + second;
            return *ret < to;
        }
        from = (days + 1) * CIVIL_DAY_S;
    }
    return false;
}

/* Walks over the zone's spans of constant offset, in each of which local time simply runs on.
 * `shown` is the latest local time that clocks have shown up to the start of a span: local times
 * between it and the first of the span were jumped over, those below it come again. */
static bool next_tick(const struct cron *cron, const struct tz *tz, int64_t first, int64_t *ret)
{
    const bool names_hours = cron->hours != ALL_HOURS;
    const int64_t limit = first + HORIZON_S;
    int64_t at = first - LOOK_BACK_S;
    int64_t shown = at + tz_offset_at(tz, at);

    while (at < limit) {
        struct tz_span span = tz_span_at(tz, at);
        int64_t until = min_of(span.until_s, limit);
        int64_t from = max_of(at, first) + span.offset_s;
        int64_t local;

        if (names_hours) {
            if (at >= first && next_local(cron, shown, at + span.offset_s, &local)) {
                *ret = at;
                return true;
            }
            from = max_of(from, shown);
        }
        if (next_local(cron, from, until + span.offset_s, &local)) {
            *ret = local - span.offset_s;
            return true;
        }
        shown = max_of(shown, until + span.offset_s);
        at = until;
    }
    return false;
}

int cron_next(const struct cron *cron, const struct tz *tz, int64_t after_ms, int64_t *ret_ms)
{
    int64_t tick, tick_ms;
    if (!next_tick(cron, tz, floor_div(after_ms, 1000) + 1, &tick) ||
        __builtin_mul_overflow(tick, 1000, &tick_ms))
        return REDRIVE_E_NOT_FOUND;
    *ret_ms = tick_ms;
    return 0;
}

/* ---- Reading expressions --------------------------------------------------------------------- */

#define N_FIELDS 5

static const char *const MONTHS[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                     "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const WEEKDAYS[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct field {
    const char *name;
    const char *values; /* for messages */
    int first;
    int last;    /* of the values that `*` stands for */
    int highest; /* that may be written: 7 is Sunday again */
    const char *const *names;
    int n_names;
};

static const struct field FIELDS[N_FIELDS] = {
    {"minute", "0 to 59", 0, 59, 59, NULL, 0},
    {"hour", "0 to 23", 0, 23, 23, NULL, 0},
    {"day of month", "1 to 31", 1, 31, 31, NULL, 0},
    {"month", "1 to 12 or jan to dec", 1, 12, 12, MONTHS, 12},
    {"day of week", "0 to 7 or sun to sat", 0, 6, 7, WEEKDAYS, 7},
};

static const struct {
    const char *name;
    const char *meaning;
} SHORTHANDS[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};
#define N_SHORTHANDS (sizeof SHORTHANDS / sizeof SHORTHANDS[0])

/* Reads one field. Positions in messages count from the start of the whole text. */
struct parser {
    const struct field *field;
    const char *start; /* of the whole text */
    const char *at;
    const char *end; /* of the field */
    struct redrive_err *err;
};

#define INVALID "invalid cron expression: "

/* Adds to an error that has been set: where it is, and what was expected there. */
static int expected(const struct parser *p, int code, const char *at, const char *what)
{
    err_detail(p->err, "%s (field %d), position %d: expected %s", p->field->name,
               (int)(p->field - FIELDS) + 1, (int)(at - p->start) + 1, what);
    return code;
}

static int refuse_character(const struct parser *p, const char *wanted)
{
    if (p->at == p->end)
        err_set(p->err, REDRIVE_E_PARSE, INVALID "the %s field ends too early", p->field->name);
    else if (*p->at > ' ' && *p->at <= '~')
        err_set(p->err, REDRIVE_E_PARSE, INVALID "unexpected `%c`", *p->at);
    else
        err_set(p->err, REDRIVE_E_PARSE, INVALID "unexpected byte 0x%02x", (unsigned char)*p->at);
    return expected(p, REDRIVE_E_PARSE, p->at, wanted);
}

static bool accept(struct parser *p, char c)
{
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* At most this much of a wrong word is repeated in a message. */
static int shown(const char *start, const char *end)
{
    return (int)(end - start < 20 ? end - start : 20);
}

static int read_number(struct parser *p, int min, int max, const char *what, const char *wanted,
                       int *ret)
{
    const char *start = p->at;
    int n = 0;
    for (; p->at < p->end && str_is_digit(*p->at); p->at++)
        if (n <= max)
            n = n * 10 + (*p->at - '0');
    if (p->at == start)
        return refuse_character(p, wanted);
    if (n < min || n > max) {
        err_set(p->err, REDRIVE_E_RANGE, INVALID "%s %.*s is out of range", what,
                shown(start, p->at), start);
        return expected(p, REDRIVE_E_RANGE, start, wanted);
    }
    *ret = n;
    return 0;
}

static int read_name(struct parser *p, int *ret)
{
    const struct field *f = p->field;
    const char *start = p->at;
    while (p->at < p->end && is_letter(*p->at))
        p->at++;
    struct str word = {start, (size_t)(p->at - start)};
    for (int i = 0; i < f->n_names; i++) {
        if (str_eq_nocase(word, str_of(f->names[i]))) {
            *ret = f->first + i;
            return 0;
        }
    }

    err_set(p->err, REDRIVE_E_UNKNOWN, INVALID "unknown %s `%.*s`", f->name, shown(start, p->at),
            start);
    expected(p, REDRIVE_E_UNKNOWN, start, f->values);
    /* A name written out, like `monday`, is too far from `mon` for a misspelling. */
    const char *nearest = NULL;
    if (word.len > 3)
        nearest = suggest((struct str){word.ptr, 3}, f->names, (size_t)f->n_names);
    if (!nearest)
        nearest = suggest(word, f->names, (size_t)f->n_names);
    if (nearest)
        err_hint(p->err, "did you mean `%s`?", nearest);
    return REDRIVE_E_UNKNOWN;
}

static int read_value(struct parser *p, int *ret)
{
    const struct field *f = p->field;
    if (f->names && p->at < p->end && is_letter(*p->at))
        return read_name(p, ret);
    return read_number(p, f->first, f->highest, f->name, f->values, ret);
}

/* The end of a range whose start has been read. */
static int read_range_end(struct parser *p, int from, int *ret)
{
    const char *start = p->at;
    int to = 0;
    int rc = read_value(p, &to);
    if (rc < 0)
        return rc;
    /* `fri-sun`: the name says Sunday, and only the 7 lies behind a Friday. */
    if (to < from && is_letter(*start) && to == 0)
        to = p->field->highest;
    if (to < from) {
        err_set(p->err, REDRIVE_E_RANGE, INVALID "the range runs backwards");
        err_hint(p->err, "write two ranges, separated by a comma");
        return expected(p, REDRIVE_E_RANGE, start, "a value that is not lower than the first");
    }
    *ret = to;
    return 0;
}

static int read_item(struct parser *p, uint64_t *mask)
{
    const struct field *f = p->field;
    int from = f->first, to = f->last, step = 1;
    int rc = 0;

    if (!accept(p, '*')) {
        rc = read_value(p, &from);
        if (rc < 0)
            return rc;
        if (accept(p, '-'))
            rc = read_range_end(p, from, &to);
        else if (p->at == p->end || *p->at != '/' || from > to)
            to = from;
        if (rc < 0)
            return rc;
    }
    if (accept(p, '/')) {
        int n_values = f->last - f->first + 1;
        char wanted[32];
        snprintf(wanted, sizeof wanted, "1 to %d", n_values);
        rc = read_number(p, 1, n_values, "step", wanted, &step);
        if (rc < 0)
            return rc;
    }
    for (int value = from; value <= to; value += step)
        *mask |= UINT64_C(1) << (value > f->last ? f->first : value);
    return 0;
}

static int read_field(struct parser *p, uint64_t *ret)
{
    uint64_t mask = 0;
    do {
        int rc = read_item(p, &mask);
        if (rc < 0)
            return rc;
    } while (accept(p, ','));
    if (p->at < p->end)
        return refuse_character(p, "`,`, `-`, `/` or the end of the field");
    *ret = mask;
    return 0;
}

static int read_shorthand(struct str text, struct cron *ret, struct redrive_err *err)
{
    const char *names[N_SHORTHANDS];
    for (size_t i = 0; i < N_SHORTHANDS; i++) {
        names[i] = SHORTHANDS[i].name;
        if (str_eq_nocase(text, str_of(names[i])))
            return cron_parse(str_of(SHORTHANDS[i].meaning), ret, err);
    }
    err_set(err, REDRIVE_E_UNKNOWN, INVALID "unknown name");
    err_detail(err, "expected @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly");
    const char *nearest = suggest(text, names, N_SHORTHANDS);
    if (nearest)
        err_hint(err, "did you mean `%s`?", nearest);
    return REDRIVE_E_UNKNOWN;
}

/* Splits at spaces and tabs; returns how many words there are, and the first five. */
static size_t split(struct str text, struct str ret[N_FIELDS])
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        size_t start = i;
        while (i < text.len && text.ptr[i] != ' ' && text.ptr[i] != '\t')
            i++;
        if (i > start && n++ < N_FIELDS)
            ret[n - 1] = (struct str){text.ptr + start, i - start};
        i += i == start;
    }
    return n;
}

static int refuse_count(size_t n, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_PARSE, INVALID "%zu fields", n);
    err_detail(err, "expected 5: minute, hour, day of month, month, day of week");
    if (n > N_FIELDS)
        err_hint(err, "seconds and years have no field");
    return REDRIVE_E_PARSE;
}

/* Whether some month that matches has a day that matches. Every date falls on every weekday in
 * the end, so that weekdays need not be looked at. */
static bool can_fire(const struct cron *cron)
{
    if (cron->either_day)
        return true;
    for (int month = 1; month <= 12; month++) {
        uint32_t days_of_month = (UINT32_C(2) << civil_days_in_month(2000, month)) - 1;
        if (cron->months >> month & 1 && cron->days & days_of_month)
            return true;
    }
    return false;
}

int cron_parse(struct str text, struct cron *ret, struct redrive_err *err)
{
    struct str trimmed = str_trim(text);
    struct str words[N_FIELDS];
    uint64_t masks[N_FIELDS];

    if (trimmed.len > 0 && trimmed.ptr[0] == '@')
        return read_shorthand(trimmed, ret, err);
    size_t n = split(trimmed, words);
    if (n != N_FIELDS)
        return refuse_count(n, err);
    for (int i = 0; i < N_FIELDS; i++) {
        struct parser p = {&FIELDS[i], text.ptr, words[i].ptr, words[i].ptr + words[i].len, err};
        int rc = read_field(&p, &masks[i]);
        if (rc < 0)
            return rc;
    }

    struct cron cron = {
        .minutes = masks[0],
        .hours = (uint32_t)masks[1],
        .days = (uint32_t)masks[2],
        .months = (uint16_t)masks[3],
        .weekdays = (uint8_t)masks[4],
        .either_day = words[2].ptr[0] != '*' && words[4].ptr[0] != '*',
    };
    if (!can_fire(&cron)) {
        err_set(err, REDRIVE_E_INVALID, INVALID "it would never fire");
        err_detail(err, "none of its months has a day that it names");
        return REDRIVE_E_INVALID;
    }
    *ret = cron;
    return 0;
}
