/* root.h - the defaults of the whole configuration. */
#ifndef CONFIG_SCHEMA_ROOT_H
#define CONFIG_SCHEMA_ROOT_H

#include "config/schema/bind.h"

/* Fills b->config with the defaults. */
void config_init(struct binder *b);

/* The type of `retry` and `breaker` at the top level. */
extern const struct field_type TYPE_SHORT_FORM;

#endif
