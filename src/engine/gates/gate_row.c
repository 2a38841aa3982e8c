/* gate_row.c - the row of a breaker or a limit: JSON, so that administrators of the database can
 * read it. One list of fields serves both ways. */
#include "engine/gates/gate.h"

#include <stddef.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/text/buf.h"

#define BREAKER_FORMAT  3
#define LIMIT_FORMAT    4
#define BUDGET_FORMAT   5 /* of a limit with a retry budget: earlier versions cannot read it */
#define ADAPTIVE_FORMAT 6 /* of one whose slots are adaptive, likewise */
#define TIME_MAX_MS     (INT64_MAX / 4)
#define AMOUNT_MAX      1e30
#define REOPENED_MAX    UINT32_C(1000000)

enum field_type {
    FIELD_BOOL,
    FIELD_U32,
    FIELD_U64, /* as a signed number of the same bits */
    FIELD_I64,
    FIELD_TIME, /* of the wall clock; one that no clock shows could not be reckoned with */
    FIELD_DOUBLE,
    FIELD_STATE,   /* enum redrive_breaker_state, by name */
    FIELD_ON_OPEN, /* enum redrive_on_open, by name */
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset; /* in a struct gate */
    size_t n;      /* of an array; 0: it is none */
    size_t step;   /* from one of its items to the next */
};

#define ONE(name, type, member)                         \
    {                                                   \
        name, type, offsetof(struct gate, member), 0, 0 \
    }
#define MANY(name, type, array, member)                                           \
    {                                                                             \
        name, type, offsetof(struct gate, array[0] member),                       \
            sizeof((struct gate *)0)->array / sizeof((struct gate *)0)->array[0], \
            sizeof((struct gate *)0)->array[0]                                    \
    }

static const struct field BREAKER[] = {
    ONE("state", FIELD_STATE, breaker.state),
    ONE("has_parked", FIELD_BOOL, has_parked),
    ONE("candidates", FIELD_U32, candidates),
    ONE("candidates_until_ms", FIELD_TIME, candidates_until_ms),
    ONE("consecutive", FIELD_U32, breaker.consecutive),
    ONE("probe_successes", FIELD_U32, breaker.probe_successes),
    ONE("probe_failures", FIELD_U32, breaker.probe_failures),
    ONE("probe_slow", FIELD_U32, breaker.probe_slow),
    ONE("reopened", FIELD_U32, breaker.reopened),
    ONE("generation", FIELD_U64, breaker.generation),
    ONE("next_token", FIELD_U64, breaker.next_token),
    ONE("seed", FIELD_U64, breaker.seed),
    ONE("opened_at_ms", FIELD_TIME, breaker.opened_at_ms),
    ONE("retry_at_ms", FIELD_TIME, breaker.retry_at_ms),
    ONE("bucket_start_ms", FIELD_TIME, breaker.window.start_ms),
    ONE("bucket_newest", FIELD_U32, breaker.window.newest),
    MANY("bucket_calls", FIELD_U32, breaker.window.buckets, .calls),
    MANY("bucket_failures", FIELD_U32, breaker.window.buckets, .failures),
    MANY("bucket_slow", FIELD_U32, breaker.window.buckets, .slow),
    ONE("last_calls", FIELD_U32, breaker.window.last.calls),
    MANY("last_failed", FIELD_U64, breaker.window.last.failed, ),
    MANY("last_slow", FIELD_U64, breaker.window.last.slow, ),
    MANY("probe_tokens", FIELD_U64, breaker.probes, .token),
    MANY("probe_expires_ms", FIELD_TIME, breaker.probes, .expires_ms),
    ONE("releasing_rate", FIELD_DOUBLE, release.rate),
    ONE("releasing_credit", FIELD_DOUBLE, release.credit),
    ONE("releasing_credit_ms", FIELD_TIME, release.credit_ms),
    ONE("releasing_grown_ms", FIELD_TIME, release.grown_ms),
    ONE("failure_threshold", FIELD_U32, breaker_config.failure_threshold),
    ONE("failure_rate", FIELD_DOUBLE, breaker_config.failure_rate),
    ONE("min_calls", FIELD_U32, breaker_config.min_calls),
    ONE("window_ms", FIELD_I64, breaker_config.window_ms),
    ONE("window_calls", FIELD_U32, breaker_config.window_calls),
    ONE("slow_call_ms", FIELD_I64, breaker_config.slow_call_ms),
    ONE("slow_rate", FIELD_DOUBLE, breaker_config.slow_rate),
    ONE("recovery_timeout_ms", FIELD_I64, breaker_config.recovery_timeout_ms),
    ONE("recovery_multiplier", FIELD_DOUBLE, breaker_config.recovery_multiplier),
    ONE("recovery_max_ms", FIELD_I64, breaker_config.recovery_max_ms),
    ONE("recovery_jitter", FIELD_DOUBLE, breaker_config.recovery_jitter),
    ONE("half_open_max", FIELD_U32, breaker_config.half_open_max),
    ONE("success_threshold", FIELD_U32, breaker_config.success_threshold),
    ONE("half_open_rate", FIELD_DOUBLE, breaker_config.half_open_rate),
    ONE("probe_lease_ms", FIELD_I64, breaker_config.probe_lease_ms),
    ONE("on_open", FIELD_ON_OPEN, breaker_config.on_open),
    ONE("release_rate", FIELD_DOUBLE, breaker_config.release_rate),
    ONE("release_growth", FIELD_DOUBLE, breaker_config.release_growth),
};

static const struct field LIMIT[] = {
    ONE("has_parked", FIELD_BOOL, has_parked),
    ONE("candidates_until_ms", FIELD_TIME, candidates_until_ms),
    ONE("concurrency", FIELD_U32, slots.max),
    ONE("rate_count", FIELD_U32, rate.count),
    ONE("rate_period_s", FIELD_U32, rate.period_s),
    ONE("rate_burst", FIELD_U32, rate.burst),
    ONE("token_parts", FIELD_I64, bucket.parts),
    ONE("tokens_at_ms", FIELD_TIME, bucket.updated_ms),
    ONE("seems_empty", FIELD_BOOL, seems_empty),
};

/* After those of a limit. */
static const struct field BUDGET[] = {
    ONE("budget_tokens", FIELD_DOUBLE, budget.tokens),
    ONE("budget_tokens_at_ms", FIELD_TIME, budget.tokens_ms),
    ONE("budget_slot_ms", FIELD_TIME, budget.slot_ms),
    ONE("budget_newest", FIELD_U32, budget.newest),
    MANY("budget_firsts", FIELD_U32, budget.slots, .firsts),
    MANY("budget_retries", FIELD_U32, budget.slots, .retries),
    MANY("budget_reserved", FIELD_U32, budget.slots, .reserved),
    ONE("budget_min_per_second", FIELD_DOUBLE, budget_config.min_per_second),
    ONE("budget_ratio", FIELD_DOUBLE, budget_config.ratio),
    ONE("budget_window_ms", FIELD_I64, budget_config.window_ms),
    ONE("budget_max_tokens", FIELD_DOUBLE, budget_config.max_tokens),
    ONE("budget_token_ratio", FIELD_DOUBLE, budget_config.token_ratio),
};

/* After those of a budget, which need not be set. */
static const struct field ADAPTIVE[] = {
    ONE("adaptive_limit", FIELD_U32, adaptive.limit),
    ONE("adaptive_cut_at_ms", FIELD_TIME, adaptive.cut_ms),
    ONE("min_concurrency", FIELD_U32, adaptive_config.floor),
    ONE("max_concurrency", FIELD_U32, adaptive_config.ceiling),
};

#define N_OF(fields) (sizeof(fields) / sizeof((fields)[0]))

/* The fields of a row of that format; ends with an empty list. */
struct field_list {
    const struct field *fields;
    size_t n;
};
static const struct field_list FORMATS[][4] = {
    [BREAKER_FORMAT] = {{BREAKER, N_OF(BREAKER)}},
    [LIMIT_FORMAT] = {{LIMIT, N_OF(LIMIT)}},
    [BUDGET_FORMAT] = {{LIMIT, N_OF(LIMIT)}, {BUDGET, N_OF(BUDGET)}},
    [ADAPTIVE_FORMAT] = {{LIMIT, N_OF(LIMIT)}, {BUDGET, N_OF(BUDGET)}, {ADAPTIVE, N_OF(ADAPTIVE)}},
};

static int64_t format_of(const struct gate *gate)
{
    if (gate->kind == SHARED_BREAKER)
        return BREAKER_FORMAT;
    if (adaptive_is_set(&gate->adaptive_config))
        return ADAPTIVE_FORMAT;
    return budget_is_set(&gate->budget_config) ? BUDGET_FORMAT : LIMIT_FORMAT;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_item(struct json_writer *w, enum field_type type, const void *at)
{
    switch (type) {
    case FIELD_BOOL: json_put_bool(w, *(const bool *)at); break;
    case FIELD_U32: json_put_uint(w, *(const uint32_t *)at); break;
    case FIELD_DOUBLE: json_put_double(w, *(const double *)at); break;
    case FIELD_STATE:
        json_put_cstr(w, redrive_breaker_state_name(*(const enum redrive_breaker_state *)at));
        break;
    case FIELD_ON_OPEN:
        json_put_cstr(w, redrive_on_open_name(*(const enum redrive_on_open *)at));
        break;
    case FIELD_U64:
    case FIELD_I64:
    case FIELD_TIME:
    default: json_put_int(w, *(const int64_t *)at); break;
    }
}

static bool is_zero(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i])
            return false;
    return true;
}

/* How many items there are up to the last one that is not 0. */
static size_t items_of(const struct field *f, const char *at)
{
    const size_t len = f->type == FIELD_U32 ? sizeof(uint32_t) : sizeof(int64_t);
    size_t n = f->n;
    while (n > 0 && is_zero(at + (n - 1) * f->step, len))
        n--;
    return n;
}

static void write_field(struct json_writer *w, const struct field *f, const struct gate *gate)
{
    const char *at = (const char *)gate + f->offset;
    json_key(w, f->name);
    if (f->n == 0) {
        write_item(w, f->type, at);
        return;
    }
    const size_t items = items_of(f, at);
    json_begin_array(w);
    for (size_t k = 0; k < items; k++)
        write_item(w, f->type, at + k * f->step);
    json_end_array(w);
}

void gate_encode(const struct gate *gate, struct buf *out)
{
    struct json_writer w;
    const int64_t format = format_of(gate);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_int(&w, "format", format);
    for (const struct field_list *list = FORMATS[format]; list->n > 0; list++)
        for (size_t i = 0; i < list->n; i++)
            write_field(&w, &list->fields[i], gate);
    json_end_object(&w);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Each gives false when the text is not what it should be. */

static bool read_int(struct json_reader *r, int64_t low, int64_t high, int64_t *ret)
{
    return json_read_int(r, ret) == 0 && *ret >= low && *ret <= high;
}

static bool read_u32(struct json_reader *r, uint32_t *ret)
{
    int64_t value = 0;
    const bool is_sound = read_int(r, 0, UINT32_MAX, &value);
    *ret = is_sound ? (uint32_t)value : 0;
    return is_sound;
}

static bool read_state(struct json_reader *r, enum redrive_breaker_state *ret)
{
    struct json_string name;
    if (json_read_string(r, &name) < 0)
        return false;
    for (*ret = 0; *ret < REDRIVE_BREAKER_STATE_COUNT; ++*ret)
        if (json_string_is(name, redrive_breaker_state_name(*ret)))
            return true;
    *ret = REDRIVE_BREAKER_CLOSED;
    return false;
}

static bool read_on_open(struct json_reader *r, enum redrive_on_open *ret)
{
    struct json_string name;
    if (json_read_string(r, &name) < 0)
        return false;
    for (*ret = 0; *ret < REDRIVE_ON_OPEN_COUNT; ++*ret)
        if (json_string_is(name, redrive_on_open_name(*ret)))
            return true;
    *ret = REDRIVE_ON_OPEN_PARK;
    return false;
}

static bool read_item(struct json_reader *r, enum field_type type, void *at)
{
    switch (type) {
    case FIELD_BOOL: return json_read_bool(r, at) == 0;
    case FIELD_U32: return read_u32(r, at);
    case FIELD_TIME: return read_int(r, 0, TIME_MAX_MS, at);
    case FIELD_DOUBLE: return json_read_double(r, at) == 0;
    case FIELD_STATE: return read_state(r, at);
    case FIELD_ON_OPEN: return read_on_open(r, at);
    case FIELD_U64:
    case FIELD_I64:
    default: return json_read_int(r, at) == 0;
    }
}

static bool read_field(struct json_reader *r, const struct field *f, char *at)
{
    size_t k = 0;
    if (f->n == 0)
        return read_item(r, f->type, at);
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        if (k == f->n || !read_item(r, f->type, at + k++ * f->step))
            return false;
        rc = 0;
    }
    return rc == 0;
}

/* One after the other, as they are written; none may be missing. */
static bool read_row(struct json_reader *r, struct gate *gate)
{
    struct json_string key;
    int64_t format;
    const bool is_breaker = gate->kind == SHARED_BREAKER;
    if (json_enter_object(r) < 0 || json_next_key(r, &key) <= 0 || !json_string_is(key, "format") ||
        !read_int(r, is_breaker ? BREAKER_FORMAT : LIMIT_FORMAT,
                  is_breaker ? BREAKER_FORMAT : ADAPTIVE_FORMAT, &format))
        return false;
    for (const struct field_list *list = FORMATS[format]; list->n > 0; list++)
        for (size_t i = 0; i < list->n; i++)
            if (json_next_key(r, &key) <= 0 || !json_string_is(key, list->fields[i].name) ||
                !read_field(r, &list->fields[i], (char *)gate + list->fields[i].offset))
                return false;
    return json_next_key(r, &key) == 0 && json_end(r) == 0;
}

/* ---- What can be reckoned with --------------------------------------------------------------- */

static bool breaker_is_whole(struct gate *gate)
{
    struct breaker *b = &gate->breaker;
    struct release *release = &gate->release;
    if (b->reopened > REOPENED_MAX) /* the time grows no longer then, and each is a step */
        b->reopened = REOPENED_MAX;
    const bool has_pace =
        (release->rate == 0 || (release->rate >= 1 && release->rate <= AMOUNT_MAX)) &&
        release->credit >= -1 && release->credit <= AMOUNT_MAX;
    if (release->credit < 0) /* a rounding error */
        release->credit = 0;
    return has_pace && b->window.newest < BREAKER_BUCKETS &&
           b->window.last.calls <= REDRIVE_MAX_WINDOW_CALLS &&
           redrive_breaker_config_check(&gate->breaker_config, NULL) == 0;
}

static bool budget_is_whole(const struct gate *gate)
{
    return gate->budget.tokens >= 0 && gate->budget.tokens <= AMOUNT_MAX &&
           gate->budget.newest < BUDGET_SLOTS && budget_config_is_valid(&gate->budget_config);
}

static bool limit_is_whole(const struct gate *gate)
{
    const struct rate *rate = &gate->rate;
    const bool has_rate = rate->count <= RATE_MAX_COUNT &&
                          (rate->count == 0 || rate->period_s == 1 || rate->period_s == 60 ||
                           rate->period_s == 3600 || rate->period_s == 86400);
    return has_rate && gate->bucket.parts >= 0 && gate->bucket.parts <= BUCKET_TOKEN * UINT32_MAX &&
           budget_is_whole(gate) && adaptive_config_is_valid(&gate->adaptive_config);
}

int gate_decode(struct gate *gate, struct str bytes)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    /* Not all items of an array need be there, nor what only some limits have. */
    if (gate->kind == SHARED_BREAKER) {
        gate->breaker = (struct breaker){0};
    } else {
        gate->budget = (struct budget){0};
        gate->budget_config = (struct budget_config){0};
        gate->adaptive.limit = 0;
        gate->adaptive.cut_ms = 0;
        gate->adaptive_config = (struct adaptive_config){0};
    }
    json_reader_init(&r, bytes, NULL);
    const bool is_sound =
        read_row(&r, gate) &&
        (gate->kind == SHARED_BREAKER ? breaker_is_whole(gate) : limit_is_whole(gate));
    const int error = r.error;
    return is_sound ? 0 : error == REDRIVE_E_NOMEM ? REDRIVE_E_NOMEM : REDRIVE_E_CORRUPT;
}

int gate_of_row(const struct shared_row *row, int64_t now_ms, struct gate *ret,
                struct redrive_err *err)
{
    *ret = (struct gate){.kind = row->kind};
    int rc = gate_decode(ret, row->value);
    if (rc == 0)
        (void)gate_follow_clock(ret, now_ms);
    if (rc != REDRIVE_E_CORRUPT)
        return rc < 0 ? err_nomem(err) : 0;
    return err_set(err, REDRIVE_E_CORRUPT, "the row of %s '%.*s' is damaged",
                   row->kind == SHARED_BREAKER ? "breaker" : "limit", (int)row->key.len,
                   row->key.ptr);
}
