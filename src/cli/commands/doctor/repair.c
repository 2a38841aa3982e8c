/* repair.c - `redrive doctor --repair`: sets damaged jobs aside, in a file that is made durable
 * before anything is removed. */
#include "cli/commands/doctor/private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/output/progress.h"
#include "engine/verbs/repair.h"
#include "store/shards/shards.h"

/* The file, which is opened when there is something to keep. */
struct aside {
    const char *path;
    int fd; /* -1: not yet */
    struct progress progress;
};

static int aside_failed(const struct aside *a, const char *what, struct redrive_err *err)
{
    const int why = errno;
    const bool is_full = why == ENOSPC || why == EDQUOT;
    err_set(err, why == EACCES || why == EPERM || why == EROFS ? REDRIVE_E_DENIED : REDRIVE_E_IO,
            "cannot %s the file for damaged jobs: %s", what, strerror(why));
    err_detail(err, "path %s", a->path);
    err_hint(err, "%s; the jobs that are not in it are still in the store",
             is_full ? "free some space" : "name another one with --aside FILE");
    return err->code;
}

/* The name of a new file is durable once its folder is. */
static int sync_folder(const struct aside *a, struct redrive_err *err)
{
    char path[PATH_MAX];
    if (!str_copy(path, sizeof path, str_of(a->path)))
        errno = ENAMETOOLONG;
    const int fd =
        errno == ENAMETOOLONG ? -1 : open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return aside_failed(a, "make", err);
    const int rc = fsync(fd) == 0 || errno == EINVAL ? 0 : aside_failed(a, "sync", err);
    close(fd);
    return rc;
}

static int write_all(const struct aside *a, struct str bytes, struct redrive_err *err)
{
    while (bytes.len > 0) {
        const ssize_t n = write(a->fd, bytes.ptr, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return aside_failed(a, "write to", err);
        bytes = (struct str){bytes.ptr + n, bytes.len - (size_t)n};
    }
    return 0;
}

/* A line that a crash has cut off is ended, so that the next one begins at its own beginning. */
static int end_last_line(const struct aside *a, struct redrive_err *err)
{
    char last = '\n';
    const off_t size = lseek(a->fd, 0, SEEK_END);
    if (size > 0 && pread(a->fd, &last, 1, size - 1) < 0)
        return aside_failed(a, "read", err);
    return last == '\n' ? 0 : write_all(a, STR("\n"), err);
}

static int open_file(struct aside *a, struct redrive_err *err)
{
    errno = 0;
    a->fd = open(a->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (a->fd < 0)
        return aside_failed(a, "open", err);
    int rc = sync_folder(a, err);
    return rc == 0 ? end_last_line(a, err) : rc;
}

static int keep_lines(void *ctx, struct str lines, struct redrive_err *err)
{
    struct aside *a = ctx;
    int rc = a->fd < 0 ? open_file(a, err) : 0;
    if (rc == 0)
        rc = write_all(a, lines, err);
    if (rc == 0 && fsync(a->fd) != 0)
        rc = aside_failed(a, "sync", err);
    return rc;
}

static void draw(void *ctx)
{
    struct aside *a = ctx;
    progress_update(&a->progress, a->progress.done + 1);
}

static void say_repaired(struct doctor *d, const struct aside *a)
{
    const struct store_repaired *did = &d->repaired;
    const uint64_t others = did->entries + did->counts;
    if (did->jobs > 0)
        doctor_say(d, DOCTOR_OK, "repair",
                   "%" PRIu64 " damaged job%s set aside in %s; put right: %" PRIu64
                   " entries, %" PRIu64 " counts",
                   did->jobs, did->jobs == 1 ? "" : "s", a->path, did->entries, did->counts);
    else if (others > 0)
        doctor_say(d, DOCTOR_OK, "repair",
                   "no damaged job; put right: %" PRIu64 " entries, %" PRIu64 " counts",
                   did->entries, did->counts);
    else
        doctor_say(d, DOCTOR_OK, "repair", "nothing to repair");
}

void doctor_repair(struct doctor *d, const char *path)
{
    const struct store_options options = {.create = false};
    struct aside aside = {.path = path, .fd = -1};
    const struct store_repair repair = {.keep = keep_lines, .progress = draw, .ctx = &aside};
    struct redrive_err err = {0};
    struct store *store = NULL;
    int rc = store_open(d->config->store, &options, &store, &err);
    if (rc == 0) {
        progress_init(&aside.progress, &d->cli->err, "repair", 0, NULL);
        rc = repair_store(store, shards_is(d->config->store), &repair, &d->repaired, &err);
        progress_clear(&aside.progress);
    }
    store_close(store);
    if (aside.fd >= 0)
        close(aside.fd);
    if (rc < 0)
        doctor_blame(d, "repair", &err);
    else
        say_repaired(d, &aside);
    d->repair_finding = d->n;
    d->aside = d->repaired.jobs > 0 ? path : NULL;
}
