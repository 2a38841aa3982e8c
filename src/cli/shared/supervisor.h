/* supervisor.h - reports the state of this process to systemd, by its notification protocol.
 *
 * A datagram of NAME=VALUE lines goes to the socket that $NOTIFY_SOCKET names; '@' in front means
 * an abstract one. Without the variable nothing is sent. What cannot be sent is dropped: a server
 * must not stop serving because the supervisor does not listen.
 */
#ifndef CLI_SHARED_SUPERVISOR_H
#define CLI_SHARED_SUPERVISOR_H

#include <stdint.h>

void supervisor_ready(void);
void supervisor_reloading(void); /* supervisor_ready says that it is over */
void supervisor_stopping(void);
void supervisor_alive(void);

/* How often supervisor_alive is to be called, in ms: half of what $WATCHDOG_USEC allows. 0: the
 * supervisor does not wait for it. */
int64_t supervisor_watchdog_ms(void);

#endif
