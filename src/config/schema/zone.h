/* zone.h - time zones by name. */
#ifndef CONFIG_SCHEMA_ZONE_H
#define CONFIG_SCHEMA_ZONE_H

#include "base/mem/arena.h"
#include "base/text/str.h"
#include "core/time/tz.h"
#include "redrive.h"

#define ZONE_DIR "/usr/share/zoneinfo"

/* Reads the zone from the files below `dir` (NULL: ZONE_DIR); `UTC` needs no file. The error says
 * what is wrong with the name. Release `ret` with tz_release, after a failure too. */
int zone_read(const char *dir, struct str name, struct tz *ret, struct redrive_err *err);

/* The same into a list of zones, in which each is read only once. The list's memory is in `arena`;
 * release the list before it. */
struct zone {
    struct zone *next;
    const char *name;
    struct tz tz;
};
int zone_load(struct zone **zones, struct arena *arena, const char *dir, struct str name,
              const struct tz **ret, struct redrive_err *err);
void zones_release(struct zone *zones);

#endif
