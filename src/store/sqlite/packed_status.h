/* packed_status.h - the column `packed_status` of jobs: numbers that no view shows and no search
 * asks for.
 *
 * Each column costs in every write, whether it holds something or not, and most of these are 0 for
 * most jobs: so they are one column. The token comes first, in eight bytes, the lowest first,
 * whether there is one or not: a row that does not change its length is written over where it
 * stands. The others follow in variable length (seven bits a byte, the lowest first, the top bit
 * says that there is more), without the zeros at the end. NULL: all are 0.
 */
#ifndef STORE_SQLITE_PACKED_STATUS_H
#define STORE_SQLITE_PACKED_STATUS_H

#include "store/job.h"

#define REST_NUMBERS      7
#define PACKED_STATUS_MAX (8 + REST_NUMBERS * 10)

/* Writes the numbers into `ret`; returns the length, 0 when all are 0. */
size_t packed_status_pack(const struct job_status *s, unsigned char ret[PACKED_STATUS_MAX]);

/* False for bytes that packed_status_pack does not write; the status is then half filled. */
bool packed_status_unpack(const unsigned char *bytes, size_t len, struct job_status *ret);

#endif
