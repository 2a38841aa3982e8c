/* keys.h - which breaker and which limit a job falls under.
 *
 * A key is a template of the configuration with the job's own names filled in. What a job does not
 * have is empty. Control characters become `_`, so that a key is always one line of text.
 */
#ifndef ENGINE_GATES_KEYS_H
#define ENGINE_GATES_KEYS_H

#include "base/mem/arena.h"
#include "config/config.h"
#include "store/job.h"

/* Both keys start as absent when the task has no breaker or no limits. The results live in the
 * arena; REDRIVE_E_NOMEM, or REDRIVE_E_TOO_BIG when a key would be longer than KEY_MAX_LEN. */
#define KEY_MAX_LEN 512
int key_of_breaker(const struct config_task *task, const struct job_spec *spec, struct arena *arena,
                   struct str *ret, struct redrive_err *err);
int key_of_limit(const struct config_task *task, const struct job_spec *spec, struct arena *arena,
                 struct str *ret, struct redrive_err *err);

#endif
