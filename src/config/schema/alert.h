/* alert.h - the alerts of a configuration that has none. */
#ifndef CONFIG_SCHEMA_ALERT_H
#define CONFIG_SCHEMA_ALERT_H

#include "config/schema/bind.h"

/* Fills config->alerts of b->config. */
void alerts_init(struct binder *b);

#endif
