/* breaker.h - the table of a breaker that is read on its own. */
#ifndef CONFIG_SCHEMA_BREAKER_H
#define CONFIG_SCHEMA_BREAKER_H

#include "config/schema/schema.h"

/* [struct redrive_breaker_config] a breaker without the key that tells breakers apart. */
extern const struct table TABLE_BREAKER_JSON;

#endif
