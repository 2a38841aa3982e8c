/* archive.c - `redrive export` and `redrive import`: everything of a store in one file of JSON
 * lines, and back. */
#include "engine/copy/archive.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/text/url_mask.h"
#include "base/time/clock.h"
#include "cli/commands/commands.h"
#include "cli/jobs/export.h"
#include "cli/output/figures.h"
#include "cli/output/term.h"
#include "cli/shared/copied.h"
#include "cli/shared/session.h"

#define URL_SHOWN_MAX 4096

static bool is_standard_stream(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* ---- What both have -------------------------------------------------------------------------- */

struct archive_run {
    const char *path;
    struct buf url; /* of the store, without secrets */
    struct archive_report report;
    bool is_check; /* import: of the file alone */
    int64_t took_ms;
};

/* Opens the store of the configuration; `what` is what cannot be done with one in memory. */
static int open_store(const struct session *session, const char *what, bool create,
                      struct archive_run *run, struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = create && session_may_set_up(session)};
    const struct store_ops *ops;
    struct str place;
    int rc = session_refuse_shards(session, "archives; export and import each shard", err);
    if (rc == 0)
        rc = store_find(session->config->store, &ops, &place, err);
    if (rc == 0 && !(ops->capabilities & STORE_SHARED)) {
        rc = err_set(err, REDRIVE_E_INVALID, "a store in memory is gone with this process: %s",
                     what);
        err_hint(err, "name a store that lasts, such as --store sqlite:redrive.db");
    }
    url_mask(&run->url, str_of(session->config->store));
    if (rc == 0)
        rc = config_store_missing(session->config,
                                  store_open(session->config->store, &options, ret, err), err);
    return rc;
}

static void put_hash(struct json_writer *w, const char *key, const struct content_sum *sum)
{
    char hash[CONTENT_TEXT_MAX];
    json_field_cstr(w, key, content_text(sum, hash));
}

/* Members that say what the file is. */
static void put_file(struct json_writer *w, const struct archive_run *run)
{
    const struct archive_report *r = &run->report;
    const struct content_sum total = tally_total(&r->tally);
    char at[CLOCK_TEXT_MAX];
    json_field_cstr(w, "file", run->path);
    json_field_int(w, "bytes", (int64_t)r->bytes);
    json_field_int(w, "format", r->format);
    json_field_cstr(w, "program", r->program);
    json_field_cstr(w, "id", r->id);
    json_field_cstr(w, "store", r->store);
    json_field_cstr(w, "exported_at", clock_format(r->at_ms, at));
    json_field_cstr(w, "tenant", r->tenant[0] ? r->tenant : NULL);
    json_field_bool(w, "snapshot", r->is_snapshot);
    json_field_int(w, "records", r->records);
    tally_as_json(w, &r->tally);
    put_hash(w, "hash", &total);
}

static void put_summary(struct buf *out, const struct archive_run *run)
{
    const struct content_sum total = tally_total(&run->report.tally);
    char hash[CONTENT_TEXT_MAX];
    tally_as_text(out, &run->report.tally);
    buf_printf(out, "  hash %s", content_text(&total, hash));
}

/* ---- Export ---------------------------------------------------------------------------------- */

struct store_export_options {
    const char *tenant;
    bool force;
    bool live;
};

static const struct field EXPORT_OPTIONS[] = {
    OPTION("tenant", 0, "TENANT", "export what belongs to this tenant; everything unless given",
           INTO_STRING(struct store_export_options, tenant)),
    OPTION("force", 0, NULL, "replace a file that is there",
           INTO_FLAG(struct store_export_options, force)),
    OPTION("live", 0, NULL,
           "go on although workers are alive, on a store that cannot be read as of one moment",
           INTO_FLAG(struct store_export_options, live)),
    {0},
};

static void export_as_json(struct json_writer *w, const void *thing)
{
    const struct archive_run *run = thing;
    json_begin_object(w);
    put_file(w, run);
    json_field_double(w, "seconds", (double)run->took_ms / 1000);
    json_end_object(w);
}

static void export_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct archive_run *run = thing;
    const uint64_t jobs = tally_jobs(&run->report.tally);
    char span[FIGURE_MAX];
    (void)term;
    buf_printf(out, "exported %" PRIu64 " job%s, %" PRIu64 " bytes, from ", jobs,
               jobs == 1 ? "" : "s", run->report.bytes);
    text_add_clean(out, buf_str(&run->url));
    buf_puts(out, " to ");
    text_add_clean(out, str_of(run->path));
    buf_printf(out, " in %s%s\n", figure_span(run->took_ms, span),
               run->report.is_snapshot ? ", as of one moment" : "");
    put_summary(out, run);
    buf_putc(out, '\n');
}

static int export_to(struct cli *cli, const struct archive_options *given, FILE *file,
                     struct archive_report *report, struct redrive_err *err)
{
    struct archive_options options = *given;
    struct copy_bar bar = {.cli = cli};
    /* No bar when the export itself goes to a terminal. */
    if (file != cli->out.file || !cli->out.is_tty) {
        options.progress = copy_bar_show;
        options.ctx = &bar;
    }
    int rc = archive_export(&options, file, report, err);
    progress_clear(&bar.progress);
    return rc;
}

static int export_store(struct cli *cli, struct archive_run *run, struct store *store,
                        struct redrive_err *err)
{
    const struct store_export_options *given = invocation_options(&cli->invocation);
    const struct archive_options options = {
        .store = store,
        .now_ms = clock_wall_ms(),
        .tenant = str_of(given->tenant),
        .despite_workers = given->live,
    };
    struct export_file file;
    if (is_standard_stream(run->path))
        return export_to(cli, &options, cli->out.file, &run->report, err);
    int rc = export_file_open(&file, "export", run->path, given->force, err);
    if (rc < 0)
        return rc;
    rc = export_to(cli, &options, file.file, &run->report, err);
    if (rc == 0)
        return export_file_finish(&file, err);
    export_file_abandon(&file);
    return rc;
}

/* On standard output the export is alone. */
static int print_export(struct cli *cli, const struct archive_run *run, struct redrive_err *err)
{
    if (!is_standard_stream(run->path))
        return cli_show(cli, run, export_as_json, export_as_text, err);
    (void)fprintf(cli->err.file, "%" PRIu64 " jobs, %" PRIu64 " bytes written\n",
                  tally_jobs(&run->report.tally), run->report.bytes);
    return 0;
}

static int run_export(struct cli *cli, struct redrive_err *err)
{
    const int64_t started_ms = clock_monotonic_ms();
    struct archive_run run = {.path = cli->invocation.args[0]};
    struct store *store = NULL;
    struct session session;
    buf_init(&run.url, URL_SHOWN_MAX);
    int rc = session_load(cli, &session, err);
    if (rc == 0)
        rc = open_store(&session, "there is nothing to export", false, &run, &store, err);
    if (rc == 0)
        rc = export_store(cli, &run, store, err);
    store_close(store);
    session_close(&session);
    run.took_ms = clock_monotonic_ms() - started_ms;
    if (rc == 0)
        rc = print_export(cli, &run, err);
    buf_release(&run.url);
    return rc;
}

const struct command cmd_export = {
    .name = "export",
    .summary = "write everything that a store holds to a file of JSON lines",
    .arguments = "FILE",
    .description =
        "Writes every job with its history, dead letters, breakers, limits, pauses, definitions of "
        "tasks, cron entries with their last ticks, alerts, counters and remembered keys, a line "
        "of JSON each; - is standard output. `redrive import` takes the file into a store of any "
        "kind, so that it is a backup as well.\n"
        "\n"
        "SQLite and PostgreSQL are read as of one moment, while servers and workers go on. On "
        "Redis the export is refused while workers are alive, unless --live is given: each job is "
        "then written as it was when it was read, and the parts may be of different moments.\n"
        "\n"
        "Every line carries a hash over itself and all lines before it, and the last line counts "
        "the others: a file that was cut off or changed is noticed. The file is written under "
        "another name, synced and then moved to its place, and only its owner can read it.",
    OPTIONS_INTO(EXPORT_OPTIONS, struct store_export_options),
    .examples = EXAMPLES({"redrive export /backup/jobs.jsonl", "the store of the configuration"},
                         {"redrive export --store postgres://queue/jobs - | gzip > jobs.jsonl.gz",
                          "to standard output"},
                         {"redrive export --tenant acme acme.jsonl", "one tenant"}),
    .run = run_export,
    .settings = SETTINGS_STORE,
};

/* ---- Import ---------------------------------------------------------------------------------- */

struct store_import_options {
    bool check;
    bool force;
    bool into_existing;
};

static const struct field IMPORT_OPTIONS[] = {
    OPTION("check", 0, NULL,
           "read the file to its end, and say whether it is whole; no store is used",
           INTO_FLAG(struct store_import_options, check)),
    OPTION("force", 0, NULL, "go on although workers are alive on the store",
           INTO_FLAG(struct store_import_options, force), .not_with = "check"),
    OPTION("into-existing", 0, NULL, "add to a store that has jobs of its own",
           INTO_FLAG(struct store_import_options, into_existing), .not_with = "check"),
    {0},
};

static void import_as_json(struct json_writer *w, const void *thing)
{
    const struct archive_run *run = thing;
    const struct archive_report *r = &run->report;
    const struct findings *f = &r->findings;
    json_begin_object(w);
    put_file(w, run);
    if (!run->is_check) {
        json_field_string(w, "to", buf_str(&run->url));
        json_field_int(w, "copied", (int64_t)r->copied);
        json_field_int(w, "skipped_records", r->skipped);
        json_field_bool(w, "compared", r->is_compared);
        findings_as_json(w, f);
        json_key(w, "hash_to");
        if (r->is_compared) {
            char hash[CONTENT_TEXT_MAX];
            json_put_cstr(w, content_text(&f->to, hash));
        } else {
            json_put_null(w);
        }
    }
    json_field_double(w, "seconds", (double)run->took_ms / 1000);
    json_end_object(w);
}

static const char *import_verdict(const struct archive_run *run)
{
    const struct archive_report *r = &run->report;
    if (run->is_check)
        return ", the file is whole";
    if (r->skipped == r->records)
        return ", everything was imported before, not compared again";
    if (!r->is_compared)
        return ", not compared with the store: the file cannot be read twice";
    return findings_are_same(&r->findings) ? ", checked in the store"
                                           : ", not the same in the store";
}

static void import_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct archive_run *run = thing;
    const struct archive_report *r = &run->report;
    char span[FIGURE_MAX], at[CLOCK_TEXT_MAX];
    (void)term;
    if (run->is_check) {
        text_add_clean(out, str_of(run->path));
        buf_printf(out, " was exported at %s by redrive ", clock_format(r->at_ms, at));
        text_add_clean(out, str_of(r->program));
    } else {
        buf_printf(out, "imported %" PRIu64 " job%s", r->copied, r->copied == 1 ? "" : "s");
        if (r->skipped > 0)
            buf_printf(out, ", after %" PRId64 " records of an earlier run,", r->skipped);
        buf_puts(out, " from ");
        text_add_clean(out, str_of(run->path));
        buf_puts(out, " to ");
        text_add_clean(out, buf_str(&run->url));
        buf_printf(out, " in %s", figure_span(run->took_ms, span));
    }
    buf_putc(out, '\n');
    put_summary(out, run);
    buf_printf(out, "%s\n", import_verdict(run));
}

/* Opens what is to be read. A plain file can be read twice, and has a size. */
static int open_file(const char *path, FILE **ret, uint64_t *ret_bytes, struct redrive_err *err)
{
    struct stat st;
    *ret_bytes = 0;
    *ret = is_standard_stream(path) ? stdin : fopen(path, "re");
    if (!*ret) {
        const int code = errno == ENOENT   ? REDRIVE_E_NOT_FOUND
                         : errno == EACCES ? REDRIVE_E_DENIED
                                           : REDRIVE_E_IO;
        err_set(err, code, "cannot read the export: %s", strerror(errno));
        err_detail(err, "file %s", path);
        return code;
    }
    if (fstat(fileno(*ret), &st) == 0 && S_ISREG(st.st_mode) && *ret != stdin)
        *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

/* Looks at the first line, so that no store is set up for a file that is no export. */
static int peek(FILE *file, struct redrive_err *err)
{
    struct archive_reader reader;
    int rc = archive_reader_init(&reader, file, err);
    archive_reader_release(&reader);
    rewind(file);
    return rc;
}

static int import_into(struct cli *cli, struct archive_run *run, struct archive_options *options,
                       FILE *file, struct redrive_err *err)
{
    struct store *store = NULL;
    struct session session;
    int rc = session_load(cli, &session, err);
    if (rc == 0 && options->file_bytes > 0)
        rc = peek(file, err);
    if (rc == 0)
        rc = open_store(&session, "nothing would be kept", true, run, &store, err);
    options->store = store;
    if (rc == 0)
        rc = archive_import(options, file, &run->report, err);
    store_close(store);
    session_close(&session);
    return rc;
}

static int import_file(struct cli *cli, struct archive_run *run, FILE *file, uint64_t bytes,
                       struct redrive_err *err)
{
    const struct store_import_options *given = invocation_options(&cli->invocation);
    struct copy_bar bar = {.cli = cli};
    struct interrupt interrupt;
    struct archive_options options = {
        .now_ms = clock_wall_ms(),
        .despite_workers = given->force,
        .into_existing = given->into_existing,
        .file_bytes = bytes,
        .progress = copy_bar_show,
        .ctx = &bar,
    };
    interrupt_catch(&interrupt);
    int rc = run->is_check ? archive_check(&options, file, &run->report, err)
                           : import_into(cli, run, &options, file, err);
    interrupt_release(&interrupt);
    progress_clear(&bar.progress);
    return rc;
}

static int run_import(struct cli *cli, struct redrive_err *err)
{
    const struct store_import_options *given = invocation_options(&cli->invocation);
    const int64_t started_ms = clock_monotonic_ms();
    struct archive_run run = {.path = cli->invocation.args[0], .is_check = given->check};
    FILE *file = NULL;
    uint64_t bytes = 0;
    buf_init(&run.url, URL_SHOWN_MAX);
    int rc = open_file(run.path, &file, &bytes, err);
    if (rc == 0)
        rc = import_file(cli, &run, file, bytes, err);
    if (file && file != stdin)
        (void)fclose(file);
    run.took_ms = clock_monotonic_ms() - started_ms;
    if (rc == 0)
        rc = cli_show(cli, &run, import_as_json, import_as_text, err);
    if (rc == 0 && !findings_are_same(&run.report.findings))
        rc = findings_error(&run.report.findings, "the export", err);
    buf_release(&run.url);
    return rc;
}

const struct command cmd_import = {
    .name = "import",
    .summary = "take an export into a store, and check it",
    .arguments = "FILE",
    .description =
        "Takes everything of a file that `redrive export` has written into the store, which is set "
        "up if it is not there; - is standard input. Stop every process that uses the store first: "
        "while a worker is alive the import is refused.\n"
        "\n"
        "The import goes in whole transactions, and the store remembers how far it has come: the "
        "same command goes on after an interruption, and never takes anything twice. A file that "
        "is cut off or damaged is taken up to the line before, which the error names; a whole "
        "copy of the same export goes on there. A store that has jobs of its own is refused, "
        "unless --into-existing is given: then its jobs, breakers and other rows stay as they are "
        "where both have one, and counters are added. At the end the file is read again and "
        "compared with the store; the exit code is 1 when they differ, and what differs first is "
        "named.",
    OPTIONS_INTO(IMPORT_OPTIONS, struct store_import_options),
    .examples =
        EXAMPLES({"redrive import --store sqlite:new.db jobs.jsonl", "restore"},
                 {"redrive import --check jobs.jsonl", "is the file whole?"},
                 {"gunzip -c jobs.jsonl.gz | redrive import --store postgres://queue/jobs -",
                  "from standard input"}),
    .run = run_import,
    .settings = SETTINGS_STORE,
};
