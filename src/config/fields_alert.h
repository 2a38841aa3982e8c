/* fields_alert.h - the alerts that hold when nobody names any. */
#ifndef CONFIG_FIELDS_ALERT_H
#define CONFIG_FIELDS_ALERT_H

#include "config/bind.h"

/* Fills config->alerts of b->config. */
void alerts_init(struct binder *b);

#endif
