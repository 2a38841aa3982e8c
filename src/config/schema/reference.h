/* reference.h - `${NAME}` in a value: what a variable holds, so that the file holds no secret.
 *
 * NAME is looked for in the environment, then in the `.env` file beside the configuration. A `$`
 * that no `{` follows is a `$`. A variable that is not set, or empty, matters only where the value
 * is used: `redrive jobs` must not need the secrets of the workers.
 */
#ifndef CONFIG_SCHEMA_REFERENCE_H
#define CONFIG_SCHEMA_REFERENCE_H

#include "config/schema/bind.h"

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

#endif
