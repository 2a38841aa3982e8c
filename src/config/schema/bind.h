/* bind.h - moves a document into structs, by the tables of schema/schema.h.
 *
 * Binding goes on after an error, so that a person sees all that is wrong with a file at once. A
 * member whose value was refused keeps what it was.
 */
#ifndef CONFIG_SCHEMA_BIND_H
#define CONFIG_SCHEMA_BIND_H

#include "base/mem/arena.h"
#include "base/text/str.h"
#include "config/config.h"
#include "config/schema/schema.h"
#include "core/time/tz.h"
#include "redrive.h"

struct references;
struct zone;

/* A place that says how jobs are retried: its keys `retry` and `on`, NULL where there is none. */
struct policy_scope {
    const struct node *retry;
    const struct node *on;
};

struct binder {
    struct arena *arena;                 /* what members point to; has the lifetime of the result */
    struct config_report *report;        /* NULL: say nothing */
    struct config *config;               /* the whole that is being filled, or NULL */
    struct policy_scope defaults;        /* which tasks inherit */
    struct zone **zones;                 /* those that were read */
    const char *zone_dir;                /* where time zones are found */
    const struct references *references; /* of `${NAME}`; NULL: no variable is set */
    const struct config *among; /* the whole that a part on its own is meant for, or NULL */
    char *first_path; /* NODE_PATH_MAX bytes: where the first error is; NULL: not wanted */
    bool is_json;     /* text is quoted */
    int code;         /* of the errors it reports */
    size_t n_errors;
};

/* Binds the keys of a map; null counts as an empty one. */
void bind_table(struct binder *b, const struct table *table, const struct node *map, void *object);

/* Binds one member. */
void bind_field(struct binder *b, const struct field *field, const struct node *node, void *object);

/* Reports an error at a value: `redrive.yaml:12: tasks.enrich.lease: ` and the message. The
 * result takes detail and hint; it is NULL, which err_detail and err_hint allow, when the report
 * is full or absent. */
struct redrive_err *bind_error(struct binder *b, const struct node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same at the line of the key, without its path. */
struct redrive_err *bind_key_error(struct binder *b, const struct node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same at a map, about a key that it does not have. */
struct redrive_err *bind_lack(struct binder *b, const struct node *map, const char *key,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));
/* What a message about the value begins with, in the binder's arena, for a check that is made
 * later: `redrive.yaml:12: listen.tls.key: `. NULL when there is no memory. */
const char *bind_place(struct binder *b, const struct node *at);
/* Reports an error about the value that another function has found. An error about memory is not
 * reported: the value did not cause it, and the arena remembers it. */
void bind_error_from(struct binder *b, const struct node *at, const struct redrive_err *why);

/* The usual: it is not what the field takes, it is a single value where a list of one was meant,
 * there is too much or too little of it. */
struct redrive_err *bind_expected(struct binder *b, const struct field *field,
                                  const struct node *node);
/* "expected …", as the detail of an error about the field. */
void bind_detail(struct redrive_err *err, const struct field *field);
void bind_expected_list(struct binder *b, const struct field *field, const struct node *node);

/* Reads the text of a scalar as a kind does that has no `bind` of its own. */
void bind_as(struct binder *b, const struct field *field, const struct field_kind *kind,
             const struct node *node, void *member);

/* A warning in config->warnings; NULL when there is no configuration or the list is full. */
struct redrive_err *bind_warning(struct binder *b, const struct node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- References ------------------------------------------------------------------------------ */

/* `${NAME}` in a value stands for what a variable holds, so that the file holds no secret.
 *
 * NAME is looked for in the environment, then in the `.env` file beside the configuration. A `$`
 * that no `{` follows is a `$`. A variable that is not set, or empty, matters only where the value
 * is used: `redrive jobs` must not need the secrets of the workers.
 */
/* Where variables are looked for; the binder has it while a file is read. */
struct references {
    char *const *environ;
    struct str dotenv;    /* the text of the file; absent: there is none */
    bool *is_dotenv_used; /* set when a value was found there */
};

/* The text with its references replaced, in the binder's arena. NULL after an error, which is
 * reported and never repeats the value, and when a variable is not set: then *ret_missing, unless
 * it says something already, says so and where. */
const char *reference_expand(struct binder *b, const struct node *node, const char **ret_missing);

/* Whether the text has a reference, so that it can be shown. */
bool reference_in(struct str text);

/* ---- Time zones ------------------------------------------------------------------------------ */

/* Reads a zone as zone_read does, into a list of zones, in which each is read only once. The list's
 * memory is in `arena`; release the list before it. */
struct zone {
    struct zone *next;
    const char *name;
    struct tz tz;
};
int zone_load(struct zone **zones, struct arena *arena, const char *dir, struct str name,
              const struct tz **ret, struct redrive_err *err);
void zones_release(struct zone *zones);

#endif
