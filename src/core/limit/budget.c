/* budget.c - retries by their share of first attempts, or by tokens. */
#include "core/limit/budget.h"

#include <math.h>

#include "core/elapsed.h"

/* Sums of shares such as 0.1 are a little off. */
#define ROUNDING 1e-9

static bool by_tokens(const struct budget_config *config)
{
    return config->max_tokens > 0;
}

static bool is_within(double value, double least, double most)
{
    return value >= least && value <= most;
}

bool budget_config_is_valid(const struct budget_config *c)
{
    if (c->min_per_second == 0)
        return true;
    if (!is_within(c->min_per_second, BUDGET_LEAST_PER_SECOND, BUDGET_MOST))
        return false;
    if (c->max_tokens != 0)
        return is_within(c->max_tokens, 1, BUDGET_MOST) &&
               is_within(c->token_ratio, 0, BUDGET_MOST);
    return is_within(c->ratio, 0, 1) &&
           is_within((double)c->window_ms, BUDGET_WINDOW_LEAST_MS, BUDGET_WINDOW_MOST_MS);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static double most_tokens(const struct budget_config *config)
{
    if (by_tokens(config))
        return config->max_tokens;
    return fmax(1, config->min_per_second * (double)config->window_ms / 1000);
}

/* The tokens after `elapsed_ms` more. */
static double filled(const struct budget *b, const struct budget_config *config, int64_t elapsed_ms)
{
    return fmin(most_tokens(config),
                b->tokens + config->min_per_second * (double)elapsed_ms / 1000);
}

static double tokens_at(const struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    return filled(b, config, elapsed_since(b->tokens_ms, now_ms));
}

static void add_tokens(struct budget *b, const struct budget_config *config, double n,
                       int64_t now_ms)
{
    const double now = filled(b, config, elapsed_take(&b->tokens_ms, now_ms));
    b->tokens = fmax(0, fmin(most_tokens(config), now + n));
}

/* ---- The window ------------------------------------------------------------------------------ */

static void advance(struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    const int64_t width_ms = config->window_ms / BUDGET_SLOTS;
    const int64_t steps = elapsed_since(b->slot_ms, now_ms) / width_ms;
    if (steps == 0)
        return;
    b->slot_ms += steps * width_ms;
    for (int64_t i = 0; i < steps && i < BUDGET_SLOTS; i++) {
        b->newest = (b->newest + 1) % BUDGET_SLOTS;
        b->slots[b->newest] = (struct budget_slot){0};
    }
}

static struct budget_slot sum_of(const struct budget *b)
{
    struct budget_slot sum = {0};
    for (int i = 0; i < BUDGET_SLOTS; i++) {
        sum.firsts += b->slots[i].firsts;
        sum.retries += b->slots[i].retries;
        sum.reserved += b->slots[i].reserved;
    }
    return sum;
}

static struct budget_slot sum_at(const struct budget *b, const struct budget_config *config,
                                 int64_t now_ms)
{
    struct budget look = *b;
    if (!by_tokens(config))
        advance(&look, config, now_ms);
    return sum_of(&look);
}

static uint32_t share_room(const struct budget_config *config, const struct budget_slot *sum)
{
    const double share = floor(config->ratio * sum->firsts + ROUNDING);
    return share > sum->retries ? (uint32_t)share - sum->retries : 0;
}

/* ---- The budget ------------------------------------------------------------------------------ */

void budget_init(struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    *b = (struct budget){.tokens = most_tokens(config), .tokens_ms = now_ms, .slot_ms = now_ms};
}

bool budget_follow_clock(struct budget *b, int64_t now_ms)
{
    const bool has_slot = elapsed_follow(&b->slot_ms, now_ms);
    return elapsed_follow(&b->tokens_ms, now_ms) || has_slot;
}

uint32_t budget_room(const struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    const double tokens = tokens_at(b, config, now_ms);
    if (by_tokens(config))
        return (uint32_t)ceil(fmax(0, tokens - config->max_tokens / 2 - ROUNDING));
    const struct budget_slot sum = sum_at(b, config, now_ms);
    return share_room(config, &sum) + (uint32_t)floor(tokens + ROUNDING);
}

int64_t budget_wait_ms(const struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    if (budget_room(b, config, now_ms) > 0)
        return 0;
    const double wanted = by_tokens(config) ? config->max_tokens / 2 : 1;
    const double missing = wanted - tokens_at(b, config, now_ms);
    return 1 + (int64_t)ceil(fmax(0, missing) / config->min_per_second * 1000);
}

void budget_start(struct budget *b, const struct budget_config *config, bool is_retry,
                  int64_t now_ms)
{
    if (by_tokens(config))
        return;
    advance(b, config, now_ms);
    const struct budget_slot sum = sum_of(b);
    struct budget_slot *slot = &b->slots[b->newest];
    if (!is_retry) {
        slot->firsts++;
    } else if (share_room(config, &sum) > 0) {
        slot->retries++;
    } else {
        slot->reserved++;
        add_tokens(b, config, -1, now_ms);
    }
}

/* Returns whether the slot had such a start. */
static bool take_back_from(struct budget *b, struct budget_slot *slot,
                           const struct budget_config *config, bool was_retry, int64_t now_ms)
{
    if (!was_retry && slot->firsts > 0) {
        slot->firsts--;
    } else if (was_retry && slot->reserved > 0) {
        slot->reserved--;
        add_tokens(b, config, 1, now_ms);
    } else if (was_retry && slot->retries > 0) {
        slot->retries--;
    } else {
        return false;
    }
    return true;
}

void budget_take_back(struct budget *b, const struct budget_config *config, bool was_retry,
                      int64_t now_ms)
{
    if (by_tokens(config))
        return;
    advance(b, config, now_ms);
    for (uint32_t age = 0; age < BUDGET_SLOTS; age++) {
        struct budget_slot *slot = &b->slots[(b->newest + BUDGET_SLOTS - age) % BUDGET_SLOTS];
        if (take_back_from(b, slot, config, was_retry, now_ms))
            return;
    }
}

void budget_settle(struct budget *b, const struct budget_config *config, bool has_failed,
                   int64_t now_ms)
{
    if (by_tokens(config))
        add_tokens(b, config, has_failed ? -1 : config->token_ratio, now_ms);
}

bool budget_is_full(const struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    const struct budget_slot sum = sum_at(b, config, now_ms);
    return sum.firsts == 0 && sum.retries == 0 && sum.reserved == 0 &&
           tokens_at(b, config, now_ms) >= most_tokens(config);
}

void budget_status(const struct budget *b, const struct budget_config *config, int64_t now_ms,
                   struct budget_status *ret)
{
    const struct budget_slot sum = sum_at(b, config, now_ms);
    *ret = (struct budget_status){
        .firsts = sum.firsts,
        .retries = sum.retries + sum.reserved,
        .tokens = tokens_at(b, config, now_ms),
        .room = budget_room(b, config, now_ms),
    };
}
