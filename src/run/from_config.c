/* from_config.c - checks that a task's program exists, and makes its runner. */
#include "run/from_config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "run/exec/exec.h"
#include "run/http/http.h"
#include "run/stream/stream.h"

/* What execvp looks through when there is no PATH. */
#define PATH_DEFAULT "/bin:/usr/bin"

/* 0, or an errno. */
static int look_at(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? errno : 0;
}

static struct str path_of(char *const *inherited)
{
    for (char *const *entry = inherited; entry && *entry; entry++)
        if (strncmp(*entry, "PATH=", 5) == 0)
            return str_of(*entry + 5);
    return STR(PATH_DEFAULT);
}

/* The first that can be executed, as execvp does it; else what was wrong with the best of them. */
static int look_through(struct str path, const char *name)
{
    int why = ENOENT;
    for (;;) {
        const char *colon = memchr(path.ptr, ':', path.len);
        size_t len = colon ? (size_t)(colon - path.ptr) : path.len;
        char full[PATH_MAX];
        int n = snprintf(full, sizeof full, "%.*s%s%s", (int)len, path.ptr, len ? "/" : "", name);
        int found = n > 0 && (size_t)n < sizeof full ? look_at(full) : ENAMETOOLONG;
        if (found == 0)
            return 0;
        if (found == EACCES)
            why = EACCES;
        if (!colon)
            return why;
        path.len -= len + 1;
        path.ptr = colon + 1;
    }
}

static int check_http(const struct config_http *http, struct redrive_err *err)
{
    if (!http->missing)
        return 0;
    (void)err_set(err, REDRIVE_E_CONFIG, "%s", http->missing);
    err_hint(err, "set it in the environment, or in the .env file beside the configuration");
    return REDRIVE_E_CONFIG;
}

int from_config_check(const struct config_task *task, char *const *inherited,
                      struct redrive_err *err)
{
    const struct config_run *run = &task->run;
    if (run->kind == CONFIG_RUN_HTTP)
        return check_http(&run->http, err);
    const char *name = run->kind == CONFIG_RUN_EXEC ? run->exec.items[0] : run->stream.items[0];
    const bool is_path = strchr(name, '/') != NULL;
    const struct str path = path_of(inherited);
    int why = *name == '\0' ? ENOENT : is_path ? look_at(name) : look_through(path, name);
    if (why == 0)
        return 0;
    if (why == ENOENT)
        err_set(err, REDRIVE_E_CONFIG, "task '%s': there is no program '%s'", task->name, name);
    else
        err_set(err, REDRIVE_E_CONFIG, "task '%s': cannot execute '%s': %s", task->name, name,
                strerror(why));
    char here[PATH_MAX];
    if (!is_path)
        err_detail(err, "looked for in PATH: %.*s", (int)path.len, path.ptr);
    else if (*name != '/' && getcwd(here, sizeof here))
        err_detail(err, "looked for in %s", here);
    if (why == EACCES)
        err_hint(err, "chmod +x makes a script executable");
    else if (!is_path && look_at(name) == 0)
        err_hint(err, "a program of this directory is written ./%s", name);
    else
        err_hint(err, "correct run.%s of the task, or install the program",
                 run->kind == CONFIG_RUN_EXEC ? "exec" : "stream");
    return REDRIVE_E_CONFIG;
}

int from_config_runner(uv_loop_t *loop, const struct log *log, const struct config_task *task,
                       char *const *inherited, struct runner **ret, struct redrive_err *err)
{
    const struct config_run *run = &task->run;
    if (run->kind == CONFIG_RUN_HTTP) {
        const struct http_options options = {
            .url = run->http.url,
            .sends = &run->http,
            .allow_private = run->allow_private,
            .connect_timeout_ms = run->connect_timeout_ms,
        };
        return http_runner_new(loop, log, &options, ret, err);
    }
    if (run->kind == CONFIG_RUN_STREAM) {
        const struct stream_options options = {
            .argv = run->stream.items,
            .environ = inherited,
            .pass = run->pass_env.items,
            .processes = run->processes,
            .in_flight = run->in_flight,
            .kill_grace_ms = run->kill_grace_ms,
        };
        return stream_runner_new(loop, log, &options, ret, err);
    }
    const struct exec_options options = {
        .argv = run->exec.items,
        .environ = inherited,
        .pass = run->pass_env.items,
        .kill_grace_ms = run->kill_grace_ms,
    };
    return exec_runner_new(loop, log, &options, ret, err);
}
