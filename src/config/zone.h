/* zone.h - time zones by name, each read once for a configuration, which owns it. */
#ifndef CONFIG_ZONE_H
#define CONFIG_ZONE_H

#include "base/str.h"
#include "config/config.h"

#define ZONE_DIR "/usr/share/zoneinfo"

/* Finds the zone below `dir`; `UTC` needs no file. The error says what is wrong with the name. */
int zone_load(struct config *config, const char *dir, struct str name, const struct tz **ret,
              struct redrive_err *err);

#endif
