/* control.h - which call of a program fails, as a test says.
 *
 * A page of shared memory, the file that FAULTS names, is what the test and the program have in
 * common: the test may write to it while the program runs. Calls of each kind are counted there.
 * Without FAULTS nothing fails and nothing is counted.
 *
 * FAULTS_TRACE names a file for the stack of the first call that fails, and of a crash.
 */
#ifndef TESTS_FAULTS_CONTROL_H
#define TESTS_FAULTS_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* KINDS of failing.py has their names in this order. */
enum call_kind {
    CALL_NONE,
    CALL_MEMORY,         /* allocations by the program itself */
    CALL_SQLITE_MEMORY,  /* by SQLite */
    CALL_LIBRARY_MEMORY, /* by all other libraries, the C library among them */
    CALL_OPEN,           /* files, by name */
    CALL_READ,           /* of files and sockets */
    CALL_WRITE,          /* to files and sockets */
    CALL_SYNC,
    CALL_TRUNCATE, /* and reserve space */
    CALL_NAME,     /* rename, link, unlink, mkdir, chmod */
    CALL_LOCK,
    CALL_MAP,
    CALL_SOCKET,   /* socket, bind, listen, accept, connect and their options */
    CALL_TRANSFER, /* send and receive */
    CALL_POLL,     /* what a loop waits with: epoll, eventfd, pipes */
    CALL_THREAD,
    CALL_PROCESS, /* fork, exec, spawn */
    N_CALL_KINDS,
};

/* The page, as failing.py writes it. */
struct control {
    _Atomic uint32_t memory_per_million; /* of a million allocations by program and SQLite fail */
    _Atomic uint32_t reads;              /* not 0: reads of files named *.db* fail with EIO */
    _Atomic uint32_t kind;               /* of the call that fails; CALL_NONE: none */
    _Atomic uint32_t is_lasting;         /* not 0: all calls of the kind fail after it too */
    _Atomic uint64_t at;                 /* the n-th call from when `counts` was set to 0 */
    _Atomic uint64_t n_failed;
    _Atomic uint64_t counts[N_CALL_KINDS];
};

/* NULL: no test has a say. */
extern struct control *control;

/* Counts the call, and says whether it is to fail. */
bool call_fails(enum call_kind kind);

/* Of an allocation by code at this address. */
bool allocation_fails(const void *caller);

#endif
