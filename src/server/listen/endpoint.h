/* endpoint.h - the address at which a server listens, and those of its clients.
 *
 * An endpoint is `host:port`: a name, an IPv4 address, or an IPv6 address in brackets.
 */
#ifndef SERVER_LISTEN_ENDPOINT_H
#define SERVER_LISTEN_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/mem/map.h"
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

/* ---- Sockets in the file system -------------------------------------------------------------- */

/* A socket in the file system, for programs of this machine.
 *
 * Its file has the mode that it is given before the first client can connect, so that the
 * permissions of the file decide which users may. A file that a killed server has left behind is
 * taken away; one at which a server answers is not, nor is what is no socket.
 */

/* What such an address begins with: `unix:/run/redrive.sock`. */
#define UNIX_SOCKET_PREFIX "unix:"

struct unix_socket {
    int fd; /* listens and does not block; for the caller to close */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

bool unix_socket_is_address(const char *address);

/* REDRIVE_E_INVALID for a path that is too long or none; REDRIVE_E_IO with the reason when it
 * cannot listen. A server that is about to end is waited for, a second at most. */
int unix_socket_listen(const char *address, mode_t mode, struct unix_socket *ret,
                       struct redrive_err *err);
/* After its socket has been closed: removes the file, unless another server answers there by now.
 */
void unix_socket_remove(const char *path);

/* ---- Connections by address ------------------------------------------------------------------ */

/* How many connections each address has, so that one cannot have them all.
 *
 * An address is an IPv4 address, or the first half of an IPv6 address: a host can choose the rest.
 * Clients of a Unix socket have none and are not counted. One thread at a time; each server has
 * its own.
 */

struct address_counts {
    struct map counts; /* address to a size_t of its own */
    unsigned max;      /* 0: no limit */
};

void address_counts_init(struct address_counts *counts, unsigned max_per_address);
void address_counts_release(struct address_counts *counts);

/* Whether the address has as many as it may. */
bool address_counts_full(const struct address_counts *counts, const struct sockaddr *address);
/* One more, and one less, whatever the limit. When there is no memory it is not counted. */
void address_counts_enter(struct address_counts *counts, const struct sockaddr *address);
void address_counts_leave(struct address_counts *counts, const struct sockaddr *address);

/* Whether both count as one. False for those that are not counted. */
bool address_same(const struct sockaddr *a, const struct sockaddr *b);

/* The limit for one address where none was set: three quarters of all, so that others get in. */
unsigned address_counts_default(unsigned max_connections);

#define ADDRESS_TEXT_MAX 64
/* The address as text without its port, for logs; "unix" for a Unix socket. */
const char *address_text(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX]);

#endif
