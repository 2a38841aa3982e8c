/* thread.h - threads that leave the process's signals alone.
 *
 * A signal that is sent to a process is taken by any thread that does not block it. A library that
 * starts threads with the default mask takes signals from its host: a program that blocks SIGTERM
 * and waits for it with sigwait() is killed, because a thread that it does not know of had SIGTERM
 * unblocked. So all threads of the libraries are started here, and none with pthread_create. Code
 * that is only in the program, such as the servers, may start threads in any way.
 */
#ifndef BASE_OS_THREAD_H
#define BASE_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread in which every signal is blocked except those that report a fault of the thread
 * itself (SIGSEGV and the like): handlers that report crashes must see them, and a blocked fault
 * kills the process without a message. The caller's own mask does not change. False when no thread
 * can be started. */
bool thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);

/* A condition whose time-outs are times of clock_monotonic_ms. */
void thread_cond_init(pthread_cond_t *ret);
/* Waits on such a condition; false when it is `at_ms` or later, and no signal has come. */
bool thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t at_ms);

#endif
