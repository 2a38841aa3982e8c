/* wire.h - one connection to a Redis server: requests out, replies in, with or without TLS.
 *
 * It knows addresses and bytes, and nothing of stores. No call waits longer than the time limit for
 * the server to take or send something. After a failure the connection is broken: later calls fail
 * too, and it can only be closed. A wire belongs to one thread at a time, and to the process that
 * has opened it; programs that this process starts do not get it.
 */
#ifndef STORE_REDIS_NET_WIRE_H
#define STORE_REDIS_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "store/redis/net/place.h"

struct rd_wire;

/* Connects to the server, and checks its certificate if there is TLS, within `wait_ms` each, which
 * is the time limit from then on. REDRIVE_E_IO: it cannot be reached; REDRIVE_E_DENIED: its
 * certificate is refused; REDRIVE_E_INVALID: one of the files cannot be used, or TLS is not spoken
 * there. */
int rd_wire_open(const struct node *at, const struct tls_settings *tls, int64_t wait_ms,
                 struct rd_wire **ret, struct redrive_err *err);
void rd_wire_close(struct rd_wire *wire);
void rd_wire_set_limit(struct rd_wire *wire, int64_t limit_ms);

/* ---- Requests, in the protocol's form -------------------------------------------------------- */

/* Adds to what rd_wire_send, or the next rd_wire_reply that has to wait, sends. */
bool rd_wire_add(struct rd_wire *wire, struct str bytes);
bool rd_wire_send(struct rd_wire *wire);
/* The next reply, which the caller frees with freeReplyObject; false: none will come. */
bool rd_wire_reply(struct rd_wire *wire, redisReply **ret);
/* A command in the format of redisCommand, and its reply; NULL: there is none. */
redisReply *rd_wire_command(struct rd_wire *wire, const char *format, ...);

/* ---- Messages that come by themselves -------------------------------------------------------- */

/* Waits until something has come; as poll. */
int rd_wire_wait(struct rd_wire *wire, int timeout_ms);
/* Takes in what has come, without waiting; false: the server has closed the connection, or it is
 * broken. */
bool rd_wire_take(struct rd_wire *wire);
/* A reply or message that was taken in, *ret NULL: there is none; false: it is not one. */
bool rd_wire_next(struct rd_wire *wire, redisReply **ret);

/* The version of TLS that is spoken, as in "TLS1.3"; NULL: none. */
const char *rd_wire_tls(const struct rd_wire *wire);

/* ---- Failures -------------------------------------------------------------------------------- */

/* What has broken it; "": nothing. */
const char *rd_wire_error(const struct rd_wire *wire);
/* Why the server did not answer the first request: it may have refused this client's certificate,
 * or speak TLS where none was asked for. Returns the code of the error. */
int rd_wire_explain(const struct rd_wire *wire, struct redrive_err *err);

#endif
