/* private.h - the inside of the Faktory server, for the files of this folder only.
 *
 *     bytes ──► conn (lines) ──► verbs ──► call ──► committer
 *     bytes ◄── conn (in order) ◄── reply ◄── answered ◄──┘
 *
 * A call is one operation for one or more consecutive commands of a connection. It is in the
 * connection's list, in the order of the commands, until its reply has been taken. All of it is on
 * the loop's thread.
 */
#ifndef SERVER_FAKTORY_PRIVATE_H
#define SERVER_FAKTORY_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem/arena.h"
#include "base/mem/list.h"
#include "base/mem/map.h"
#include "base/os/log.h"
#include "base/rng.h"
#include "base/text/buf.h"
#include "core/check.h"
#include "engine/mailbox.h"
#include "server/claim_lines.h"
#include "server/faktory/format/request.h"
#include "server/faktory/passwords.h"
#include "server/faktory/server.h"
#include "server/listen/endpoint.h"
#include "server/listen/tls.h"
#include "store/job.h"

/* How much a connection may have under way: commands count 1, a FETCH counts more, because a line
 * of a few bytes may be answered with a megabyte. Long lines and the jobs of a PUSHB count by their
 * size, so that the maximum is also one of 4 MiB and of 4096 such jobs. */
#define FAKTORY_LOAD_MAX   512
#define FAKTORY_LOAD_FETCH 8
#define FAKTORY_LOAD_BYTES ((size_t)8 * 1024)
#define FAKTORY_LOAD_JOBS  8
/* So much that a client has not taken yet, and no more of its commands are looked at. */
#define FAKTORY_UNSENT_MAX ((size_t)1024 * 1024)
/* Commands that become one operation at most. */
#define FAKTORY_RUN_MAX    256
#define FAKTORY_REPLY_MAX  ((size_t)256 * 1024 * 1024)
#define FAKTORY_READ_BYTES ((size_t)64 * 1024)

/* A worker is called NAME_FAKTORY_WORKER and its wid, which together are a name. */
#define FAKTORY_WID_MAX     (NAME_MAX_BYTES - (sizeof NAME_FAKTORY_WORKER - 1))
#define FAKTORY_WORKER_NAME (NAME_MAX_BYTES + 1)

enum faktory_state {
    FAKTORY_RUNNING,
    FAKTORY_QUIET,
    FAKTORY_TERMINATE,
};

/* A worker process, which may have many connections. */
struct faktory_worker {
    struct list link;
    struct str tenant;
    char wid[FAKTORY_WID_MAX + 1];
    char name[FAKTORY_WORKER_NAME]; /* in leases and lists: NAME_FAKTORY_WORKER and the wid */
    enum faktory_state state;
    bool has_heard_quiet; /* since the server drains */
    bool is_reaped;       /* its connections are being closed */
    int64_t beat_ms;      /* monotonic */
    size_t n_conns;
};

/* Bytes as they came in; calls borrow from them. */
struct faktory_block {
    size_t refs;
    size_t len;
    size_t capacity;
    size_t *held; /* counts the capacity of all */
    char bytes[];
};

struct faktory_call;

struct faktory_call_kind {
    /* No further command is added: hand it in, or finish it. NULL: takes one command only. */
    void (*seal)(struct faktory_call *call);
    /* The operation has its answer: write the reply and finish, or go on. Also called when the
     * connection has gone. */
    void (*answered)(struct faktory_call *call);
    /* The connection ends, and it is not under way: finish. NULL: it is never in that state. */
    void (*cancel)(struct faktory_call *call);
    /* What it holds beside its reply, block and arena. */
    void (*release)(struct faktory_call *call);
};

struct faktory_call {
    const struct faktory_call_kind *kind;
    struct list link; /* of the connection's */
    struct faktory_conn *conn;
    struct faktory_block *block; /* may be NULL */
    unsigned load;
    bool is_under_way;
    bool is_done;
    struct buf reply;
    struct arena arena;
};

struct faktory_conn {
    struct faktory_server *server;
    uv_tcp_t tcp;
    struct faktory_tls *tls; /* NULL: without TLS */
    struct sockaddr_storage address;
    bool is_counted;     /* among the server's addresses */
    struct list link;    /* of the server's */
    struct list touched; /* it has to be looked at in this turn */

    bool has_said_hello;
    bool is_hashing; /* its password is being looked at */
    bool has_left;   /* it sends no more: what it has sent is answered, but it gets no job */
    bool is_ending;  /* nothing more is looked at; closed when all is answered */
    bool is_closing;
    bool is_closed;
    bool is_reading;

    int iterations;
    char salt[17];
    struct faktory_passwords *passwords; /* among which is its own; NULL: it needed none */
    const struct faktory_password *password;
    uint32_t scopes;
    struct str tenant;             /* the server's */
    struct faktory_worker *worker; /* NULL: a producer */
    char name[32];                 /* of the one that holds its jobs, if it has no wid */

    struct faktory_block *in;
    size_t start; /* what is before it has been taken */
    size_t scanned;
    struct list calls;
    unsigned load;
    struct faktory_call *open; /* the last, while it may take further commands */

    struct buf out;     /* gathers */
    struct buf sending; /* the kernel has the first `sent` bytes */
    size_t sent;
    bool is_writing;
    uv_write_t write;

    int64_t unfinished_ms; /* since when it has sent a part of a command; 0: it has not */
    int64_t opened_ms;
    int64_t active_ms;
    int64_t taken_ms; /* when bytes were last taken, or began to wait */
    size_t queued;    /* bytes that the kernel had not taken when last looked at */
};

struct faktory_server {
    struct faktory_options options;
    struct faktory_passwords *passwords; /* in force; NULL: none are needed */
    struct map tenants;                  /* the names of those that have connected */
    struct faktory_removed *removed;     /* queues that INFO does not list */
    struct tls_identity *tls;            /* NULL: without TLS */
    struct log_pace refusals;
    uv_tcp_t listener;
    uint16_t port;
    uv_tcp_t spare;       /* takes a client that there is no memory for, and closes it */
    bool is_spare_used;   /* it is being closed */
    bool is_one_too_many; /* another such client waits for it */
    uv_async_t async;
    uv_prepare_t turn;
    uv_timer_t sweep;
    uv_timer_t fetch_timer;
    uv_timer_t drain_timer;
    unsigned n_handles;

    struct mailbox mailbox; /* flushed at the end of a turn */
    struct list conns;
    size_t n_conns;
    struct list touched;
    size_t n_under_way; /* calls, and passwords being looked at */
    struct rng rng;
    char *read_buffer;
    size_t held_bytes; /* that clients have sent and that are not done with */
    struct buf text;   /* one document at a time */

    struct map workers; /* tenant and wid → struct faktory_worker */
    struct list worker_list;
    struct claim_lines lines; /* of fetches that wait for the same */
    struct list fetches;      /* that wait, by deadline */
    struct map held;          /* jobs that were handed out: struct held_job */

    enum faktory_state state;
    int64_t started_ms;
    uint64_t n_commands;
    uint64_t n_reaped;               /* workers */
    struct log_pace repetitions;     /* of jids that are in use */
    struct log_pace turned_away;     /* connections */
    struct address_counts addresses; /* of connections */
    bool is_draining;
    void (*drained)(void *ctx); /* NULL: has been called, or is not to be */
    void *drained_ctx;
    bool is_stopping;
    bool is_closing_handles;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* ---- faktory/call.c -------------------------------------------------------------------------- */

/* Hands the call's operation in at the end of the turn. */
void faktory_call_send(struct faktory_call *call, struct op *op);
/* A key of several parts for the server's maps, in its `text`. */
struct str faktory_key(struct faktory_server *server, struct str a, struct str b);
/* A zeroed struct of `size` bytes that begins with a struct faktory_call, at the end of the
 * connection's; NULL without memory. */
void *faktory_call_new(struct faktory_conn *conn, const struct faktory_call_kind *kind,
                       size_t size);
void faktory_call_finish(struct faktory_call *call);
/* Counts more of the connection's load. */
void faktory_call_add_load(struct faktory_call *call, size_t load);
/* The call that is open, if it is of this kind and can take more. */
struct faktory_call *faktory_conn_open_call(struct faktory_conn *conn,
                                            const struct faktory_call_kind *kind);
/* Closes it. */
void faktory_conn_seal(struct faktory_conn *conn);
/* The buffer for the answer to a command that needs no operation. */
struct buf *faktory_conn_reply(struct faktory_conn *conn);
/* Takes it out of its connection's list. */
void faktory_call_free(struct faktory_call *call);
void faktory_block_unref(struct faktory_block *block);
/* To be looked at before the loop waits again. */
void faktory_conn_touch(struct faktory_conn *conn);
/* Reads no more commands; it is closed when what was asked is answered. */
void faktory_conn_end(struct faktory_conn *conn);
void faktory_conn_close(struct faktory_conn *conn);
/* -ERR with the message, and the detail if there is one and this client may see it. */
void faktory_put_failure(const struct faktory_conn *conn, struct buf *out,
                         const struct redrive_err *err);
/* Space for one more in an array that doubles; false without memory. */
bool faktory_make_room(void **items, size_t n, size_t *capacity, size_t size);

/* ---- faktory/access.c ------------------------------------------------------------------------ */

void faktory_tenants_release(struct faktory_server *server);
/* Whether the client may do what needs the scope; otherwise it has its answer, and the log a line.
 */
bool faktory_conn_may(struct faktory_conn *conn, enum config_scope scope, struct str verb);
void faktory_conn_accept(struct faktory_server *server);
/* Takes the first line. */
void faktory_conn_hello(struct faktory_conn *conn, struct str verb, struct str args);
/* For handles of the server that are counted in `n_handles`. */
void faktory_server_handle_closed(uv_handle_t *handle);

/* ---- faktory/conn.c -------------------------------------------------------------------------- */

/* Takes finished calls, reads on, sends; may free it. */
void faktory_conn_advance(struct faktory_conn *conn);
/* Time-outs. */
void faktory_conn_check(struct faktory_conn *conn, int64_t now_ms);

/* ---- The commands ---------------------------------------------------------------------------- */

struct faktory_line;
void faktory_verb(struct faktory_conn *conn, const struct faktory_line *line);

/* Each takes its arguments, and answers in its turn. */
void faktory_push(struct faktory_conn *conn, struct str args);
void faktory_push_bulk(struct faktory_conn *conn, struct str args);
void faktory_fetch(struct faktory_conn *conn, struct str args);

/* ---- faktory/worker.c ------------------------------------------------------------------------ */

/* What BEAT answers the worker: its own state or the server's, whichever is further. */
enum faktory_state faktory_drain_state(const struct faktory_server *server,
                                       struct faktory_worker *worker);
/* Keeps the lease of a job that is handed out. */
void faktory_held_add(struct faktory_server *server, const struct job *job);
/* What is known of a job that was handed out here: true and the lease, once. Otherwise the store
 * has to be asked. */
bool faktory_held_take(struct faktory_server *server, struct str tenant, struct str jid,
                       struct str worker, int64_t *ret_seq, uint64_t *ret_token);
void faktory_held_release(struct faktory_server *server);
/* The worker, which has one connection more; NULL without memory. */
struct faktory_worker *faktory_worker_enter(struct faktory_server *server, struct str tenant,
                                            struct str wid);
void faktory_worker_leave(struct faktory_server *server, struct faktory_worker *worker);
struct faktory_worker *faktory_worker_find(struct faktory_server *server, struct str tenant,
                                           struct str wid);
/* It is alive; `state` is how it sees itself, and may be absent. */
void faktory_worker_beat(struct faktory_server *server, struct faktory_worker *worker,
                         struct str state, int64_t now_ms);
/* Disconnects workers that have not sent a BEAT. */
void faktory_workers_reap(struct faktory_server *server, int64_t now_ms);
/* As the worker or the server has it, whichever is further. */
enum faktory_state faktory_state_of(const struct faktory_conn *conn);
/* By which name the connection claims and settles. */
struct str faktory_worker_name(const struct faktory_conn *conn);

/* ---- faktory/fetch.c ------------------------------------------------------------------------- */

void faktory_fetch_init(struct faktory_server *server, uint64_t seed);
/* Those that wait are asked for again. */
void faktory_fetch_wake(struct faktory_server *server);

/* ---- faktory/tls.c: between the bytes of a client and the protocol -----------------------------
 *
 * Bytes from the network go in, plain text comes out, and the other way round; the caller moves
 * them. One session belongs to one connection and one thread. Nothing here waits.
 */

struct faktory_tls;

/* A session of a client that has just come. Holds the identity. NULL without memory. */
struct faktory_tls *faktory_tls_new(struct tls_identity *identity);
/* NULL does nothing. */
void faktory_tls_free(struct faktory_tls *tls);

/* Whether the handshake is over, so that plain text can be sent. */
bool faktory_tls_is_open(const struct faktory_tls *tls);
/* What is to be sent to the network: handshakes, and encrypted text. */
struct buf *faktory_tls_wire(struct faktory_tls *tls);

enum faktory_tls_end {
    FAKTORY_TLS_GOES_ON,
    FAKTORY_TLS_HAS_LEFT, /* the client sends no more */
    FAKTORY_TLS_BROKEN,   /* it does not use TLS, or not a version that is allowed */
};

/* Takes bytes that have come; `take` gets the plain text, in pieces. */
enum faktory_tls_end faktory_tls_feed(struct faktory_tls *tls, const char *bytes, size_t n,
                                      void (*take)(void *ctx, const char *bytes, size_t n),
                                      void *ctx);
/* Puts plain text into the wire; false when the session is broken. Only after the handshake. */
bool faktory_tls_put(struct faktory_tls *tls, struct str text);
/* Puts the announcement of the end into the wire, once; false when there was nothing to put. */
bool faktory_tls_bye(struct faktory_tls *tls);

#endif
