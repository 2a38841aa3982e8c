/* private.h - what the files of the PostgreSQL store share, and nobody else sees.
 *
 * Invariants
 *   1. Whatever is written is written between begin and commit, in one transaction. Its BEGIN is
 *      sent with the first statement of the transaction: a transaction that sends nothing is
 *      unknown to the server.
 *   2. A job that a transaction moves has been read under a lock (FOR UPDATE) before: its row is
 *      kept until the transaction ends, moves are made in memory, and what they have changed is
 *      written in one statement a table, with the commit or before a read that must show it. So a
 *      move is answered without a round trip. Excepted are jobs that this handle has started: their
 *      rows are known (optimistic), and are written on condition that the token is still there. If
 *      it is not, the statement raises an error, so that the COMMIT behind it is void, and the
 *      transaction is tried again with rows that are read.
 *   3. The same for rows of breakers and limits: a put at the version that this handle has seen
 *      last is sent with the commit, after everything else, and raises an error if the row is at
 *      another version. So their locks are held for one round trip at the most.
 *   4. Statements are sent without waiting; pg_sync waits for all of them. What is sent off
 *      (pg_send_off) is waited for by nobody: its answers are read before those that come after.
 *      Behind a commit there may be the BEGIN and the claim of the next transaction: outside of a
 *      one a transaction is open only while store->next.is_open, and nothing is done in it.
 *   5. The time of a transaction and the shared version that begin tells are those of the last
 *      answer that carried them (claims and commits do), while that is fresh. `ready` and the
 *      commit notice when they were wrong.
 *   6. lease_check_ms <= lease_until_ms of every running job: a longer lease leaves the former
 *      alone, so that no index is written. SCAN_LEASES looks by it.
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
#include "store/postgres/columns.h"
#include "store/postgres/statements.h"
#include "store/row_cache.h"
#include "store/sql_partitions.h"
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
    bool is_dirty;      /* jobs has it as it was */
    bool is_gone;       /* removed by this transaction */
    bool is_ours;       /* started by this handle */
    bool is_optimistic; /* not locked: as it was when this handle started it, under held_by */
    bool is_longer;     /* of what is to be written only the end of the lease is new */
    uint64_t held_by;
    struct str result; /* to be written; absent: none */
};

struct rows {
    struct map by_seq;
    struct row **all;
    size_t n;
    size_t capacity;
    size_t n_dirty; /* new ones too */
};

/* A line of the history that is to be written. */
struct attempt_end {
    int64_t seq;
    uint32_t n;
    struct job_attempt attempt;
};

struct store {
    struct store_base base;
    PGconn *conn;    /* NULL: there is none */
    int session_pid; /* the process at its other end: behind a pool not the one that libpq knows */
    bool is_away;    /* it was waited for in vain, and has not been reached since */
    bool is_swapped; /* it no longer has what was prepared there: it is another, or was emptied */
    char *url;
    char shown[160]; /* what errors show of it: no password */
    char server[64]; /* name and version */
    const char *loss;
    int64_t version_found; /* of the schema, when it was opened */
    int64_t busy_wait_ms;
    bool caller_time;

    /* The numbers of the types of tables whose rows are sent. */
    struct {
        uint32_t jobs;
        uint32_t specs;
        uint32_t history;
        uint32_t count_deltas;
        uint32_t counters;
    } types;

    /* What is under way. */
    struct args args;
    struct sent {
        int statement; /* -1: none that is kept */
        bool is_prepare;
        bool is_wanted;
    } * sent;
    size_t n_sent;
    size_t n_open;    /* of these, statements that no pg_sync or pg_send_off has followed yet */
    size_t n_unheard; /* pipelines that were sent off */
    size_t sent_capacity;
    PGresult **results; /* of those that are wanted, in their order */
    size_t n_results;
    size_t results_capacity;
    bool prepared[STATEMENT_COUNT];

    /* The last answer that told the server's clock and the shared version. */
    struct answer {
        int64_t heard_ns; /* monotonic; 0: none, or no longer relied upon */
        int64_t server_ms;
        int64_t shared_version;
        int64_t last_ms; /* the latest time that was given to a transaction */
    } answer;

    /* The open transaction. */
    bool in_transaction;
    bool has_asked; /* its begin has asked for time and shared version */
    bool is_begun;  /* BEGIN was sent */
    bool is_lost;   /* it failed: only a rollback is left */
    bool is_stale;  /* because a row was not as this handle has left it */
    bool writes;    /* more than reads was sent */
    bool is_timed;  /* its time was computed: the commit compares it with the server's */
    int64_t now_ms;
    int64_t shared_version; /* that begin has told */
    struct arena arena;
    struct rows rows;
    struct shared_page *ahead; /* of each cached kind, or NULL: rows that were read ahead */
    struct gate_put *puts;     /* of breakers and limits */
    size_t n_puts;
    size_t puts_capacity;
    int64_t lease_checks_ms; /* leases to be looked at up to this time are longer by now; 0: none */
    struct attempt_end *ends;
    size_t n_ends;
    size_t ends_capacity;
    int64_t bumps;     /* of the shared version */
    size_t n_appended; /* rows of count_deltas and counters */

    /* The claim of the next transaction, which is sent behind a commit (ahead.c). */
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
        unsigned misses;  /* grows with each claim in vain, until one is not */
        unsigned skips;   /* so many commits do not look ahead */
        PGresult *result; /* for the first claim of the open transaction */
    } next;

    /* The row of this handle in redrive.handles, as of its last commit. */
    struct marker {
        int64_t handle;
        int64_t commits; /* 0: there is no row yet, and the next commit makes one */
    } marker;
    bool is_renewed; /* the connection is a new one: what was seen before may no longer be so */

    struct partitions partitions;
    struct row_cache kept; /* running jobs that this handle has started; see kept.c */
    struct map gates;      /* versions of breakers and limits as this handle has seen them last */
    int64_t last_tenant;   /* that had a turn in a claim */
    unsigned crowded;      /* claims that are to look further */
    int64_t one_partition; /* that had all jobs of the last claim; 0: there were several */
    struct head {          /* of the partition that was scanned last: its first job */
        int64_t partition_id;
        int32_t priority;
        int64_t seq;
        unsigned long_ways; /* how often in a row it was far from the beginning */
        int64_t until_ns;   /* monotonic: so long claims may begin there */
    } head;
    unsigned several;  /* claims that are not to count on one partition */
    int64_t fits;      /* as many jobs the bytes of a claim were enough for; 0: for all */
    size_t to_compact; /* rows that were appended since rows were last put together */
    bool is_listening;
    uint64_t origin;
    uint32_t untold;            /* that others have not been told yet */
    int64_t end_told_ms;        /* monotonic: when they were last told of an end */
    uint64_t me;                /* no other handle has this number */
    struct store_around around; /* as of the last look that was more than for ready jobs */
    int64_t around_ms;          /* monotonic: when that was; 0: never */
    struct rng rng;
};

/* ---- error.c --------------------------------------------------------------------------------- */

/* Turns what a statement failed with into one of ours. A session that turns out to be another one
 * is of no use, and store->is_swapped. */
int pg_error(struct store *store, const PGresult *result, struct redrive_err *err);
/* The connection is gone, or could not be made. */
int pg_connection_error(struct store *store, struct redrive_err *err);
/* Rows that contradict each other. */
int pg_damaged(struct store *store, int64_t seq, const char *what, struct redrive_err *err);

/* ---- connect.c ------------------------------------------------------------------------------- */

/* A new connection; for a glance at whoever answers, it is not tried for long. */
PGconn *pg_dial(const struct store *store, bool for_a_glance);
/* Connects and sets the session up, once or until the time for it is over; once if that time has
 * been waited in vain before. */
int pg_connect(struct store *store, bool patiently, struct redrive_err *err);
void pg_disconnect(struct store *store);
/* Whether the connection stands. */
bool pg_is_connected(const struct store *store);

/* ---- session.c ------------------------------------------------------------------------------- */

/* Statements are prepared, settings are made and notices are heard in a session. */
#define POOL_MESSAGE "the pool in front of the server does not keep sessions"
#define POOL_HINT \
    "PgBouncer: set pool_mode = session for this database and user, or name the server itself"

/* Learns who is at the other end of a new connection, before anything is set there. With `look` a
 * pool that does not keep sessions is refused, if it shows. */
int pg_session_learn(struct store *store, PGconn *conn, bool look, struct redrive_err *err);

/* ---- schema_version.c ------------------------------------------------------------------------ */

/* 0: there is no store in this database. */
int pg_schema_read(struct store *store, int64_t *ret_version, struct redrive_err *err);
int pg_schema_too_new(struct store *store, int64_t version, struct redrive_err *err);
/* Learns the numbers of types, which are a database's own. */
int pg_schema_types(struct store *store, struct redrive_err *err);
int pg_schema_set_up(struct store *store, const struct store_options *options,
                     struct redrive_err *err);

/* ---- pipe.c: the way to PostgreSQL ----------------------------------------------------------- */

/* Sends a statement with store->args, and forgets these. Its result is kept if it is wanted. The
 * first one of a transaction is preceded by BEGIN. */
int pg_send(struct store *store, enum statement which, bool is_wanted, struct redrive_err *err);
int pg_send_text(struct store *store, const char *sql, struct redrive_err *err);
/* A statement without arguments, and no BEGIN before it. store->args are left alone. */
int pg_send_bare(struct store *store, enum statement which, struct redrive_err *err);
/* Waits for all that was sent. The results that are wanted are in store->results until the next
 * pg_sync or pg_forget_results. The first error is returned, and means that none of what followed
 * was done. */
int pg_sync(struct store *store, struct redrive_err *err);
/* The same, and before it waits, `send_more` sends what comes behind. The answers to that stay
 * unread. */
int pg_sync_then(struct store *store, void (*send_more)(struct store *store),
                 struct redrive_err *err);
/* Waits for the answers to that. */
int pg_take_next(struct store *store, struct redrive_err *err);
/* Adds to the results, which own it then; false: there is no memory. */
bool pg_keep_result(struct store *store, PGresult *result);
/* Ends what was sent, and waits for nothing: its answers, which matter to nobody, are read before
 * those to what is sent next. */
void pg_send_off(struct store *store);
/* Reads such answers, if there are some to come. Nothing else may be under way. */
void pg_drain(struct store *store);
void pg_forget_results(struct store *store);
/* pg_send and pg_sync; *ret is the store's. A look at an index within a transaction: it need not
 * show what the transaction has moved unseen. */
int pg_run(struct store *store, enum statement which, const PGresult **ret,
           struct redrive_err *err);
/* The same for what goes by the shared version: REDRIVE_E_CANCELLED if that is not the one that
 * begin has told. It is asked for in the same round trip, unless begin has asked. */
int pg_run_checked(struct store *store, enum statement which, const PGresult **ret,
                   struct redrive_err *err);
/* The same for a read, in a transaction or outside of one: what the transaction has moved is
 * written before, and a connection that turns out to be gone is made again. `sql` NULL: the
 * statement. */
int pg_read(struct store *store, enum statement which, const char *sql, const PGresult **ret,
            struct redrive_err *err);

/* -- What is in a result -- */

int64_t pg_get_int(const PGresult *result, int row, int column); /* NULL: 0 */
bool pg_get_bool(const PGresult *result, int row, int column);
/* As it stands there, until the result is forgotten. */
struct str pg_get_raw(const PGresult *result, int row, int column);
/* A copy of the text; NULL gives the absent string. */
struct str pg_get_text(const PGresult *result, int row, int column, struct arena *arena);

/* ---- partitions.c ---------------------------------------------------------------------------- */

int pg_partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                       struct partition **ret, struct redrive_err *err);
/* Makes sure that all partitions which a column of a result names are known. */
int pg_partitions_know(struct store *store, const PGresult *result, int column,
                       struct redrive_err *err);
/* Sends what was counted. */
int pg_partitions_flush(struct store *store, struct redrive_err *err);

/* ---- rows.c ---------------------------------------------------------------------------------- */

/* Locks the jobs of a list and keeps their rows; those that are there are found by pg_row_find.
 * `skips_locked`: those that others have locked are not waited for, and not found. */
int pg_rows_lock(struct store *store, const struct move_list *list, bool skips_locked,
                 struct redrive_err *err);
/* NULL: there is none, or it is not locked. */
struct row *pg_row_find(const struct store *store, int64_t seq);
/* What a result of ROW_COLUMNS tells, but for the worker. */
struct job_status pg_row_status(const PGresult *result, int i);
/* Keeps the row that a result of ROW_COLUMNS has; it must be locked, and its partition known. */
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
/* Takes rows out that have gone. */
void pg_row_drop(struct store *store, int64_t seq);
/* Notes an attempt that has ended. */
int pg_row_ended(struct store *store, struct row *row, const struct job_attempt *attempt,
                 struct redrive_err *err);

/* Takes the row of a job that this handle has started, under this token, without a look at it. */
int pg_row_optimistic(struct store *store, int64_t seq, uint64_t token, struct redrive_err *err);

/* ---- kept.c: running jobs that this handle has started --------------------------------------- */

void pg_kept_init(struct store *store);
/* The row as it was committed, with strings that live as long as the transaction; false: it is not
 * kept.
 */
bool pg_kept_get(struct store *store, int64_t seq, uint64_t token, struct row *ret);
/* The transaction was committed: keeps what it has started, and forgets what else it had to do
 * with. */
void pg_kept_learn(struct store *store);
/* Forgets all jobs that the transaction had to do with. */
void pg_kept_forget(struct store *store);

/* ---- rows_write.c ---------------------------------------------------------------------------- */

/* Sends all that has changed. */
int pg_rows_flush(struct store *store, struct redrive_err *err);
/* The same before a look at an index, if that could otherwise give jobs that the transaction has
 * moved out of their state. Those that it has moved unseen can wait. */
int pg_rows_flush_seen(struct store *store, struct redrive_err *err);

/* ---- gates.c: rows of breakers and limits, compared with their version in the commit --------- */

/* A row was read: a put at this version may wait for the commit. */
void pg_gate_seen(struct store *store, const struct shared_row *row);
/* Whether this put may wait for the commit, and does. */
bool pg_gate_put(struct store *store, const struct shared_row *row);
/* Whether an earlier put of the same row waits. */
bool pg_gate_waits(const struct store *store, const struct shared_row *row);
/* A put that did not wait was made. */
void pg_gate_was_put(struct store *store, const struct shared_row *row);
/* Sends the puts that wait, in the order of their names. */
int pg_gates_flush(struct store *store, struct redrive_err *err);
/* The same at the commit, whose answer begins with their sums. */
int pg_gates_commit(struct store *store, struct redrive_err *err);
/* Tells these, and how many results they are. */
size_t pg_gates_answered(struct store *store);
/* The transaction has ended. */
void pg_gates_learn(struct store *store, bool is_committed);
void pg_gates_forget(struct store *store);
/* In the order of kind, tenant and key, in which all transactions put rows. */
int pg_shared_compare(const struct shared_row *a, const struct shared_row *b);

/* ---- shared.c -------------------------------------------------------------------------------- */

/* Rows that were read ahead may no longer be so, or the transaction has ended. */
void pg_shared_forget(struct store *store);
/* The arguments of a put of a row that is there. */
void pg_args_shared(struct args *args, const struct shared_row *row);
/* A result of a put has the row's sums and version. */
void pg_merged_read(const PGresult *result, const struct shared_row *row);

/* ---- answer.c: time and shared version without a question ------------------------------------ */

/* Two columns of a result have the shared version and the server's time. */
void pg_answer_note(struct store *store, const PGresult *result, int column);
/* How long ago that was. */
int64_t pg_answer_age_ms(const struct store *store);
/* The server's time by the last answer, or a little earlier; for a handle it does not go back, as
 * long as the server's does not by more than a second. */
int64_t pg_answer_time_ms(struct store *store);
/* Of a look: REDRIVE_E_CANCELLED if the shared version is not the one that begin has told. */
int pg_answer_check(struct store *store, const PGresult *result, int column,
                    struct redrive_err *err);

/* ---- transaction.c --------------------------------------------------------------------------- */

/* REDRIVE_E_STATE unless a transaction is open. */
int pg_transaction_needed(struct store *store, struct redrive_err *err);

/* ---- outcome.c: commits whose answer is lost ------------------------------------------------- */

/* Sends the statement that raises the handle's marker, and tells shared version and time; with it
 * the transaction fails if the outcome of this commit was asked for already, or if the
 * transaction's time is off. */
int pg_marker_raise(struct store *store, struct redrive_err *err);
/* Before the connection is closed. */
void pg_marker_remove(struct store *store);
/* Outside of a transaction, after the answer to a commit was lost: 0 if it was made,
 * REDRIVE_E_CANCELLED if it was not and never will be, REDRIVE_E_IO if that cannot be found out. */
int pg_outcome_learn(struct store *store, struct redrive_err *err);

/* ---- read.c: whole jobs ---------------------------------------------------------------------- */

int pg_job_read(struct store *store, const PGresult *result, int i, struct arena *arena,
                struct job *ret, struct redrive_err *err);
/* The rows of a result of JOB_COLUMNS, up to `limit`. */
int pg_page_fill(struct store *store, const PGresult *result, size_t limit, struct job_page *page,
                 struct redrive_err *err);
/* The same of ROW_COLUMNS, and perhaps the policy: only that is told. */
int pg_page_fill_rows(struct store *store, const PGresult *result, size_t limit,
                      struct job_page *page, struct redrive_err *err);
/* Takes jobs out that the transaction has moved unseen. */
void pg_page_leave_out_moved(const struct store *store, struct job_page *page);

/* ---- claim.c --------------------------------------------------------------------------------- */

/* Puts together what store->next asks for: a claim by this filter. False: not such a one. */
bool pg_claim_ahead(struct store *store, const struct claim_filter *filter);
/* The shared version that its answer tells. */
int64_t pg_claim_version(const struct ahead *next);

/* ---- ahead.c: the claim of the next transaction, sent behind a commit ------------------------ */

/* pg_sync at a commit, with the claim of the next transaction behind it if that was asked for.
 * Others are then told of this transaction on the way. */
int pg_ahead_sync(struct store *store, struct redrive_err *err);
/* Outside of a transaction: true if the one that begins is in the transaction that was begun for
 * it, whose claim is answered. Otherwise that transaction is rolled back. */
bool pg_ahead_take(struct store *store);
/* The answer, among the results, if it is there; NULL: there is no memory. */
const PGresult *pg_ahead_use(struct store *store);
/* It is not what the transaction needs: too few. */
void pg_ahead_set_aside(struct store *store);
/* The commit has failed: what was sent behind it is of no use, and ends with the transaction. */
void pg_ahead_void(struct store *store);
/* Outside of a transaction: rolls the transaction back, if there is one, without waiting. */
void pg_ahead_drop(struct store *store);
/* The transaction has ended, perhaps without a claim. */
void pg_ahead_end(struct store *store);
/* The connection is gone, and the transaction with it. */
void pg_ahead_forget(struct store *store);

/* ---- claim_partition.c ----------------------------------------------------------------------- */

/* Beside the columns of a job, in the result of a scan of one partition. */
enum {
    PARTITION_COLUMN_ALONE =
        JOB_COLUMN_COUNT,    /* it is the only one that has jobs, and not paused */
    PARTITION_COLUMN_MORE,   /* it has more than were asked for */
    PARTITION_COLUMN_ANSWER, /* shared version and time */
    PARTITION_COLUMN_WAY_US = PARTITION_COLUMN_ANSWER + 2,
    PARTITION_COLUMN_LIMIT_SUMS,
};

/* How many jobs the result of a claim has: none at all is one row of NULLs, which tells what was
 * looked at. */
int64_t pg_ready_given(const PGresult *result);
/* Puts the arguments of a scan of a whole partition together; false: it would not begin at its
 * start. */
bool pg_partition_ahead(struct store *store, const struct partition *partition, int64_t limit);
/* What such a scan has found. */
void pg_partition_scanned(struct store *store, const struct partition *partition,
                          const PGresult *result);
/* Locks the best jobs of a partition, if it is the only one that has any. */
int pg_partition_scan(struct store *store, const struct partition *partition, int64_t limit,
                      const PGresult **ret, struct redrive_err *err);

/* ---- submit.c -------------------------------------------------------------------------------- */

/* Takes ids and gives seqs; a spec whose id is taken has REDRIVE_E_EXISTS. Times of creation that
 * are NULL are the transaction's. */
int pg_specs_add(struct store *store, const struct job_spec *specs,
                 struct partition *const *partitions, const int64_t *created_ms, size_t n,
                 struct submit_result *ret, struct redrive_err *err);
/* Fills the answers in that have REDRIVE_E_EXISTS, with the jobs that have these ids. */
int pg_ids_find(struct store *store, const struct job_spec *specs,
                struct partition *const *partitions, size_t n, struct submit_result *ret,
                struct arena *arena, struct redrive_err *err);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Tells others what the transaction that was just committed is to them, without waiting. */
void pg_notify_commit(struct store *store);

/* ---- the slots ------------------------------------------------------------------------------- */

int postgres_open(struct str place, const struct store_options *options, struct store **ret,
                  struct redrive_err *err);
void postgres_close(struct store *store);
int postgres_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                   int64_t *ret_shared_version, struct redrive_err *err);
int postgres_commit(struct store *store, struct redrive_err *err);
void postgres_rollback(struct store *store);
int postgres_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                  struct redrive_err *err);
int postgres_elect(struct store *store, int64_t keep_ms, bool claims, struct store_around *ret,
                   struct redrive_err *err);
/* Before the connection is closed: others need not wait until the time of this one is over. */
void pg_give_time_back(struct store *store);
int postgres_submit(struct store *store, const struct job_spec *specs, size_t n,
                    struct submit_result *ret, struct arena *arena, struct redrive_err *err);
int postgres_import(struct store *store, const struct imported_job *jobs, size_t n,
                    struct move_result *ret, struct redrive_err *err);
int postgres_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                         struct redrive_err *err);
int postgres_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                             size_t limit, struct remembered_key_page *ret,
                             struct redrive_err *err);
int postgres_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                   struct redrive_err *err);
void postgres_look_ahead(struct store *store, const struct claim_filter *filter);
void postgres_upkeep(struct store *store);
int postgres_scan(struct store *store, struct scan *scan, struct job_page *ret,
                  struct redrive_err *err);
int postgres_move(struct store *store, const struct move_list *list, struct move_result *ret,
                  struct redrive_err *err);
int postgres_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                        struct move_result *ret, struct redrive_err *err);
int postgres_counters_add(struct store *store, const struct counter *counters, size_t n,
                          struct redrive_err *err);
int postgres_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                  struct redrive_err *err);
int postgres_lookup(struct store *store, const struct job_name *names, size_t n,
                    struct job_page *ret, struct redrive_err *err);
int postgres_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                     struct redrive_err *err);
int postgres_counts(struct store *store, enum count_kind kind, struct str tenant,
                    struct count_page *ret, struct redrive_err *err);
int postgres_causes(struct store *store, const struct job_filter *filter,
                    void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                    struct redrive_err *err);
int postgres_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                    struct redrive_err *err);
int postgres_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                         struct shared_page *ret, struct redrive_err *err);
int postgres_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                           struct redrive_err *err);
int postgres_facts(struct store *store, struct store_facts *ret, struct redrive_err *err);
int postgres_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                    struct redrive_err *err);

#endif
