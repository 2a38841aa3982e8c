#include "base/os/thread.h"

#include "check.h"

#include <signal.h>

#include "base/time/clock.h"

static void *look_at_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

TEST(signals_for_the_process_find_no_thread_of_ours)
{
    const int THEIRS[] = {SIGTERM, SIGINT,  SIGHUP,  SIGCHLD,  SIGALRM,
                          SIGUSR1, SIGPIPE, SIGPROF, SIGWINCH, SIGRTMIN};
    pthread_t thread;
    sigset_t mask;
    assert_true(thread_start(&thread, look_at_mask, &mask));
    pthread_join(thread, NULL);
    for (size_t i = 0; i < sizeof THEIRS / sizeof THEIRS[0]; i++)
        assert_int_equal(sigismember(&mask, THEIRS[i]), 1);
}

TEST(a_fault_of_the_thread_is_not_blocked)
{
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    pthread_t thread;
    sigset_t mask;
    assert_true(thread_start(&thread, look_at_mask, &mask));
    pthread_join(thread, NULL);
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++)
        assert_int_equal(sigismember(&mask, FAULTS[i]), 0);
}

TEST(the_mask_of_the_starter_stays)
{
    pthread_t thread;
    sigset_t given, seen, after;
    sigemptyset(&given);
    sigaddset(&given, SIGUSR2);
    sigaddset(&given, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &given, NULL);
    assert_true(thread_start(&thread, look_at_mask, &seen));
    pthread_join(thread, NULL);
    sigemptyset(&given);
    pthread_sigmask(SIG_SETMASK, &given, &after);
    assert_int_equal(sigismember(&after, SIGUSR2), 1);
    assert_int_equal(sigismember(&after, SIGTERM), 0);
    assert_int_equal(sigismember(&seen, SIGSYS), 1);
}

TEST(waiting_ends_at_its_moment)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    thread_cond_init(&cond);
    const int64_t at_ms = clock_monotonic_ms() + 20;
    pthread_mutex_lock(&mutex);
    while (thread_cond_wait_until(&cond, &mutex, at_ms))
        ; /* woken for no reason */
    pthread_mutex_unlock(&mutex);
    assert_true(clock_monotonic_ms() >= at_ms);
    pthread_cond_destroy(&cond);
}
