/* tally.c - counts names in a map. */
#include "cli/output/tally.h"

#include <stdlib.h>

#include "redrive.h"

void tally_init(struct tally *t)
{
    *t = (struct tally){0};
    map_init(&t->counts, 1);
}

void tally_release(struct tally *t)
{
    MAP_FOREACH (&t->counts, slot)
        free(slot->value);
    map_release(&t->counts);
    free(t->rows);
    *t = (struct tally){0};
}

void tally_add(struct tally *t, struct str name, uint64_t n)
{
    uint64_t *count = map_get(&t->counts, name);
    if (count) {
        *count += n;
        return;
    }
    count = malloc(sizeof *count);
    if (!count || map_put(&t->counts, name, count) < 0) {
        free(count);
        t->failed = true;
        return;
    }
    *count = n;
}

static int by_count(const void *left, const void *right)
{
    const struct tally_row *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->name, b->name);
}

int tally_sort(struct tally *t)
{
    free(t->rows);
    t->n = 0;
    t->rows = calloc(t->counts.count + 1, sizeof *t->rows);
    if (!t->rows || t->failed)
        return REDRIVE_E_NOMEM;
    MAP_FOREACH (&t->counts, slot)
        t->rows[t->n++] = (struct tally_row){slot->key, *(uint64_t *)slot->value};
    qsort(t->rows, t->n, sizeof *t->rows, by_count);
    return 0;
}
