/* session.h - what clients send to a server, played against a live engine, all on one thread.
 *
 * The servers, the engine and the memory store are those of the program. The linker puts something
 * else in the place of what would make a run depend on chance or on the machine (meson.build lists
 * the names): the clock stands still until it is moved, what the system gives for a seed is always
 * the same, the committer does its work when session_commit is called, and servers listen on a Unix
 * socket without a name, to which bytes come at once.
 *
 * An input is the bytes of four connections, with these between them:
 *
 *     01  the next connection
 *     02  the server takes what has come; operations that it hands in wait
 *     03  the server takes what has come, and all is done that it leads to
 *     04  the client sends no more
 *     05  the client is gone, answers unread
 *     06  time passes; the next byte chooses how much
 *     07  the next byte is one of the connection's, whatever it is
 *     0e  the server stops
 *     0f  the server is about to stop
 *
 * A connection is opened when its first byte is to be sent, and once more when the former one has
 * ended.
 */
#ifndef TESTS_FUZZ_SESSION_SESSION_H
#define TESTS_FUZZ_SESSION_SESSION_H

#include "../fuzz.h"

#include <stdbool.h>

#include "base/text/buf.h"
#include "config/config.h"
#include "engine/committer.h"
#include "store/store.h"

#define SESSION_STORE       "memory:fuzz"
#define SESSION_MAX_CLIENTS 8                   /* the last is for session_ask */
#define SESSION_MAX_BYTES   ((size_t)16 * 1024) /* a longer input is not played */

/* ---- The engine ------------------------------------------------------------------------------ */

/* A configuration from its text, for as long as the process runs. */
const struct config *session_config(const char *yaml);

/* An engine on an empty store, at a fixed time. `on_ready` is called as by a committer. */
void session_open(const struct config *config, void (*on_ready)(void));
/* Nothing is waiting. The engine and its store are gone. */
void session_close(void);

/* For servers: it is not a committer, but stands in the place of one. */
struct committer *session_committer(void);
/* Does what the committer's thread would do now; false: there was nothing to do. */
bool session_commit(void);
int64_t session_now_ms(void);
void session_move_clock(int64_t ms);

/* Whether the default tenant has a job of this id. */
bool session_has_job(struct str id);
/* What the store counts is what it lists, and every job that runs has a worker and a lease;
 * `is_held` (NULL: it is not known) says whether a worker has been given it. */
void session_check_store(bool (*is_held)(struct str id));

/* ---- Clients --------------------------------------------------------------------------------- */

struct client {
    int fd; /* -1: gone */
    struct buf said;
    struct buf got;
    bool has_left; /* it sends no more */
    bool is_reset; /* it has gone without reading */
    bool is_over;  /* the server has closed */
    void *ctx;     /* the target's */
};

struct session_server {
    /* Takes what has come; with `commits` until nothing is left to be done. Calls session_read. */
    void (*turn)(bool commits);
    void (*pass)(int64_t ms);
    void (*stop)(void);                       /* NULL: it cannot be stopped within a session */
    void (*drain)(void);                      /* likewise */
    void (*connected)(struct client *client); /* may be NULL */
};

struct session {
    const struct session_server *server;
    struct client clients[SESSION_MAX_CLIENTS];
    size_t n_clients;
    int64_t passed_ms;
    bool has_stopped;
};

void session_play(struct session *session, const struct session_server *server, const uint8_t *data,
                  size_t size);
/* One more client, who says this and then leaves. */
struct client *session_ask(struct session *session, struct str text);
/* Every client reads what there is; whether there was any. */
bool session_read(struct session *session);
/* Clients that are still there leave, and read to the end. */
void session_leave(struct session *session);
void session_release(struct session *session);

#endif
