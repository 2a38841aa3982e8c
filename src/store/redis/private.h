/* private.h - the inside of the Redis store.
 *
 * The program computes, the server keeps. A transaction makes its moves on copies of rows
 * (entries.c); what they change, and what the transaction has relied upon, is told by the one call
 * that commits (transaction.c, lua/2-commit.lua). Nothing is held in between: if something is no
 * longer as the transaction has seen it, the commit is refused, and the transaction is tried again.
 */
#ifndef STORE_REDIS_PRIVATE_H
#define STORE_REDIS_PRIVATE_H

#include "base/rng.h"
#include "store/redis/link.h"
#include "store/redis/ops.h"
#include "store/redis/row.h"
#include "store/store.h"
#include "store/transition.h"

/* The version of the keys and of what stands in them. */
#define SCHEMA_VERSION 4

/* Of the answer to `ready`: where its first job stands. */
#define RD_READY_FIRST 3

/* A job that the transaction has read or made. */
struct entry {
    int64_t seq;
    int64_t transaction; /* that has read it last */
    int64_t relied;      /* the last transaction that goes by it, though it may not change it */
    int64_t given;       /* the last transaction that `ready` has given it to */
    struct row now;
    struct str stored; /* its row in the server, as it was read; empty: there is none */
    struct str packed; /* the one that the commit puts in its place */
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
    struct str lex; /* of a key that is held: its place among them */
    bool is_read;
    bool is_dirty;
};

/* A row that processes share and that the transaction puts. */
struct shared_write {
    char key[16];
    struct str field;
    int64_t version; /* in the server, as far as is known; 0: there is none, -1: it does not matter,
                      * but there must be one */
    int64_t now;     /* after the put */
    bool is_put;     /* `value` is put, or the row goes */
    struct str value;
    struct gate_sums add;       /* of a limit */
    struct merged_gate *merged; /* of the latest put that asks; may be NULL */
};

/* Jobs that were looked for together with a commit (ahead.c). */
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
    bool creates; /* one that is gone is set up again */
    int64_t version_found;
    struct rng rng;
    char me[24];     /* this handle's name among all */
    char origin[24]; /* the name that it shares with others that do not notify each
                        other */
    char root[PREFIX_MAX + 16];
    char library[32]; /* its name, with which the names of its functions begin */

    redisContext *link;
    redisContext *listener; /* subscribed to commits */
    int64_t check_at_ms;    /* when to look whether it listens at the right server */
    bool is_leader;         /* as of its last election */
    bool is_cluster;
    bool is_astray; /* the store is no longer where the link leads to */
    struct told told;
    char known_history[RD_HISTORY_MAX]; /* that what is cached was read from, */
    char known_id[24];                  /* and the store in it */
    struct buf words;                   /* of the request in the making */
    size_t n_words;
    unsigned n_unread; /* replies that nobody waits for */
    unsigned n_ahead;  /* the same, after the one that is waited for */
    struct ahead ahead;
    char server[96];
    char seat[HOST_MAX + 160]; /* the same, and in a cluster the node that has the store */
    char loss[192];

    bool in_transaction;
    bool is_lost; /* the transaction: its connection is gone, or the store is another one */
    bool has_new_jobs;
    bool has_heard;      /* an answer, in this transaction */
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
    unsigned n_kept; /* transactions since what is not needed any more was last thrown away */
    struct arena arena;
    struct map entries;  /* by seq */
    struct map cells;    /* by key and field */
    struct map ids;      /* digest of id → struct entry that has it now, or GONE */
    struct map new_keys; /* digest of a unique key → struct entry, the last that is new with it */
    struct map dirty_keys;            /* those of jobs that were there before and that it changes */
    struct map keys_relied;           /* digests of unique keys that the commit looks at */
    struct map shared_writes;         /* hash and field → struct shared_write */
    struct shared_write **sums_asked; /* whose sums the answer to the commit tells, in its order */
    size_t n_sums_asked;
    struct map shared_known;  /* hash and field → version + 1, from one transaction to the next */
    redisReply *shared_reply; /* all rows that are cached, as of this transaction */
    struct entry **dirty;
    size_t n_dirty;
    size_t dirty_capacity;
    struct cell **dirty_cells;
    size_t n_dirty_cells;
    size_t dirty_cells_capacity;
    int64_t *reserved; /* seqs that `ready` has given */
    size_t n_reserved;
    size_t reserved_capacity;
    uint32_t
        relied_partition; /* the last one whose queue the commit takes for not paused; 0: none */
    struct ops ops;       /* what the commit does */
    struct ops checks;    /* what it relies upon */
    struct buf row;       /* scratch */

    struct partition **partitions; /* by number */
    uint32_t n_partitions;
    struct map partitions_by_name;
    struct map partitions_by_tenant; /* one of each */
    uint32_t last_tenant;
};

/* ---- ahead.c, claim.c: ready jobs ------------------------------------------------------------ */

/* What came of it, which is kept, or freed. */
void rd_ahead_take(struct store *store, redisReply *reply);
/* The jobs that were looked for by this filter, if that is not too long ago, which the caller
 * frees; NULL: there are none. */
redisReply *rd_ahead_use(struct store *store, const struct claim_filter *filter);
/* Lets them go; if it is too long ago. */
void rd_ahead_drop(struct store *store);
void rd_ahead_expire(struct store *store);
/* The same without a word: the server has forgotten them, or will soon. */
void rd_ahead_forget(struct store *store);
void rd_ahead_release(struct store *store);
/* Starts a request for ready jobs. `waits`: a claim that is given less is told of new ones. */
void rd_ask_ready(struct store *store, const struct claim_filter *filter, size_t limit,
                  const struct partition *of_tenant, bool waits);

/* ---- open.c, url.c, facts.c ------------------------------------------------------------------ */

int rd_library_load(struct store *store, struct redrive_err *err);
/* Sets an empty place up; one that is not empty stays as it is. */
int rd_set_up(struct store *store, struct redrive_err *err);
/* Learns which store is there, before anything is cached of it. */
int rd_learn_id(struct store *store, struct redrive_err *err);
/* What the server's settings mean for what is kept; refuses one that throws keys away. */
int rd_facts_learn(struct store *store, struct redrive_err *err);

/* ---- begin.c, transaction.c, around.c -------------------------------------------------------- */

/* What stands in `ids` for an id whose job is gone. */
extern struct entry RD_ENTRY_GONE;

/* Before the connection is closed: others need not wait until the time of this one is over. */
void rd_give_time_back(struct store *store);

/* How often it is looked whether the store is still where one listens. */
#define CHECK_PLACE_MS 1000

/* 0, or REDRIVE_E_STATE without a transaction, or REDRIVE_E_CANCELLED when it is lost. */
int rd_transaction_needed(struct store *store, struct redrive_err *err);
/* Whether the server's answers are of the store that what is cached was read from: the same one, in
 * a server that has lost nothing since. */
bool rd_is_known(const struct store *store);
/* How many milliseconds ago the handle knows the server's time from, and what it is by now. */
int64_t rd_told_age(const struct store *store);
int64_t rd_server_now(const struct store *store);
/* Forgets all that the transaction knows. */
void rd_transaction_forget(struct store *store);

/* ---- entries.c: what the transaction knows --------------------------------------------------- */

/* The jobs of these seqs in one go; NULL for one that is not there. */
int rd_entries_get(struct store *store, const int64_t *seqs, size_t n, struct entry **ret,
                   struct redrive_err *err);
/* Forgets all but the rows, as the server has them, of jobs that this handle has started and that
 * run. */
void rd_entries_keep_running(struct store *store);
void rd_map_empty(struct map *map);
/* A job that the transaction has read, or that this handle has started and that runs; NULL: it is
 * not known.
 */
struct entry *rd_entry_known(struct store *store, int64_t seq);
/* The same, if the transaction has made or changed it. */
struct entry *rd_entry_moved(struct store *store, int64_t seq);
/* A job that a read has given. What the transaction has changed, or goes by, is kept as it is. */
struct entry *rd_entry_learn(struct store *store, int64_t seq, struct str bytes,
                             struct redrive_err *err);
/* Does not keep a row that a commit was refused for, or any, for the next transaction. */
void rd_entry_forget(struct store *store, int64_t seq);
void rd_entries_distrust(struct store *store);
struct entry *rd_entry_new(struct store *store, const struct row *row);
int rd_entry_changed(struct store *store, struct entry *entry, struct redrive_err *err);
/* The transaction goes by the row as it was read, though it does not change it. */
void rd_entry_rely(struct store *store, struct entry *entry);
/* A copy that lives as long as the transaction; {NULL, 0} for an empty one. */
struct str rd_transaction_dup(struct store *store, struct str s);

/* Fields of hashes, by key and field by turns. */
int rd_cells_get(struct store *store, const struct str *names, size_t n, struct cell **ret,
                 struct redrive_err *err);
/* A field that the transaction has read or written; NULL: it has not. */
struct cell *rd_cell_known(struct store *store, struct str key, struct str field);
/* A field that only the row of its job leads to, and that need not be read. */
int rd_cell_put_beside(struct store *store, struct str key, struct str field, struct str value,
                       struct redrive_err *err);
int rd_cell_put(struct store *store, struct cell *cell, struct str value, struct redrive_err *err);

/* ---- move.c: what every move does to a row --------------------------------------------------- */

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

/* ---- page.c: jobs for the caller ------------------------------------------------------------- */

struct page_maker {
    struct store *store;
    struct job_page *page;
    size_t capacity;
};
void rd_page_start(struct page_maker *maker, struct store *store, struct job_page *page);
/* Reads seq, row and, if the reply has them, big parts from *at on, and adds the job, unless the
 * transaction has moved it. */
int rd_page_add_reply(struct page_maker *maker, const redisReply *reply, size_t *at, bool has_big,
                      struct redrive_err *err);
/* `big` NULL: its big parts stay absent. */
int rd_page_add(struct page_maker *maker, const struct row *row, const struct str big[BIG_COUNT],
                struct redrive_err *err);
/* How many elements the seq at this place, its row and what belongs to that are. */
size_t rd_reply_row_len(const redisReply *reply, size_t at);
/* A row of a reply from *at on, without its big parts, which are passed over. *ret_moved: the
 * transaction has made or changed it, so that an index no longer tells the truth of it. */
int rd_reply_row(struct store *store, const redisReply *reply, size_t *at, struct row *ret,
                 struct str big[BIG_COUNT], bool *ret_moved, struct redrive_err *err);
/* Calls `each` with the jobs of these seqs, in their order, as the transaction has them; those that
 * are not there are left out. */
int rd_rows_each(struct store *store, const int64_t *seqs, size_t n,
                 int (*each)(void *ctx, const struct row *row, const struct str big[BIG_COUNT],
                             struct redrive_err *err),
                 void *ctx, struct redrive_err *err);
/* rd_page_add for rd_rows_each. */
int rd_page_take(void *maker, const struct row *row, const struct str big[BIG_COUNT],
                 struct redrive_err *err);
struct str rd_page_dup(struct arena *arena, struct str s);

/* ---- limits.c: sums of limits ---------------------------------------------------------------- */

bool rd_is_limit(const struct shared_write *write);
/* The commit finds out whether a limit has room for what the transaction adds with this put, too.
 */
void rd_limit_guard(struct store *store, const struct shared_write *write,
                    const struct shared_row *row);
/* Adds at the commit, whose answer has the sums from its second element on. */
void rd_limit_collect(struct store *store, struct shared_write *write);
void rd_limits_merged(struct store *store, const redisReply *reply);
/* The limits of ready jobs, with their sums. */
int rd_page_add_limits(struct job_page *page, const redisReply *reply, struct redrive_err *err);
/* Fills in the sums of a page of limits, with what the transaction adds. */
int rd_limits_read(struct store *store, struct shared_page *page, struct redrive_err *err);

/* ---- shared.c: rows that processes share ----------------------------------------------------- */

/* Notes the version of a row, by hash and field in one; forgets it when a commit was refused for
 * it.
 */
void rd_shared_learn(struct store *store, struct str name, int64_t version);
void rd_shared_forget(struct store *store, struct str key, struct str field);
/* The hash that has the rows of a kind, and the order of a page. */
void rd_shared_key(enum shared_kind kind, char ret[16]);
int rd_shared_order(const void *left, const void *right);
/* Adds what the transaction puts to its commit. */
void rd_shared_collect(struct store *store);
/* Whether the transaction itself has read all breakers and limits: then what it goes by is not
 * older than it is, and the commit compares those that it puts. */
bool rd_has_gates(const struct store *store);
/* REDRIVE_E_CANCELLED if it has not, and the last answer tells another shared version than begin:
 * the transaction would go by what was cached before. */
int rd_shared_check(struct store *store, struct redrive_err *err);
int rd_shared_changed(struct store *store, struct redrive_err *err);
/* The commit is made only if the queue of a partition is not paused. */
void rd_rely_on_no_pause(struct store *store, const struct partition *partition);

/* Walks over a hash, some fields at a time; `each` may be told the same one twice. */
int rd_scan_hash(struct store *store, const char *key,
                 int (*each)(void *ctx, struct str field, struct str value,
                             struct redrive_err *err),
                 void *ctx, struct redrive_err *err);

/* ---- keys.c, held.c: unique keys ------------------------------------------------------------- */

/* The jobs of a unique key as the transaction has them, those that are new in it as well, and what
 * the server has told of them. */
struct key_jobs {
    struct entry **entries;
    size_t n;
    bool is_held;        /* by one that is gone */
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

int rd_held_put(struct store *store, const struct remembered_key *key, int64_t seq,
                struct redrive_err *err);
/* What is known of a key whose job is gone; strings in the arena. */
bool rd_held_unpack(struct str bytes, struct arena *arena, struct remembered_key *ret,
                    int64_t *ret_seq);

#endif
