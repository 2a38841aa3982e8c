/* process_facts.c - reads /proc and getrusage. */
#include "server/metrics/process_facts.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void read_memory(struct process_facts *ret)
{
    FILE *file = fopen("/proc/self/statm", "re");
    uint64_t total, resident;
    const long page = sysconf(_SC_PAGESIZE);
    if (!file)
        return;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &total, &resident) == 2 && page > 0) {
        ret->virtual_bytes = total * (uint64_t)page;
        ret->resident_bytes = resident * (uint64_t)page;
    }
    (void)fclose(file);
}

/* Without the one that reads the directory. */
static uint64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;
    if (!dir)
        return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    (void)closedir(dir);
    return n > 0 ? n - 1 : 0;
}

struct process_facts process_facts(int64_t started_ms)
{
    struct process_facts facts = {.started_ms = started_ms};
    struct rusage usage;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        facts.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        facts.max_fds = limit.rlim_cur;
    facts.open_fds = count_fds();
    read_memory(&facts);
    return facts;
}
