/* words.c - a list of words, and the nearest of them. */
#include "cli/frame/words.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text/suggest.h"

void words_release(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->items[i]);
    free(w->items);
    *w = (struct words)WORDS_INIT;
}

void words_add(struct words *w, const char *prefix, const char *word)
{
    if (w->n == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 32;
        char **items = realloc(w->items, capacity * sizeof *items);
        if (!items)
            return;
        w->items = items;
        w->capacity = capacity;
    }
    char *copy;
    if (asprintf(&copy, "%s%s", prefix, word) >= 0)
        w->items[w->n++] = copy;
}

const char *words_nearest(const struct words *w, struct str given)
{
    const char *completed = NULL;
    size_t n_completed = 0;

    for (size_t i = 0; given.len > 0 && i < w->n; i++) {
        if (!str_starts_with(str_of(w->items[i]), given))
            continue;
        completed = w->items[i];
        n_completed++;
    }
    if (n_completed == 1)
        return completed;
    return suggest(given, (const char *const *)w->items, w->n);
}
