/* facts.c - what the file is, and a backup of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "store/sqlite/private.h"

static int64_t size_of(const char *path, const char *suffix)
{
    char name[4096];
    struct stat st;
    int len = snprintf(name, sizeof name, "%s%s", path, suffix);
    return len > 0 && (size_t)len < sizeof name && stat(name, &st) == 0 ? (int64_t)st.st_size : 0;
}

int sqlite_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    (void)err;
    const bool has_bug = checkpoint_has_bug(sqlite3_libversion_number());
    snprintf(store->library, sizeof store->library, "SQLite %s%s", sqlite3_libversion(),
             has_bug
                 ? " has the WAL-reset bug, fixed in 3.51.3; it cannot happen here: checkpoints "
                   "hold the writer's lock"
                 : "");
    *ret = (struct store_facts){
        .version_found = store->version_found,
        .version_newest = STORE_SCRIPTS_COUNT,
        .bytes = size_of(store->path, ""),
        .log_bytes = size_of(store->path, "-wal"),
        .path = store->path,
        .library = store->library,
        .library_hint = has_bug
                            ? "other programs: open the file with sqlite3 -readonly; those that "
                              "write need SQLite 3.51.3, or PRAGMA wal_autocheckpoint = 0"
                            : NULL,
    };
    return 0;
}

/* ---- Backup ---------------------------------------------------------------------------------- */

/* A copy of the whole store while other processes write.
 *
 * 1. One read transaction is open from the first page to the last. SQLite's backup then reads every
 *    page as it was when that transaction began, and commits of other connections do not start the
 *    backup again, however many there are.
 * 2. That transaction keeps the log from starting again: it grows while the backup lasts. Nothing
 *    is written to the store, and this connection makes no checkpoint.
 * 3. The copy is one file. It has neither a journal nor a log beside it while it is written: a
 *    process that is killed leaves no companions. Its reader opens it as immutable, since the
 *    header says that it has a log.
 */

/* Pages that are copied in one step: 4 MiB. */
#define PAGES_AT_ONCE 1024
struct copy_watcher {
    void (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    void *ctx;
};

static int cannot_copy(sqlite3 *copy, const char *path, int rc, struct redrive_err *err)
{
    const int primary = rc & 0xff;
    if (primary == SQLITE_NOMEM)
        return err_nomem(err);
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
        err_set(err, REDRIVE_E_CORRUPT, "the store is damaged: there is no backup of it");
        err_detail(err, "%s", sqlite3_errmsg(copy));
        err_hint(err, "redrive doctor says more");
        return REDRIVE_E_CORRUPT;
    }
    err_set(err, REDRIVE_E_IO, "cannot write the backup: %s",
            primary == SQLITE_FULL ? "the disk is full" : sqlite3_errstr(rc));
    err_detail(err, "%s: %s (%d)", path, copy ? sqlite3_errmsg(copy) : sqlite3_errstr(rc), rc);
    err_hint(err, "is there room for a copy of the store?");
    return REDRIVE_E_IO;
}

static int copy_pages(struct store *store, sqlite3 *copy, const struct copy_watcher *watcher)
{
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", store->db, "main");
    if (!backup)
        return sqlite3_errcode(copy);
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK) {
        rc = sqlite3_backup_step(backup, PAGES_AT_ONCE);
        const int total = sqlite3_backup_pagecount(backup);
        if (watcher->progress)
            watcher->progress(watcher->ctx, "backup",
                              (uint64_t)(total - sqlite3_backup_remaining(backup)),
                              (uint64_t)total);
    }
    const int finished = sqlite3_backup_finish(backup);
    return rc != SQLITE_DONE ? rc : finished;
}

static int write_copy(struct store *store, const char *path, const struct copy_watcher *watcher,
                      struct redrive_err *err)
{
    static const char NO_COMPANIONS[] = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF";
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    sqlite3 *copy = NULL;
    int rc = sqlite3_open_v2(path, &copy, flags, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(copy, NO_COMPANIONS, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = copy_pages(store, copy, watcher);
    if (rc != SQLITE_OK)
        rc = cannot_copy(copy, path, rc, err);
    sqlite3_close(copy);
    return rc;
}

/* "file:PATH?immutable=1": nothing is locked, and no log is looked for. NULL: no memory. */
static char *immutable_uri(const char *path)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    static const char QUERY[] = "?immutable=1";
    char *uri = malloc(strlen("file://") + 3 * strlen(path) + sizeof QUERY);
    if (!uri)
        return NULL;
    /* An absolute path follows an empty authority, so that it may begin with two slashes. */
    char *to = stpcpy(uri, path[0] == '/' ? "file://" : "file:");
    for (const char *from = path; *from; from++) {
        if (*from == '%' || *from == '?' || *from == '#') {
            *to++ = '%';
            *to++ = DIGITS[(unsigned char)*from >> 4];
            *to++ = DIGITS[(unsigned char)*from & 15];
        } else {
            *to++ = *from;
        }
    }
    memcpy(to, QUERY, sizeof QUERY);
    return uri;
}

static int call_copy_watcher(void *arg)
{
    const struct copy_watcher *watcher = arg;
    watcher->progress(watcher->ctx, "check", 0, 0);
    return 0;
}

static int judge_copy(sqlite3 *copy, const char *path, struct redrive_err *err)
{
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(copy, "PRAGMA integrity_check(1)", -1, &st, NULL);
    if (rc != SQLITE_OK)
        return cannot_copy(copy, path, rc, err);
    rc = sqlite3_step(st);
    const char *verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (rc != SQLITE_ROW) {
        rc = cannot_copy(copy, path, rc, err);
    } else if (!verdict || sql_finding_is_want_of_memory(verdict)) {
        rc = err_nomem(err);
    } else if (strcmp(verdict, "ok") != 0) {
        rc = err_set(err, REDRIVE_E_CORRUPT, "the backup is damaged, and was not kept");
        err_detail(err, "%s", verdict);
        err_hint(err, "redrive doctor says whether the store is damaged too");
    } else {
        rc = 0;
    }
    sqlite3_finalize(st);
    return rc;
}

static int check_copy(const char *path, struct copy_watcher *watcher, struct redrive_err *err)
{
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    char *uri = immutable_uri(path);
    sqlite3 *copy = NULL;
    if (!uri)
        return err_nomem(err);
    int rc = sqlite3_open_v2(uri, &copy, flags, NULL);
    if (rc != SQLITE_OK) {
        rc = cannot_copy(copy, path, rc, err);
    } else {
        if (watcher->progress)
            sqlite3_progress_handler(copy, STEPS_BETWEEN_CALLS, call_copy_watcher, watcher);
        rc = judge_copy(copy, path, err);
    }
    sqlite3_close(copy);
    free(uri);
    return rc;
}

int sqlite_backup(struct store *store, const char *path,
                  void (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total),
                  void *ctx, struct store_copy *ret, struct redrive_err *err)
{
    struct copy_watcher watcher = {progress, ctx};
    struct stat st;
    *ret = (struct store_copy){0};
    if (store->version_found == 0) {
        err_set(err, REDRIVE_E_NOT_FOUND, "the store is empty");
        err_detail(err, "path %s", store->path);
        return REDRIVE_E_NOT_FOUND;
    }
    int rc = view_begin(store, err);
    if (rc == 0) /* the first read: what it sees is what is copied */
        rc = sql_number(store, "SELECT count(*) FROM job_states", &ret->jobs, err);
    if (rc == 0)
        rc = write_copy(store, path, &watcher, err);
    view_end(store);
    if (rc == 0)
        rc = check_copy(path, &watcher, err);
    if (rc == 0)
        ret->bytes = stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
    return rc;
}
