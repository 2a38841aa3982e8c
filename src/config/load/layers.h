/* layers.h - puts what variables and flags say into the document, over what the file says.
 *
 * A later source overrides an earlier one, key by key. Where two keys mean the same (max_retries
 * and max_attempts), the one from the later source removes the other; if both come from one source,
 * both stay, and the binder refuses them.
 */
#ifndef CONFIG_LOAD_LAYERS_H
#define CONFIG_LOAD_LAYERS_H

#include "config/load/keys.h"
#include "config/schema/bind.h"

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

/* Moves `retry` and `breaker` of the top level to where they are short for. A key that is given
 * in both places is an error. */
void layer_short_forms(struct layers *layers);

/* Gives a key a value. `source` says where it comes from and is kept. */
void layer_set(struct layers *layers, const struct key *key, enum layer layer, struct str value,
               const char *source);

/* The same, only if neither the key nor one with the same meaning is set yet; returns whether it
 * was set here. */
bool layer_fill(struct layers *layers, const struct key *key, const char *value,
                const char *source);

#endif
