/* list.h - how lists, groups and causes are put together; for the files of this folder.
 *
 * A statement is a text made for its filter, and is not kept prepared. Numbers are part of the
 * text, so that the server plans with them; strings are parameters.
 */
#ifndef STORE_POSTGRES_LIST_LIST_H
#define STORE_POSTGRES_LIST_LIST_H

#include "store/postgres/private.h"

#define SQL_MAX 65536

#define ENDED_MASK ((2u << REDRIVE_STATE_CANCELLED) - (1u << REDRIVE_STATE_COMPLETED))
#define ALL_STATES ((1u << REDRIVE_STATE_COUNT) - 1)

/* What groups, causes and lists by the time of the end read. */
enum source {
    SOURCE_ALL,    /* an index of the states of all jobs */
    SOURCE_TENANT, /* all jobs of the tenant */
    SOURCE_USER,   /* all jobs of the tenant's user */
    SOURCE_TYPE,   /* all jobs that had an error of the filter's type once */
};

/* The row of `table` that belongs to a job. OFFSET 0 keeps the server from choosing another join:
 * one that reads the whole table. */
#define ROW_OF(table, condition) \
    "LATERAL (SELECT * FROM redrive." table " q WHERE " condition " OFFSET 0) "
#define STATE_ROW(from) ROW_OF("job_states", "q.seq = " from ".seq") "j"
#define SPEC_ROW        ROW_OF("specs", "q.seq = j.seq") "s"
#define ERROR_ROW       ROW_OF("history", "q.seq = j.seq AND q.n = j.error_n") "h"
#define RESULT_ROW      ROW_OF("results", "q.seq = j.seq") "r"

/* What a whole job has beside its row j. */
#define WHOLE_JOB \
    " CROSS JOIN " SPEC_ROW " LEFT JOIN " ERROR_ROW " ON true LEFT JOIN " RESULT_ROW " ON true"

/* Runs a statement that was put together, and releases its text. */
int pg_list_read(struct store *store, struct buf *sql, const PGresult **ret,
                 struct redrive_err *err);

/* Where the jobs j come from. */
void pg_list_add_from(struct buf *sql, struct store *store, const struct job_filter *f,
                      enum source source);
/* What the conditions look at beside the row of a job, and nothing else. */
void pg_list_add_needed_sides(struct buf *sql, const struct job_filter *f);
/* WHERE, and the conditions of a filter. */
void pg_list_add_conditions(struct buf *sql, struct store *store, const struct job_filter *f,
                            enum source source);

/* SOURCE_USER or SOURCE_TYPE if the filter has a user or a type that few jobs have, else
 * SOURCE_ALL. */
int pg_list_find_narrow(struct store *store, const struct job_filter *f, enum source *ret,
                        struct redrive_err *err);
/* The same, or the tenant's jobs if these are fewer than the jobs of all tenants in these states
 * that would be read, on average, to find `limit` of the tenant's. `limit` 0: all of them would be
 * read. */
int pg_list_choose_source(struct store *store, const struct job_filter *f, size_t limit,
                          enum source *ret, struct redrive_err *err);

#endif
