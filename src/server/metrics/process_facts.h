/* process_facts.h - what the kernel knows about this process. */
#ifndef SERVER_METRICS_PROCESS_FACTS_H
#define SERVER_METRICS_PROCESS_FACTS_H

#include <stdint.h>

/* 0: it could not be found out. */
struct process_facts {
    double cpu_seconds; /* user and system */
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_fds;
    uint64_t max_fds;
    int64_t started_ms; /* wall clock */
};

/* `started_ms` is the caller's. */
struct process_facts process_facts(int64_t started_ms);

#endif
