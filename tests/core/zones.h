/* zones.h - for tests: zones of the system's tzdata, and libc's opinion of them. */
#ifndef TESTS_CORE_ZONES_H
#define TESTS_CORE_ZONES_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/os/file.h"
#include "check.h"
#include "core/time/tz.h"

static inline void zone_read(const char *name, struct buf *ret)
{
    char path[256];
    const char *dir = getenv("TZDIR");
    struct redrive_err err = {0};
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "/usr/share/zoneinfo", name);
    if (file_read(path, TZ_FILE_MAX_BYTES, ret, &err) < 0)
        fail_msg("%s (%s): these tests need the package tzdata", err.message, err.detail);
}

static inline void zone_load(const char *name, struct tz *ret)
{
    struct buf bytes;
    struct redrive_err err = {0};
    buf_init(&bytes, TZ_FILE_MAX_BYTES);
    zone_read(name, &bytes);
    if (tz_parse(ret, bytes.data, bytes.len, &err) < 0)
        fail_msg("%s: %s: %s", name, err.message, err.detail);
    buf_release(&bytes);
}

/* Makes libc's localtime speak of this zone. */
static inline void zone_of_libc(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

static inline int64_t utc(int64_t year, int month, int day, int hour, int minute)
{
    return civil_to_seconds(&(struct civil){year, month, day, hour, minute, 0});
}

#endif
