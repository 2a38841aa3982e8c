/* list.h - how lists, groups and causes are put together; for the files of this folder.
 *
 * A statement is made of constant pieces, by what its filter has, and is not kept prepared.
 */
#ifndef STORE_SQLITE_LIST_LIST_H
#define STORE_SQLITE_LIST_LIST_H

#include "store/sqlite/private.h"

/* The conditions of a filter are constant pieces of SQL; their values are bound to the numbers in
 * them, whichever pieces are used. */
enum {
    P_TENANT = 1,
    P_ID,
    P_TASK,
    P_QUEUE,
    P_USER,
    P_KEY,
    P_STATES,
    P_CLASSES,
    P_REASONS,
    P_TYPE,
    P_TEXT,
    P_FINGERPRINT,
    P_AFTER,
    P_BEFORE,
    P_KEYSET_SEQ,
    P_KEYSET_MS,
    P_STATE,
    P_LIMIT,
    P_UNTIL,
    P_FIRST_BLOCK,
    P_LAST_BLOCK,
    P_BLOCKS,
};

#define SQL_LIST_MAX 8192

/* The time of the end; 0 before that. With by_end all jobs have ended, and the index has the order.
 */
#define FINISHED_MS "iif(j.state BETWEEN 5 AND 8, j.sort_key, 0)"

/* All jobs of the tenant. The index has seqs only, so that the rows are joined in this order. */
#define OF_TENANT                                                                              \
    " FROM specs s CROSS JOIN job_states j ON j.seq = s.seq" JOB_ERROR " WHERE s.tenant_id = " \
    "(SELECT tenant_id FROM tenants WHERE name = ?1)"

/* The conditions of a filter. `of_tenant`: the statement has only jobs of the tenant already. */
void list_add_conditions(struct buf *sql, const struct job_filter *f, bool of_tenant);
/* What the conditions look at, and nothing else. */
void list_add_needed_sides(struct buf *sql, const struct job_filter *f);
/* The states as a list that the index jobs_by_sort_key serves. */
void list_add_states(struct buf *sql, uint32_t states);
/* The order, after the keyset. `by_end`: all jobs have ended, and the index has the order. */
void list_add_order(struct buf *sql, const struct job_filter *f, bool by_end);
/* Ends a subquery that selects seqs, and joins the whole jobs. */
void list_add_whole(struct buf *sql, const struct job_filter *f);
/* Prepares the text, and binds what the filter has; the caller finalizes it. */
int list_prepare(struct store *store, const struct buf *sql, const struct job_filter *f,
                 sqlite3_stmt **ret, struct redrive_err *err);

/* Whether it costs less to look at all jobs of the tenant: they are fewer than the jobs of all
 * tenants that would be read, on average, to find `limit` of the tenant's. `limit` 0: all jobs of
 * all tenants would be read. */
int list_is_small_tenant(struct store *store, const struct job_filter *f, size_t limit, bool *ret,
                         struct redrive_err *err);

/* LIST_USER or LIST_ERRORS if the filter has a user or a type of error that few jobs have, else
 * LIST_ALL. */
int list_find_narrow(struct store *store, const struct job_filter *f, enum list_source *ret,
                     struct redrive_err *err);
/* FROM the jobs j that such a source leads to. */
void list_add_narrow(struct buf *sql, const struct job_filter *f, enum list_source source);

/* ---- by_blocks.c: the jobs of a task or a queue ---------------------------------------------- */

/* Whether an order by the end costs less if all jobs in the blocks of the filter's partitions are
 * looked at than by the index of the ended jobs of all. */
int blocks_are_fewer(struct store *store, const struct job_filter *f, bool *ret,
                     struct redrive_err *err);
/* Lists what the filter has by the blocks of its partitions: it has a task or a queue. */
int blocks_list(struct store *store, const struct job_filter *f, struct job_page *ret,
                struct redrive_err *err);

#endif
