/* host.c - adds findings; checks of the machine: disk, system, programs, secrets. */
#include "cli/commands/doctor/private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "config/config.h"
#include "run/from_config.h"
#include "server/listen/tls.h"

/* ---- Findings -------------------------------------------------------------------------------- */

void doctor_say(struct doctor *d, enum health_level level, const char *check, const char *format,
                ...)
{
    va_list args;
    if (d->n == DOCTOR_MAX_FINDINGS)
        return;
    struct finding *f = &d->findings[d->n++];
    *f = (struct finding){.level = level, .check = check};
    va_start(args, format);
    (void)vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

void doctor_hint(struct doctor *d, const char *format, ...)
{
    va_list args;
    struct finding *f = &d->findings[d->n - 1];
    va_start(args, format);
    (void)vsnprintf(f->hint, sizeof f->hint, format, args);
    va_end(args);
}

void doctor_blame(struct doctor *d, const char *check, const struct redrive_err *why)
{
    doctor_say(d, DOCTOR_FAIL, check, "%s%s%s", why->message, why->detail[0] ? "; " : "",
               why->detail);
    doctor_hint(d, "%s", why->hint);
}

/* ---- The machine ----------------------------------------------------------------------------- */

#define SYNC_TIMES   9
#define SYNC_SLOW_US 50000

#define FREE_FAIL_MB 64
#define FREE_WARN_MB 1024

/* What a process holds open beside the pipes of its children. */
#define FILES_OF_ITS_OWN  64
#define FILES_FOR_A_CHILD 4

/* Of linux/magic.h. */
#define FS_TMPFS 0x01021994
#define FS_NFS   0x6969
#define FS_CIFS  0xFF534D42u
#define FS_SMB2  0xFE534D42u

/* ---- The disk -------------------------------------------------------------------------------- */

/* The folder of the store's file. */
static void folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (out[0] == '\0')
        (void)snprintf(out, PATH_MAX, "/");
}

static int by_size(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The median time of making a page durable, in microseconds; negative: it could not be measured,
 * and errno says why. */
static int64_t time_sync(const char *folder)
{
    static const char PAGE[4096] = {0};
    char path[PATH_MAX + 32];
    int64_t times[SYNC_TIMES];
    (void)snprintf(path, sizeof path, "%s/.redrive-doctor-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -1;
    bool good = true;
    for (int i = 0; i < SYNC_TIMES && good; i++) {
        const int64_t start_ns = clock_monotonic_ns();
        errno = ENOSPC; /* of a write that is cut short */
        good = write(fd, PAGE, sizeof PAGE) == (ssize_t)sizeof PAGE && fdatasync(fd) == 0;
        times[i] = (clock_monotonic_ns() - start_ns) / 1000;
    }
    const int why = errno;
    close(fd);
    (void)unlink(path);
    errno = why;
    if (!good)
        return -1;
    qsort(times, SYNC_TIMES, sizeof times[0], by_size);
    return times[SYNC_TIMES / 2];
}

static void check_sync(struct doctor *d, const char *folder)
{
    const int64_t us = time_sync(folder);
    if (us < 0) {
        const int why = errno;
        doctor_say(d, DOCTOR_FAIL, "disk", "cannot write to %s: %s", folder, strerror(why));
        doctor_hint(d, why == ENOSPC || why == EDQUOT
                           ? "the log of the store is there: free some space, or raise the quota"
                       : why == EROFS ? "the log of the store is there: mount it for writing"
                                      : "the log of the store is there: make the folder writable");
        return;
    }
    const bool slow = us > SYNC_SLOW_US;
    doctor_say(d, slow ? DOCTOR_WARN : DOCTOR_OK, "disk",
               "a write is durable after %" PRId64 ".%03" PRId64 " ms", us / 1000, us % 1000);
    if (slow)
        doctor_hint(d, "each commit waits that long: use a faster or less busy disk");
}

static void check_file_system(struct doctor *d, const char *folder)
{
    struct statfs fs;
    if (statfs(folder, &fs) != 0)
        return;
    const unsigned long type = (unsigned long)fs.f_type & 0xffffffffu;
    if (type == FS_TMPFS) {
        doctor_say(d, DOCTOR_WARN, "file system", "the store is in memory (tmpfs)");
        doctor_hint(d, "it is gone when the machine stops: move it to a disk");
    } else if (type == FS_NFS || type == FS_CIFS || type == FS_SMB2) {
        doctor_say(d, DOCTOR_WARN, "file system", "the store is on a network file system");
        doctor_hint(d, "its locks cannot be relied on: use a disk of this machine");
    }
}

static void check_space(struct doctor *d, const char *folder)
{
    struct statvfs fs;
    if (statvfs(folder, &fs) != 0)
        return;
    const uint64_t mb = (uint64_t)fs.f_bavail * fs.f_frsize / (1024 * 1024);
    const enum health_level level = mb < FREE_FAIL_MB   ? DOCTOR_FAIL
                                    : mb < FREE_WARN_MB ? DOCTOR_WARN
                                                        : DOCTOR_OK;
    doctor_say(d, level, "space", "%" PRIu64 " MB free", mb);
    if (level != DOCTOR_OK)
        doctor_hint(d, "a full disk stops the queue; nothing is lost, but nothing moves");
}

void doctor_check_disk(struct doctor *d)
{
    char folder[PATH_MAX];
    if (!d->store || !d->facts.path)
        return;
    folder_of(d->facts.path, folder);
    check_sync(d, folder);
    check_file_system(d, folder);
    check_space(d, folder);
}

/* ---- The system ------------------------------------------------------------------------------ */

void doctor_check_zones(struct doctor *d)
{
    RELEASED_BY(tz_release) struct tz tz = {0};
    struct redrive_err err = {0};
    int rc = zone_read(NULL, STR("Europe/Berlin"), &tz, &err);
    if (rc == 0) {
        doctor_say(d, DOCTOR_OK, "time zones", "found in %s", ZONE_DIR);
        return;
    }
    if (!err.hint[0]) { /* the file may be there */
        doctor_say(d, DOCTOR_FAIL, "time zones", "cannot be read: %s",
                   err.detail[0] ? err.detail : err.message);
        return;
    }
    doctor_say(d, DOCTOR_WARN, "time zones", "no data in %s: schedules can only be in UTC",
               ZONE_DIR);
    doctor_hint(d, "install the package tzdata");
}

/* Pipes of the programs, or a connection of its own, for all that may run at one time. */
static uint64_t files_needed(const struct config *config)
{
    uint64_t n = FILES_OF_ITS_OWN;
    for (size_t i = 0; config && i < config->n_tasks; i++) {
        const struct config_run *run = &config->tasks[i].run;
        const uint32_t children =
            run->kind == CONFIG_RUN_STREAM ? run->processes : run->concurrency;
        if (run->kind != CONFIG_RUN_NONE)
            n += (uint64_t)children * FILES_FOR_A_CHILD;
    }
    return n;
}

void doctor_check_limits(struct doctor *d)
{
    struct rlimit limit;
    const uint64_t needed = files_needed(d->config);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    const bool enough = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed;
    doctor_say(d, enough ? DOCTOR_OK : DOCTOR_WARN, "open files",
               "%" PRIu64 " allowed, about %" PRIu64 " needed", (uint64_t)limit.rlim_cur, needed);
    if (!enough)
        doctor_hint(d, "raise the limit (ulimit -n, LimitNOFILE=), or lower `concurrency`");
}

/* ---- Programs -------------------------------------------------------------------------------- */

void doctor_check_programs(struct doctor *d)
{
    size_t found = 0, missing = 0;
    for (size_t i = 0; i < d->config->n_tasks; i++) {
        const struct config_task *task = &d->config->tasks[i];
        struct redrive_err why;
        if (task->run.kind == CONFIG_RUN_NONE || task->run.kind == CONFIG_RUN_HTTP)
            continue;
        if (from_config_check(task, environ, &why) == 0) {
            found++;
            continue;
        }
        missing++;
        doctor_say(d, DOCTOR_FAIL, "programs", "%s", why.message);
        doctor_hint(d, "%s", why.hint);
    }
    if (missing == 0 && found > 0)
        doctor_say(d, DOCTOR_OK, "programs", "found, of tasks: %zu", found);
}

/* ---- The certificate ------------------------------------------------------------------------- */

void doctor_check_tls(struct doctor *d)
{
    const struct config_tls *files = &d->config->listen.tls;
    struct tls_identity *identity = NULL;
    struct redrive_err why = {0};
    if (!files->cert)
        return;
    if (tls_identity_load(files, &identity, &why) < 0) {
        doctor_blame(d, "certificate", &why);
    } else if (tls_identity_is_ending(identity, clock_wall_ms(), &why)) {
        doctor_say(d, DOCTOR_WARN, "certificate", "%s: %s; %s", files->cert, why.message,
                   why.detail);
        doctor_hint(d, "%s", why.hint);
    } else {
        doctor_say(d, DOCTOR_OK, "certificate", "%s and its key can be used", files->cert);
    }
    tls_identity_free(identity);
}

/* ---- Files with secrets ---------------------------------------------------------------------- */

void doctor_check_secrets(struct doctor *d)
{
    struct exposed files[EXPOSED_MAX];
    const size_t n = exposed_find(d->config, NULL, files);
    if (n == 0)
        doctor_say(d, DOCTOR_OK, "secrets", "no other user can read a file that holds one");
    for (size_t i = 0; i < n; i++) {
        struct redrive_err warning = {0};
        exposed_warning(&files[i], &warning);
        doctor_say(d, DOCTOR_WARN, "secrets", "%s (%s)", warning.message, warning.detail);
        doctor_hint(d, "%s", warning.hint);
    }
}
