/* remains.h - what is left of a job whose row cannot be read, as lines of JSON; for
 * store_ops.repair.
 *
 * A line has `seq`, `why` and, under a name of the store's own, all that the store has of the job.
 * Every byte is kept: what is not UTF-8 is {"base64": "…"} in place of a string.
 */
#ifndef STORE_REMAINS_H
#define STORE_REMAINS_H

#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "base/text/str.h"

/* The most that the lines of one step may have. A step has few jobs, and a job at most some MB. */
#define REMAINS_MAX_BYTES ((size_t)1 << 30)

/* Begins a line in `lines`, which has the keys `seq` and `why` then; remains_end ends it. */
void remains_begin(struct json_writer *w, struct buf *lines, int64_t seq, const char *why);
void remains_end(struct json_writer *w, struct buf *lines);
/* A value: the bytes. Without memory `lines` has failed. */
void remains_put(struct json_writer *w, struct str bytes);

#endif
