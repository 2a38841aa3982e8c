/* thread.h - threads that leave the process's signals alone.
 *
 * A signal that is sent to a process is taken by any thread that does not block it. A library that
 * starts threads without more ado takes signals from its host: one that blocks SIGTERM and waits
 * for it by sigwait() is killed, because a thread of which it knows nothing had SIGTERM unblocked.
 * So all threads of the libraries are started here, and none with pthread_create. The program is
 * its own host: what only it has, as its doors, may start threads as it likes.
 */
#ifndef BASE_OS_THREAD_H
#define BASE_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread in which every signal is blocked, but for those that tell of a fault of the
 * thread itself: handlers that report crashes must see them, and a fault that is blocked kills
 * without a word. The caller's own mask is as before. False when there can be no more threads. */
bool thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);

#endif
