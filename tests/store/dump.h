/* dump.h - everything that a store keeps, as text, for comparing.
 *
 * Two stores that hold the same give the same text, whatever their seqs are: jobs stand in the
 * order of submission, a line each, and their history under them.
 */
#ifndef TESTS_STORE_DUMP_H
#define TESTS_STORE_DUMP_H

#include "base/text/buf.h"
#include "store/store.h"

/* Empties the buffer first. Fails the test when a read fails. */
void dump_store(struct store *store, struct buf *ret);
/* The same of a store that may be damaged: 0, or the code of the read that failed;
 * REDRIVE_E_CORRUPT also when two ways to read a job do not give the same. */
int dump_damaged_store(struct store *store, struct buf *ret);

#endif
