/* supervisor.c - sends datagrams to systemd. */
#include "cli/shared/supervisor.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/time/clock.h"

static void tell(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || (path[0] != '/' && path[0] != '@') || len >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)close(fd);
}

void supervisor_ready(void)
{
    tell("READY=1\nSTATUS=serving");
}

void supervisor_reloading(void)
{
    char text[96];
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   clock_monotonic_ns() / 1000);
    tell(text);
}

void supervisor_stopping(void)
{
    tell("STOPPING=1\nSTATUS=letting jobs end");
}

void supervisor_alive(void)
{
    tell("WATCHDOG=1");
}

int64_t supervisor_watchdog_ms(void)
{
    const char *allowed = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!allowed || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    int64_t ms = strtoll(allowed, NULL, 10) / 2000;
    return ms > 0 ? ms : 0;
}
