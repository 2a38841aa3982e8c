/* suggest.h - "did you mean …?". */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

#include "base/str.h"

/* The word nearest to `given` by edit distance (a swap of neighbours counts one, `-` and `_` are
 * the same), or NULL when none is near enough to be meant. */
const char *suggest(struct str given, const char *const *words, size_t n_words);

#endif
