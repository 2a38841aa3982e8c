/* lane_row.c - how a breaker or a limit is written down: numbers of eight bytes, low byte first. */
#include "engine/lane.h"

#include "base/buf.h"

#define FORMAT       2
#define TIME_MAX_MS  (INT64_MAX / 4)
#define AMOUNT_MAX   1e30
#define REOPENED_MAX UINT32_C(1000000)

/* One description of the row serves both ways. */
struct codec {
    struct buf *out; /* NULL: reading */
    struct str in;
    bool failed;
};

static void code_u64(struct codec *c, uint64_t *v)
{
    unsigned char bytes[8];
    if (c->out) {
        for (int i = 0; i < 8; i++)
            bytes[i] = (unsigned char)(*v >> (8 * i));
        (void)buf_add(c->out, bytes, sizeof bytes);
        return;
    }
    *v = 0;
    if (c->in.len < sizeof bytes) {
        c->failed = true;
        return;
    }
    memcpy(bytes, c->in.ptr, sizeof bytes);
    for (int i = 0; i < 8; i++)
        *v |= (uint64_t)bytes[i] << (8 * i);
    c->in.ptr += sizeof bytes;
    c->in.len -= sizeof bytes;
}

static void code_i64(struct codec *c, int64_t *v)
{
    uint64_t wide = (uint64_t)*v;
    code_u64(c, &wide);
    *v = (int64_t)wide;
}

/* A time of the wall clock. One that no clock shows could not be reckoned with. */
static void code_time(struct codec *c, int64_t *v)
{
    code_i64(c, v);
    if (*v < 0 || *v > TIME_MAX_MS) {
        c->failed = true;
        *v = 0;
    }
}

static void code_u32(struct codec *c, uint32_t *v)
{
    uint64_t wide = *v;
    code_u64(c, &wide);
    c->failed |= wide > UINT32_MAX;
    *v = (uint32_t)wide;
}

static void code_double(struct codec *c, double *v)
{
    uint64_t bits;
    memcpy(&bits, v, sizeof bits);
    code_u64(c, &bits);
    memcpy(v, &bits, sizeof bits);
}

static void code_bool(struct codec *c, bool *v)
{
    uint32_t wide = *v;
    code_u32(c, &wide);
    *v = wide != 0;
}

/* As many words as the calls need: none without window_calls. */
static void code_last(struct codec *c, struct breaker_last *last)
{
    code_u32(c, &last->calls);
    if (last->calls > REDRIVE_MAX_WINDOW_CALLS) {
        c->failed = true;
        last->calls = 0;
    }
    const uint32_t words = (last->calls + 63) / 64;
    for (uint32_t i = 0; i < BREAKER_LAST_WORDS; i++) {
        if (i < words) {
            code_u64(c, &last->failed[i]);
            code_u64(c, &last->slow[i]);
        } else {
            last->failed[i] = last->slow[i] = 0;
        }
    }
}

static void code_window(struct codec *c, struct breaker_window *w)
{
    code_time(c, &w->start_ms);
    code_u32(c, &w->newest);
    if (w->newest >= BREAKER_BUCKETS) {
        c->failed = true;
        w->newest = 0;
    }
    for (int i = 0; i < BREAKER_BUCKETS; i++) {
        code_u32(c, &w->buckets[i].calls);
        code_u32(c, &w->buckets[i].failures);
        code_u32(c, &w->buckets[i].slow);
    }
    code_last(c, &w->last);
}

static void code_breaker(struct codec *c, struct breaker *b)
{
    uint32_t state = b->state;
    code_u32(c, &state);
    c->failed |= state >= REDRIVE_BREAKER_STATE_COUNT;
    b->state = c->failed ? REDRIVE_BREAKER_CLOSED : (enum redrive_breaker_state)state;
    code_u32(c, &b->consecutive);
    code_u32(c, &b->probe_successes);
    code_u32(c, &b->probe_failures);
    code_u32(c, &b->probe_slow);
    code_u32(c, &b->reopened);
    if (b->reopened > REOPENED_MAX) /* the time grows no longer then, and each is a step */
        b->reopened = REOPENED_MAX;
    code_u64(c, &b->generation);
    code_u64(c, &b->next_token);
    code_u64(c, &b->seed);
    code_time(c, &b->opened_at_ms);
    code_time(c, &b->retry_at_ms);
    code_window(c, &b->window);
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++) {
        code_u64(c, &b->probes[i].token);
        code_time(c, &b->probes[i].expires_ms);
    }
}

static void code_breaker_config(struct codec *c, struct redrive_breaker_config *config)
{
    uint32_t on_open = config->on_open;
    code_u32(c, &config->failure_threshold);
    code_double(c, &config->failure_rate);
    code_u32(c, &config->min_calls);
    code_i64(c, &config->window_ms);
    code_u32(c, &config->window_calls);
    code_i64(c, &config->slow_call_ms);
    code_double(c, &config->slow_rate);
    code_i64(c, &config->recovery_timeout_ms);
    code_double(c, &config->recovery_multiplier);
    code_i64(c, &config->recovery_max_ms);
    code_double(c, &config->recovery_jitter);
    code_u32(c, &config->half_open_max);
    code_u32(c, &config->success_threshold);
    code_double(c, &config->half_open_rate);
    code_i64(c, &config->probe_lease_ms);
    code_u32(c, &on_open);
    c->failed |= on_open >= REDRIVE_ON_OPEN_COUNT;
    config->on_open = c->failed ? REDRIVE_ON_OPEN_PARK : (enum redrive_on_open)on_open;
    code_double(c, &config->release_rate);
    code_double(c, &config->release_growth);
}

static void code_release(struct codec *c, struct release *r)
{
    code_double(c, &r->rate);
    c->failed |= r->rate != 0 && !(r->rate >= 1 && r->rate <= AMOUNT_MAX);
    code_double(c, &r->credit);
    c->failed |= !(r->credit >= -1 && r->credit <= AMOUNT_MAX);
    if (r->credit < 0) /* a rounding error */
        r->credit = 0;
    code_time(c, &r->credit_ms);
    code_time(c, &r->grown_ms);
}

static bool rate_is_whole(const struct rate *rate)
{
    return rate->count <= RATE_MAX_COUNT &&
           (rate->count == 0 || rate->period_s == 1 || rate->period_s == 60 ||
            rate->period_s == 3600 || rate->period_s == 86400);
}

static void code_limit(struct codec *c, struct lane *lane)
{
    code_i64(c, &lane->bucket.parts);
    c->failed |= lane->bucket.parts < 0 || lane->bucket.parts > BUCKET_TOKEN * UINT32_MAX;
    code_time(c, &lane->bucket.updated_ms);
    code_u32(c, &lane->rate.count);
    code_u32(c, &lane->rate.period_s);
    code_u32(c, &lane->rate.burst);
    c->failed |= !rate_is_whole(&lane->rate);
    code_u32(c, &lane->slots.used);
    code_u32(c, &lane->slots.max);
}

static void code_lane(struct codec *c, struct lane *lane)
{
    uint32_t format = FORMAT;
    code_u32(c, &format);
    c->failed |= format != FORMAT;
    code_bool(c, &lane->has_parked);
    code_u32(c, &lane->candidates);
    code_time(c, &lane->candidates_until_ms);
    if (lane->kind == SHARED_BREAKER) {
        code_breaker(c, &lane->breaker);
        code_breaker_config(c, &lane->breaker_config);
        code_release(c, &lane->release);
    } else {
        code_limit(c, lane);
    }
}

void lane_encode(const struct lane *lane, struct buf *out)
{
    struct codec c = {.out = out};
    struct lane copy = *lane;
    code_lane(&c, &copy);
}

bool lane_decode(struct lane *lane, struct str bytes)
{
    struct codec c = {.in = bytes};
    code_lane(&c, lane);
    return !c.failed && c.in.len == 0 &&
           (lane->kind != SHARED_BREAKER ||
            redrive_breaker_config_check(&lane->breaker_config, NULL) == 0);
}
