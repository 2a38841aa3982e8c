/* suggest.h - "did you mean …?". */
#ifndef BASE_TEXT_SUGGEST_H
#define BASE_TEXT_SUGGEST_H

#include <stddef.h>

#include "base/text/str.h"

/* The word nearest to `given` by edit distance (a swap of neighbours counts one, `-` and `_` are
 * the same), or NULL when none is near enough to be meant. */
const char *suggest(struct str given, const char *const *words, size_t n_words);

#endif
