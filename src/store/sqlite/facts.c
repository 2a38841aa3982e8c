#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "store/sqlite/private.h"
#include "store/sqlite/schema.h"

/* SQLite calls back after so many of its steps: some hundred times a second. */
#define STEPS_BETWEEN_CALLS 20000

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

struct watcher {
    void (*progress)(void *ctx);
    void *ctx;
};

static int call_watcher(void *arg)
{
    const struct watcher *watcher = arg;
    watcher->progress(watcher->ctx);
    return 0;
}

/* The first row is the verdict: 'ok', or the first of the findings. */
int sqlite_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                  struct redrive_err *err)
{
    struct watcher watcher = {progress, ctx};
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &st, NULL);
    if (rc != SQLITE_OK)
        return sql_error(store, rc, err);
    if (progress)
        sqlite3_progress_handler(store->db, STEPS_BETWEEN_CALLS, call_watcher, &watcher);
    rc = sql_step(store, st, err);
    const char *verdict = rc > 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (verdict && strcmp(verdict, "ok") != 0) {
        rc = err_set(err, REDRIVE_E_CORRUPT, "the store is damaged");
        err_detail(err, "%s", verdict);
        err_hint(err, "stop all processes and restore a backup, or save what can be read with "
                      "sqlite3 .recover");
    }
    sqlite3_finalize(st);
    sqlite3_progress_handler(store->db, 0, NULL, NULL);
    return rc < 0 ? rc : 0;
}
