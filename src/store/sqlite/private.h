/* private.h - what the files of the SQLite store share.
 *
 * Invariants
 *   1. All writes happen between begin and commit, in one BEGIN IMMEDIATE.
 *   2. A statement that has been stepped is reset before its slot returns, so that no read
 *      transaction outlives a call, unless a snapshot is asked for, and the log can always be
 *      checkpointed.
 *   3. What the handle keeps in memory (partitions, the counts that a transaction has moved, the
 *      next seq, rows of jobs) is what the file says, or is thrown away: a rollback forgets it, and
 *      rows are forgotten when another connection has committed.
 */
#ifndef STORE_SQLITE_PRIVATE_H
#define STORE_SQLITE_PRIVATE_H

#include <sqlite3.h>

#include "base/mem/map.h"
#include "base/text/buf.h"
#include "store/job.h"
#include "store/sql_cache.h"
#include "store/sqlite/checkpoint.h"
#include "store/sqlite/statements.h"
#include "store/store.h"
#include "store/transition.h"

/* SQLite calls back after this many of its steps: some hundred times a second. */
#define STEPS_BETWEEN_CALLS 20000

/* The numbers that STATEMENT_ROW_WRITE binds from 1 on, and which of them is NULL rather than 0. */
#define ROW_NUMBERS  14
#define ROW_ERROR_AT 13

/* The scripts of schema/, embedded when the program is built. Script n brings a store from version
 * n to version n + 1; a store's version is its user_version. Statements of a script that has been
 * released never change: changes come in a new script. */
extern const char *const STORE_SCRIPTS[];
extern const int STORE_SCRIPTS_COUNT;

/* Which partitions have ready jobs, as long as they are few: read once for the claims of a
 * transaction. Those that a claim has emptied stay in it. */
#define READY_PARTITIONS_MAX 32
struct ready_partitions {
    struct partition *partitions[READY_PARTITIONS_MAX];
    size_t n;
    bool are_all;
    bool is_known;
    uint64_t n_ready; /* of struct partitions, when they were read */
};

struct store {
    struct store_base base;
    sqlite3 *db;
    char *path;
    struct checkpoint checkpoint;
    char library[160];     /* for people: which SQLite this is */
    int64_t version_found; /* of the schema, when it was opened */
    int last_error;        /* why sql_use gave NULL */
    bool in_transaction;
    bool in_snapshot;   /* a read transaction stays open over several calls */
    bool meta_is_known; /* the row of meta is as below */
    bool meta_moved;
    enum {
        DEADLINES_UNKNOWN,
        DEADLINES_NONE,
        DEADLINES_SOME
    } deadlines; /* in this transaction */
    int64_t now_ms;
    int64_t next_seq;  /* of a new job; 0: not known, see seq_needed */
    int64_t seq_floor; /* meta.next_seq: jobs that are gone had lower numbers */
    int64_t shared_version;
    int64_t pauses_version; /* the shared version that `pauses` was read at */
    int64_t data_version;   /* changes when another connection has committed */
    bool told_of_move;      /* a wait has returned because the file was removed */
    int64_t last_tenant;    /* that had a turn in a claim */
    struct map pauses;      /* of tenant and queue */
    struct partitions partitions;
    struct ready_partitions ready;
    struct row_cache kept; /* rows that were read or written lately and that no other handle can
                            * have changed; their strings are absent */
    bool row_is_bound;
    int64_t row_bound[ROW_NUMBERS]; /* to the statement that writes a row */
    struct buf scratch;
    int64_t narrow;         /* as of struct store_options */
    sqlite3_stmt **cursors; /* SQL_READY, several times */
    size_t n_cursors;
    sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* ---- vfs.c ----------------------------------------------------------------------------------- */

/* The name of the VFS for sqlite3_open_v2, registered if need be; NULL (the default VFS) when that
 * is impossible. Any thread. */
const char *vfs_name(void);

/* On: the frames of the next commit are gathered and written with one call, the last one of that
 * commit; if it fails, the commit fails. Off: frames that are still gathered are dropped, as the
 * commit has failed. */
void vfs_gather(sqlite3 *db, bool on);

/* ---- statement.c: the way to SQLite ---------------------------------------------------------- */

/* The prepared statement, ready to be bound, or NULL: then `last_error` is the code. */
sqlite3_stmt *sql_use(struct store *store, enum statement which, struct redrive_err *err);

/* 1 for a row, 0 at the end, or a negative code; at the end and after an error it is reset. */
int sql_step(struct store *store, sqlite3_stmt *st, struct redrive_err *err);

/* Runs a statement that gives no rows: 0 or a negative code. */
int sql_run(struct store *store, sqlite3_stmt *st, struct redrive_err *err);
/* The same, of a statement about one job. */
int sql_run_for(struct store *store, enum statement which, int64_t seq, struct redrive_err *err);
int sql_exec(struct store *store, enum statement which, struct redrive_err *err);

/* The first column of the first row of a statement that is not kept; untouched if there is none. */
int sql_number(struct store *store, const char *sql, int64_t *ret, struct redrive_err *err);

/* Turns the last error of the connection into a code of Redrive, with a hint. */
int sql_error(struct store *store, int rc, struct redrive_err *err);
/* In verify.c, of a check of the file: a page for which SQLite had no memory is one of its
 * findings. */
bool sql_finding_is_want_of_memory(const char *finding);

/* REDRIVE_E_CORRUPT: rows contradict each other. */
int sql_damaged(struct store *store, int64_t seq, const char *what, struct redrive_err *err);
/* As job_page_leave_out, if only the row is damaged, and not the file. */
int sql_leave_out(struct store *store, struct job_page *page, int rc, struct redrive_err *err);

/* Strings are borrowed until the statement has run. An absent string is NULL; bind_key makes it
 * '' and bind_option makes '' NULL. */
void bind_int(sqlite3_stmt *st, int i, int64_t value);
void bind_str(sqlite3_stmt *st, int i, struct str s);
void bind_key(sqlite3_stmt *st, int i, struct str s);
void bind_option(sqlite3_stmt *st, int i, struct str s);

/* Whether it is a number from 0 to n - 1: one of an enumeration that has n. */
bool column_is_below(sqlite3_stmt *st, int i, int n);
/* A slice of SQLite's memory, valid until the next step. */
struct str column_str(sqlite3_stmt *st, int i);
/* A copy in the arena; NULL gives the absent string. */
struct str column_dup(sqlite3_stmt *st, int i, struct arena *arena);

/* ---- row.c: partitions ----------------------------------------------------------------------- */

/* Finds it, and with `add` makes it; *ret is NULL when there is none. */
int partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                    bool add, struct partition **ret, struct redrive_err *err);
int partition_numbered(struct store *store, int64_t id, struct partition **ret,
                       struct redrive_err *err);
/* Writes the counts that the transaction has changed. */
int partitions_flush(struct store *store, struct redrive_err *err);

/* ---- blocks.c: where the jobs of a partition are --------------------------------------------- */

#define BLOCK_BITS 8

static inline int64_t block_of(int64_t seq)
{
    return seq >> BLOCK_BITS;
}

/* The first seq of a block. */
static inline int64_t block_begin(int64_t block)
{
    return (int64_t)((uint64_t)block << BLOCK_BITS);
}

/* A job with this seq, not less than that of any job, was added to the partition. */
int block_note(struct store *store, struct partition *partition, int64_t seq,
               struct redrive_err *err);
/* The job with this seq was removed from it. */
int block_left(struct store *store, const struct partition *partition, int64_t seq,
               struct redrive_err *err);

/* ---- transaction.c --------------------------------------------------------------------------- */

/* REDRIVE_E_STATE unless a transaction is open. */
int transaction_needed(struct store *store, struct redrive_err *err);
/* Finds out the number of the next new job, within a transaction. It is known from the transaction
 * before if no other handle has changed anything since. */
int seq_needed(struct store *store, struct redrive_err *err);
/* One snapshot for a read of several statements; within a transaction that of the transaction. */
int view_begin(struct store *store, struct redrive_err *err);
void view_end(struct store *store);

/* ---- row.c: the part of a job that moves ----------------------------------------------------- */

/* The column `packed_status` of jobs: numbers that no view shows and no search uses. Each column
 * costs time in every write, even when it is empty, and most of these numbers are 0 for most jobs:
 * so they are one column. The token comes first, in eight bytes, lowest first, even if it is 0: a
 * row that keeps its length is overwritten in place. The others follow in variable length (seven
 * bits a byte, lowest first, the top bit: more follows), without the zeros at the end. NULL: all
 * are 0. */
#define PACKED_NUMBERS    10
#define PACKED_STATUS_MAX (8 + PACKED_NUMBERS * 10)

/* Writes the numbers into `ret`; returns the length, 0 when all are 0. */
size_t packed_status_pack(const struct job_status *s, unsigned char ret[PACKED_STATUS_MAX]);

/* False for bytes that packed_status_pack does not write; the status is then half filled. */
bool packed_status_unpack(const unsigned char *bytes, size_t len, struct job_status *ret);

struct row {
    int64_t seq;
    struct partition *partition;
    int32_t priority;
    enum redrive_state was; /* when it was read */
    bool has_key;
    int64_t error_at;    /* 0: none */
    struct job_status s; /* strings are absent, but for those that a move has set; of the error only
                          * the class is known, and when it was created is not */
};

/* The column sort_key, by which jobs of a state are ordered: see the schema. */
int64_t sort_key_ready(const struct partition *partition, int32_t priority);
/* Sets the time that the sort_key stands for, and the numbers of the column packed_status. False
 * when that is damaged, or the state, the reason or the class is none of those there are. */
bool status_set(struct job_status *s, int64_t sort_key, sqlite3_stmt *st, int packed_status_column);

/* 1, 0 when there is none, or a negative code. */
int row_read(struct store *store, int64_t seq, struct row *ret, struct redrive_err *err);
/* Writes it after a move, and what depends on its state. */
int row_write(struct store *store, struct row *row, const struct transition *t,
              struct redrive_err *err);
/* Adds a job to time_locked; row_write does so by itself, and removes it. */
int time_lock(struct store *store, const struct partition *partition, int64_t process_after_ms,
              int64_t seq, struct redrive_err *err);
/* Removing a job has two steps: its keys, the counts and the cache; then the rows of all jobs of
 * these numbers, which cost less together than one by one. Of the row only seq, partition, was and
 * has_key are read. */
int row_leave(struct store *store, const struct row *row, struct redrive_err *err);
int rows_remove(struct store *store, int64_t first_seq, int64_t last_seq, struct redrive_err *err);

/* Keeps the row as it is in the file now; row_keep_job: that of a fresh job, without attempts. */
void row_keep(struct store *store, const struct row *row);
void row_keep_job(struct store *store, struct partition *partition, const struct job *job);

/* Adds the row of a job of another store, and what depends on its state. */
int row_import(struct store *store, const struct row *row, struct redrive_err *err);

/* ---- move.c ---------------------------------------------------------------------------------- */

/* HISTORY_ADD takes the worker from the job's row, HISTORY_IMPORT from the attempt. */
int history_add(struct store *store, enum statement which, int64_t seq, const struct job_attempt *a,
                struct redrive_err *err);
int result_write(struct store *store, int64_t seq, struct str result, struct redrive_err *err);

/* ---- sweep.c --------------------------------------------------------------------------------- */

/* Makes the moves of a list that move_list_is_sweep. */
int rows_sweep(struct store *store, const struct move_list *list, struct move_result *ret,
               struct redrive_err *err);

/* ---- read.c: whole jobs ---------------------------------------------------------------------- */

/* The checksum of a spec, by which damage is noticed. */
uint64_t spec_sum(int64_t seq, const struct job_spec *spec);

/* A page that is being filled. */
struct page_maker {
    struct store *store;
    struct job_page *page;
    size_t capacity;
    bool skips_unreadable; /* page_add leaves out jobs whose rows cannot be read */
};
int page_start(struct page_maker *maker, struct store *store, struct job_page *page,
               size_t capacity, struct redrive_err *err);
/* Makes room for one more than the capacity, if it is used up. False: no memory. */
bool page_make_room(struct page_maker *maker);
/* Adds the job of the current row of a statement of JOB_COLUMNS. */
int page_add(struct page_maker *maker, sqlite3_stmt *st, struct redrive_err *err);
int page_add_numbered(struct page_maker *maker, int64_t seq, struct redrive_err *err);
int job_read(struct store *store, sqlite3_stmt *st, struct arena *arena, struct job *ret,
             struct redrive_err *err);
/* Runs the statement to its end into a page of at most filter->limit. */
int page_fill(struct store *store, sqlite3_stmt *st, const struct job_filter *filter,
              struct job_page *page, struct redrive_err *err);

/* ---- claim.c and turns.c: ready jobs of few partitions, and of many -------------------------- */

/* The index of a partition's queue and of its task in a filter. */
struct partition_place {
    size_t queue;
    size_t task;
};

/* Reads which queues are paused, if that may have changed. */
int claim_read_pauses(struct store *store, struct redrive_err *err);
/* Whether the filter wants jobs of this partition; after claim_read_pauses. */
bool claim_wants(struct store *store, const struct claim_filter *filter,
                 const struct partition *partition, struct partition_place *ret);

/* Goes on to the ready job of a partition after the one with this priority and seq; from
 * READY_START to the first. 1, 0 when there is none, or a negative code. */
#define READY_START INT64_MAX
int ready_after(struct store *store, int64_t partition_id, int64_t *priority, int64_t *seq,
                struct redrive_err *err);

/* Fills the page from these partitions; NULL: from all that have ready jobs. */
int turns_take(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
               struct partition **partitions, size_t n_partitions, struct claim_totals *totals,
               struct redrive_err *err);

/* ---- shared.c -------------------------------------------------------------------------------- */

/* Adds the limits of its jobs to a page of ready ones. */
int sqlite_page_add_limits(struct store *store, struct job_page *page, struct redrive_err *err);

/* ---- The slots ------------------------------------------------------------------------------- */

STORE_SLOT_MAP(STORE_SLOT_DECLARE, sqlite)
STORE_SLOT_DECLARE(sqlite, backup)
STORE_SLOT_DECLARE(sqlite, snapshot)
STORE_SLOT_DECLARE(sqlite, upkeep)
STORE_SLOT_DECLARE(sqlite, repair)

#endif
