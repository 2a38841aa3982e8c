/* unix_socket.h - a socket in the file system, for programs of this machine.
 *
 * Its file has the mode that it is given before the first client can connect, so that the
 * permissions of the file decide which users may. A file that a killed server has left behind is
 * taken away; one at which a server answers is not, nor is what is no socket.
 */
#ifndef SERVER_LISTEN_UNIX_SOCKET_H
#define SERVER_LISTEN_UNIX_SOCKET_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "redrive.h"

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

#endif
