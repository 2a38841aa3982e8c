/* lock.h - one server for one SQLite file.
 *
 * A server keeps a lock on `FILE.serve-lock`, which holds its process id for people to read. The
 * kernel releases it with the process, however that ends; the file stays. Workers and commands
 * share the store without it. Other stores have many servers and no lock.
 */
#ifndef CLI_COMMANDS_SERVE_LOCK_H
#define CLI_COMMANDS_SERVE_LOCK_H

#include "redrive.h"

/* The file of the store must be there. `ret` is -1 for a store that needs no lock.
 * REDRIVE_E_STATE: another server has it; the error names its process. */
int serve_lock_take(const char *store_url, int *ret, struct redrive_err *err);
/* -1 does nothing. */
void serve_lock_release(int lock);

#endif
