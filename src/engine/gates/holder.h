/* holder.h - what holds a parked job: a breaker or a limit, and when it may let the job go.
 *
 * Reads what processes share, through any store handle and outside of a transaction, for people who
 * look at one job. The time is the earliest one: other jobs may be before it, and what happens
 * until then may move it.
 */
#ifndef ENGINE_GATES_HOLDER_H
#define ENGINE_GATES_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "core/limit/limit.h"
#include "store/store.h"

struct gate_info {
    bool is_held; /* the job is parked, and the row of what holds it was found */
    bool is_limit;
    struct str key;                   /* the job's own */
    enum redrive_breaker_state state; /* of a breaker */
    struct rate rate;                 /* of a limit; count 0: none */
    struct slots slots;               /* likewise; max 0: none */
    int64_t may_go_ms;                /* 0: not known beforehand; gate_wait_text says why */
};

/* A job that is not parked is held by nothing. REDRIVE_E_CORRUPT names a row that cannot be read.
 */
int gate_read(struct store *store, const struct job *job, int64_t now_ms, struct gate_info *ret,
              struct redrive_err *err);

/* What must happen before the job may go, for people: `it closes`, `a probe`, `a running job ends`.
 */
const char *gate_wait_text(const struct gate_info *gate);

/* The member "held_by": {"kind":"breaker","key":…,"state":…,"may_go_at":…}, or "kind":"limit" with
 * rate, concurrency and running; null when nothing holds the job. */
void gate_write_json(struct json_writer *w, const struct gate_info *gate);

/* The same in words: `breaker mail (open)`. */
void gate_write_text(struct buf *out, const struct gate_info *gate);

#endif
