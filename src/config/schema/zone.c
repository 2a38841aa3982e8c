/* zone.c - finds and reads time-zone files. */
#include "config/schema/zone.h"

#include <limits.h>
#include <stdio.h>

#include "base/err.h"
#include "base/os/file.h"
#include "config/document/node.h"

static int unknown_zone(struct str name, const char *dir, const struct redrive_err *why,
                        struct redrive_err *err)
{
    char shown[NODE_SHOW_MAX];
    err_set(err, REDRIVE_E_UNKNOWN, "unknown time zone %s", node_show(name, shown));
    if (why->code == REDRIVE_E_NOT_FOUND) {
        err_detail(err, "there is no such file below %s", dir);
        err_hint(err, "a zone is named like Europe/Berlin; they come with the package tzdata");
    } else {
        err_detail(err, "%s", why->message);
    }
    return REDRIVE_E_UNKNOWN;
}

static int read_file(const char *dir, struct str name, struct tz *ret, struct redrive_err *err)
{
    char path[PATH_MAX];
    struct buf bytes;
    snprintf(path, sizeof path, "%s/%.*s", dir, (int)name.len, name.ptr);
    buf_init(&bytes, TZ_FILE_MAX_BYTES);
    int rc = file_read(path, TZ_FILE_MAX_BYTES, &bytes, err);
    if (rc == 0)
        rc = tz_parse(ret, bytes.data, bytes.len, err);
    buf_release(&bytes);
    return rc;
}

int zone_read(const char *dir, struct str name, struct tz *ret, struct redrive_err *err)
{
    struct redrive_err why = {.code = REDRIVE_E_NOT_FOUND};

    *ret = *tz_utc();
    if (str_is(name, "UTC"))
        return 0;
    if (!dir)
        dir = ZONE_DIR;
    if (tz_name_valid(name) && read_file(dir, name, ret, &why) == 0)
        return 0;
    tz_release(ret);
    return why.code == REDRIVE_E_NOMEM ? err_nomem(err) : unknown_zone(name, dir, &why, err);
}

int zone_load(struct zone **zones, struct arena *arena, const char *dir, struct str name,
              const struct tz **ret, struct redrive_err *err)
{
    for (const struct zone *known = *zones; known; known = known->next) {
        if (str_is(name, known->name)) {
            *ret = &known->tz;
            return 0;
        }
    }
    struct zone *zone = arena_alloc(arena, sizeof *zone);
    if (zone)
        zone->name = arena_dup(arena, name);
    if (!zone || !zone->name)
        return err_nomem(err);
    int rc = zone_read(dir, name, &zone->tz, err);
    if (rc < 0)
        return rc;
    zone->next = *zones;
    *zones = zone;
    *ret = &zone->tz;
    return 0;
}

void zones_release(struct zone *zones)
{
    for (; zones; zones = zones->next)
        tz_release(&zones->tz);
}
