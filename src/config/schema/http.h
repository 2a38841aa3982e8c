/* http.h - `run.http`: a URL, or a map of it with what is sent besides the payload. */
#ifndef CONFIG_SCHEMA_HTTP_H
#define CONFIG_SCHEMA_HTTP_H

#include "config/schema/schema.h"

/* [struct config_http] */
extern const struct field_type TYPE_HTTP;

#endif
