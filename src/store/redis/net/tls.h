/* tls.h - TLS as a client, over a connected socket.
 *
 * The server's certificate is checked against authorities and against the server's name; there is
 * no way to leave that out. Files are read for each connection, so that new ones are used without a
 * restart.
 */
#ifndef STORE_REDIS_NET_TLS_H
#define STORE_REDIS_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/redis/net/place.h"

struct rd_tls;

/* Reads the files and makes a session over the socket, which is borrowed. */
int rd_tls_new(int fd, const struct node *at, const struct tls_settings *settings,
               struct rd_tls **ret, struct redrive_err *err);
void rd_tls_free(struct rd_tls *tls);

/* Shakes hands and checks the certificate, until then. *ret_silent: the server has said nothing at
 * all; it may be waiting for a request without TLS. */
int rd_tls_greet(struct rd_tls *tls, int64_t until_ms, bool *ret_silent, struct redrive_err *err);

/* The version of the protocol that is spoken, as in "TLS1.3". */
const char *rd_tls_version(const struct rd_tls *tls);

/* As send and recv: 0 is the end of the connection, -1 an error, errno EAGAIN if nothing comes, or
 * can be sent, within the socket's time limit. rd_tls_error has the rest. */
ssize_t rd_tls_write(struct rd_tls *tls, const char *bytes, size_t n);
ssize_t rd_tls_read(struct rd_tls *tls, char *ret, size_t size, bool waits);
const char *rd_tls_error(const struct rd_tls *tls);
/* What the server has against this client, after the handshake; 0: nothing that is known. */
int rd_tls_refusal(const struct rd_tls *tls, struct redrive_err *err);
/* TLS is not spoken at the address. */
int rd_tls_refuse_plain(const struct node *at, struct redrive_err *err);

#endif
