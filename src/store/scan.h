/* scan.h - jobs by an index, some at a time: what the clock, a gate or a pause asks for.
 *
 * A scan only reads. What becomes of the jobs that it gives is decided by the caller, and made by
 * moves of the same transaction. A store where several transactions run at once may lock what it
 * gives until the transaction ends, and leave out what other transactions have locked: these see to
 * it, or it is found again.
 *
 * What is told of a job: its numbers, but for created_ms, its tenant, queue and task, and, by
 * SCAN_FINISHED, its policy. By SCAN_LEASES and SCAN_DEADLINES all but the payload, the result and
 * the texts of its last error. Anything else may be absent: no payload is moved. A job whose row
 * cannot be read may be left out, so that it does not stop the others.
 */
#ifndef STORE_SCAN_H
#define STORE_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"

enum scan_index {
    /* By a time, then by seq: the jobs whose time has come, which is the transaction's time or
     * before. */
    SCAN_DUE,       /* scheduled, retrying: process_after */
    SCAN_LEASES,    /* running: the end of the lease. Of very many that have ended, those that were
                     * to be looked at first */
    SCAN_DEADLINES, /* scheduled, retrying, queued, parked: the deadline, if they have one */

    /* The parked jobs of a gate (a limit's key if they were parked by a limit, else a breaker's).
     * `more`: the gate has further ones, whatever the order leaves out. */
    SCAN_PARKED_OLDEST, /* by seq */
    SCAN_PARKED_PROBES, /* in the order of core/breaker/probe.h */
    SCAN_PARKED_NEWEST, /* of those with the most attempts left, and only of these, the newest first
                         */

    /* From a place on. */
    SCAN_READY,    /* the queued jobs of a queue, in the store's own order. Repeated until there are
                    * no more it has given every job that was in the queue when it began, as long as
                    * none of them starts in between */
    SCAN_FINISHED, /* the jobs of some states that ended before a time, by their end, then by seq */
};

/* Where a scan has come to: after this job. Zeroed: before the first. */
struct scan_place {
    int64_t ms;        /* SCAN_FINISHED: the end */
    int64_t partition; /* SCAN_READY: in the store's own words, like `priority` */
    int64_t priority;  /* SCAN_READY */
    int64_t seq;
};

struct scan {
    enum scan_index index;
    size_t limit;      /* at most this many are given, or fewer; `more` tells */
    struct str tenant; /* SCAN_PARKED…, SCAN_READY */
    struct str name;   /* of the gate, or of the queue */
    uint32_t states;   /* SCAN_FINISHED: bit mask; those that are not an end are passed over */
    int64_t before_ms; /* SCAN_FINISHED */

    /* SCAN_READY, SCAN_FINISHED: from where on. Moved to the last one that was looked at. */
    struct scan_place after;

    /* The answer of SCAN_DUE, SCAN_LEASES, SCAN_DEADLINES: no later than the first time of the jobs
     * that are left, 0 when there are none. One that is not later than the transaction's time means
     * that there is more to do after a commit, even if the page is empty. */
    int64_t next_ms;
};

#endif
