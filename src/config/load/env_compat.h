/* env_compat.h - variables that other retry systems use, as defaults where nothing else sets the
 * key.
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
#ifndef CONFIG_LOAD_ENV_COMPAT_H
#define CONFIG_LOAD_ENV_COMPAT_H

#include "config/load/layers.h"

struct variables;

bool env_compat_known(struct str name);

/* After all other settings are in the document. */
void env_compat_apply(struct layers *layers, const struct variables *variables);

#endif
