/* export_file.c - a file that is whole or not there. */
#include "cli/jobs/export.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

/* What a signal handler removes; one file at a time. */
static char *volatile unfinished;
static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
#define N_SIGNALS (sizeof SIGNALS / sizeof SIGNALS[0])
static struct sigaction before[N_SIGNALS];

/* Removes the file and lets the signal act as usual. */
static void clean_up(int number)
{
    if (unfinished)
        (void)unlink(unfinished);
    (void)raise(number);
}

static void watch_signals(char *path)
{
    struct sigaction action = {.sa_handler = clean_up, .sa_flags = (int)SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    unfinished = path;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        (void)sigaction(SIGNALS[i], NULL, &before[i]);
        if (before[i].sa_handler == SIG_DFL)
            (void)sigaction(SIGNALS[i], &action, NULL);
    }
}

static void unwatch_signals(void)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        (void)sigaction(SIGNALS[i], &before[i], NULL);
    unfinished = NULL;
}

static int cannot_write(const struct export_file *f, int error, struct redrive_err *err)
{
    int code = error == EACCES || error == EPERM ? REDRIVE_E_DENIED
               : error == ENOENT                 ? REDRIVE_E_NOT_FOUND
                                                 : REDRIVE_E_IO;
    err_set(err, code, "cannot write the %s: %s", f->what, strerror(error));
    err_detail(err, "file %s", f->path);
    return code;
}

static int is_there(const struct export_file *f, struct redrive_err *err)
{
    struct stat st;
    if (lstat(f->path, &st) < 0)
        return errno == ENOENT ? 0 : cannot_write(f, errno, err);
    /* Replacing a device or a link would affect other programs. */
    if (!S_ISREG(st.st_mode)) {
        err_set(err, REDRIVE_E_EXISTS, "cannot write the %s: this is no plain file", f->what);
        err_detail(err, "file %s", f->path);
        err_hint(err, "name a plain file, or one that is not there yet");
        return REDRIVE_E_EXISTS;
    }
    if (f->force)
        return 0;
    err_set(err, REDRIVE_E_EXISTS, "cannot write the %s: the file exists", f->what);
    err_detail(err, "file %s", f->path);
    err_hint(err, "--force replaces it");
    return REDRIVE_E_EXISTS;
}

int export_file_open(struct export_file *f, const char *what, const char *path, bool force,
                     struct redrive_err *err)
{
    *f = (struct export_file){.path = path, .what = what, .force = force};
    int rc = is_there(f, err);
    if (rc < 0)
        return rc;
    size_t size = strlen(path) + sizeof ".XXXXXX";
    f->temporary = malloc(size);
    if (!f->temporary)
        return err_nomem(err);
    (void)snprintf(f->temporary, size, "%s.XXXXXX", path);
    /* A signal between the two would leave the file. */
    sigset_t all, mask;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &mask);
    int fd = mkostemp(f->temporary, O_CLOEXEC);
    const int error = errno;
    if (fd >= 0)
        watch_signals(f->temporary);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (fd < 0) {
        rc = cannot_write(f, error, err);
        free(f->temporary);
        f->temporary = NULL;
        return rc;
    }
    /* As mkostemp made it, it is for its owner alone, like the store: payloads may be private. */
    f->file = fdopen(fd, "w");
    if (f->file)
        return 0;
    rc = cannot_write(f, errno, err);
    (void)close(fd);
    export_file_abandon(f);
    return rc;
}

/* A file that another process has made meanwhile is not replaced either. File systems that cannot
 * say so at once were asked before. */
static int move_there(const struct export_file *f)
{
    if (f->force)
        return rename(f->temporary, f->path);
    int rc = renameat2(AT_FDCWD, f->temporary, AT_FDCWD, f->path, RENAME_NOREPLACE);
    return rc < 0 && (errno == EINVAL || errno == ENOSYS) ? rename(f->temporary, f->path) : rc;
}

/* So that the new name lasts. Not every file system can do it, and the file itself is synced. */
static void sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int len = !slash ? 1 : slash == path ? 1 : (int)(slash - path);
    (void)snprintf(folder, sizeof folder, "%.*s", len, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

int export_file_finish(struct export_file *f, struct redrive_err *err)
{
    bool whole = fflush(f->file) == 0 && fsync(fileno(f->file)) == 0;
    int error = errno;
    if (fclose(f->file) != 0 && whole) {
        whole = false;
        error = errno;
    }
    f->file = NULL;
    if (whole && move_there(f) < 0) {
        whole = false;
        error = errno;
    }
    int rc = whole ? 0 : cannot_write(f, error, err);
    if (whole) {
        sync_folder(f->path);
        unwatch_signals();
        free(f->temporary);
        f->temporary = NULL;
    }
    export_file_abandon(f);
    return rc;
}

void export_file_abandon(struct export_file *f)
{
    if (f->file)
        (void)fclose(f->file);
    if (f->temporary) {
        (void)unlink(f->temporary);
        unwatch_signals();
        free(f->temporary);
    }
    *f = (struct export_file){0};
}
