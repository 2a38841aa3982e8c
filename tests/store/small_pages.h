/* small_pages.h - filters that find few jobs among many: of tenant "small" after ts_fill_tenants,
 * and one that is rare. */
#ifndef STORE_SMALL_PAGES_H
#define STORE_SMALL_PAGES_H

#include "store_for_test.h"

#define EXHAUSTED (1u << REDRIVE_REASON_EXHAUSTED)
#define REASONS   (((1u << REDRIVE_REASON_COUNT) - 1) & ~(1u << REDRIVE_REASON_NONE))

static const struct small_page {
    const char *name;
    struct job_filter filter; /* without tenant, order and limit */
    size_t expected;
} SMALL_PAGES[] = {
    {"all", {.states = 0}, 12},
    {"dead letters", {.states = STATE_BIT(DEAD_LETTER)}, 3},
    {"few dead letters", {.states = STATE_BIT(DEAD_LETTER), .is_few = true}, 3},
    {"retrying", {.states = STATE_BIT(RETRYING)}, 0},
    {"few retrying", {.states = STATE_BIT(RETRYING), .is_few = true}, 0},
    {"waiting for their time", {.states = STATE_BIT(RETRYING) | STATE_BIT(SCHEDULED)}, 3},
    {"a reason", {.reasons = EXHAUSTED}, 3},
    {"dead of a reason", {.reasons = EXHAUSTED, .states = STATE_BIT(DEAD_LETTER)}, 3},
    {"all reasons", {.reasons = REASONS}, 3},
};

#define SMALL_PAGE_COUNT (sizeof SMALL_PAGES / sizeof SMALL_PAGES[0])

/* ---- Filters that find one job among many ---------------------------------------------------- */

static const struct job_filter RARE_FILTERS[] = {
    {.user = STR("ann")},
    {.classes = 1u << REDRIVE_CLASS_NETWORK},
    {.error_type = STR("ConnectError")},
    {.text = STR("refused")},
    {.fingerprint = 7},
    {.states = 1u << REDRIVE_STATE_DEAD_LETTER, .is_few = true},
    {.task = STR("rare"), .is_rare = true},
    {.queue = STR("rare"), .is_rare = true},
    {.task = STR("rare"), .states = 1u << REDRIVE_STATE_DEAD_LETTER, .is_rare = true},
};
#define RARE_FILTER_COUNT (sizeof RARE_FILTERS / sizeof RARE_FILTERS[0])

/* The job that they find; its number. */
static inline int64_t put_rare_job(struct test_store *ts)
{
    const int64_t seq = PUT(ts, .user = STR("ann"), .task = STR("rare"), .queue = STR("rare"));
    const struct decision dead = {.state = REDRIVE_STATE_DEAD_LETTER, .uses_attempt = true};
    const struct settle_move move = {.seq = seq,
                                     .token = ts_start(ts, seq),
                                     .decision = &dead,
                                     .error = {.class_ = REDRIVE_CLASS_NETWORK,
                                               .type = STR("ConnectError"),
                                               .message = STR("connection refused")},
                                     .fingerprint = 7};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_DEAD_LETTER);
    return seq;
}

#endif
