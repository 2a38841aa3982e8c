/* thread.c - starts threads that block signals, makes conditions with time-outs. */
#include "base/os/thread.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

bool thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
    static const int FAULTS[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++)
        sigdelset(&blocked, FAULTS[i]);
    /* A new thread inherits the signal mask of the thread that starts it. */
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const int error = pthread_create(ret, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

void thread_cond_init(pthread_cond_t *ret)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(ret, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
