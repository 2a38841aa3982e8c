/* waiting.h - how unit tests wait.
 *
 * A test waits for a condition and not for a time:
 *
 *     WAIT_FOR(n_started == 2);
 *
 * looks every millisecond, and fails the test with the text of the condition, its file and line
 * when it does not hold after WAIT_LIMIT_MS. That is far more than a loaded machine needs, so that
 * no test has a limit of its own. What a test does besides while it waits, such as running a loop,
 * is WAIT_RUNNING(condition, step).
 *
 * That something does NOT happen is shown by something else that happens after it: a second job, a
 * marker, or WAIT_FOR_REST(), which returns when no other thread of this process has anything to
 * do.
 *
 * A fake that a test holds up is in HOLD_UNTIL(condition), which has no limit of its own: the test
 * has one.
 *
 * A fake that is slow, and time that only a server's clock or a real timer can tell, is
 * pass_ms(ms). A test must be right however late that returns, and may not need it to be later than
 * anything else.
 *
 * Tests that take time as an argument, or have a clock of their own, move that instead.
 */
#ifndef TESTS_WAITING_H
#define TESTS_WAITING_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_LIMIT_MS 60000

/* The clock of the system also where a test has replaced that of Redrive. */
static inline int64_t waiting_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* At least so long; signals do not shorten it. May be called by a signal handler. */
static inline void pass_ms(int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

#define WAIT_FOR(condition) WAIT_RUNNING(condition, pass_ms(1))

/* The condition and the step in turns. */
#define WAIT_RUNNING(condition, step) WAIT_TELLING(condition, step, (void)0)

/* `tell` says more before the test fails, such as by print_error. */
#define WAIT_TELLING(condition, step, tell)                                            \
    do {                                                                               \
        const int64_t waiting_until_ms_ = waiting_now_ms() + WAIT_LIMIT_MS;            \
        while (!(condition)) {                                                         \
            if (waiting_now_ms() > waiting_until_ms_) {                                \
                tell;                                                                  \
                fail_msg("%s:%d: waited in vain: %s", __FILE__, __LINE__, #condition); \
            }                                                                          \
            step;                                                                      \
        }                                                                              \
    } while (0)

/* ---- Threads that rest ----------------------------------------------------------------------- */

#define WAITING_HELD "held by a test"

/* A thread in it bears a name that WAIT_FOR_REST() knows, until it has seen that the condition
 * holds: who lets it go waits for something that it does then. */
#define HOLD_UNTIL(condition)                    \
    do {                                         \
        char waiting_name_[16];                  \
        (void)prctl(PR_GET_NAME, waiting_name_); \
        (void)prctl(PR_SET_NAME, WAITING_HELD);  \
        while (!(condition))                     \
            pass_ms(1);                          \
        (void)prctl(PR_SET_NAME, waiting_name_); \
    } while (0)

/* Adds how often this thread has gone to sleep to the sum; false: it does not sleep. A thread that
 * has ended, or that a test holds, does. */
static inline bool waiting_thread_sleeps(const char *pid, const char *tid, uint64_t *sum)
{
    char path[64], line[128];
    bool sleeps = true;
    unsigned long n = 0;
    (void)snprintf(path, sizeof path, "/proc/%.16s/task/%.16s/status", pid, tid);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strcmp(line, "Name:\t" WAITING_HELD "\n") == 0) {
            (void)fclose(status);
            return true;
        }
        if (strncmp(line, "State:", 6) == 0)
            sleeps = line[7] == 'S' || line[7] == 'Z';
        (void)sscanf(line, "voluntary_ctxt_switches: %lu", &n);
    }
    if (status)
        (void)fclose(status);
    *sum = *sum * 31 + (uint64_t)strtol(tid, NULL, 10) + n;
    return sleeps;
}

static inline bool waiting_all_sleep(const char *pid, uint64_t *sum)
{
    char path[64], own[16];
    bool sleep = true;
    (void)snprintf(path, sizeof path, "/proc/%.16s/task", pid);
    (void)snprintf(own, sizeof own, "%ld", (long)syscall(SYS_gettid));
    DIR *threads = opendir(path);
    *sum = 0;
    for (const struct dirent *one; sleep && threads && (one = readdir(threads));)
        if (one->d_name[0] != '.' && strcmp(one->d_name, own) != 0)
            sleep = waiting_thread_sleeps(pid, one->d_name, sum);
    if (threads)
        (void)closedir(threads);
    return sleep;
}

/* A millisecond, at least, by a clock of whole ones: this thread keeps its processor, which it may
 * not get back soon. */
static inline void waiting_spin(void)
{
    const int64_t until_ms = waiting_now_ms() + 2;
    while (waiting_now_ms() < until_ms)
        ;
}

/* Whether all threads of the process but the caller's own, and those that a test holds, sleep: each
 * is seen asleep twice and has not run between, so that there was a moment at which none could have
 * woken another. What is left are timers of more than a millisecond, and what comes from outside.
 */
static inline bool process_rests(const char *pid)
{
    uint64_t before, after;
    if (!waiting_all_sleep(pid, &before))
        return false;
    waiting_spin();
    return waiting_all_sleep(pid, &after) && before == after;
}

/* The same of one thread of this process, which may have ended. */
static inline bool thread_rests(pid_t tid)
{
    char name[16];
    uint64_t before = 0, after = 0;
    (void)snprintf(name, sizeof name, "%ld", (long)tid);
    if (!waiting_thread_sleeps("self", name, &before))
        return false;
    waiting_spin();
    return waiting_thread_sleeps("self", name, &after) && before == after;
}

#define WAIT_FOR_REST() WAIT_FOR(process_rests("self"))

/* So often a loop turns and the other threads come to rest before there is nothing more to do: what
 * a turn does may wake a thread, whose answer is for the next turn. */
#define TURNS_TO_REST 10

#endif
