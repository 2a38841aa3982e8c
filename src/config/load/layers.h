/* layers.h - puts what variables and flags say into the document, over what the file says.
 *
 * Whoever speaks louder wins key by key. Where two keys say the same thing (max_retries and
 * max_attempts), the louder one takes the other away; said equally loud they are left side by side
 * for the binder to refuse.
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

/* The same, only if nothing speaks of the matter yet; returns whether that was so. */
bool layer_fill(struct layers *layers, const struct key *key, const char *value,
                const char *source);

#endif
