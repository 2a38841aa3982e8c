/* layers.h - puts what variables and flags say into the document, over what the file says.
 *
 * A later source overrides an earlier one, key by key. Where two keys mean the same (max_retries
 * and max_attempts), the one from the later source removes the other; if both come from one source,
 * both stay, and the binder refuses them.
 */
#ifndef CONFIG_LOAD_LAYERS_H
#define CONFIG_LOAD_LAYERS_H

#include "config/schema/bind.h"
#include "config/schema/schema.h"

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The keys that variables and flags can set, and their three names.
 *
 * One rule: `retry.max_delay`, REDRIVE_RETRY_MAX_DELAY, --retry-max-delay. It covers every scalar
 * key at the top level, in a section of the top level, and in `defaults`, whose name is left out.
 */

#define KEY_NAME_MAX    48
#define KEY_MAX_STEPS   3
#define KEY_MAX_CHOICES 12

struct key {
    char name[KEY_NAME_MAX];
    char variable[KEY_NAME_MAX + 8];
    char flag[KEY_NAME_MAX];
    const struct field *steps[KEY_MAX_STEPS]; /* from the root to the key itself */
    size_t n_steps;
    const char *choices[KEY_MAX_CHOICES + 1]; /* ends with NULL; empty: not a choice */
};

/* The key with that number, from 0, or NULL after the last. */
const struct key *key_at(size_t index);

/* NULL when there is none. Flags without their dashes. */
const struct key *key_find(struct str name);
const struct key *key_find_variable(struct str variable);
const struct key *key_find_flag(struct str flag);

const struct field *key_field(const struct key *key);

/* The nearest variable or flag, or NULL. */
const char *key_suggest_variable(struct str given);
const char *key_suggest_flag(struct str given);

/* ---- Layers ---------------------------------------------------------------------------------- */

enum layer {
    LAYER_FILE,
    LAYER_DOTENV,
    LAYER_ENVIRONMENT,
    LAYER_FLAGS,
};

struct layers {
    struct binder *binder; /* reports; its arena does not hold the document */
    struct arena *arena;   /* of the document */
    struct node *root;
};

/* Gives a key a value. `source` says where it comes from and is kept. */
void layer_set(struct layers *layers, const struct key *key, enum layer layer, struct str value,
               const char *source);

/* The same, only if neither the key nor one with the same meaning is set yet; returns whether it
 * was set here. `is_borrowed`: by a variable of another program. */
bool layer_fill(struct layers *layers, const struct key *key, const char *value, const char *source,
                bool is_borrowed);

/* The node of the key in the document, or NULL. */
const struct node *layer_find(const struct layers *layers, const struct key *key);

/* ---- Settings from variables: of the environment and of a `.env` file (load/env.c) -------------
 *
 * Variables are gathered first, so that an error in the `.env` file is reported once, and applied
 * afterwards: first REDRIVE_*, then those of other programs.
 */

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
 *     MAX_RETRIES                       retries after the first run, as the key of that name
 *     MAX_RETRY_ATTEMPTS                runs in all
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
