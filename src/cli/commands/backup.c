/* backup.c - `redrive backup`: a copy of the store in one file, while others use it. */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/jobs/export.h"
#include "cli/output/figures.h"
#include "cli/output/progress.h"
#include "cli/output/term.h"
#include "cli/shared/session.h"

struct backup_options {
    bool force;
};

static const struct field OPTIONS[] = {
    OPTION("force", 0, NULL, "replace a file that is there",
           INTO_FLAG(struct backup_options, force)),
    {0},
};

/* ---- Before the copy ------------------------------------------------------------------------- */

static int find_backup(const char *url, struct redrive_err *err)
{
    const struct store_ops *ops;
    struct str place;
    int rc = store_find(url, &ops, &place, err);
    if (rc < 0 || ops->backup)
        return rc;
    rc = err_set(err, REDRIVE_E_USAGE, "redrive backup cannot copy a %s: store", ops->scheme);
    err_hint(err, "%s", ops->backup_hint);
    return rc;
}

static bool companion(const char *path, const char *suffix, struct stat *ret)
{
    char name[PATH_MAX];
    const int len = snprintf(name, sizeof name, "%s%s", path, suffix);
    return len > 0 && (size_t)len < sizeof name && stat(name, ret) == 0;
}

/* Neither the store nor a part of it may be replaced. SQLite would also take a log that lies beside
 * the copy for a part of it. */
static int check_target(const char *path, const char *store_path, struct redrive_err *err)
{
    static const char *const PARTS[] = {"", "-wal", "-shm", ".serve-lock"};
    static const char *const LOGS[] = {"-wal", "-journal"};
    struct stat target, st;
    const bool is_there = stat(path, &target) == 0;
    for (size_t i = 0; is_there && i < sizeof PARTS / sizeof PARTS[0]; i++) {
        if (companion(store_path, PARTS[i], &st) && st.st_dev == target.st_dev &&
            st.st_ino == target.st_ino) {
            err_set(err, REDRIVE_E_USAGE, "the backup would replace the store itself");
            err_detail(err, "file %s", path);
            err_hint(err, "name another file, on another disk if there is one");
            return REDRIVE_E_USAGE;
        }
    }
    for (size_t i = 0; i < sizeof LOGS / sizeof LOGS[0]; i++) {
        if (companion(path, LOGS[i], &st)) {
            err_set(err, REDRIVE_E_EXISTS,
                    "cannot write the backup: the log of another database "
                    "is beside it");
            err_detail(err, "file %s%s", path, LOGS[i]);
            err_hint(err, "is that database in use? Name another file");
            return REDRIVE_E_EXISTS;
        }
    }
    return 0;
}

/* ---- The copy -------------------------------------------------------------------------------- */

struct bar {
    struct cli *cli;
    struct progress progress;
};

static void show(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct bar *bar = ctx;
    progress_phase(&bar->progress, &bar->cli->err, phase, done, total);
}

static int copy_store(struct cli *cli, struct store *store, const char *path, bool force,
                      struct store_copy *ret, struct redrive_err *err)
{
    struct bar bar = {.cli = cli};
    struct store_facts facts;
    struct export_file file;
    int rc = store_ops(store)->facts(store, &facts, err);
    if (rc == 0)
        rc = check_target(path, facts.path, err);
    if (rc == 0)
        rc = export_file_open(&file, "backup", path, force, err);
    if (rc != 0)
        return rc;
    rc = store_ops(store)->backup(store, file.temporary, show, &bar, ret, err);
    progress_clear(&bar.progress);
    if (rc == 0)
        return export_file_finish(&file, err);
    export_file_abandon(&file);
    return rc;
}

/* ---- Output ---------------------------------------------------------------------------------- */

struct backup {
    const char *path;
    struct store_copy copy;
    int64_t took_ms;
};

static void backup_as_json(struct json_writer *w, const void *thing)
{
    const struct backup *b = thing;
    json_begin_object(w);
    json_field_cstr(w, "file", b->path);
    json_field_int(w, "bytes", b->copy.bytes);
    json_field_int(w, "jobs", b->copy.jobs);
    json_field_double(w, "seconds", (double)b->took_ms / 1000);
    json_end_object(w);
}

static void backup_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct backup *b = thing;
    char span[FIGURE_MAX];
    (void)term;
    buf_printf(out, "%" PRId64 " job%s, %" PRId64 " bytes written to ", b->copy.jobs,
               b->copy.jobs == 1 ? "" : "s", b->copy.bytes);
    text_add_clean(out, str_of(b->path));
    buf_printf(out, " in %s\n", figure_span(b->took_ms, span));
}

static int run_backup(struct cli *cli, struct redrive_err *err)
{
    const struct backup_options *options = invocation_options(&cli->invocation);
    const struct store_options as_is = {.as_is = true};
    const int64_t started_ms = clock_monotonic_ms();
    struct backup backup = {.path = cli->invocation.args[0]};
    struct store *store = NULL;
    struct session session;
    int rc = session_load(cli, &session, err);
    if (rc == 0)
        rc = find_backup(session.config->store, err);
    if (rc == 0)
        rc = store_open(session.config->store, &as_is, &store, err);
    if (rc == 0)
        rc = copy_store(cli, store, backup.path, options->force, &backup.copy, err);
    store_close(store);
    session_close(&session);
    backup.took_ms = clock_monotonic_ms() - started_ms;
    return rc < 0 ? rc : cli_show(cli, &backup, backup_as_json, backup_as_text, err);
}

const struct command cmd_backup = {
    .name = "backup",
    .summary = "copy a SQLite store into one file while it is used",
    .arguments = "FILE",
    .description =
        "Writes the whole store, as it is at one moment, to a file that only its owner can read. "
        "Servers and workers go on meanwhile. The file is written under another name, checked, "
        "synced and then moved to its place: it is whole or not there, also after Ctrl-C. A file "
        "that is there is kept unless --force is given.\n"
        "\n"
        "The copy is a store: `redrive --store sqlite:FILE doctor` looks into it. Do not let "
        "workers run on it while the store that it was taken from is in use: each job would run "
        "twice.\n"
        "\n"
        "PostgreSQL and Redis have their own means, such as pg_dump: for these stores the exit "
        "code is 2, and the error names the means.\n"
        "\n"
        "With --json the summary has file, bytes, jobs and seconds.",
    OPTIONS_INTO(OPTIONS, struct backup_options),
    .examples = EXAMPLES(
        {"redrive backup /backup/redrive.db", "the store of the configuration"},
        {"redrive backup --force --store sqlite:jobs.db jobs-copy.db", "replace the last backup"}),
    .run = run_backup,
    .settings = SETTINGS_STORE,
};
