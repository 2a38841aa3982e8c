/* shared.h - what processes share beside jobs: small rows, and counters.
 *
 * Small rows that every process keeps a copy of. Each put compares and sets: it is refused with
 * REDRIVE_E_STATE when the row is no longer at `version`, and moves it to version + 1. Version 0
 * means that there is no row yet, or no longer: taking a row away needs its version as well, and
 * is refused in the same way when there is none. Each successful put of a kind that is cached
 * raises the shared version.
 *
 * The row of a limit has two sums beside its value, which many processes change at the same time. A
 * put adds to them, so that puts of several processes do not conflict. One that is only an addition
 * (`is_delta`) compares no version and raises none. The limit is strict: a put that would add slots
 * above `max_used` is refused with REDRIVE_E_STATE; a store that finds it out at the commit refuses
 * the whole transaction with REDRIVE_E_CANCELLED. So is a delta without a row. A sum never falls
 * below 0.
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
    SHARED_LIMIT,   /* a limit: its rate, its slots and its retry budget */
    SHARED_PAUSE, /* a queue that is paused, for as long as there is a row; the value: since when */
    SHARED_TASK,  /* the definition of a task, as JSON */
    SHARED_CRON,  /* a cron entry, as JSON, and its last tick */
    SHARED_WORKER, /* a worker that is alive, as JSON */
    SHARED_ALERT,  /* the state of an alert, as JSON */
    SHARED_CANCEL, /* a job that is to be cancelled, or jobs whose children are to be decided, as
                    * JSON; see engine/verbs/change.h */
};
/* How many kinds there are that go with the jobs into a copy. */
#define SHARED_KIND_COUNT (SHARED_CANCEL + 1)
/* Which part of a store of shards this one is: store/shards/record.h. Not copied. */
#define SHARED_SHARDS ((enum shared_kind)SHARED_KIND_COUNT)
/* Tenants that are, or were, moved between shards: store/shards/tenants.h. Not copied. */
#define SHARED_TENANT ((enum shared_kind)(SHARED_KIND_COUNT + 1))

/* The kinds from SHARED_WORKER on are read anew each time: no process keeps a copy, and putting one
 * does not raise the shared version. */
static inline bool shared_is_cached(enum shared_kind kind)
{
    return kind < SHARED_WORKER;
}

/* What the store counts for a limit. */
struct gate_sums {
    int64_t used; /* slots in use: jobs that run under it */
    int64_t sent; /* candidates: parked jobs sent to the queue that no claim has met yet */
};

/* A limit after the commit of a transaction that has put it. */
struct merged_gate {
    struct gate_sums sums;
    int64_t version; /* not the expected one: other transactions have put it meanwhile */
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
    bool is_quiet; /* put: the shared version stays. Other processes do not read the row again until
                    * a put of their own is refused */

    /* Of SHARED_LIMIT only. */
    bool is_delta; /* put: an addition and nothing else: value, version and the shared version stay.
                    * The row must be there, and at `version` unless that is 0 */
    struct gate_sums sums; /* list: as they are, with what the transaction has added */
    struct gate_sums add;  /* put: what is added to them */
    int64_t max_used;      /* put: refused if more slots would be in use; 0: no limit */

    /* put: where the store writes what the row is after the commit, before commit returns 0; it
     * must live until then. NULL: not asked for. */
    struct merged_gate *merged;
};

/* The sums of a limit, by its name. */
struct limit_sums {
    struct str tenant;
    struct str key;
    struct gate_sums sums;
};

/* For stores with one writer: whether a row that is at `version` (0: there is none) and has these
 * sums takes a put. If so, the sums become those after the put. */
bool shared_put_fits(const struct shared_row *row, int64_t version, struct gate_sums *sums);

/* Whether a put raises the shared version. Engines of shards keep a copy of the rows of tenants,
 * too.
 */
static inline bool shared_put_is_notified(const struct shared_row *row)
{
    return (shared_is_cached(row->kind) || row->kind == SHARED_TENANT) && !row->is_quiet &&
           !row->is_delta;
}

struct shared_page {
    struct shared_row *rows;
    size_t n;
    struct arena arena;
};
void shared_page_release(struct shared_page *page);
/* By kind, tenant and key, for qsort; for stores. */
int shared_row_order(const void *left, const void *right);

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
/* By tenant, name and label, for qsort; for stores. */
int counter_order(const void *left, const void *right);

#endif
