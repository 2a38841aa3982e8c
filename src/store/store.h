/* store.h - the contract of every store: its rules and its slots.
 *
 * A store keeps; it does not decide. The engine computes what becomes of a job, with the core's
 * pure functions, and hands it to the store as a move. The store carries the move out if, and only
 * if, what the engine saw is still true: the token of a lease, the state of a job.
 *
 * Work is done in transactions:
 *
 *     store_ops(store)->begin(store, now_ms, &transaction_ms, &shared_version, err)
 *     transaction_ms = store_ops(store)->set_time(store, now_ms)    if requests came after now_ms
 *     … any number of moves and reads …
 *     store_ops(store)->commit(store, err)            or store_ops(store)->rollback(store)
 *
 * Rules
 *   1. All moves of a transaction become visible and durable together, when commit returns 0; after
 *      rollback, or a commit that failed with anything but REDRIVE_E_IO, none has happened. After
 *      REDRIVE_E_IO from commit the outcome is unknown: all moves were made, or none; unless the
 *      handle's `is_rolled_back` says that none was. A store that loses the answer to a commit asks
 *      its server for the outcome before it returns REDRIVE_E_IO. After a commit that failed the
 *      caller ends the transaction with rollback.
 *   2. A move that cannot be made (stale token, wrong state, taken key) says so in its own result,
 *      changes nothing, and fails none of the other moves.
 *   3. A slot that returns a negative code has failed as a whole: the transaction must be rolled
 *      back. REDRIVE_E_CANCELLED, from a slot or from commit, means that another transaction was in
 *      the way, or that a connection was lost: nothing has happened, and the same transaction may
 *      be tried again. A store in which no transaction waits for another finds that out at the
 *      commit: a row, a key or a shared row is no longer what the transaction has seen.
 *   4. Read first, write last. Within a transaction, reads by name (`lookup`, `list` with an id or
 *      with a tenant and a unique key), rows that a move or `history` needs, and what processes
 *      share show the transaction's own moves. All other reads of jobs find them by an index, which
 *      may be that of the committed store: they leave out a job that the transaction has moved, or
 *      show it as it is now, and counts may be those of before the transaction. No other
 *      transaction sees a move before the commit.
 *   5. Two transactions never both start the same job, hand out the same probe, or make the same
 *      cron tick, whatever processes they run in.
 *   6. What is durable after a commit survives as the store's `durability` says.
 *   7. A store handle is used by one thread at a time. Several processes may open the same store.
 *   8. Only the moves of core/state.h are made.
 *   9. Pages belong to the caller, who releases them; what they hold lives in them. A read that
 *      fails leaves its page empty.
 *  10. There is one transaction a handle at a time: a second begin, a commit or a move without a
 *      transaction are REDRIVE_E_STATE; a rollback without one does nothing.
 *  11. A move of a job that is not there is REDRIVE_E_NOT_FOUND, its `state` means nothing.
 *  12. An empty string is as good as an absent one, in filters and in keys. A read that is given no
 *      tenant is about all of them.
 *  13. The moves of one call are made in their order, as if each came in a call of its own.
 *
 * What the slots are given and give is in transition.h, page.h and shared.h. transition.h says from
 * which states each move may be made, what it leaves in the row and in the history, and computes it
 * for all stores.
 *
 * The shared version is a number that rises whenever anything changes that processes cache: a
 * breaker, a pause, a limit, a task definition, the cron entries. An engine that sees another
 * number than last time reads those again before it decides anything in this transaction.
 * STORE_VERSION_UNKNOWN differs from every number: the connection is a new one, perhaps to a server
 * that took over and has lost the latest commits, so that nothing that was read before can be
 * relied upon.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redrive.h"
#include "store/job.h"
#include "store/page.h"
#include "store/shared.h"
#include "store/transition.h"

/* The shared version of a transaction that must not rely on anything that was read before it. */
#define STORE_VERSION_UNKNOWN (INT64_MIN / 2)

/* What truly differs between stores; no caller tests a store's name. */
enum store_capability {
    STORE_SHARED = 1 << 0,      /* other processes, or machines, may use it too */
    STORE_SQL = 1 << 1,         /* people can query it: views exist */
    STORE_SERVER_TIME = 1 << 2, /* it has a clock of its own, and ignores `now_ms` */
    STORE_NOTIFIES = 1 << 3,    /* `wait` returns early when another process has changed it */
    STORE_TELLS = 1 << 4,  /* and passes on the bits of store_notify, or nothing if they are 0 */
    STORE_ELECTS = 1 << 5, /* has store_ops.elect: many processes may use it */
    /* It notifies only a few of the processes that wait for new jobs (STORE_NOTIFY_READY): those
     * whose last claim, by a handle of the same origin, was given less than it asked for. */
    STORE_WAKES_FEW = 1 << 6,
    STORE_LATE = 1 << 7, /* the handle may not have been opened yet: late.h */
    /* `list` finds the jobs of a user, a task, a queue, or a kind of error by an index, and looks
     * at few others. */
    STORE_INDEXED = 1 << 8,
};

/* What a transaction means to processes that wait for notifications. */
enum store_notification {
    STORE_NOTIFY_READY = 1 << 0, /* jobs have come into the queue */
    STORE_NOTIFY_TIME = 1 << 1, /* jobs wait for their time, or a shared row has changed: the leader
                                 * must look */
    STORE_NOTIFY_END = 1 << 2,  /* for processes that show the jobs: some have come or ended */
    STORE_NOTIFY_ALL = (1 << 3) - 1,
};

/* The result of an election. */
struct store_election {
    bool is_leader;  /* this handle is the leader: it promotes due jobs and ends leases */
    size_t claimers; /* about how many handles have asked as claimers lately */
    bool has_ready;  /* some queue has queued jobs; a hint */
};

/* Hint of the error of a store that has no room left: every store says it, and nothing else does.
 */
#define STORE_FULL_HINT "free some space; nothing was changed"

enum store_durability {
    STORE_FORGETS,          /* gone with the process */
    STORE_SURVIVES_PROCESS, /* kill -9 loses nothing; power loss may */
    STORE_SURVIVES_POWER,
};

/* ---- Opening, and care ----------------------------------------------------------------------- */

struct store; /* a handle: each store's own, which starts with a struct store_base */

struct store_options {
    bool create;          /* set an empty store up; else an empty one is REDRIVE_E_NOT_FOUND. Where
                           * none can be set up (no such database or folder): another error */
    bool as_is;           /* change nothing: an older or newer store is opened for `facts` and
                           * `backup` alone */
    bool caller_time;     /* the transaction's time is the caller's now_ms, whatever clock the store
                           * has: for tests that move time */
    int64_t busy_wait_ms; /* how long to wait for other handles before REDRIVE_E_IO; 0: 5 s */
    int64_t log_frames;   /* SQLite: pages in the log after which it is moved into the file, if the
                           * store does that itself; 0: its own choice. For tests */
    int64_t narrow;       /* SQL stores: so many jobs of a user, or errors of a type, are few, and
                           * listed by an index of these; 0: their own choice. For tests */
    uint64_t origin;      /* handles with the same origin do not notify each other, if the store
                           * can tell them apart (STORE_TELLS); 0: one of its own */
    bool late;            /* of shards: those that are away, but not all, are opened when they are
                           * back (late.h) */
    uint32_t away;        /* with `late`: those that are known to be away, by bit; they are not
                           * tried now */
};

/* What a backup has copied. */
struct store_copy {
    int64_t bytes;
    int64_t jobs; /* in every state */
};

/* What a store is, for people who look after it. */
struct store_facts {
    int64_t version_found;  /* of its schema when this handle was opened; 0: it was empty */
    int64_t version_newest; /* that this program knows, and has brought it to unless as_is */
    int64_t bytes;          /* on disk, without the log; 0: not on a disk */
    int64_t log_bytes;      /* written and not yet moved into place */
    const char *path;       /* of its file, the store's own; NULL: it has none */
    const char *server;     /* name and version of its server, and where in a cluster the store is,
                             * for people; the store's own; NULL: it has none */
    const char *library; /* name and version of the library that keeps the file, with known bugs and
                          * what is done against them, for people; the store's own; NULL: it has
                          * none */
    const char *library_hint; /* what other programs that use the file must see to; NULL: nothing */
    const char *loss;      /* what can be lost of what was answered, if its settings say more than
                            * its durability; NULL: they do not */
    const char *loss_hint; /* what to set so that less is lost; NULL: nothing is known */
};

/* What a repair hands to its caller. Each function returns 0, or a negative code that ends the
 * repair. */
struct store_repair {
    /* Keeps lines of JSON, each with all that the store has of one job (remains.h): they are
     * durable when it returns. */
    int (*keep)(void *ctx, struct str lines, struct redrive_err *err);
    /* These jobs are about to go. Outside of a transaction; it may make transactions of its own. */
    int (*leave)(void *ctx, const int64_t *seqs, size_t n, struct redrive_err *err);
    void (*progress)(void *ctx); /* called now and then; may be NULL */
    void *ctx;
};
/* What a repair has done. */
struct store_repaired {
    uint64_t jobs;    /* were set aside */
    uint64_t entries; /* of indexes and keys that named no job, or were missing */
    uint64_t counts;  /* that were wrong */
};

/* What the error about a job whose row is damaged hints at. */
#define STORE_REPAIR_HINT \
    "`redrive doctor --repair` sets damaged jobs aside; a backup has them as they were"

/* ---- The slots ------------------------------------------------------------------------------- */

struct store_ops {
    const char *scheme; /* of its URLs: "sqlite" in sqlite:redrive.db */
    uint32_t capabilities;

    /* Does its part of store_own_process. NULL: nothing. */
    void (*own_process)(void);

    /* Opens what follows the scheme in the URL. Refuses a store that a newer version has set up
     * (REDRIVE_E_STATE) and brings an older one up to date. */
    int (*open)(struct str place, const struct store_options *options, struct store **ret,
                struct redrive_err *err);
    /* Rolls an open transaction back. Accepts NULL. */
    void (*close)(struct store *store);

    /* -- Transactions -- */

    /* Opens a transaction. Where the store has one writer, it waits for its turn. `ret_now_ms` is
     * the transaction's time: now_ms, or the server's. The server's is known from the answer of
     * this begin, or from the last one before it, as far as that tells (server_time.h): the
     * transaction's time is no later than the server's, nor earlier than in the transaction before;
     * the server's is later by the handle's `unsure_ms` at most. The shared version is that of the
     * last answer. `ready` and the commit notice wrong ones: REDRIVE_E_CANCELLED, and the next
     * begin asks. store_ask makes begin ask. */
    int (*begin)(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err);
    /* Gives a transaction that has neither read nor moved anything its time once more: begin may
     * have waited for its turn, and a request that came meanwhile must not be served with a time
     * from before it. Returns the time, which begin's rules hold for, and sets `unsure_ms`. Without
     * a transaction it does nothing and returns now_ms. */
    int64_t (*set_time)(struct store *store, int64_t now_ms);
    /* Makes all moves of the transaction visible and durable, and ends it; rule 1 says what a
     * failure means. Other processes are notified as store_notify said. */
    int (*commit)(struct store *store, struct redrive_err *err);
    /* Ends the transaction without its moves (after a commit that failed: rule 1). What it had
     * locked is free. */
    void (*rollback)(struct store *store);

    /* -- Moves; all need a transaction -- */

    /* Takes in new jobs: queued, or scheduled when process_after is later than the transaction's
     * time, or waiting with open parents. The strings of `ret` live in `arena`. Refused with
     * REDRIVE_E_EXISTS and the job that stands for it, in this order: a second submit of an id:
     * that job; a key that is to be unique for ever, and that any job holds: the one with the
     * lowest seq; a key that a live job, or one that is unique for ever, holds: that job. Of jobs
     * that are gone only those that were unique for ever still hold their key: their seq, id and
     * last state are remembered. Order of submission is order of seq. */
    int (*submit)(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err);

    /* The queued jobs that a claim would take, best first: by queue in the filter's order, then
     * higher priority, then lower seq. Looks at no job that is time-locked, running or ended. A
     * paused queue, though named, has none. A task of which as many are given as its limit says has
     * no more: the next best of the other tasks are given in their place. `more` says that there
     * are queued jobs that it has not looked at, other than those of such a task. On stores that
     * several transactions use at once the jobs are locked against other claims until the
     * transaction ends. Without a tenant no tenant waits for another: of k tenants with ready jobs,
     * each one's best is among those given by any k calls in a row, with the same filter. How a
     * page is shared is the store's choice, but the jobs of one tenant come in the order above. The
     * page also has the sums of the limits of its jobs, if these have a row, since other processes
     * change them without a new shared version. A job whose row cannot be read may be left out, so
     * that it does not stop the others. A server may give jobs whose time has come since the
     * transaction began: `unsure_ms` is set anew. */
    int (*ready)(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err);

    /* A hint before a commit: the next transaction will claim with this filter, at once. A store
     * behind a network may look for the jobs in the request of the commit, so that `ready` need not
     * ask if that transaction uses the same filter within some 20 ms. Until then the jobs are
     * locked as by a claim; if that keeps a transaction open on the server, the store wants upkeep
     * after `idle_ms`. A begin after store_look(true), without a read before it, uses them;
     * anything else releases them. It does not change whether the commit succeeds. NULL: there is
     * nothing to gain. */
    void (*look_ahead)(struct store *store, const struct claim_filter *filter);

    /* A hint at the start of a transaction: it will make these scans, each by a time and of another
     * index, and with `cancels` list the rows of SHARED_CANCEL of all tenants. A store behind a
     * network asks its server for all of them in one request: scans with the same limit, and the
     * list, need not ask again as long as the transaction has changed nothing. They answer as they
     * would without the hint. NULL: there is nothing to gain. */
    int (*scan_ahead)(struct store *store, const struct scan *scans, size_t n, bool cancels,
                      struct redrive_err *err);

    /* The jobs of an index whose turn has come (page.h), `more` if there are further ones. */
    int (*scan)(struct store *store, struct scan *scan, struct job_page *ret,
                struct redrive_err *err);

    /* Makes the moves of a list, each as transition.h says. The keys of removed jobs that
     * are unique for ever are remembered. A server is asked once or twice for all moves of a list,
     * and once more for each redrive of a job that has a unique key. A job whose row cannot be read
     * is REDRIVE_E_CORRUPT: in its own result on shared stores, of the list as a whole on SQLite.
     */
    int (*move)(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err);

    /* Takes jobs over from another store, whatever state they are in: every field of spec and
     * status is kept but the seq, which is given in the order of the jobs as submit does, and so is
     * every attempt that the job's own row does not tell. Counts of queues and partitions follow. A
     * job whose id is there already is REDRIVE_E_EXISTS, and left as it is: what was taken over
     * before an interruption may be offered again. So is a live one whose key another live job
     * holds. An error of the job is also one of its attempts'. A job that is unique for ever and
     * whose key is remembered with its id, since it was here before, holds the key itself from then
     * on: the key is not remembered any more. */
    int (*import)(struct store *store, const struct imported_job *jobs, size_t n,
                  struct move_result *ret, struct redrive_err *err);
    /* The same for keys without a job. A key that is held for ever already, by a job or by one that
     * is gone, is left as it is. */
    int (*import_keys)(struct store *store, const struct remembered_key *keys, size_t n,
                       struct redrive_err *err);

    /* Adds edges, or replaces those of the same parent and child. Whether a child waits is said by
     * its row alone: the moves adopt and release count its edges and those of its parents. An edge
     * is removed with its child; it outlives its parent. */
    int (*edges_put)(struct store *store, const struct job_edge *edges, size_t n,
                     struct redrive_err *err);
    /* Puts rows that processes share; a refusal (stale version, no room) is in its own result. */
    int (*shared_put)(struct store *store, const struct shared_row *rows, size_t n,
                      struct move_result *ret, struct redrive_err *err);
    /* Adds to counters, which begin at 0. */
    int (*counters_add)(struct store *store, const struct counter *counters, size_t n,
                        struct redrive_err *err);

    /* -- Reads; within a transaction or outside of one -- */

    /* The jobs that match, in the filter's order, `more` if there are further ones. A tenant of few
     * jobs costs about as many looks as it has jobs, whatever other tenants have; a server that
     * other processes use at the same time is asked in short steps. The memory store looks at all.
     * A job whose row cannot be read is REDRIVE_E_CORRUPT, unless the filter skips it. */
    int (*list)(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err);
    /* The jobs of these names, up to STORE_PAGE_MAX of them (else REDRIVE_E_RANGE), in the order
     * of the names; those that are not there are left out. One question to a server, or two,
     * however many they are. */
    int (*lookup)(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                  struct redrive_err *err);
    /* The same by seqs, which are distinct. A job whose row cannot be read is REDRIVE_E_CORRUPT, or
     * left out as by a scan, so that what is done to other jobs does not fail. */
    int (*find)(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                struct redrive_err *err);
    /* The attempts of these jobs, up to STORE_PAGE_MAX of them (else REDRIVE_E_RANGE), a page each:
     * oldest first; the latest attempt included. None when there is no such job. Costs as many
     * questions as lookup. */
    int (*history)(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                   struct redrive_err *err);
    /* All edges of these jobs, which are distinct, up to STORE_PAGE_MAX of them (else
     * REDRIVE_E_RANGE), in the order of the side; with the transaction's own. No transaction
     * that adds a child is missed by one that has moved the parent after the move adopt of that
     * child, or the commit of either is REDRIVE_E_CANCELLED. */
    int (*edges)(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                 struct edge_page *ret, struct redrive_err *err);
    /* For a claim, in its transaction: the parents of these jobs, which are distinct, up to
     * STORE_PAGE_MAX of them (else REDRIVE_E_RANGE), as far as a handler is given them (page.h). A
     * parent that was removed, or whose row cannot be read, is left out. One that the transaction
     * has moved may be shown as it was before. No payload is moved, and a server is asked once. */
    int (*parents)(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                   struct redrive_err *err);
    /* How many jobs there are, by what `kind` says; in the order of tenant, queue, task and gate,
     * as bytes. */
    int (*counts)(struct store *store, enum count_kind kind, struct str tenant,
                  struct count_page *ret, struct redrive_err *err);
    /* The same of all tenants that are kept where this one is; NULL: all tenants are in one place.
     */
    int (*counts_around)(struct store *store, enum count_kind kind, struct str tenant,
                         struct count_page *ret, struct redrive_err *err);
    /* Of the jobs that match, up to filter->limit groups, the largest first, then the latest seen,
     * then the highest seq of an example. Order and keyset of the filter have no say. Payloads and
     * results are not kept: there are as many examples as groups. */
    int (*groups)(struct store *store, const struct job_filter *filter, struct group_page *ret,
                  struct redrive_err *err);
    /* Of the jobs that match, how many there are of each cause: `add` is called for each, perhaps
     * several times for the same one, with strings that live as long as the call. It may not use
     * the store. No payload is moved. Order, keyset and limit of the filter have no say. */
    int (*causes)(struct store *store, const struct job_filter *filter,
                  void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                  struct redrive_err *err);
    /* The rows of a kind that processes share, by tenant, then key, as bytes. */
    int (*shared_list)(struct store *store, enum shared_kind kind, struct str tenant,
                       struct shared_page *ret, struct redrive_err *err);
    /* The keys that are unique for ever and whose jobs are gone, by tenant, then key, as bytes: up
     * to `limit` of those after a tenant and key (both absent: from the start). */
    int (*remembered_keys)(struct store *store, struct str after_tenant, struct str after_key,
                           size_t limit, struct remembered_key_page *ret, struct redrive_err *err);
    /* Whether these unique keys are held, up to STORE_PAGE_MAX of them (else REDRIVE_E_RANGE), by
     * any job of the tenant, or one that is gone: a submit that is to be unique for ever would be
     * refused. Outside of a transaction. One look at an index for each key, or two; one question to
     * a server for all of them. A key that is unique for ever stays held. */
    int (*keys_held)(struct store *store, struct str tenant, const struct str *keys, size_t n,
                     bool *ret, struct redrive_err *err);
    /* The counters, by tenant, then name, then label, as bytes. */
    int (*counters_list)(struct store *store, struct str tenant, struct counter_page *ret,
                         struct redrive_err *err);

    /* From a call with `on` to one without, all reads of this handle show the store as it was at
     * one moment, while other handles go on; begin is refused meanwhile (REDRIVE_E_STATE). Outside
     * of a transaction. For long reads of everything: the store keeps what others replace until
     * then. NULL: the store cannot do it, or no other process can change it. */
    int (*snapshot)(struct store *store, bool on, struct redrive_err *err);

    /* -- Care; outside of a transaction -- */

    /* What the store is, for people who look after it. */
    int (*facts)(struct store *store, struct store_facts *ret, struct redrive_err *err);
    /* Reads everything and looks whether it is whole: REDRIVE_E_CORRUPT with the first thing that
     * is not. `progress` (may be NULL) is called now and then. */
    int (*verify)(struct store *store, void (*progress)(void *ctx), void *ctx,
                  struct redrive_err *err);

    /* Sets aside the jobs whose rows cannot be read, while other processes go on: first what is
     * left of them is kept, then `leave` is called, then they are removed, unless another process
     * has changed them meanwhile. Then what indexes, unique keys and counts still say of jobs that
     * are not there is put right. After a crash, or a failure, at any moment the next repair goes
     * on; a job may be kept twice then, but none is lost. A key that was unique for ever is free
     * again. NULL: rows of the store cannot be damaged. `ret` has what was done until a failure. */
    int (*repair)(struct store *store, const struct store_repair *repair,
                  struct store_repaired *ret, struct redrive_err *err);

    /* Copies the whole store, as it is at one moment, into a file that exists and is empty, while
     * other processes go on. The store is only read, and the copy is read again and checked:
     * REDRIVE_E_CORRUPT. The caller syncs the file; after a failure it has no meaning. `progress`
     * (may be NULL) is called now and then; phases are string literals. NULL: the store has other
     * means, which `backup_hint` names. */
    int (*backup)(struct store *store, const char *path,
                  void (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total),
                  void *ctx, struct store_copy *ret, struct redrive_err *err);
    const char *backup_hint;

    /* Work for idle times, such as moving a log into place; takes at most some 100 ms. Called when
     * the handle has been idle for a moment and its `wants_upkeep` is set. NULL: there is none. */
    void (*upkeep)(struct store *store);

    /* -- Waiting; outside of a transaction -- */

    /* Returns when another process may have changed something, or after `timeout_ms`.
     * `ret_notification` (may be NULL) has bits of enum store_notification: at least what is new
     * since this handle's last wait or transaction; 0 when the time is over, or the wait has
     * failed. If notifications may have been lost with a connection: STORE_NOTIFY_ALL. */
    int (*wait)(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                struct redrive_err *err);

    /* Asks to be the leader of all processes for the next `keep_ms`; 0 resigns. One handle at a
     * time is the leader, until it closes or its time is over. A handle whose process was stopped
     * may believe in it for longer, which does no harm: a leader makes ordinary transactions.
     * `claims`: the handle belongs to a process that claims jobs, and calls this every few seconds.
     * NULL without STORE_ELECTS. */
    int (*elect)(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                 struct redrive_err *err);
};

/* For stores: the slots that every store has. Its functions have the names of its scheme and the
 * slot: sqlite_begin. STORE_SLOT_DECLARE declares such a function, STORE_SLOTS gives the scheme and
 * the entries of a struct store_ops. */
#define STORE_SLOT_MAP(XX, store) \
    XX(store, open)               \
    XX(store, close)              \
    XX(store, begin)              \
    XX(store, set_time)           \
    XX(store, commit)             \
    XX(store, rollback)           \
    XX(store, submit)             \
    XX(store, ready)              \
    XX(store, scan)               \
    XX(store, move)               \
    XX(store, import)             \
    XX(store, import_keys)        \
    XX(store, edges_put)          \
    XX(store, shared_put)         \
    XX(store, counters_add)       \
    XX(store, list)               \
    XX(store, lookup)             \
    XX(store, find)               \
    XX(store, history)            \
    XX(store, edges)              \
    XX(store, parents)            \
    XX(store, counts)             \
    XX(store, groups)             \
    XX(store, causes)             \
    XX(store, shared_list)        \
    XX(store, remembered_keys)    \
    XX(store, keys_held)          \
    XX(store, counters_list)      \
    XX(store, facts)              \
    XX(store, verify)             \
    XX(store, wait)
#define STORE_SLOT_DECLARE(store, slot) \
    __typeof__(*((const struct store_ops *)NULL)->slot) store##_##slot;
#define STORE_SLOT_ENTRY(store, slot) .slot = store##_##slot,
#define STORE_SLOTS(store)            STORE_SLOT_MAP(STORE_SLOT_ENTRY, store).scheme = #store

/* ---- Handles --------------------------------------------------------------------------------- */

/* What every handle begins with. */
struct store_base {
    const struct store_ops *ops;
    enum store_durability durability;
    uint32_t notification; /* of the open transaction; STORE_NOTIFY_ALL from its begin on */
    bool is_rolled_back; /* the last commit that failed, with whatever code, has changed nothing */
    bool wants_upkeep;   /* there is something for store_ops.upkeep */
    int64_t idle_ms;     /* how long after the last transaction; 0: the caller decides */
    bool asks;           /* the next begin asks the server, however fresh its last answer is */
    bool looks; /* the next transaction calls `ready`, which asks the server: begin need not */
    int64_t unsure_ms; /* of the open transaction's time: when that was set, and after `ready`, the
                        * store's clock was later by so much at most; 0 where the store has no clock
                        * of its own */
    int64_t lock_wait_ms; /* see store_wait_for_locks */
    bool is_blocked;      /* the last transaction failed because a lock was not given in time */
};

static inline const struct store_base *store_base(const struct store *store)
{
    return (const struct store_base *)(const void *)store;
}

/* The slots of a store: store_ops(s)->begin(s, …). */
static inline const struct store_ops *store_ops(const struct store *store)
{
    return store_base(store)->ops;
}

/* Both bounds of the open transaction's time, which is now_ms. */
static inline struct store_time store_time_of(const struct store *store, int64_t now_ms)
{
    return (struct store_time){now_ms, now_ms + store_base(store)->unsure_ms};
}

/* The transaction that begins next sees what other processes have put until then. */
static inline void store_ask(struct store *store)
{
    ((struct store_base *)(void *)store)->asks = true;
}

/* Whether the transaction that begins next looks for ready jobs. */
static inline void store_look(struct store *store, bool looks)
{
    ((struct store_base *)(void *)store)->looks = looks;
}

/* How long the transactions that begin from now on wait for a lock that another transaction holds
 * on a job, an id or a key; 0, as from the open on: the busy time. One that has waited so long in
 * vain is REDRIVE_E_CANCELLED, and the handle's `is_blocked` says why. Stores whose transactions do
 * not wait for each other's rows ignore it. */
static inline void store_wait_for_locks(struct store *store, int64_t ms)
{
    ((struct store_base *)(void *)store)->lock_wait_ms = ms;
}

/* For stores, in begin: whether the server must be asked when its last answer is `age_ms` old. Its
 * time can be computed from an answer half a minute old; the shared version must not be older than
 * a second, unless the transaction calls `ready`, which returns it. */
static inline bool store_must_ask(struct store_base *base, int64_t age_ms)
{
    const bool must = base->asks || age_ms > (base->looks ? 30000 : 1000);
    base->asks = base->looks = false;
    return must;
}

/* The notification that the commit of the open transaction sends to other processes: bits of enum
 * store_notification; 0: none is sent. For stores with STORE_TELLS. Without this call all bits are
 * sent. */
static inline void store_notify(struct store *store, uint32_t notification)
{
    ((struct store_base *)(void *)store)->notification = notification;
}

/* For main() of the redrive program, before threads and stores: sets options of the libraries that
 * stores use, for the whole process. The C libraries do not call it: the process is not theirs. */
void store_own_process(void);

/* Finds the kind of store by the scheme of the URL, and the place that follows the scheme. Nothing
 * is opened. REDRIVE_E_UNKNOWN names the schemes there are. */
int store_find(const char *url, const struct store_ops **ret, struct str *ret_place,
               struct redrive_err *err);
/* The same, and opens it. */
int store_open(const char *url, const struct store_options *options, struct store **ret,
               struct redrive_err *err);
void store_close(struct store *store);

/* The URL with which handles of one process open the same store: `url`, unless each handle that is
 * opened with that has an empty store of its own, as `memory:` does. */
const char *store_common_url(const char *url);

/* For stores: whether one call may be about so many jobs, and whether a page may have so many rows
 * (`what`: jobs, groups); REDRIVE_E_RANGE. */
int store_check_count(size_t n, struct redrive_err *err);
int store_check_limit(size_t limit, const char *what, struct redrive_err *err);

/* What sets up a store that is empty, as part of a hint. */
#define STORE_SET_UP_HINT \
    "`redrive migrate` sets it up; so does the first process that submits or works"

/* What a durability means, and what can be lost under it, in words. */
const char *store_durability_text(enum store_durability durability);
const char *store_loss_text(enum store_durability durability);

extern const struct store_ops STORE_MEMORY;
extern const struct store_ops STORE_REDIS;
extern const struct store_ops STORE_REDIS_TLS; /* only opens: handles are of STORE_REDIS */
extern const struct store_ops STORE_SQLITE;
extern const struct store_ops STORE_POSTGRES;
extern const struct store_ops STORE_SHARDS; /* several of the others: shards/shards.h */

#endif
