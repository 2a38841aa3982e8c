/* private.h - what the files of the PostgreSQL store share.
 *
 * Invariants
 *   1. All writes happen between begin and commit, in one transaction. Its BEGIN is sent with the
 *      first statement of the transaction: the server does not know of a transaction that sends
 *      nothing.
 *   2. A job that a transaction moves has been read under a lock (FOR UPDATE) before: its row is
 *      kept until the transaction ends, moves are made in memory, and what they have changed is
 *      written in one statement a table, with the commit or before a read that must show it. So a
 *      move is answered without a round trip. Jobs that this handle has started are an exception:
 *      their rows are known (optimistic), and are written on condition that the token is still
 *      there. If it is not, the statement raises an error, so that the COMMIT after it is skipped,
 *      and the transaction is tried again with rows that are read.
 *   3. The same for rows of breakers and limits: a put at the version that this handle has seen
 *      last is sent with the commit, after everything else, and raises an error if the row is at
 *      another version. So their locks are held for one round trip at the most.
 *   4. Statements are sent without waiting; pg_sync waits for all of them. No caller waits for what
 *      is sent off (pg_send_off): its answers are read before those of the next statements. After a
 *      commit the BEGIN and the claim of the next transaction may follow: between transactions one
 *      is open on the server only while store->next.is_open, and nothing else is done in it.
 *   5. The time and the shared version that begin returns are computed from the last answer that
 *      carried them (claims and commits do), while that is fresh. `ready` and the commit notice
 * when they were wrong.
 *   6. lease_check_ms <= lease_until_ms of every running job: an extended lease does not change the
 *      former, so that no index is written. SCAN_LEASES uses it.
 *   7. A partition that the handle knows has been committed, or belongs to the open transaction: a
 *      rollback forgets those. A new connection, which is never made within a transaction, forgets
 *      all of them.
 */
#ifndef STORE_POSTGRES_PRIVATE_H
#define STORE_POSTGRES_PRIVATE_H

#include <libpq-fe.h>

#include "base/mem/map.h"
#include "base/rng.h"
#include "base/text/buf.h"
#include "store/postgres/args.h"
#include "store/postgres/statements.h"
#include "store/server_time.h"
#include "store/sql_cache.h"
#include "store/store.h"
#include "store/transition.h"

/* The oldest server that is used. */
#define SERVER_OLDEST 130000

/* The part of a job that moves, locked by the open transaction. */
struct row {
    int64_t seq;
    struct partition *partition;
    int32_t priority;
    int64_t deadline_ms;
    uint32_t history_n;
    uint32_t error_n; /* 0: none */
    enum redrive_class error_class;
    uint64_t fingerprint;
    struct job_status s; /* without error and result; strings live as long as the transaction */
    bool has_key;
    bool holds_key;     /* it is in live_keys */
    bool in_parked;     /* it is in parked */
    bool is_new;        /* not yet in jobs */
    bool is_dirty;      /* changed, and not written yet */
    bool is_gone;       /* removed by this transaction */
    bool is_ours;       /* started by this handle */
    bool is_optimistic; /* not compared: as when this handle has started it, with token held_by */
    bool is_longer;     /* only the end of the lease is to be written */
    bool is_damaged;    /* it cannot be read, and makes no move */
    uint64_t held_by;
    uint32_t held_children; /* as many as it had then */
    struct str result;      /* to be written; absent: none */
};

struct rows {
    struct map by_seq;
    struct row **all;
    size_t n;
    size_t capacity;
    size_t n_dirty; /* new ones too */
};

/* The answers to scans that were made ahead; NULL: it was not, or the answer was taken. */
struct scanned {
    struct {
        size_t limit;
        PGresult *both[2]; /* the jobs, and the times after them */
    } times[SCAN_DEADLINES + 1];
    PGresult *cancels;
};

/* A line of the history that is to be written. */
struct attempt_end {
    int64_t seq;
    uint32_t n;
    struct job_attempt attempt;
};

/* The scripts of schema/, embedded when the program is built. Script n brings a store from version
 * n to version n + 1; a store's version is in redrive.meta. Statements of a script that has been
 * released never change: changes come in a new script. */
extern const char *const POSTGRES_SCRIPTS[];
extern const int POSTGRES_SCRIPTS_COUNT;

struct store {
    struct store_base base;
    PGconn *conn;    /* NULL: there is none */
    int session_pid; /* the process at its other end: behind a pool not the one that libpq knows */
    bool is_away;    /* a wait for the server was in vain, and it has not been reached since */
    bool is_swapped; /* the session lost its prepared statements: it is another, or was reset */
    char *url;
    char shown[160]; /* the URL without its password, for errors */
    char server[64]; /* name and version */
    const char *loss;
    int64_t version_found; /* of the schema, when it was opened */
    int64_t busy_wait_ms;
    int64_t lock_wait_ms; /* of the session */
    bool caller_time;

    /* The numbers of the types of tables whose rows are sent. */
    struct {
        uint32_t jobs;
        uint32_t specs;
        uint32_t history;
        uint32_t count_deltas;
        uint32_t counters;
        uint32_t edges;
    } types;

    /* Statements that were sent, and results. */
    struct args args;
    int64_t narrow;             /* as of struct store_options */
    struct buf list_partitions; /* of the list that is made: see find_partitions in list.c */
    struct sent {
        int statement; /* -1: none that is kept */
        bool is_prepare;
        bool is_wanted;
    } * sent;
    size_t n_sent;
    size_t n_open;    /* of these, statements that no pg_sync or pg_send_off has followed yet */
    size_t n_unheard; /* pipelines that were sent off, whose answers are not read yet */
    int64_t sent_ns;  /* monotonic: nothing of the last pipeline was sent before; */
    int64_t asked_ns; /* the same of the last one that was waited for */
    size_t sent_capacity;
    PGresult **results; /* of those that are wanted, in their order */
    size_t n_results;
    size_t results_capacity;
    bool prepared[STATEMENT_COUNT];

    /* The last answer that carried the server's time and the shared version. */
    struct answer {
        struct server_time time;
        int64_t shared_version;
    } answer;

    /* The open transaction. */
    bool in_transaction;
    bool is_snapshot; /* it only reads, as of one moment */
    bool has_asked;   /* its begin has asked the server for time and shared version */
    bool is_begun;    /* BEGIN was sent */
    bool is_lost;     /* it failed: only a rollback is left */
    bool is_stale;    /* because a row was not as this handle has left it */
    bool writes;      /* more than reads was sent */
    bool is_timed;    /* its time was computed: the commit compares it with the server's */
    int64_t now_ms;
    int64_t shared_version; /* that begin has returned */
    struct arena arena;
    struct rows rows;
    struct shared_page *ahead; /* of each cached kind, or NULL: rows that were read ahead */
    struct scanned scanned;    /* scans that were made ahead */
    struct gate_put *puts;     /* of breakers and limits */
    size_t n_puts;
    int64_t lease_checks_ms; /* some leases whose check was due by then were extended; 0: none */
    struct attempt_end *ends;
    size_t n_ends;
    int64_t bumps;     /* of the shared version */
    size_t n_appended; /* rows of count_deltas and counters */

    /* The claim of the next transaction, which is sent after a commit (ahead.c). */
    struct ahead {
        bool is_asked; /* the next commit is to send it */
        bool is_open;  /* its transaction is open on the server, and its answer not read yet */
        enum statement statement;
        struct args args;
        struct args filter;   /* what it looks for */
        int64_t partition_id; /* the partition that it scans; 0: any */
        int64_t limit;
        int64_t look;
        int64_t wanted;   /* the most jobs that claims wanted lately, about */
        int64_t sent_ns;  /* monotonic */
        unsigned misses;  /* grows with each claim in vain, until one is used */
        unsigned skips;   /* this many commits do not look ahead */
        PGresult *result; /* for the first claim of the open transaction */
    } next;

    /* The row of this handle in redrive.handles, as of its last commit. */
    struct marker {
        int64_t handle;
        int64_t commits; /* 0: there is no row yet, and the next commit makes one */
    } marker;
    bool is_renewed; /* the connection is a new one: nothing that was read before may be relied upon
                      */

    struct partitions partitions;
    struct row_cache kept; /* running jobs that this handle has started; see rows.c */
    struct map gates;      /* versions of breakers and limits as this handle has seen them last */
    int64_t last_tenant;   /* that had a turn in a claim */
    unsigned crowded;      /* this many claims look at more jobs from the start */
    int64_t one_partition; /* that had all jobs of the last claim; 0: there were several */
    struct head {          /* of the partition that was scanned last: its first job */
        int64_t partition_id;
        int32_t priority;
        int64_t seq;
        unsigned long_ways; /* how often in a row it was far from the beginning */
        int64_t until_ns;   /* monotonic: until then claims may begin there */
    } head;
    unsigned several;     /* this many claims do not try a single partition */
    int64_t fits;         /* how many jobs the bytes of a claim were enough for; 0: for all */
    int64_t n_unreadable; /* jobs that the last claim has left out: the next asks for more */
    size_t to_compact;    /* rows of counts that were added since they were last summed up */
    bool is_listening;
    uint64_t origin;
    uint32_t untold;                /* bits of notifications that were not sent yet */
    int64_t end_told_ms;            /* monotonic: when STORE_NOTIFY_END was last sent */
    uint64_t me;                    /* no other handle has this number */
    struct store_election election; /* the last one */
    int64_t election_ms;            /* monotonic: when that was; 0: never */
    struct rng rng;
};

/* ---- connect.c ------------------------------------------------------------------------------- */

/* Turns the error of a statement into a code of Redrive. If it shows that the session is another
 * one, store->is_swapped is set. */
int pg_error(struct store *store, const PGresult *result, struct redrive_err *err);
/* The connection is gone, or could not be made. */
int pg_connection_error(struct store *store, struct redrive_err *err);
/* REDRIVE_E_CORRUPT: rows contradict each other. */
int pg_damaged(struct store *store, int64_t seq, const char *what, struct redrive_err *err);

/* Connects and sets the session up. `patiently`: tries for the busy time, or once if the last such
 * wait was in vain. */
int pg_connect(struct store *store, bool patiently, struct redrive_err *err);
void pg_disconnect(struct store *store);
/* How long the next transaction waits for locks. */
int64_t pg_lock_wait_ms(const struct store *store);
/* Whether there is a connection, as far as is known. */
bool pg_is_connected(const struct store *store);

/* Prepared statements, settings and LISTEN belong to a session. */
#define POOL_MESSAGE "the pool in front of the server does not keep sessions"
#define POOL_HINT \
    "PgBouncer: set pool_mode = session for this database and user, or name the server itself"

/* ---- open.c ---------------------------------------------------------------------------------- */

/* 0: there is no store in this database. */
int pg_schema_read(struct store *store, int64_t *ret_version, struct redrive_err *err);
int pg_schema_too_new(struct store *store, int64_t version, struct redrive_err *err);
/* Reads the numbers of types, which differ between databases. */
int pg_schema_types(struct store *store, struct redrive_err *err);

/* ---- pipe.c: the way to PostgreSQL ----------------------------------------------------------- */

/* Sends a statement with store->args, and resets these. Its result is kept if it is wanted. BEGIN
 * is sent before the first one of a transaction. */
int pg_send(struct store *store, enum statement which, bool is_wanted, struct redrive_err *err);
int pg_send_text(struct store *store, const char *sql, struct redrive_err *err);
/* A statement without arguments, and no BEGIN before it. store->args are left alone. */
int pg_send_bare(struct store *store, enum statement which, struct redrive_err *err);
/* Waits for all that was sent. The results that are wanted are in store->results until the next
 * pg_sync or pg_forget_results. The first error is returned, and means that none of what followed
 * was done. */
int pg_sync(struct store *store, struct redrive_err *err);
/* The same, and before it waits, `send_more` sends what follows, whose answers stay unread. */
int pg_sync_then(struct store *store, void (*send_more)(struct store *store),
                 struct redrive_err *err);
/* Waits for the answers to that. */
int pg_take_next(struct store *store, struct redrive_err *err);
/* Adds to the results, which own it then; false: no memory. */
bool pg_keep_result(struct store *store, PGresult *result);
/* Ends the pipeline without waiting: its answers are not needed, and are read before those of what
 * is sent next. */
void pg_send_off(struct store *store);
/* Reads such answers, if there are any. Nothing else may have been sent. */
void pg_drain(struct store *store);
void pg_forget_results(struct store *store);
/* pg_send_text and pg_sync: its result is store->results[0]. */
int pg_run_text(struct store *store, const char *sql, struct redrive_err *err);
/* pg_send and pg_sync; *ret belongs to the store. For looks at an index within a transaction, which
 * need not show moves that are not sent yet. */
int pg_run(struct store *store, enum statement which, const PGresult **ret,
           struct redrive_err *err);
/* The same for statements that rely on shared rows: REDRIVE_E_CANCELLED if the shared version is
 * not the one that begin has returned. It is read in the same round trip, unless begin has asked.
 */
int pg_run_checked(struct store *store, enum statement which, const PGresult **ret,
                   struct redrive_err *err);
/* The same for a read, in a transaction or outside of one: what the transaction has moved is
 * written before, and a connection that is gone is made again. `sql` NULL: the statement. */
int pg_read(struct store *store, enum statement which, const char *sql, const PGresult **ret,
            struct redrive_err *err);

/* -- What is in a result -- */

int64_t pg_get_int(const PGresult *result, int row, int column); /* NULL: 0 */
bool pg_get_bool(const PGresult *result, int row, int column);
/* Whether it is a number from 0 to n - 1: one of an enumeration that has n. */
bool pg_is_below(const PGresult *result, int row, int column, int n);
/* The bytes of the result itself, valid as long as it is. */
struct str pg_get_raw(const PGresult *result, int row, int column);
/* A copy of the text; NULL gives the absent string. */
struct str pg_get_text(const PGresult *result, int row, int column, struct arena *arena);

/* ---- rows.c: partitions ---------------------------------------------------------------------- */

int pg_partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                       struct partition **ret, struct redrive_err *err);
/* Makes sure that all partitions which a column of a result names are known. */
int pg_partitions_know(struct store *store, const PGresult *result, int column,
                       struct redrive_err *err);
/* Sends the counts that the transaction has changed. */
int pg_partitions_flush(struct store *store, struct redrive_err *err);

/* ---- rows.c: jobs that are locked ------------------------------------------------------------ */

/* Locks the jobs of a list and keeps their rows; those that are there are found by pg_row_find.
 * `skips_locked`: those that others have locked are not waited for, and not found. */
int pg_rows_lock(struct store *store, const struct move_list *list, bool skips_locked,
                 struct redrive_err *err);
/* NULL: there is none, or it is not locked. */
struct row *pg_row_find(const struct store *store, int64_t seq);
/* What is wrong with a row of ROW_COLUMNS, whose partition was asked for; NULL: it can be read. */
const char *pg_row_fault(const struct store *store, const PGresult *result, int i);
/* The status in a row of ROW_COLUMNS, but for the worker. */
struct job_status pg_row_status(const PGresult *result, int i);
/* Keeps the row that a result of ROW_COLUMNS has; it must be locked, and its partition asked for.
 * One that cannot be read is kept as damaged. */
struct row *pg_row_keep(struct store *store, const PGresult *result, int i);
/* The same of all rows of a result. */
int pg_rows_keep(struct store *store, const PGresult *result, struct redrive_err *err);
/* A row that is to be inserted, or has been. */
struct row *pg_row_new(struct store *store, int64_t seq, struct partition *partition,
                       const struct job_spec *spec);
/* It has changed. */
void pg_row_touch(struct store *store, struct row *row);
/* Of a running job: only the end of its lease has. */
void pg_row_touch_lease(struct store *store, struct row *row);
/* Whether the transaction has changed a job in a way that a look does not show. */
bool pg_row_is_moved(const struct store *store, int64_t seq);
void pg_rows_forget(struct store *store);
void pg_rows_release(struct store *store);
/* Marks the row of a job that is removed. */
void pg_row_drop(struct store *store, int64_t seq);
/* Notes an attempt that has ended. */
int pg_row_ended(struct store *store, struct row *row, const struct job_attempt *attempt,
                 struct redrive_err *err);

/* Takes the row of a job that this handle has started with this token from the cache. */
int pg_row_optimistic(struct store *store, int64_t seq, uint64_t token, struct redrive_err *err);

void pg_kept_init(struct store *store);
/* The row as it was committed, with strings that live as long as the transaction; false: it is not
 * kept. */
bool pg_kept_get(struct store *store, int64_t seq, uint64_t token, struct row *ret);
/* The transaction was committed: keeps the jobs that it has started, and forgets the others that it
 * has read or moved. */
void pg_kept_learn(struct store *store);
/* Forgets all jobs that the transaction has read or moved. */
void pg_kept_forget(struct store *store);

/* ---- rows_write.c ---------------------------------------------------------------------------- */

/* Sends all that has changed. */
int pg_rows_flush(struct store *store, struct redrive_err *err);
/* The same before a look at an index, unless all changed rows are optimistic: the look leaves these
 * out. */
int pg_rows_flush_seen(struct store *store, struct redrive_err *err);

/* ---- shared.c -------------------------------------------------------------------------------- */

/* Drops rows that were read ahead: they may have changed, or the transaction has ended. */
void pg_shared_forget(struct store *store);
/* Sends the statement that lists rows of a kind. */
int pg_shared_send(struct store *store, enum shared_kind kind, struct str tenant,
                   struct redrive_err *err);
/* Puts of breakers and limits may wait for the commit. Sends them, at the commit; its answer begins
 * with their sums. */
int pg_gates_commit(struct store *store, struct redrive_err *err);
/* Hands these sums to the callers; returns how many results they are. */
size_t pg_gates_answered(struct store *store);
/* The transaction has ended: remembers the versions of what it has put. */
void pg_gates_learn(struct store *store, bool is_committed);
/* Forgets all versions. */
void pg_gates_forget(struct store *store);

/* ---- scan.c ---------------------------------------------------------------------------------- */

/* Drops what was scanned ahead: the transaction has changed a job, or has ended. */
void pg_scanned_forget(struct store *store);
/* The rows of cancels that were read ahead, which belong to the caller; NULL: they were not. */
PGresult *pg_scanned_cancels(struct store *store);

/* ---- transaction.c --------------------------------------------------------------------------- */

/* Rows of counts and counters are summed up after about this many. */
#define COMPACT_EVERY 512

/* Two columns of the result of a look have the shared version and the server's time, which are
 * noted. REDRIVE_E_CANCELLED if the shared version is not the one that begin has given. */
int pg_answer_check(struct store *store, const PGresult *result, int column,
                    struct redrive_err *err);
/* REDRIVE_E_STATE unless a transaction is open. */
int pg_transaction_needed(struct store *store, struct redrive_err *err);
/* Sets unsure_ms as of now. */
void pg_time_passes(struct store *store);

/* Before the connection is closed. */
void pg_marker_remove(struct store *store);

/* ---- read.c: whole jobs ---------------------------------------------------------------------- */

int pg_job_read(struct store *store, const PGresult *result, int i, struct arena *arena,
                struct job *ret, struct redrive_err *err);
/* The rows of a result of JOB_COLUMNS, up to `limit`. REDRIVE_E_CORRUPT names the first that cannot
 * be read. */
int pg_page_fill(struct store *store, const PGresult *result, size_t limit, struct job_page *page,
                 struct redrive_err *err);
/* The same for claims and scans: leaves jobs out that cannot be read. */
int pg_page_fill_readable(struct store *store, const PGresult *result, size_t limit,
                          struct job_page *page, struct redrive_err *err);
/* The same of ROW_COLUMNS, and perhaps the policy: the jobs have nothing else. */
int pg_page_fill_rows(struct store *store, const PGresult *result, size_t limit,
                      struct job_page *page, struct redrive_err *err);
/* Takes jobs out that the transaction has moved without sending it yet. */
void pg_page_leave_out_moved(const struct store *store, struct job_page *page);

/* ---- claim.c --------------------------------------------------------------------------------- */

/* Builds the claim by this filter in store->next. False: this filter cannot be sent ahead. */
bool pg_claim_ahead(struct store *store, const struct claim_filter *filter);
/* The shared version in its answer. */
int64_t pg_claim_version(const struct ahead *next);

/* ---- ahead.c: the claim of the next transaction, sent after a commit ------------------------- */

/* pg_sync at a commit, followed by the claim of the next transaction if that was asked for. The
 * notification of this commit is then sent with it. */
int pg_ahead_sync(struct store *store, struct redrive_err *err);
/* Outside of a transaction: true if the transaction that was begun ahead is taken over, with the
 * result of its claim in store->next. Otherwise it is rolled back. */
bool pg_ahead_take(struct store *store);
/* The commit has failed: what was sent after it is void. */
void pg_ahead_void(struct store *store);
/* Outside of a transaction: rolls the one that was begun ahead back, if there is one, without
 * waiting. */
void pg_ahead_drop(struct store *store);
/* The transaction has ended, perhaps without using the claim. */
void pg_ahead_end(struct store *store);
/* The connection is gone, and the transaction with it. */
void pg_ahead_forget(struct store *store);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Before the connection is closed: gives up the leadership, so that others need not wait. */
void pg_resign(struct store *store);
/* Sends the notification of the transaction that was just committed, without waiting. */
void pg_notify_commit(struct store *store);

/* ---- The slots ------------------------------------------------------------------------------- */

STORE_SLOT_MAP(STORE_SLOT_DECLARE, postgres)
STORE_SLOT_DECLARE(postgres, look_ahead)
STORE_SLOT_DECLARE(postgres, scan_ahead)
STORE_SLOT_DECLARE(postgres, snapshot)
STORE_SLOT_DECLARE(postgres, upkeep)
STORE_SLOT_DECLARE(postgres, elect)
STORE_SLOT_DECLARE(postgres, repair)

#endif
