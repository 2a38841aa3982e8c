#include "server.h"

#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "check.h"
#include "waiting.h"

/* A cluster's server needs a second port, 10000 above. */
#define PORT_MAX 55000

static int free_port(void)
{
    for (;;) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof at;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
        close(fd);
        if (ntohs(at.sin_port) < PORT_MAX)
            return ntohs(at.sin_port);
    }
}

static void run(const struct server *s)
{
    char port[16];
    const char *words[64] = {"redis-server", "--bind", "127.0.0.1", "--port",    port, "--dir",
                             s->folder,      "--save", "",          "--logfile", "log"};
    size_t n = 11;
    snprintf(port, sizeof port, "%d", s->port);
    for (size_t i = 0; s->settings && s->settings[i]; i++)
        words[n++] = s->settings[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(words[0], (char *const *)words);
    words[0] = "valkey-server";
    execvp(words[0], (char *const *)words);
    _exit(127);
}

static bool answers(const struct server *s)
{
    redisContext *c = redisConnect("127.0.0.1", s->port);
    redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
    /* One that wants a password answers as well; one that is loading does not yet. */
    const bool ok = reply && !(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "LOADING"));
    freeReplyObject(reply);
    redisFree(c);
    return ok;
}

/* False: it has ended; perhaps another process has taken its port. */
static bool launch(struct server *s)
{
    pid_t ended = 0;
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        run(s);
    WAIT_FOR((ended = waitpid(s->pid, NULL, WNOHANG)) == s->pid || answers(s));
    if (ended != 0)
        s->pid = 0;
    return ended == 0;
}

void server_start(struct server *s, const char *const *settings)
{
    const char *tmp = getenv("TMPDIR");
    *s = (struct server){.settings = settings};
    snprintf(s->folder, sizeof s->folder, "%s/redrive-redis-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(s->folder));
    for (int tries = 0; s->pid == 0; tries++) {
        s->port = free_port();
        if (!launch(s) && tries == 5)
            fail_msg("redis-server ends at once");
    }
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d", s->port);
}

void server_kill(struct server *s)
{
    if (s->pid <= 0)
        return;
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

void server_restart(struct server *s)
{
    server_kill(s);
    assert_true(launch(s));
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char path[512];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (unlink(path) != 0)
            remove_folder(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

void server_stop(struct server *s)
{
    server_kill(s);
    if (strstr(s->folder, "redrive-redis-"))
        remove_folder(s->folder);
}

const char *server_call(const struct server *s, const char *format, ...)
{
    static char text[65536];
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    redisContext *c = redisConnect("127.0.0.1", s->port);
    redisReply *reply = c && !c->err ? redisCommand(c, command) : NULL;
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, sizeof text, "%lld", reply->integer);
    else
        snprintf(text, sizeof text, "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    redisFree(c);
    return text;
}

long server_number(const struct server *s, const char *section, const char *name)
{
    const char *at = strstr(server_call(s, "INFO %s", section), name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}
