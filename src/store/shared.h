/* shared.h - what processes share beside jobs: small rows, and counters.
 *
 * Small rows that every process keeps a copy of. Each put compares and sets: it is refused with
 * REDRIVE_E_STATE when the row is no longer at `version`, and moves it to version + 1. Version 0
 * means that there is no row yet, or no longer: taking a row away needs its version as well, and
 * is refused in the same way when there is none. Each successful put of a kind that is cached
 * raises the shared version.
 *
 * The row of a limit has two sums beside its value, which many processes change at the same time. A
 * put adds to them, so that no two puts need to know of each other. One that is only an addition
 * (`is_delta`) compares no version and raises none. At most N means at most N: a put that would add
 * slots above `max_used` is refused with REDRIVE_E_STATE, or, where that is found out at the
 * commit, the whole transaction is, with REDRIVE_E_CANCELLED; so is a delta without a row. A sum
 * never falls below 0.
 */
#ifndef STORE_SHARED_H
#define STORE_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/str.h"

enum shared_kind {
    SHARED_BREAKER, /* struct breaker, its configuration and the pace of its release */
    SHARED_BUCKET,  /* struct bucket of a rate limit */
    SHARED_PAUSE,   /* a queue that is paused: the row says it all, its value since when */
    SHARED_TASK,    /* the definition of a task, as JSON */
    SHARED_CRON,    /* a cron entry, as JSON, and its last tick */
    SHARED_WORKER,  /* a worker that is alive, as JSON */
    SHARED_ALERT,   /* what is known of an alert's episode, as JSON */
    SHARED_CANCEL,  /* a job that is to be cancelled, as JSON; see engine/verbs/cancels.h */
};
#define SHARED_KIND_COUNT (SHARED_CANCEL + 1)

/* The kinds from SHARED_WORKER on are read anew each time: no process keeps a copy, and putting one
 * does not raise the shared version. */
static inline bool shared_is_cached(enum shared_kind kind)
{
    return kind < SHARED_WORKER;
}

/* What the store counts for a limit. */
struct gate_sums {
    int64_t used; /* slots in use: jobs that run under it */
    int64_t
        sent; /* candidates: parked jobs that were sent to the queue and that no claim has met */
};

/* A limit after the commit of a transaction that has put it. */
struct merged_gate {
    struct gate_sums sums;
    int64_t version; /* another one than was expected: other transactions have put it meanwhile */
};
/* The answer to the commit was lost. */
#define MERGED_UNKNOWN ((struct merged_gate){{-1, -1}, -1})

struct shared_row {
    enum shared_kind kind;
    struct str tenant;
    struct str key;
    struct str value; /* bytes; the store does not look inside */
    int64_t version;
    bool removed;  /* put: take the row away; refused while slots are in use */
    bool is_quiet; /* put: the shared version stays, so that other processes do not read it again
                    * before they put it themselves, and are refused then */

    /* Of SHARED_BUCKET only. */
    bool is_delta; /* put: an addition and nothing else: value, version and the shared version stay.
                    * The row must be there, and at `version` unless that is 0 */
    struct gate_sums sums; /* list: as they are, with what the transaction has added */
    struct gate_sums add;  /* put: what is added to them */
    int64_t max_used; /* put: slots are added up to this many; 0, or if none are added: no guard */

    /* put: where the store tells what the row is after the commit, written before commit returns
     * 0; it must live until then. NULL: the caller does not ask. */
    struct merged_gate *merged;
};

/* The sums of a limit, by its name. */
struct limit_sums {
    struct str tenant;
    struct str key;
    struct gate_sums sums;
};

/* For stores with one writer: whether a row that is at `version` (0: there is none) and has these
 * sums takes a put; the sums are then those of after it. */
bool shared_put_fits(const struct shared_row *row, int64_t version, struct gate_sums *sums);

/* Whether a put raises the shared version. */
static inline bool shared_put_is_notified(const struct shared_row *row)
{
    return shared_is_cached(row->kind) && !row->is_quiet && !row->is_delta;
}

struct shared_page {
    struct shared_row *rows;
    size_t n;
    struct arena arena;
};
void shared_page_release(struct shared_page *page);

/* Numbers that only grow, added up over all processes. */
struct counter {
    struct str tenant;
    struct str name;  /* "completed", "retried", "unclassified" … */
    struct str label; /* task, queue, class …; may be empty */
    int64_t value;    /* added by counters_add, the sum in counters_list */
};
struct counter_page {
    struct counter *counters;
    size_t n;
    struct arena arena;
};
void counter_page_release(struct counter_page *page);

#endif
