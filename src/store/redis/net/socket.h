/* socket.h - send and receive within the time limit of a socket.
 *
 * The limits of the system (SO_RCVTIMEO, SO_SNDTIMEO) begin anew when a call is made again after a
 * signal: under a profiler, whose signals come all the time, they would never be over. Here a call
 * as a whole keeps to the limit.
 */
#ifndef STORE_REDIS_NET_SOCKET_H
#define STORE_REDIS_NET_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Of each call that follows; 0: none. */
void rd_socket_set_limit(int fd, int64_t limit_ms);

/* As recv and sendmsg, without EINTR, and with EAGAIN when the limit is over, or at once if the
 * call does not wait. */
ssize_t rd_socket_receive(int fd, void *ret, size_t size, bool waits);
ssize_t rd_socket_send(int fd, const struct msghdr *message, bool waits);

#endif
