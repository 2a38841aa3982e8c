/* zone.h - time zones by name. */
#ifndef CONFIG_ZONE_H
#define CONFIG_ZONE_H

#include "base/str.h"
#include "config/config.h"

#define ZONE_DIR "/usr/share/zoneinfo"

/* Reads the zone from the files below `dir` (NULL: ZONE_DIR); `UTC` needs no file. The error says
 * what is wrong with the name. Release `ret` with tz_release, after a failure too. */
int zone_read(const char *dir, struct str name, struct tz *ret, struct redrive_err *err);

/* The same for a configuration, which owns the zone and reads each only once. */
int zone_load(struct config *config, const char *dir, struct str name, const struct tz **ret,
              struct redrive_err *err);

#endif
