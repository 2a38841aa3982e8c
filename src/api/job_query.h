/* job_query.h - which jobs a request is about, from the parameters of its query.
 *
 * The names are those of `redrive jobs list`, with underscores:
 *
 *     task, queue, user, unique_key    exactly
 *     state, class, reason             one or several words with commas; may be repeated
 *     type                             of the last error; also as error_type
 *     text                             in the message of the last error, case and all
 *     group                            the fingerprint of the last error
 *     older_than, newer_than           ended at least, at most so long ago: 90m, 24h
 *     order, limit, cursor             of a page
 *     older_than_hours, dry_run        of a purge
 *
 * A name that is not among those allowed is refused with the nearest, an empty value or list too: a
 * script with an empty variable must not get every job.
 */
#ifndef API_JOB_QUERY_H
#define API_JOB_QUERY_H

#include "fields/query.h"
#include "store/store.h"

#define JOB_QUERY_LIMIT 100 /* jobs in a page, unless it is asked for others */

/* Which of the parameters a request may have. */
enum job_query_uses {
    JOB_QUERY_JOBS = 1 << 0,   /* all but the following */
    JOB_QUERY_STATE = 1 << 1,  /* the state; also as `status` */
    JOB_QUERY_PAGE = 1 << 2,   /* order, limit, cursor */
    JOB_QUERY_LIMITS = 1 << 3, /* limit alone */
    JOB_QUERY_COUNTS = 1 << 4, /* task, queue and state alone: the store counts jobs by them */
    JOB_QUERY_PURGE = 1 << 5,  /* older_than_hours, dry_run */
};

/* The table of all parameters, each with its bits of job_query_uses. */
extern const struct field JOB_QUERY_FIELDS[];

struct job_query {
    struct field_reader reader; /* its `place` names the parameter at fault */
    struct job_filter filter;   /* strings borrowed */
    struct str cursor;
    int64_t hours; /* -1: not given */
    bool dry_run;
    uint64_t given;
    int rc; /* of the last parameter that was added */
};

/* `order` is the default order. */
void job_query_init(struct job_query *q, struct str tenant, unsigned uses, enum job_order order,
                    int64_t now_ms, struct arena *arena, struct redrive_err *err);

/* Adds a parameter to the `struct job_query`, and returns false when it was refused: a visitor of
 * http_each_query. */
bool job_query_add(struct str name, struct str value, void *query);

/* Adds every member of a JSON object: texts, or arrays of texts. */
int job_query_add_object(struct job_query *q, struct str json);

/* After the last parameter: makes the filter whole, or fails with the error of the parameter that
 * was refused, after which no other may have been added. Once. */
int job_query_finish(struct job_query *q);

/* Whether anything was given that narrows it down. */
bool job_query_selects(const struct job_query *q);

#endif
