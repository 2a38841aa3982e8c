/* worker_name.h - how a process that works is called in leases, in the history and in statistics.
 */
#ifndef CLI_SHARED_WORKER_NAME_H
#define CLI_SHARED_WORKER_NAME_H

#define WORKER_NAME_MAX 320

/* HOST:PID */
void worker_name(char out[WORKER_NAME_MAX]);

#endif
