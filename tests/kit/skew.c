/* skew.c - loaded into a program before the C library: a wall clock that is SKEW_S seconds off. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long skew(void)
{
    const char *text = getenv("SKEW_S");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret->tv_sec += skew();
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
