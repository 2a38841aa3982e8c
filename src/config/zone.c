#include "config/zone.h"

#include <stdio.h>

#include "base/err.h"
#include "base/file.h"
#include "config/node.h"
#include "config/owned.h"

static int read_zone(struct tz *tz, const char *path, struct redrive_err *err)
{
    struct buf bytes;
    buf_init(&bytes, TZ_FILE_MAX_BYTES);
    int rc = file_read(path, TZ_FILE_MAX_BYTES, &bytes, err);
    if (rc == 0)
        rc = tz_parse(tz, bytes.data, bytes.len, err);
    buf_release(&bytes);
    return rc;
}

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

int zone_load(struct config *config, const char *dir, struct str name, const struct tz **ret,
              struct redrive_err *err)
{
    struct arena *arena = &config->owned->arena;
    struct redrive_err why = {.code = REDRIVE_E_NOT_FOUND};

    if (str_is(name, "UTC")) {
        *ret = tz_utc();
        return 0;
    }
    for (const struct zone *known = config->owned->zones; known; known = known->next) {
        if (str_is(name, known->name)) {
            *ret = &known->tz;
            return 0;
        }
    }
    if (!tz_name_valid(name))
        return unknown_zone(name, dir, &why, err);

    struct zone *zone = arena_alloc(arena, sizeof *zone);
    char *path = arena_printf(arena, "%s/%.*s", dir, (int)name.len, name.ptr);
    if (zone)
        zone->name = arena_dup(arena, name);
    if (!zone || !path || !zone->name)
        return err_nomem(err);
    if (read_zone(&zone->tz, path, &why) < 0) {
        tz_release(&zone->tz);
        return why.code == REDRIVE_E_NOMEM ? err_nomem(err) : unknown_zone(name, dir, &why, err);
    }
    zone->next = config->owned->zones;
    config->owned->zones = zone;
    *ret = &zone->tz;
    return 0;
}
