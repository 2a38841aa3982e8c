/* env.h - settings from variables: of the environment and of a `.env` file.
 *
 * Variables are gathered first, so that an error in the `.env` file is reported once, and applied
 * afterwards: REDRIVE_* here, those of other programs in load/env_compat.h.
 */
#ifndef CONFIG_LOAD_ENV_H
#define CONFIG_LOAD_ENV_H

#include "config/load/layers.h"

struct variable {
    struct variable *next;
    struct str name;
    struct str value;   /* never empty: an empty variable counts as not set */
    const char *source; /* for messages */
    enum layer layer;
};

struct variables {
    struct variable *first;
};

/* Gather what may be a setting. A REDRIVE_* name that is none is worth a warning only, because
 * handlers inherit the facts of their job in variables of that kind. Messages call the file
 * `name`. */
void env_gather(struct layers *layers, char *const *environ, struct variables *variables);
void env_gather_dotenv(struct layers *layers, struct str text, const char *name,
                       struct variables *variables);

/* Puts REDRIVE_* into the document. */
void env_apply(struct layers *layers, const struct variables *variables);

/* The variable of that name from the last source that has one, or NULL. */
const struct variable *env_find(const struct variables *variables, const char *name);

#endif
