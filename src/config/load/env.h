/* env.h - settings from variables: of the environment and of a `.env` file.
 *
 * Variables are gathered first, so that an error in the `.env` file is reported once, and applied
 * afterwards: first REDRIVE_*, then those of other programs.
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

/* ---- Variables of other retry systems -------------------------------------------------------- */

/* Variables that other retry systems use are defaults where nothing else sets the key.
 *
 *     MAX_RETRIES, MAX_RETRY_ATTEMPTS   runs in all
 *     RETRY_BASE_DELAY                  seconds, doubled with each retry
 *     RETRY_DELAY_SECONDS               seconds, always the same
 *     RETRY_MAX_DELAY                   seconds
 *     DATABASE_URL, REDIS_URL           the store
 *
 * Before the last two the key `paths.retry_queue` is asked: the store is a file in that directory.
 *
 * A value that makes no sense here is left alone, with a warning: it was meant for another program.
 */
/* After all other settings are in the document. */
void env_compat_apply(struct layers *layers, const struct variables *variables);

#endif
