/* page.h - which jobs are asked for, and what a read gives: filters and pages.
 *
 * A page has rows, and the memory that their strings live in. It belongs to the caller, who
 * releases it. Zeroed pages may be released; a read releases what its page held before, and one
 * that fails leaves its page empty.
 */
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "redrive.h"
#include "store/job.h"

struct limit_sums; /* shared.h */

/* ---- Jobs ------------------------------------------------------------------------------------ */

struct job_page {
    struct job *jobs;
    size_t n;
    bool more;                 /* there are further ones after the last */
    struct limit_sums *limits; /* `ready`: those of its jobs, as they are now; perhaps repeated */
    size_t n_limits;
    struct arena arena;
};
void job_page_release(struct job_page *page);
/* For stores: adds a limit, unless it is the one that was added last. Its strings live as long as
 * the page. Without memory the page's arena has failed. */
void job_page_add_limit(struct job_page *page, const struct limit_sums *limit);

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
    struct str text; /* in the message of the last error, case and all */
    uint64_t fingerprint;
    int64_t finished_after_ms;  /* at or after */
    int64_t finished_before_ms; /* before */
    enum job_order order;
    int64_t after_seq; /* keyset: what follows this one in the order; 0: from the start */
    int64_t after_ms;  /* with ORDER_FINISHED: its time */
    size_t limit;      /* 1 … STORE_PAGE_MAX, else REDRIVE_E_RANGE */
};

#define STORE_PAGE_MAX 1000

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

/* Where `name` stands among names; `n` if it does not. */
size_t claim_find(const struct str *names, size_t n, struct str name);

/* What a job costs of a filter's bytes: its payload, and a little for the rest. */
static inline size_t job_bytes(size_t payload_len)
{
    return payload_len + 512;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* What jobs are counted by. */
enum count_kind {
    COUNT_QUEUES,     /* every queue that has a job or is paused */
    COUNT_PARTITIONS, /* every task of every queue that has a job. Costs no more than there are
                       * such, however many jobs they have, where the store keeps counts */
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
/* In the order of `counts`. For stores. */
int job_count_order(const void *left, const void *right);

/* Dead letters whose errors look alike. Jobs without a fingerprint are in no group. */
struct group_count {
    uint64_t fingerprint;
    uint64_t count;
    int64_t first_ms; /* finished */
    int64_t last_ms;
    struct job example; /* the latest; of several the highest seq */
};
struct group_page {
    struct group_count *groups;
    size_t n;
    struct arena arena;
};
void group_page_release(struct group_page *page);

/* How many jobs have ended, or failed so far, of the same cause. */
struct cause_count {
    struct str task;
    enum redrive_reason reason;
    enum redrive_class class_; /* of the last error */
    struct str type;           /* of the last error; may be empty */
    uint64_t count;
};

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

#endif
