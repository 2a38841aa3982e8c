/* small_pages.h - what filters find of tenant "small" after kit_fill_tenants. */
#ifndef STORE_SMALL_PAGES_H
#define STORE_SMALL_PAGES_H

#include "kit.h"

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

#endif
