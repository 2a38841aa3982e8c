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
 *
 * A name that is not among those allowed is refused with the nearest, an empty value or list too: a
 * script with an empty variable must not get every job.
 */
#ifndef SERVER_REST_BODY_JOB_QUERY_H
#define SERVER_REST_BODY_JOB_QUERY_H

#include "base/mem/arena.h"
#include "store/store.h"

#define JOB_QUERY_LIMIT 100 /* jobs in a page, unless it is asked for others */

enum job_query_allows {
    JOB_QUERY_STATE = 1 << 0,  /* the state; also as `status` */
    JOB_QUERY_PAGE = 1 << 1,   /* order, limit, cursor */
    JOB_QUERY_LIMITS = 1 << 2, /* limit alone */
};

struct job_query {
    struct job_filter filter; /* strings borrowed */
    unsigned allows;
    int64_t now_ms;
    uint64_t given;
    struct str cursor;
    const char *field; /* at fault, after a failure; static, or in the arena */
    struct arena *arena;
};

/* `order` is the one unless the request says otherwise. */
void job_query_init(struct job_query *q, struct str tenant, unsigned allows, enum job_order order,
                    int64_t now_ms, struct arena *arena);

int job_query_add(struct job_query *q, struct str name, struct str value, struct redrive_err *err);

/* Adds every member of a JSON object: texts, or arrays of texts. */
int job_query_add_object(struct job_query *q, struct str json, struct redrive_err *err);

/* After the last: makes the filter whole. */
int job_query_finish(struct job_query *q, struct redrive_err *err);

/* Whether anything was given that narrows it down. */
bool job_query_selects(const struct job_query *q);

/* A whole number of a query from `min` to `max`. */
int query_int(const char *name, struct str value, int64_t min, int64_t max, int64_t *ret,
              struct redrive_err *err);
int query_bool(const char *name, struct str value, bool *ret, struct redrive_err *err);

#endif
