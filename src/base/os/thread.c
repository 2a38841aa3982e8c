/* thread.c - starts threads that block signals, makes conditions with time-outs and waits for them.
 */
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

bool thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t at_ms)
{
    const struct timespec at = {.tv_sec = at_ms / 1000, .tv_nsec = (long)(at_ms % 1000) * 1000000};
    return pthread_cond_timedwait(cond, mutex, &at) == 0;
}
