/* edit_text.c - runs an editor on a temporary file. */
#include "cli/commands/dlq/edit_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/os/file.h"

static const char *editor_name(void)
{
    const char *name = getenv("VISUAL");
    if (!name || name[0] == '\0')
        name = getenv("EDITOR");
    return name && name[0] != '\0' ? name : "vi";
}

/* $EDITOR may be a command with arguments, so a shell reads it; the path is never part of it. */
static _Noreturn void become_editor(const char *editor, const char *path)
{
    char command[EDIT_PATH_MAX];
    if (snprintf(command, sizeof command, "%s \"$@\"", editor) < (int)sizeof command)
        (void)execlp("sh", "sh", "-c", command, editor, path, (char *)NULL);
    _exit(127);
}

/* Ctrl-C on the terminal is the editor's while it runs. */
static int run_editor(const char *path, struct redrive_err *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    int status = 0;
    (void)sigaction(SIGINT, &ignore, &before);
    pid_t child = fork();
    if (child == 0) {
        (void)sigaction(SIGINT, &before, NULL);
        become_editor(editor_name(), path);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    (void)sigaction(SIGINT, &before, NULL);
    if (child < 0)
        return err_set(err, REDRIVE_E_IO, "cannot start an editor: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    err_set(err, REDRIVE_E_CANCELLED, "the editor failed, nothing was changed");
    err_detail(err, "editor %s", editor_name());
    err_hint(err, "set EDITOR to one that is installed, or give the new text");
    return REDRIVE_E_CANCELLED;
}

static int write_all(int fd, struct str text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            text = (struct str){text.ptr + n, text.len - (size_t)n};
    }
    return 0;
}

int edit_text(struct str text, const char *suffix, struct buf *ret, char ret_path[EDIT_PATH_MAX],
              struct redrive_err *err)
{
    const char *dir = getenv("TMPDIR");
    int len = snprintf(ret_path, EDIT_PATH_MAX, "%s/redrive-XXXXXX%s", dir ? dir : "/tmp", suffix);
    if (len >= EDIT_PATH_MAX)
        return err_set(err, REDRIVE_E_TOO_BIG, "the path in TMPDIR is too long");
    int fd = mkostemps(ret_path, (int)strlen(suffix), O_CLOEXEC);
    if (fd < 0)
        return err_set(err, REDRIVE_E_IO, "cannot make a temporary file: %s", strerror(errno));
    int rc = 0;
    if (write_all(fd, text) < 0)
        rc = err_set(err, REDRIVE_E_IO, "cannot write a temporary file: %s", strerror(errno));
    (void)close(fd);
    if (rc == 0)
        rc = run_editor(ret_path, err);
    if (rc < 0) {
        (void)unlink(ret_path);
        return rc;
    }
    rc = file_read(ret_path, ret->max, ret, err);
    if (rc < 0)
        err_hint(err, "your text is kept in %s", ret_path);
    return rc;
}
