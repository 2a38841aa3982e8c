/* limit.c - reads rates; token buckets and slots. */
#include "core/limit/limit.h"

#include "base/err.h"
#include "core/elapsed.h"

#define DAY_S 86400

static const struct {
    const char *name;
    uint32_t seconds;
} UNITS[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", DAY_S}};

static int refuse(int code, const char *fact, struct redrive_err *err)
{
    err_set(err, code, "invalid rate: %s", fact);
    err_detail(err, "expected a number from 1 to 1000000000, `/`, and s, min, h or d");
    err_hint(err, "`60/min` is sixty a minute");
    return code;
}

int rate_parse(struct str text, struct rate *ret, struct redrive_err *err)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++)
        if (count <= RATE_MAX_COUNT)
            count = count * 10 + (uint64_t)(text.ptr[i] - '0');
    if (i == 0)
        return refuse(REDRIVE_E_PARSE, "it does not start with a number", err);
    if (count < 1 || count > RATE_MAX_COUNT)
        return refuse(REDRIVE_E_RANGE, "the number is out of range", err);
    if (i == text.len || text.ptr[i] != '/')
        return refuse(REDRIVE_E_PARSE, "no `/` after the number", err);

    struct str unit = {text.ptr + i + 1, text.len - i - 1};
    for (size_t u = 0; u < sizeof UNITS / sizeof UNITS[0]; u++) {
        if (str_is(unit, UNITS[u].name)) {
            *ret = (struct rate){.count = (uint32_t)count, .period_s = UNITS[u].seconds};
            return 0;
        }
    }
    return refuse(REDRIVE_E_UNKNOWN, "unknown unit of time", err);
}

const char *rate_unit(const struct rate *rate)
{
    size_t u = 0;
    while (u + 1 < sizeof UNITS / sizeof UNITS[0] && UNITS[u].seconds != rate->period_s)
        u++;
    return UNITS[u].name;
}

static int64_t parts_per_ms(const struct rate *rate)
{
    return (int64_t)rate->count * (DAY_S / rate->period_s);
}

static int64_t full(const struct rate *rate)
{
    return BUCKET_TOKEN * (rate->burst ? rate->burst : rate->count);
}

/* The parts after `elapsed_ms` more. Compares before it multiplies: an idle year must not
 * overflow. */
static int64_t filled(const struct bucket *b, const struct rate *rate, int64_t elapsed_ms)
{
    int64_t missing = full(rate) - b->parts;
    if (missing <= 0 || elapsed_ms > missing / parts_per_ms(rate))
        return full(rate);
    return b->parts + elapsed_ms * parts_per_ms(rate);
}

void bucket_init(struct bucket *b, const struct rate *rate, int64_t now_ms)
{
    *b = (struct bucket){full(rate), now_ms};
}

bool bucket_follow_clock(struct bucket *b, int64_t now_ms)
{
    return elapsed_follow(&b->updated_ms, now_ms);
}

uint32_t bucket_take(struct bucket *b, const struct rate *rate, int64_t now_ms, uint32_t want)
{
    b->parts = filled(b, rate, elapsed_take(&b->updated_ms, now_ms));
    int64_t tokens = b->parts / BUCKET_TOKEN;
    uint32_t granted = tokens < want ? (uint32_t)tokens : want;
    b->parts -= granted * BUCKET_TOKEN;
    return granted;
}

void bucket_give(struct bucket *b, const struct rate *rate, uint32_t n)
{
    const int64_t parts = b->parts + n * BUCKET_TOKEN;
    b->parts = parts < full(rate) ? parts : full(rate);
}

bool bucket_is_full(const struct bucket *b, const struct rate *rate, int64_t now_ms)
{
    return filled(b, rate, elapsed_since(b->updated_ms, now_ms)) == full(rate);
}

int64_t bucket_wait_ms(const struct bucket *b, const struct rate *rate, int64_t now_ms)
{
    int64_t missing = BUCKET_TOKEN - filled(b, rate, elapsed_since(b->updated_ms, now_ms));
    if (missing <= 0)
        return 0;
    /* Within the slack nothing is filled before the clock has reached the mark again. */
    int64_t behind = elapsed_since(now_ms, b->updated_ms);
    if (behind > ELAPSED_SLACK_MS)
        behind = 0;
    return behind + (missing + parts_per_ms(rate) - 1) / parts_per_ms(rate);
}

uint32_t slots_take(struct slots *s, uint32_t want)
{
    uint32_t limit = s->max ? s->max : UINT32_MAX;
    uint32_t unused = limit > s->used ? limit - s->used : 0;
    uint32_t granted = want < unused ? want : unused;
    s->used += granted;
    return granted;
}

void slots_give(struct slots *s, uint32_t n)
{
    s->used -= n < s->used ? n : s->used;
}
