/* tally.h - how often each name came. */
#ifndef CLI_OUTPUT_TALLY_H
#define CLI_OUTPUT_TALLY_H

#include <stdint.h>

#include "base/mem/map.h"

struct tally_row {
    const char *name;
    uint64_t count;
};

/* Running out of memory sticks and is returned by tally_sort. */
struct tally {
    struct map counts; /* name → uint64_t */
    struct tally_row *rows;
    size_t n;
    bool failed;
};

void tally_init(struct tally *t);
void tally_release(struct tally *t);

/* It came n times more. */
void tally_add(struct tally *t, struct str name, uint64_t n);

/* Makes the rows, the most frequent first, then by name; 0 or REDRIVE_E_NOMEM. They are valid until
 * release; nothing may be added meanwhile. */
int tally_sort(struct tally *t);

#endif
