/* scope.h - what is released when a block ends, whichever way that is.
 *
 *     RELEASED_BY(job_page_release) struct job_page page = {0};
 *
 * The function gets a pointer to the variable. It must accept the variable as it is initialized.
 *
 *     HOLD(&all->mutex);
 *
 * The mutex is locked from here on until the block ends.
 */
#ifndef BASE_SCOPE_H
#define BASE_SCOPE_H

#include <pthread.h>

#define RELEASED_BY(release) __attribute__((cleanup(release)))

static inline pthread_mutex_t *scope_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void scope_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

#define HOLD(mutex)          HOLD_AT(mutex, __LINE__)
#define HOLD_AT(mutex, line) HOLD_NAMED(mutex, line)
#define HOLD_NAMED(mutex, line) \
    RELEASED_BY(scope_unlock)   \
    __attribute__((unused)) pthread_mutex_t *held_##line = scope_lock(mutex)

#endif
