/* open_files.h - how many files this process may have open. */
#ifndef CLI_SHARED_OPEN_FILES_H
#define CLI_SHARED_OPEN_FILES_H

#include <stdint.h>

/* Raises the limit as far as the system lets a process do by itself. Handlers keep the former one:
 * programs that use select() fail with more than 1024. */
void open_files_raise(void);

/* How many clients each of so many servers can accept at one time, if `wanted` are wanted: they
 * share what the limit leaves beside the store, child processes and the rest. At least 1. */
uint32_t open_files_clients(uint32_t wanted, unsigned n_servers);

#endif
