/* content.h - what a store holds, in a form that is the same whichever store holds it.
 *
 * A job with its history, a shared row, a counter and a remembered key are each written as a row of
 * named fields: all that a store keeps of them, but for what is the store's own (seqs, versions of
 * rows). Two are the same when these bytes are. A sum over rows does not depend on their order, so
 * that two stores can be compared without holding either in memory.
 */
#ifndef ENGINE_COPY_CONTENT_H
#define ENGINE_COPY_CONTENT_H

#include "base/text/buf.h"
#include "store/store.h"

/* Each empties `out` first; running out of memory sticks there. */
void content_of_job(const struct imported_job *job, struct buf *out);
void content_of_row(const struct shared_row *row, struct buf *out);
void content_of_counter(const struct counter *counter, struct buf *out);
void content_of_key(const struct remembered_key *key, struct buf *out);

/* The name of the first field in which two contents of a kind differ; "" when they are the same. It
 * is a slice of `a`. */
struct str content_difference(struct str a, struct str b);

/* The sum of the first half of the SHA-256 of each row. Zeroed: of none. */
struct content_sum {
    uint64_t high;
    uint64_t low;
    uint64_t rows;
};

void content_add(struct content_sum *sum, struct str content);
void content_add_sum(struct content_sum *sum, const struct content_sum *other);
bool content_same(const struct content_sum *a, const struct content_sum *b);

#define CONTENT_TEXT_MAX 33
const char *content_text(const struct content_sum *sum, char out[CONTENT_TEXT_MAX]);

#endif
