/* schema.h - the keys of the configuration, as data.
 *
 * Each struct of config.h has a table with a row for each of its keys. From these tables alone come
 * the binding of files (schema/bind.h), the names of variables and flags (load/layers.h), the
 * nearest name for a misspelt key, the dump of what is in force (config_write) and the reference
 * (config_reference). A new key needs a member and a row.
 */
#ifndef CONFIG_SCHEMA_SCHEMA_H
#define CONFIG_SCHEMA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json/writer.h"
#include "config/document/node.h"
#include "fields/field.h"

struct policy_scope;
struct config_breaker;
struct config_task;

#define EXPECTS_MAX 200

struct table {
    const char *name; /* of its section in the reference */
    const struct field *fields;
    size_t n_fields;
    size_t size; /* of the struct */
    /* Fills in the defaults of an element of a list or map; NULL: zeroes. */
    void (*init)(struct binder *b, void *object);
    /* Looks at the whole after all keys are bound; `map` may be null. NULL: nothing to check. */
    void (*finish)(struct binder *b, const struct node *map, void *object);
};

/* A row: name, kind of value, offset, help, and what else there is. */
#define ROW(key, type, at, text, ...)                                                 \
    {                                                                                 \
        .name = (key), .kind = &(type), .offset = (at), .help = (text), ##__VA_ARGS__ \
    }
#define RANGE(least, most)        .min = (least), .max = (most)
#define DOUBLE_RANGE(least, most) .min_double = (least), .max_double = (most)
#define DEFAULT(text)             .default_text = (text)

#define FIELDS(array) .fields = (array), .n_fields = sizeof(array) / sizeof((array)[0])

/* Completes "expected …": static text, or `out`. */
const char *field_expects(const struct field *field, char out[EXPECTS_MAX]);

const struct field *table_find(const struct table *table, struct str name);

/* Writes all keys of an object, without the braces. */
void table_write(const struct table *table, const void *object, struct json_writer *w);

/* Every table once, the root first; `index` from 0; NULL after the last. For the reference. */
const struct table *section_at(size_t index);

extern const struct table TABLE_ROOT;
extern const struct table TABLE_LISTEN;
extern const struct table TABLE_TLS;
extern const struct table TABLE_LOG;
extern const struct table TABLE_DEFAULTS;
extern const struct table TABLE_HEALTH;
extern const struct table TABLE_RETENTION;
extern const struct table TABLE_PATHS;
extern const struct table TABLE_TASK;
extern const struct table TABLE_RUN;
extern const struct table TABLE_HTTP;
extern const struct table TABLE_LIMITS;
extern const struct table TABLE_RETRY_BUDGET;
extern const struct table TABLE_RETRY;
extern const struct table TABLE_CLASS_RULE;
extern const struct table TABLE_JITTER;
extern const struct table TABLE_BREAKER;
extern const struct table TABLE_CLASSIFY;
extern const struct table TABLE_CRON;
extern const struct table TABLE_EXPERIMENT;
extern const struct table TABLE_ARM;
extern const struct table TABLE_TOKEN;
extern const struct table TABLE_FAKTORY_PASSWORD;
extern const struct table TABLE_ALERT;

/* ---- What tables use of each other, and what loading uses of them ---------------------------- */

/* A policy together with its class rules, as a request has it. */
extern const struct table TABLE_POLICY_JSON;
/* [struct redrive_breaker_config] A breaker without the key that tells breakers apart. */
extern const struct table TABLE_BREAKER_JSON;
/* A task together with the experiment that its jobs take part in, as processes share it. */
extern const struct table TABLE_TASK_JSON;

extern const struct field_kind TYPE_HTTP;                 /* [struct config_http] `run.http` */
extern const struct field_kind TYPE_CLASS_RULES;          /* [struct redrive_policy] the key `on` */
extern const struct field_kind TYPE_PUBLISHED_EXPERIMENT; /* [struct experiment *] of a task */

/* The built-in defaults of a breaker. */
void breaker_init_built_in(struct config_breaker *breaker);

/* Makes the class rules of a policy whose own keys are bound. A rule starts from the rule that the
 * policy has already, or from the policy's backoff, takes the keys of `inherited` (may be NULL),
 * then those of its `own`.
 *
 * How many retries there are is said by the nearest scope that says it: the `on` of `own`, its
 * `retry`, then `on` and `retry` of `inherited`, then what the policy had before. `ret_from` (may
 * be NULL) gets for each class the place that says it, NULL: no line of a file. */
void policy_bind_rules(struct binder *b, const struct policy_scope *own,
                       const struct policy_scope *inherited, struct redrive_policy *policy,
                       const char *ret_from[REDRIVE_CLASS_COUNT]);

/* Fill in defaults: all of b->config, its alerts, and a task that says nothing; the last with the
 * policy and the breaker of b->config, or with the built-in ones and no way to run it. */
void config_init(struct binder *b);
void alerts_init(struct binder *b);
void task_init(struct binder *b, void *object); /* [struct config_task] */
void task_init_built_in(struct config_task *task);

#endif
