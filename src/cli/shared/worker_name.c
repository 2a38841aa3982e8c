/* worker_name.c - makes the default name of a worker. */
#include "cli/shared/worker_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

void worker_name(char out[WORKER_NAME_MAX])
{
    char host[256] = "";
    bool is_known = gethostname(host, sizeof host - 1) == 0 && *host != '\0';
    (void)snprintf(out, WORKER_NAME_MAX, "%s:%ld", is_known ? host : "localhost", (long)getpid());
}
