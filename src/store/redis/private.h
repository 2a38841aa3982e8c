/* private.h - what the files of the Redis store share.
 *
 * The program computes, the server keeps. A transaction makes its moves on copies of rows
 * (entries.c). The commit is one call, which has the changes and what the transaction relies on
 * (transaction.c, lua/2-commit.lua). Nothing is locked in between: if something is no longer as the
 * transaction has read it, the commit is refused, and the transaction is tried again.
 */
#ifndef STORE_REDIS_PRIVATE_H
#define STORE_REDIS_PRIVATE_H

#include <hiredis/hiredis.h>

#include "base/rng.h"
#include "base/text/buf.h"
#include "store/page.h"
#include "store/redis/link.h"
#include "store/redis/row.h"
#include "store/store.h"
#include "store/transition.h"

/* The version of the keys and of their values. */
#define SCHEMA_VERSION 5

/* The index of the first job in the answer to `ready`. */
#define RD_READY_FIRST 3

/* The scripts of lua/, embedded when the program is built. Together they are one library of
 * functions in the server, whose name has a digest of its text. Under the same version of the
 * schema programs of several releases work on the same store, each with its own library: what a
 * transaction is, and what the keys have, never changes under it. */
extern const char *const REDIS_LIBRARY[];
extern const int REDIS_LIBRARY_COUNT;

/* A job that the transaction has read or made. */
struct entry {
    int64_t seq;
    int64_t transaction; /* that has read it last */
    int64_t relied;      /* the last transaction that relies on it, whether it changes it or not */
    int64_t given;       /* the last transaction that `ready` has given it to */
    struct row now;
    struct str stored; /* its row in the server, as it was read; empty: there is none */
    struct str packed; /* the row that the commit writes */
    bool is_there;     /* not removed */
    bool is_dirty;
    bool is_mine;           /* this handle has started it, the last time that it was */
    struct entry *next_key; /* of the new ones with the same unique key */
};

/* A field of a hash that the transaction has read or written. */
struct cell {
    struct str key;
    struct str field;
    int64_t transaction; /* that has met it */
    struct str stored;   /* as it was read; empty: there is none */
    struct str now;
    struct str lex; /* of a remembered key: its member in the sorted set of these */
    bool is_read;
    bool is_dirty;
};

/* A row that processes share and that the transaction puts. */
struct shared_write {
    char key[16];
    struct str field;
    int64_t version; /* in the server, as far as is known; 0: there is none, -1: any, but there must
                      * be one */
    int64_t now;     /* after the put */
    bool is_put;     /* `value` is put, or the row is removed */
    struct str value;
    struct gate_sums add;       /* of a limit */
    struct merged_gate *merged; /* of the latest put that asks; may be NULL */
};

/* Jobs that were looked for together with a commit (claim.c). */
struct ahead {
    struct buf filter; /* what they were looked for by */
    struct buf words;  /* of the request that goes along with the next commit */
    size_t n_words;
    bool is_asked;     /* there is such a request */
    redisReply *reply; /* seqs and rows, as `ready` answers; NULL: none */
    int64_t at_ms;     /* monotonic, when it came */
};

struct store {
    struct store_base base;
    struct place place;
    bool caller_time;
    bool is_as_is;
    bool creates; /* a store that is gone is set up again */
    int64_t version_found;
    struct rng rng;
    char me[24];     /* this handle's name among all */
    char origin[24]; /* handles of the same origin do not notify each other */
    char root[PREFIX_MAX + 16];
    char library[32]; /* its name, with which the names of its functions begin */

    struct rd_wire *link;
    struct rd_wire *listener; /* subscribed to commits */
    int64_t check_at_ms;      /* when to look whether it listens at the right server */
    bool is_leader;           /* as of its last election */
    bool is_cluster;
    bool is_astray; /* the store is no longer on the server of the connection */
    struct told told;
    int64_t sent_ns; /* monotonic: the last request that is waited for was not sent before */
    char known_history[RD_HISTORY_MAX]; /* the history that the cache was read from, */
    char known_id[24];                  /* and the id of its store */
    struct buf words;                   /* of the request that is being built */
    size_t n_words;
    unsigned n_unread; /* replies that no caller waits for */
    unsigned n_ahead;  /* the same, after the reply that a caller waits for */
    struct ahead ahead;
    char server[96];
    char seat[NODE_TEXT_MAX + 160]; /* the same with TLS, and in a cluster the node of the store */
    char loss[192];

    bool in_transaction;
    bool is_lost; /* the transaction: its connection is gone, the store is another one, or a job is
                   * not as the engine has seen it */
    bool has_new_jobs;
    bool has_heard;      /* the transaction has got an answer */
    int64_t transaction; /* number, of this handle alone */
    int64_t commit;      /* number of the last one, of this handle */
    int64_t now_ms;
    int64_t begun_ms;       /* monotonic */
    int64_t last_seq;       /* that the transaction uses; 0: it has no new jobs */
    int64_t next_seq;       /* of those that it was given */
    int64_t shared_version; /* that the transaction has begun with */
    int64_t shared_puts;    /* that raise it */
    unsigned shared_listed; /* bit mask of kinds that were taken from `shared_reply` */
    int64_t commits_seen;
    unsigned n_kept;      /* transactions since the cache was last cleaned up, */
    size_t n_running;     /* how many rows of running jobs it had then, */
    size_t running_bytes; /* and what they took */
    struct arena arena;
    struct map entries;  /* by seq */
    struct map cells;    /* by key and field */
    struct map ids;      /* digest of id → struct entry that has it now, or GONE */
    struct map new_keys; /* digest of a unique key → struct entry, the last that is new with it */
    struct map dirty_keys;            /* those of jobs that were there before and that it changes */
    struct map keys_relied;           /* digests of unique keys that the commit checks */
    struct map shared_writes;         /* hash and field → struct shared_write */
    struct shared_write **sums_asked; /* whose sums the answer to the commit has, in this order */
    size_t n_sums_asked;
    struct map shared_known;  /* hash and field → version + 1, from one transaction to the next */
    redisReply *shared_reply; /* all rows that are cached, as of this transaction */
    struct entry **dirty;
    size_t n_dirty;
    size_t dirty_capacity;
    struct cell **dirty_cells;
    size_t n_dirty_cells;
    size_t dirty_cells_capacity;
    struct job_edge *edges; /* that the transaction puts */
    size_t n_edges;
    size_t edges_capacity;
    int64_t *reserved; /* seqs that `ready` has given */
    size_t n_reserved;
    size_t reserved_capacity;
    uint32_t relied_partition; /* the last one whose queue must not be paused; 0: none */
    struct ops ops;            /* what the commit does */
    struct ops checks;         /* what it relies upon */
    struct buf row;            /* scratch */

    struct partition **partitions; /* by number */
    uint32_t n_partitions;
    struct map partitions_by_name;
    struct map partitions_by_tenant; /* one of each */
    uint32_t last_tenant;
};

/* Each file uses only those above it: protocol, names, ops, handle, nodes, link, partitions, row,
 * entries, keys, move, edges, read, shared, claim, walk, sum, list, scan, submit, transaction,
 * wait, open, verify, repair. The first of them are declared in link.h and row.h. */

/* ---- handle.c: what a handle has in memory --------------------------------------------------- */

void rd_handle_init(struct store *store, const struct store_options *options);
/* Closes its connections, and frees all but the handle itself. */
void rd_handle_release(struct store *store);
void rd_map_empty(struct map *map);
void rd_partition_free(struct partition *partition);

/* How long jobs that were looked for ahead stay reserved. Idle workers could take them otherwise.
 */
#define RD_AHEAD_MS 20
/* Takes the reply to the request that went with a commit. */
void rd_ahead_take(struct store *store, redisReply *reply);
/* Forgets them without a request: the server has forgotten them, or will soon. */
void rd_ahead_forget(struct store *store);

/* Whether the server has the store that the cache was read from, and has lost nothing since. */
bool rd_is_known(const struct store *store);
/* 0, or REDRIVE_E_STATE without a transaction, or REDRIVE_E_CANCELLED when it is lost. */
int rd_transaction_needed(struct store *store, struct redrive_err *err);
/* Forgets what the transaction was to write; rd_transaction_forget: and all rows. */
void rd_transaction_end(struct store *store);
void rd_transaction_forget(struct store *store);
/* Forgets all that is cached of the store as well. */
void rd_store_forget(struct store *store);

/* ---- claim.c: ready jobs --------------------------------------------------------------------- */

/* Releases the jobs that were looked for ahead; rd_ahead_expire: if that is too long ago. */
void rd_ahead_drop(struct store *store);
void rd_ahead_expire(struct store *store);

/* ---- transaction.c --------------------------------------------------------------------------- */

/* Sets the store up, unless it is there. */
int rd_set_up(struct store *store, struct redrive_err *err);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Before the connection is closed: gives up the leadership, so that others need not wait. */
void rd_resign(struct store *store);

/* ---- entries.c: what the transaction has read or made -----------------------------------------
 */

/* In `ids`: an id whose job is gone. */
extern struct entry RD_ENTRY_GONE;
/* For a job whose row cannot be read. */
extern struct entry RD_ENTRY_UNREADABLE;
/* The jobs of these seqs in one request; NULL for one that is not there. One whose row cannot be
 * read: `unreadable`, or if that is NULL, REDRIVE_E_CORRUPT. */
int rd_entries_get(struct store *store, const int64_t *seqs, size_t n, struct entry *unreadable,
                   struct entry **ret, struct redrive_err *err);
/* Forgets all but the rows of running jobs that this handle has started and whose leases have not
 * ended. If they would take more than RD_RUNNING_BYTES_MAX, about a kilobyte each, it keeps those
 * that have started last, up to half of that. */
#define RD_RUNNING_BYTES_MAX ((size_t)64 << 20)
void rd_entries_keep_running(struct store *store);
/* A job that the transaction has read or made; else NULL. */
struct entry *rd_entry_known(struct store *store, int64_t seq);
/* For a move by the holder of the token: if this handle has started the job with this token, the
 * transaction uses the row as it was kept, without a read, and its commit checks that the row is
 * still the same. A job that has another token by now is not such a row: it is read. */
void rd_entry_use_kept(struct store *store, int64_t seq, uint64_t token);
/* The same, if the transaction has made or changed it. */
struct entry *rd_entry_moved(struct store *store, int64_t seq);
/* The entry for a row that was read. One that the transaction has changed, or relies on, stays. */
int rd_entry_learn(struct store *store, int64_t seq, struct str bytes, struct entry **ret,
                   struct redrive_err *err);
/* The next transaction reads this row again, because a commit was refused for it; or all rows. */
void rd_entry_forget(struct store *store, int64_t seq);
void rd_entries_distrust(struct store *store);
struct entry *rd_entry_new(struct store *store, const struct row *row);
int rd_entry_changed(struct store *store, struct entry *entry, struct redrive_err *err);
/* The commit checks that the row is as it was read. */
void rd_entry_rely(struct store *store, struct entry *entry);
/* A copy that lives as long as the transaction; {NULL, 0} for an empty one. */
struct str rd_transaction_dup(struct store *store, struct str s);

/* Fields of hashes; names: key, field, key, field … */
int rd_cells_get(struct store *store, const struct str *names, size_t n, struct cell **ret,
                 struct redrive_err *err);
/* A field that the transaction has read or written; NULL: it has not. */
struct cell *rd_cell_known(struct store *store, struct str key, struct str field);
/* Puts a field without reading it: it belongs to the row of one job, whose version is checked. */
int rd_cell_put_beside(struct store *store, struct str key, struct str field, struct str value,
                       struct redrive_err *err);
int rd_cell_put(struct store *store, struct cell *cell, struct str value, struct redrive_err *err);

/* ---- move.c ---------------------------------------------------------------------------------- */

int rd_entry_set_big(struct store *store, struct entry *entry, enum big_part part, struct str value,
                     struct redrive_err *err);
/* The name of a field beside a row: its hash, and the low byte of the seq before what it is. */
struct beside {
    char key[32];
    char field[8];
    size_t field_len;
};
struct beside rd_beside_history(int64_t seq, uint32_t i);
struct beside rd_beside_big(int64_t seq, enum big_part part);
struct str rd_beside_field(const struct beside *beside);
int rd_entry_remember(struct store *store, struct entry *entry, const struct job_attempt *attempt,
                      struct redrive_err *err);

/* ---- edges.c --------------------------------------------------------------------------------- */

/* Adds the edges that the transaction puts to its commit. */
void rd_edges_collect(struct store *store);

/* ---- read.c: jobs for the caller ------------------------------------------------------------- */

struct page_maker {
    struct store *store;
    struct job_page *page;
    size_t n_damaged; /* jobs that were left out */
};
void rd_page_start(struct page_maker *maker, struct store *store, struct job_page *page);
/* As job_page_leave_out. */
int rd_page_leave_out(struct page_maker *maker, int rc, struct redrive_err *err);
/* Reads seq, row and, if the reply has them, big parts from *at on, and adds the job, unless the
 * transaction has moved it, or its row is damaged. */
int rd_page_add_reply(struct page_maker *maker, const redisReply *reply, size_t *at, bool has_big,
                      struct redrive_err *err);
/* `big` NULL: its big parts stay absent. */
int rd_page_add(struct page_maker *maker, const struct row *row, const struct str big[BIG_COUNT],
                struct redrive_err *err);
/* How many elements of the reply belong to the job at this index: seq, row, big parts. */
size_t rd_reply_row_len(const redisReply *reply, size_t at);
/* Reads a row of a reply from *at on; `big` NULL: the reply has no big parts. *ret_moved: the
 * transaction has made or changed the job, so that the index is no longer right. */
int rd_reply_row(struct store *store, const redisReply *reply, size_t *at, struct row *ret,
                 struct str big[BIG_COUNT], bool *ret_moved, struct redrive_err *err);
/* Adds the jobs of these seqs by means of `add` (rd_page_add), in this order, as the transaction
 * has them; those that are not there, or whose rows cannot be read, are left out. */
int rd_page_add_seqs(struct page_maker *maker, const int64_t *seqs, size_t n,
                     int (*add)(struct page_maker *maker, const struct row *row,
                                const struct str big[BIG_COUNT], struct redrive_err *err),
                     struct redrive_err *err);
struct str rd_page_dup(struct arena *arena, struct str s);

/* ---- shared.c: rows that processes share ----------------------------------------------------- */

/* Notes the version of a row, by its name in the map; forgets it when a commit was refused for it.
 */
void rd_shared_learn(struct store *store, struct str name, int64_t version);
void rd_shared_forget(struct store *store, struct str key, struct str field);
/* The answer to a commit has the new sums of limits, from its second element on. */
void rd_limits_merged(struct store *store, const redisReply *reply);
/* Adds the limits of ready jobs to a page. */
int rd_page_add_limits(struct job_page *page, const redisReply *reply, struct redrive_err *err);
/* Adds what the transaction puts to its commit. */
void rd_shared_collect(struct store *store);
/* Whether the transaction itself has read all breakers and limits: then it does not rely on older
 * ones, and the commit checks those that it puts. */
bool rd_has_gates(const struct store *store);
/* REDRIVE_E_CANCELLED if it has not, and the last answer has another shared version than begin: the
 * transaction would rely on what was cached before. */
int rd_shared_check(struct store *store, struct redrive_err *err);
int rd_shared_changed(struct store *store, struct redrive_err *err);
/* The commit is made only if the queue of a partition is not paused. */
void rd_rely_on_no_pause(struct store *store, const struct partition *partition);

/* Reads a hash, some fields at a time; `each` may be called twice with the same field. */
int rd_scan_hash(struct store *store, const char *key,
                 int (*each)(void *ctx, struct str field, struct str value,
                             struct redrive_err *err),
                 void *ctx, struct redrive_err *err);

/* ---- keys.c: unique keys --------------------------------------------------------------------- */

/* The jobs of a unique key as the transaction has them, with new ones, and what the server has
 * answered about them. */
struct key_jobs {
    struct entry **entries;
    size_t n;
    bool is_remembered;  /* a job that is gone holds it for ever */
    struct buf counting; /* members of those that live or are unique for ever */
    struct member other; /* the first of the rest, */
    bool has_other;      /* if there is any */
};
int rd_key_jobs_read(struct store *store, const struct digest *digest, struct key_jobs *ret,
                     struct redrive_err *err);
void rd_key_jobs_release(struct key_jobs *jobs);
/* The commit is made only if the key still has these jobs, and they are as they are: those that
 * count, and if `forever` the others. */
int rd_key_jobs_rely(struct store *store, const struct digest *digest, const struct key_jobs *jobs,
                     bool forever, struct redrive_err *err);

int rd_key_remember(struct store *store, const struct remembered_key *key, int64_t seq,
                    struct redrive_err *err);
/* The job of a remembered key is here again; another job's key stays. */
int rd_key_forget(struct store *store, const struct job_spec *spec, struct redrive_err *err);
/* A key whose job is gone; strings in the arena. */
bool rd_remembered_unpack(struct str bytes, struct arena *arena, struct remembered_key *ret,
                          int64_t *ret_seq);

/* ---- walk.c: jobs by seq, some at a time -------------------------------------------------------
 */

/* A walk over the jobs in these states and partitions (4 bytes each; none: all) by seq. */
struct walk {
    bool is_back;
    int64_t after; /* seq; moved */
    uint32_t states;
    unsigned flags; /* of rows; 0: any */
    struct str partitions;
    bool is_over;

    char own[24];            /* the index of the one tenant whose jobs are read; "": all jobs */
    int64_t n_own;           /* how many jobs it has, */
    int64_t n_own_in_states; /* and how many in the states of the walk */

    int64_t *seqs; /* NULL: all jobs; else only these, in the order of the walk */
    size_t n_seqs;
    size_t at;
};
#define WALK_FINGERPRINT 2
/* How many jobs are in these states, which are ends or running. */
int rd_walk_count(struct store *store, uint32_t states, int64_t *ret, struct redrive_err *err);
/* If the states have few jobs, the walk reads only these. */
int rd_walk_plan(struct store *store, struct walk *walk, struct redrive_err *err);
void rd_walk_release(struct walk *walk);
int rd_walk_read(struct store *store, struct walk *walk, size_t limit, bool wants_big,
                 redisReply **ret, struct redrive_err *err);
/* The partitions of a filter for a walk; *ret_none: it has none. */
int rd_walk_partitions(struct store *store, const struct job_filter *filter, struct buf *ret,
                       bool *ret_none, struct redrive_err *err);

/* ---- sum.c ----------------------------------------------------------------------------------- */

/* Makes it a walk over the jobs of the filter's tenant, if it has one; after rd_walk_partitions. */
int rd_walk_tenant(struct store *store, const struct job_filter *filter, struct walk *walk,
                   struct redrive_err *err);

/* ---- open.c ---------------------------------------------------------------------------------- */

/* Reads the id of the store, before anything is cached of it. */
int rd_learn_id(struct store *store, struct redrive_err *err);

/* ---- The slots ------------------------------------------------------------------------------- */

STORE_SLOT_MAP(STORE_SLOT_DECLARE, redis)
STORE_SLOT_DECLARE(redis, look_ahead)
STORE_SLOT_DECLARE(redis, upkeep)
STORE_SLOT_DECLARE(redis, elect)
STORE_SLOT_DECLARE(redis, repair)

#endif
