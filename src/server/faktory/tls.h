/* tls.h - TLS between the bytes of a client and the Faktory protocol.
 *
 * Bytes from the network go in, plain text comes out, and the other way round; the caller moves
 * them. One session belongs to one connection and one thread. Nothing here waits.
 */
#ifndef SERVER_FAKTORY_TLS_H
#define SERVER_FAKTORY_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "server/listen/tls.h"

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
