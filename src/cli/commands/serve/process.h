/* process.h - a server as a process of the system: its lock, systemd, open files. */
#ifndef CLI_COMMANDS_SERVE_PROCESS_H
#define CLI_COMMANDS_SERVE_PROCESS_H

#include <stdint.h>

#include "redrive.h"

/* ---- The lock: one server for one SQLite file --------------------------------------------------
 *
 * A server keeps a lock on `FILE.serve-lock`, which holds its process id for people to read. The
 * kernel releases it with the process, however that ends; the file stays. Workers and commands
 * share the store without it. Other stores have many servers and no lock.
 */

/* The file of the store must be there. `ret` is -1 for a store that needs no lock.
 * REDRIVE_E_STATE: another server has it; the error names its process. */
int serve_lock_take(const char *store_url, int *ret, struct redrive_err *err);
/* -1 does nothing. */
void serve_lock_release(int lock);

/* ---- systemd: the state of this process, by its notification protocol --------------------------
 *
 * A datagram of NAME=VALUE lines goes to the socket that $NOTIFY_SOCKET names; '@' in front means
 * an abstract one. Without the variable nothing is sent. What cannot be sent is dropped: a server
 * must not stop serving because the supervisor does not listen.
 */

void supervisor_ready(void);
void supervisor_reloading(void); /* supervisor_ready says that it is over */
void supervisor_stopping(void);
void supervisor_alive(void);

/* How often supervisor_alive is to be called, in ms: half of what $WATCHDOG_USEC allows. 0: the
 * supervisor does not wait for it. */
int64_t supervisor_watchdog_ms(void);

/* ---- Open files ------------------------------------------------------------------------------ */

/* Raises the limit as far as the system lets a process do by itself. Handlers keep the former one:
 * programs that use select() fail with more than 1024. */
void open_files_raise(void);

/* How many clients each of so many servers can accept at one time, if `wanted` are wanted: they
 * share what the limit leaves beside the store, child processes and the rest. At least 1. */
uint32_t open_files_clients(uint32_t wanted, unsigned n_servers);

#endif
