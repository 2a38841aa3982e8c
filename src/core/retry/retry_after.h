/* retry_after.h - the Retry-After header of RFC 9110: seconds, or a date. */
#ifndef CORE_RETRY_RETRY_AFTER_H
#define CORE_RETRY_RETRY_AFTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"

/* How long to wait from now on; false for anything that RFC 9110 does not allow. Dates are read in
 * all three forms that it asks a recipient to read; one in the past gives 0. Seconds beyond a
 * hundred years are taken as that. */
bool retry_after_parse(struct str value, int64_t now_ms, int64_t *ret_ms);

#endif
