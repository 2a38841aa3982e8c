/* words.h - a growing list of words, for suggestions and completion.
 *
 * The list owns copies. It serves conveniences only, so running out of memory is not an error: a
 * word that there is no memory for is left out.
 */
#ifndef CLI_FRAME_WORDS_H
#define CLI_FRAME_WORDS_H

#include <stddef.h>

#include "base/text/str.h"

struct words {
    char **items;
    size_t n;
    size_t capacity;
};

#define WORDS_INIT \
    {              \
        0          \
    }
void words_release(struct words *w);

/* Adds `prefix` and `word` as one word. */
void words_add(struct words *w, const char *prefix, const char *word);

/* What `given` was meant to be: the only word that it is the beginning of, else the nearest by
 * spelling, else NULL. Belongs to the list. */
const char *words_nearest(const struct words *w, struct str given);

#endif
