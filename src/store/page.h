/* page.h - which jobs are asked for, and what a read gives: filters, scans and pages.
 *
 * A page has rows, and the memory that their strings live in. It belongs to the caller, who
 * releases it. Zeroed pages may be released. A read releases what its page held before, and leaves
 * the page empty when it fails.
 */
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/str.h"
#include "redrive.h"
#include "store/job.h"

struct limit_sums; /* shared.h */
struct store;      /* store.h */

/* ---- Jobs ------------------------------------------------------------------------------------ */

struct job_page {
    struct job *jobs;
    size_t n;
    bool more;                 /* there are further ones after the last */
    struct limit_sums *limits; /* `ready`: those of its jobs, as they are now; perhaps repeated */
    size_t n_limits;
    size_t n_unreadable; /* `ready`, `find`, scans and a `list` that skips them: jobs that were left
                          * out because their rows cannot be read */
    struct redrive_err *unreadable; /* of the first of them; NULL: not known */
    struct arena arena;
};
void job_page_release(struct job_page *page);
/* For stores: leaves a job out of such a page, so that it does not stop the others. `rc` and `err`
 * are what reading its row has returned; gives 0, and clears the error, if that was
 * REDRIVE_E_CORRUPT, and else `rc`. */
int job_page_leave_out(struct job_page *page, int rc, struct redrive_err *err);
/* Adds the jobs that were left out of another page to those of this one. */
void job_page_add_left_out(struct job_page *page, const struct job_page *other);
/* For a caller that has asked for one job: REDRIVE_E_CORRUPT if the job was left out, else 0. */
int job_page_check_readable(const struct job_page *page, struct redrive_err *err);
/* For stores: adds a limit, unless it is the one that was added last. Its strings must live as long
 * as the page. Without memory the page's arena has failed. */
void job_page_add_limit(struct job_page *page, const struct limit_sums *limit);
/* For stores: an array of n rows in an arena with room for at least one more: `rows` itself, or a
 * larger copy. It may be used for an array that only this function has made. NULL: no memory. */
void *page_grow(struct arena *arena, void *rows, size_t n, size_t size);

struct attempt_page {
    struct job_attempt *attempts;
    size_t n;
    struct arena arena;
};
void attempt_page_release(struct attempt_page *page);
void attempt_pages_release(struct attempt_page *pages, size_t n);

enum job_order {
    ORDER_OLDEST,   /* by seq */
    ORDER_NEWEST,   /* by seq, from the end */
    ORDER_FINISHED, /* by the time of the end, the latest first, then the highest seq; jobs that
                     * have not ended come last */
};

/* Which jobs; zeroed fields match everything. Bit masks have bit 1u << value. A bound on the time
 * of the end matches only jobs that have ended. */
struct job_filter {
    struct str tenant;
    struct str id;
    struct str task;
    struct str queue;
    struct str user;
    struct str unique_key;
    uint32_t states;  /* bit mask */
    uint32_t classes; /* of the last error; bit mask */
    uint32_t reasons; /* bit mask */
    struct str error_type;
    struct str text; /* contained in the message of the last error; case matters */
    uint64_t fingerprint;
    int64_t finished_after_ms;  /* at or after */
    int64_t finished_before_ms; /* before */
    enum job_order order;
    int64_t after_seq;     /* keyset: what follows this one in the order; 0: from the start */
    int64_t after_ms;      /* with ORDER_FINISHED: its time */
    int64_t until_seq;     /* with an order by seq: the last that is looked at; 0: all are. A search
                            * that may have to look at every job is made in steps by this */
    bool skips_unreadable; /* `list`: jobs whose rows cannot be read are left out and counted in the
                            * page; else the first is REDRIVE_E_CORRUPT, so that no copy of a store
                            * lacks a job unnoticed */
    bool is_few;           /* a hint to `list`: few jobs of all tenants are in these states */
    bool is_rare;          /* a hint to `list`: few jobs have this task or queue */
    bool is_most;          /* a hint to `list`: of all jobs the tenant has most */
    size_t limit;          /* 1 … STORE_PAGE_MAX, else REDRIVE_E_RANGE */
};

#define STORE_PAGE_MAX 1000

/* For stores: whether a job matches; order, keyset, bound and limit have no say. */
bool job_filter_matches(const struct job_filter *filter, const struct job *job);
/* For the SQL stores, whose statements give at most one row more than the limit: calls `list` with
 * a higher limit for as long as rows that cannot be read take the places of others, the last row's
 * too, which says whether there are more. */
int job_page_list(struct store *store, const struct job_filter *filter,
                  int (*list)(struct store *store, const struct job_filter *filter,
                              struct job_page *ret, struct redrive_err *err),
                  struct job_page *ret, struct redrive_err *err);
/* For stores: whether the bound leaves it in. */
static inline bool job_filter_reaches(const struct job_filter *f, int64_t seq)
{
    return f->until_seq == 0 || f->order == ORDER_FINISHED ||
           (f->order == ORDER_OLDEST ? seq <= f->until_seq : seq >= f->until_seq);
}

/* For the SQL stores: so many jobs of a user, or errors of a type, are few. */
#define LIST_NARROW 1000

/* For the SQL stores: which index leads to the jobs of a filter in an order by seq. */
enum list_source {
    LIST_ALL,        /* every job, or every job of the tenant */
    LIST_USER,       /* the jobs of the tenant's user */
    LIST_PARTITIONS, /* those of the filter's task or queue, which are few */
    LIST_STATES,     /* those in the filter's states, which are few */
    LIST_GROUP,      /* those with the fingerprint of the filter */
    LIST_ERRORS,     /* those that have a history: an error of a job is also one of its attempts' */
    LIST_REASONS,    /* those that ended for the filter's reasons; PostgreSQL's own choice */
};
enum list_source job_filter_source(const struct job_filter *filter);

/* ---- Cursors --------------------------------------------------------------------------------- */

/* Where a page of jobs ended, as text, to ask for the next page with. Opaque: people and programs
 * copy it and do not parse it. It has the order, the hints, the keyset and a checksum over all, so
 * that text which is no cursor, was cut off, or belongs to another order is refused. */
#define JOB_CURSOR_MAX 48

/* The place after this job, with order and hints of the filter. */
const char *job_cursor_write(const struct job_filter *filter, const struct job *job,
                             char out[JOB_CURSOR_MAX]);

/* Sets keyset and hints of a filter whose order is set. REDRIVE_E_INVALID for all else. */
int job_cursor_read(struct str text, struct job_filter *filter, struct redrive_err *err);

/* ---- Claims ---------------------------------------------------------------------------------- */

/* From where jobs are taken, and how many. */
struct claim_filter {
    struct str tenant;        /* absent: tenants in turn */
    const struct str *queues; /* in order of preference; none: all that are not paused */
    size_t n_queues;
    const struct str *tasks; /* none: all */
    size_t n_tasks;
    const size_t *task_limits; /* at most so many of each of `tasks`, 1 or more; NULL: any number */
    size_t limit;              /* at most this many are given */
    size_t max_bytes; /* of what is given, as job_bytes counts; the first job is given whatever its
                       * size; 0: any number */
};

/* The index of `name` among names; `n` if it is not there. */
size_t claim_find(const struct str *names, size_t n, struct str name);

/* How many of a filter's bytes a job takes: its payload, and a little for the rest. */
static inline size_t job_bytes(size_t payload_len)
{
    return payload_len + 512;
}

/* What a claim has been given so far, against the limits of its filter; for stores. A task is known
 * by its index among the tasks of the filter. Where the filter limits no task the index does not
 * matter, and nothing is counted for it. */
struct claim_totals {
    const struct claim_filter *filter;
    size_t *of_task; /* how many were given; NULL: no task has a limit */
    size_t n;
    size_t bytes;
};

/* False: no memory. */
bool claim_totals_init(struct claim_totals *totals, const struct claim_filter *filter);
void claim_totals_release(struct claim_totals *totals);

/* Whether the task has reached its limit. */
static inline bool claim_totals_is_full(const struct claim_totals *totals, size_t task)
{
    return totals->of_task && totals->of_task[task] >= totals->filter->task_limits[task];
}

/* Whether the bytes leave room for a job; the first job always fits. */
static inline bool claim_totals_fits(const struct claim_totals *totals, size_t payload_len)
{
    const size_t max = totals->filter->max_bytes;
    return totals->n == 0 || max == 0 || totals->bytes + job_bytes(payload_len) <= max;
}

static inline void claim_totals_add(struct claim_totals *totals, size_t task, size_t payload_len)
{
    totals->n++;
    totals->bytes += job_bytes(payload_len);
    if (totals->of_task)
        totals->of_task[task]++;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* What jobs are counted by. */
enum count_kind {
    COUNT_QUEUES,     /* every queue that has a job or is paused */
    COUNT_PARTITIONS, /* every task of every queue that has a job. Where the store keeps counts the
                       * cost does not depend on the number of jobs */
    COUNT_PARKED,  /* every gate that has a parked job, as SCAN_PARKED_OLDEST gives them. Looks at
                    * every parked job, unless the store keeps counts */
    COUNT_RUNNING, /* every limit that has a running job, whether it limits how many may run or not,
                    * or whose row has slots in use; both numbers as of one moment. Looks at every
                    * running job */
};

/* How many jobs there are of one of these; the fields of other kinds are zero. */
struct job_count {
    struct str tenant;
    struct str queue;                       /* COUNT_QUEUES, COUNT_PARTITIONS */
    struct str task;                        /* COUNT_PARTITIONS */
    struct str gate;                        /* COUNT_PARKED, COUNT_RUNNING: the limit's key */
    uint64_t jobs;                          /* COUNT_PARKED, COUNT_RUNNING */
    uint64_t used;                          /* COUNT_RUNNING: slots in use by the limit's row */
    uint64_t by_state[REDRIVE_STATE_COUNT]; /* COUNT_QUEUES, COUNT_PARTITIONS */

    /* COUNT_QUEUES */
    int64_t oldest_ready_ms; /* created, of the queued one with the lowest seq; 0: there is none */
    int64_t next_due_ms;     /* of its time-locked jobs; 0: none */
    bool paused;
};
struct count_page {
    struct job_count *counts;
    size_t n;
    struct arena arena;
};
void count_page_release(struct count_page *page);
/* The order of the slot `counts`, for qsort; for stores. */
int job_count_order(const void *left, const void *right);

/* Dead letters whose errors look alike. Jobs without a fingerprint are in no group. */
struct group_count {
    uint64_t fingerprint;
    uint64_t count;
    int64_t first_ms; /* finished */
    int64_t last_ms;
    struct job example; /* the latest, of several the highest seq; without payload and result */
};
struct group_page {
    struct group_count *groups;
    size_t n;
    struct arena arena;
};
void group_page_release(struct group_page *page);
/* A copy of a job without its payload and its result, which may be large; its strings are in the
 * arena. For stores. */
struct job job_bare(const struct job *job, struct arena *arena);
/* The order of the slot `groups`, for qsort; for stores. */
int group_count_order(const void *left, const void *right);

/* How many jobs have ended, or failed so far, of the same cause. */
struct cause_count {
    struct str task;
    enum redrive_reason reason;
    enum redrive_class class_; /* of the last error */
    struct str type;           /* of the last error; may be empty */
    uint64_t count;
};

/* ---- Edges ----------------------------------------------------------------------------------- */

enum edge_side {
    EDGES_TO_CHILDREN,  /* of parents: by parent, then by child */
    EDGES_FROM_PARENTS, /* of children: by child, then by parent */
};
struct edge_page {
    struct job_edge *edges;
    size_t n;
    struct arena arena;
};
void edge_page_release(struct edge_page *page);
/* For stores: adds an edge. False: no memory. */
bool edge_page_add(struct edge_page *page, const struct job_edge *edge);
/* Puts the edges of a page in the order of a side. */
void edge_page_sort(struct edge_page *page, enum edge_side side);
/* The first edge of a job in a page of that side, page->n if it has none and is behind all. */
size_t edge_page_first(const struct edge_page *page, enum edge_side side, int64_t seq);

/* ---- Parents --------------------------------------------------------------------------------- */

/* How many parents a handler is given, and how many bytes of their results. A result that does not
 * fit is left out and marked; those after it may fit. */
#define PARENTS_MAX   100
#define PARENTS_BYTES ((size_t)256 * 1024)

struct parent_page {
    struct job_parent *parents; /* by child, then in the order of submission */
    size_t n;
    size_t n_of_last;     /* for parent_page_add: how many the last child has, */
    size_t bytes_of_last; /* and how many bytes of results */
    struct arena arena;
};
void parent_page_release(struct parent_page *page);
/* For stores: copies the next parent of a child, unless it has as many as it may have. One child
 * comes after the other. False: no memory. */
bool parent_page_add(struct parent_page *page, const struct job_parent *parent);
/* A copy in one block, which the caller frees; strings are terminated. NULL: no memory. */
struct job_parent *parents_copy(const struct job_parent *parents, size_t n);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* A key that is unique for ever and whose job is gone. */
struct remembered_key {
    struct str tenant;
    struct str key;
    struct str id;            /* of the job that held it first */
    enum redrive_state state; /* its last */
};
struct remembered_key_page {
    struct remembered_key *keys;
    size_t n;
    bool more;
    struct arena arena;
};
void remembered_key_page_release(struct remembered_key_page *page);

/* ---- Scans ----------------------------------------------------------------------------------- */

/* Jobs by an index, some at a time: for the clock, a gate or the end of a pause.
 *
 * A scan only reads. The caller decides what becomes of the jobs that it gives, and makes moves in
 * the same transaction. A store where several transactions run at once may lock the jobs that it
 * gives until the transaction ends, and leave out those that other transactions have locked: these
 * move them, or a later scan finds them again.
 *
 * Of a job it gives the numbers, but for created_ms, and tenant, queue and task; SCAN_FINISHED also
 * the policy. SCAN_LEASES and SCAN_DEADLINES give all but the payload, the result and the texts of
 * the last error. Anything else may be absent: no payload is moved. A job whose row cannot be read
 * may be left out, so that it does not stop the others.
 */
enum scan_index {
    /* By a time, then by seq: the jobs whose time has come, which is the transaction's time or
     * before. */
    SCAN_DUE,    /* scheduled, retrying: process_after */
    SCAN_LEASES, /* running: the end of the lease. Of very many that have ended, those whose check
                  * was due first */
    SCAN_DEADLINES, /* scheduled, retrying, queued, parked, waiting: the deadline, if they have one
                     */

    /* The parked jobs of a gate (a limit's key if they were parked by a limit, else a breaker's).
     * `more`: the gate has further ones, whatever the order leaves out. */
    SCAN_PARKED_OLDEST, /* by seq */
    SCAN_PARKED_PROBES, /* in the order of core/breaker/breaker.h */
    SCAN_PARKED_NEWEST, /* of those with the most attempts left, and only of these, the newest first
                         */

    /* From a place on. */
    SCAN_READY,    /* the queued jobs of a queue, in the store's own order. Repeated until there are
                    * no more, it gives every job that was in the queue at the start, as long as
                    * none of them is started in between */
    SCAN_FINISHED, /* the jobs of some states that ended before a time, by their end, then by seq */
};

/* How far a scan has come: up to this job. Zeroed: before the first. */
struct scan_place {
    int64_t ms;        /* SCAN_FINISHED: the end */
    int64_t partition; /* SCAN_READY: the store's own number, like `priority` */
    int64_t priority;  /* SCAN_READY */
    int64_t seq;
};

struct scan {
    enum scan_index index;
    size_t limit;      /* at most this many are given; `more`: there are others */
    struct str tenant; /* SCAN_PARKED…, SCAN_READY */
    struct str name;   /* of the gate, or of the queue */
    uint32_t states;   /* SCAN_FINISHED: bit mask; those that are not an end are passed over */
    int64_t before_ms; /* SCAN_FINISHED */
    bool brief;        /* SCAN_FINISHED: seq, state and end are enough; a store may give more */

    /* SCAN_READY, SCAN_FINISHED: start after this place. Set to the last job that was looked at. */
    struct scan_place after;

    /* Set by SCAN_DUE, SCAN_LEASES, SCAN_DEADLINES: no later than the earliest time of the jobs
     * that are left, 0 when there are none. If it is not later than the transaction's time, the
     * caller scans again after a commit, even if the page is empty. */
    int64_t next_ms;
};

#endif
