/* server.h - the Faktory work protocol, over the engine.
 *
 * A server listens on a libuv loop and runs on its thread; only faktory_server_wake may be called
 * from elsewhere. Commands are handed to the committer and answered in their order, however many
 * are sent ahead. Consecutive pushes, settlements and fetches of one connection become one
 * operation. All that arrives in one turn of the loop is handed in together. A FETCH that finds
 * nothing waits without a thread and is woken when jobs become ready.
 *
 * Invariants
 *   1. Every command of a connection gets one answer, in order.
 *   2. +OK to a PUSH, ACK or FAIL means that it has been committed.
 *   3. A job that was claimed for a connection which has gone meanwhile is given back.
 *   4. An ACK or FAIL comes from the worker that holds the lease, or it changes nothing.
 *   5. A client sees and touches the jobs of its password's tenant only, within its
 *      scopes.
 *
 * docs/faktory.md says what is supported and what differs.
 */
#ifndef SERVER_FAKTORY_SERVER_H
#define SERVER_FAKTORY_SERVER_H

#include <stdint.h>
#include <uv.h>

#include "base/os/log.h"
#include "config/config.h"
#include "engine/committer.h"
#include "redrive.h"

struct faktory_passwords;
struct tls_identity;
struct remote_workers;

/* Zeroed fields mean the defaults. Strings are copied. */
struct faktory_options {
    uv_loop_t *loop;             /* borrowed */
    struct committer *committer; /* borrowed; must outlive the server */
    const struct config *config; /* borrowed; may be NULL */
    const char *address;         /* host:port; NULL: listen.faktory of the configuration */
    /* A client must know one of them, is of its tenant and may do what its scopes say. None (or
     * NULL): every client may connect, as the default tenant, and the address must be loopback. Is
     * held. */
    struct faktory_passwords *passwords;
    struct tls_identity *tls; /* is held; NULL: without TLS */
    const struct log *log;
    struct remote_workers *remote; /* borrowed; NULL: workers that connect here are not shown */
    size_t max_connections;        /* 10 000 */
    unsigned max_per_address;      /* connections; 0: three quarters of all */
    size_t max_line_bytes;         /* 8 MiB */
    size_t max_held_bytes;         /* of commands that are not done with, of all; 256 MiB */
    int64_t handshake_timeout_ms;  /* 2 s */
    int64_t command_timeout_ms;    /* between the first and the last byte of a command; 30 s */
    int64_t fetch_wait_ms;         /* how long a FETCH waits for a job; 2 s */
    int64_t beat_timeout_ms; /* a worker that has not sent a BEAT for so long is cut off; 60 s */
    int64_t send_timeout_ms; /* a client that does not take its answers for so long; 30 s */
    int64_t idle_timeout_ms; /* a client without a command for so long; 0: never */
};

struct faktory_server;

/* As endpoint_listen fails, but REDRIVE_E_CONFIG for an address that is not loopback though there
 * is no password. From then on the process ignores SIGPIPE. */
int faktory_server_start(const struct faktory_options *options, struct faktory_server **ret,
                         struct redrive_err *err);
/* The port that it listens on, also when the address said 0. */
uint16_t faktory_server_port(const struct faktory_server *server);

/* Other passwords, from now on; is held. A connection whose password is among them (with the same
 * tenant) goes on with the scopes that it has now; every other one is ended: what it has asked is
 * answered, then it is closed. */
void faktory_server_set_passwords(struct faktory_server *server,
                                  struct faktory_passwords *passwords);

/* Another certificate, for connections that come from now on; of a server that has TLS. */
void faktory_server_set_tls(struct faktory_server *server, struct tls_identity *identity);

/* Jobs may have become ready: for the committer's on_ready. Any thread, until the server has
 * stopped. */
void faktory_server_wake(struct faktory_server *server);

/* From the next BEAT on workers are asked to fetch no more, or to exit; a FETCH gets nothing. There
 * is no way back. */
void faktory_server_quiet(struct faktory_server *server);
void faktory_server_terminate(struct faktory_server *server);

/* The server is about to stop: a FETCH gets nothing any more, BEAT tells each worker first `quiet`
 * and then `terminate`, and all else goes on. `drained` is called once from the loop when no worker
 * is connected any more or the grace is over; then comes faktory_server_stop. To be called again
 * for a shorter grace. */
void faktory_server_drain(struct faktory_server *server, int64_t grace_ms,
                          void (*drained)(void *ctx), void *ctx);

/* Accepts no clients and reads nothing more; what was asked is answered, then connections are
 * closed. `stopped` (may be NULL) is called from the loop when all of it is over: then it may be
 * freed, and not before. */
void faktory_server_stop(struct faktory_server *server, void (*stopped)(void *ctx), void *ctx);
/* NULL does nothing. */
void faktory_server_free(struct faktory_server *server);

#endif
