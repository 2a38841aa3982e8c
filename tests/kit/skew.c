/* skew.c - loaded into a program before the C library: a wall clock that is SKEW_S seconds off, or,
 * where WALL_MS is set, stands still at that time (milliseconds since 1970). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void be_off(struct timespec *wall)
{
    const char *still = getenv("WALL_MS");
    const char *skew = getenv("SKEW_S");
    if (still)
        *wall = (struct timespec){atoll(still) / 1000, atoll(still) % 1000 * 1000000};
    else if (skew)
        wall->tv_sec += atol(skew);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        be_off(ret);
    return rc;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
