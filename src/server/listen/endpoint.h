/* endpoint.h - the address at which a server listens.
 *
 * An endpoint is `host:port`: a name, an IPv4 address, or an IPv6 address in brackets.
 */
#ifndef SERVER_LISTEN_ENDPOINT_H
#define SERVER_LISTEN_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "redrive.h"

/* Connections that have been made and not yet taken; the system has a limit of its own. */
#define ENDPOINT_BACKLOG 1024

/* How long a port or socket may still be taken, and how often that is looked at. When a server is
 * killed, a child that it was just starting has copies of its sockets until it gets to its exec; a
 * server that is started right after it must not fail for that. */
#define ENDPOINT_TAKEN_MS      1000
#define ENDPOINT_TAKEN_LOOK_MS 20

/* Whether the address can be reached from this machine only, as a Unix socket can. False also for
 * one that cannot be understood or resolved. */
bool endpoint_is_loopback(const char *address);

/* A socket that listens there and does not block, for the caller to close; port 0 is any that is
 * free. With `loopback_only` an address that is not is refused with REDRIVE_E_DENIED.
 * REDRIVE_E_INVALID for what is no address; REDRIVE_E_IO with the reason when it cannot listen. A
 * port that is taken is waited for, a second at most. */
int endpoint_listen(const char *address, bool loopback_only, int *ret_fd, struct redrive_err *err);

/* The port of a bound socket; 0 when it has none. */
uint16_t endpoint_port(int fd);

#endif
