/* types.h - the kinds of values that many tables of the configuration share, besides those of
 * fields/field.h. Those of one table are in its file. */
#ifndef CONFIG_SCHEMA_TYPES_H
#define CONFIG_SCHEMA_TYPES_H

#include "config/schema/schema.h"

/* The type of the member is in brackets. */
extern const struct field_kind TYPE_NAME;       /* [const char *] of a task, queue, user … */
extern const struct field_kind TYPE_QUEUE;      /* [const char *] a queue's name */
extern const struct field_kind TYPE_STRINGS;    /* [struct config_strings] */
extern const struct field_kind TYPE_DELAYS;     /* [struct redrive_backoff] a list of delays */
extern const struct field_kind TYPE_MATCH;      /* [struct redrive_match] classes and types */
extern const struct field_kind TYPE_JITTER;     /* [struct redrive_jitter] */
extern const struct field_kind TYPE_TEMPLATE;   /* [const char *] "{task}:{payload.host}" */
extern const struct field_kind TYPE_STORE;      /* [const char *] where jobs are stored */
extern const struct field_kind TYPE_ADDRESS;    /* [const char *] host:port, or NULL for off */
extern const struct field_kind TYPE_URL;        /* [const char *] written without its secrets */
extern const struct field_kind TYPE_SECRET_URL; /* [const char *] written as scheme and host */
extern const struct field_kind TYPE_TABLE;      /* [struct] `table`, in place */
extern const struct field_kind TYPE_LIST;       /* [T *] of `table`, counted at count_offset */
extern const struct field_kind TYPE_MAP;        /* a map of such T, each with its name first */

/* [const char *] as TYPE_ADDRESS, or `unix:` and the path of a socket */
extern const struct field_kind TYPE_HTTP_ADDRESS;

/* Does nothing: for what another function binds. */
void type_bind_later(struct binder *b, const struct field *field, const struct node *node,
                     void *member);
/* The parts of TYPE_TABLE, for types that add something to it. */
void type_table_bind(struct binder *b, const struct field *field, const struct node *node,
                     void *member);
void type_table_write(const struct field *field, const void *member, struct json_writer *w);

#define TYPE_NAME_MAX 128

/* Whether a name may be that of a task or queue: 1 to TYPE_NAME_MAX bytes, no space, no control
 * characters. */
bool type_name_valid(struct str name);

/* Whether TYPE_ADDRESS text names this machine only. */
bool type_address_is_loopback(struct str address);

/* Whether the text opens with the scheme of a store; `ret_scheme` (may be NULL) is what opens
 * it. */
bool type_store_valid(struct str text, struct str *ret_scheme);

/* The failure classes, without success. */
const char *const *type_failure_classes(size_t *ret_n);

#endif
