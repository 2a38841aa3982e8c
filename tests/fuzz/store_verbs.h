/* store_verbs.h - what callers do with a store, one letter a verb, for targets that fuzz what a
 * store reads.
 *
 * A verb works, or fails with an error that has a text; a page that it gives is read to its last
 * byte, and shown as JSON. After a verb that has failed in a transaction the transaction is rolled
 * back, as the contract of stores wants it.
 */
#ifndef TESTS_FUZZ_STORE_VERBS_H
#define TESTS_FUZZ_STORE_VERBS_H

#include "store/store.h"

/* More letters than this are not obeyed. */
#define VERBS_MAX 12

/* The time of transactions, and names that verbs use. */
#define VERBS_NOW_MS INT64_C(1767225600000)
#define VERBS_TENANT "t"
#define VERBS_QUEUE  "q"
#define VERBS_TASK   "k"

/* Called with each job that a read of whole jobs has given; may be NULL. */
typedef void verbs_job_fn(const struct job *job);

/* An input begins with letters and a newline: how many bytes these are. */
size_t verbs_length(const uint8_t *data, size_t size);
/* Obeys the letters up to the first newline. */
void verbs_obey(struct store *store, const uint8_t *letters, size_t n, verbs_job_fn *on_job);

#endif
