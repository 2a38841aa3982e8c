/* faktory_time.h - times as the Faktory protocol writes them: RFC 3339 with any number of decimals.
 */
#ifndef DOORS_FAKTORY_TIME_H
#define DOORS_FAKTORY_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* 2026-05-01T12:00:00.123456789Z or with a distance from UTC, +02:00. False when it is no time, or
 * one before 1970. */
bool faktory_time_read(struct str text, int64_t *ret_ms);

#endif
