/* open_files.c - reads and raises RLIMIT_NOFILE. */
#include "cli/shared/open_files.h"

#include <sys/resource.h>

#include "run/exec/spawn.h"

/* Left for the store, for child processes and for the rest. */
#define FILES_KEPT_BACK 200

void open_files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    spawn_with_open_files(&limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

uint32_t open_files_clients(uint32_t wanted, unsigned n_servers)
{
    struct rlimit limit;
    if (n_servers == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    const rlim_t left = limit.rlim_cur > 2 * FILES_KEPT_BACK ? limit.rlim_cur - FILES_KEPT_BACK
                                                             : limit.rlim_cur / 2;
    const rlim_t each = left / n_servers > 0 ? left / n_servers : 1;
    return wanted < each ? wanted : (uint32_t)each;
}
