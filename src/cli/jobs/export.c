/* export.c - writes jobs as JSON lines or CSV, page by page, and files that are whole or not there.
 */
#include "cli/jobs/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/csv/csv.h"
#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "store/job_json.h"
#include "store/plan.h"

/* Jobs with payloads of the greatest size still fit into memory. */
#define PAGE_JOBS      100
#define LINE_MAX_BYTES (64u * 1024 * 1024)

const char *const EXPORT_FORMATS[] = {[EXPORT_JSONL] = "jsonl", [EXPORT_CSV] = "csv", NULL};

enum export_format export_format_of(const char *path)
{
    size_t len = path ? strlen(path) : 0;
    bool is_csv = len > 4 && str_eq_nocase(str_of(path + len - 4), STR(".csv"));
    return is_csv ? EXPORT_CSV : EXPORT_JSONL;
}

/* ---- One job --------------------------------------------------------------------------------- */

/* Where the jobs are, and which. */
struct export_source {
    struct store *store;
    struct remote *remote; /* NULL: the store */
    struct job_filter filter;
    const struct buf *query; /* the same for a server, as a path; the limit is the filter's */
};

struct exporter {
    FILE *out;
    enum export_format format;
    struct buf line;
    struct buf loose; /* JSON as it comes, before its space is taken out */
};

static void put_jsonl(struct exporter *x, const struct job *job)
{
    struct json_writer w;
    buf_reset(&x->loose);
    json_writer_init(&w, &x->loose);
    job_write_json(&w, job, NULL);
    json_compact(buf_str(&x->loose), &x->line);
    buf_putc(&x->line, '\n');
}

static void put_csv_time(struct csv_writer *w, int64_t at_ms)
{
    char text[CLOCK_TEXT_MAX];
    csv_put_cstr(w, at_ms == 0 ? NULL : clock_format(at_ms, text));
}

static void put_csv_names(struct exporter *x)
{
    static const char *const NAMES[] = {
        "id",    "task",       "queue",   "state",      "reason",      "attempts", "max_attempts",
        "class", "error_type", "message", "created_at", "finished_at", "payload",  "result",
    };
    struct csv_writer w;
    csv_writer_init(&w, &x->line);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        csv_put_cstr(&w, NAMES[i]);
    csv_end_row(&w);
}

static void put_csv(struct exporter *x, const struct job *job)
{
    const struct job_status *s = &job->status;
    bool failed = s->error.class_ != REDRIVE_CLASS_SUCCESS;
    struct csv_writer w;
    csv_writer_init(&w, &x->line);
    csv_put_str(&w, job->spec.id);
    csv_put_str(&w, job->spec.task);
    csv_put_str(&w, job->spec.queue);
    csv_put_cstr(&w, redrive_state_name(s->state));
    csv_put_cstr(&w, job_reason_word(s));
    csv_put_int(&w, s->attempts);
    csv_put_int(&w, job_max_attempts(job));
    csv_put_cstr(&w, failed ? redrive_class_name(s->error.class_) : NULL);
    csv_put_str(&w, s->error.type);
    csv_put_str(&w, s->error.message);
    put_csv_time(&w, s->created_ms);
    put_csv_time(&w, s->finished_ms);
    csv_put_str(&w, job->spec.payload);
    csv_put_str(&w, s->result);
    csv_end_row(&w);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int write_line(struct exporter *x, struct redrive_err *err)
{
    int rc = buf_failed(&x->line);
    if (rc == 0 && x->format == EXPORT_JSONL)
        rc = buf_failed(&x->loose);
    if (rc < 0)
        return err_set(err, rc, "cannot export a job: %s", redrive_err_text(rc));
    if (fwrite(buf_cstr(&x->line), 1, x->line.len, x->out) != x->line.len)
        return err_set(err, REDRIVE_E_IO, "cannot write the export: %s", strerror(errno));
    buf_reset(&x->line);
    return 0;
}

static int write_page(struct exporter *x, const struct job_page *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        if (x->format == EXPORT_CSV)
            put_csv(x, &page->jobs[i]);
        else
            put_jsonl(x, &page->jobs[i]);
        rc = write_line(x, err);
    }
    return rc;
}

static int write_pages(struct exporter *x, struct store *store, struct job_filter *filter,
                       struct progress *progress, uint64_t *ret_n, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    size_t left = filter->limit > 0 ? filter->limit : SIZE_MAX;
    int rc = job_filter_plan(store, filter, NULL, err);
    if (rc <= 0)
        return rc;
    do {
        filter->limit = left < PAGE_JOBS ? left : PAGE_JOBS;
        rc = store_ops(store)->list(store, filter, &page, err);
        if (rc == 0)
            rc = write_page(x, &page, err);
        if (rc < 0 || page.n == 0)
            break;
        *ret_n += page.n;
        left -= page.n;
        filter->after_seq = page.jobs[page.n - 1].status.seq;
        filter->after_ms = page.jobs[page.n - 1].status.finished_ms;
        if (progress)
            progress_update(progress, *ret_n);
    } while (page.more && left > 0);
    return rc;
}

/* The same from a server; a limit of 0 is none. */
static int write_pages_of_server(struct exporter *x, struct remote *remote, const struct buf *query,
                                 size_t limit, struct progress *progress, uint64_t *ret_n,
                                 struct redrive_err *err)
{
    size_t left = limit > 0 ? limit : SIZE_MAX;
    char cursor[JOB_CURSOR_MAX] = "";
    int rc = 0;
    do {
        struct job_page page = {0};
        struct str next = {0};
        rc = remote_jobs(remote, query, left < PAGE_JOBS ? left : PAGE_JOBS,
                         *cursor ? cursor : NULL, &page, &next, err);
        if (!str_copy(cursor, sizeof cursor, next))
            rc = err_set(err, REDRIVE_E_PARSE, "the cursor of the server is too long");
        if (rc == 0)
            rc = write_page(x, &page, err);
        *ret_n += page.n;
        left -= page.n;
        job_page_release(&page);
        if (progress)
            progress_update(progress, *ret_n);
    } while (rc == 0 && *cursor && left > 0);
    return rc;
}

static int export_from(const struct export_source *source, enum export_format format, FILE *out,
                       struct progress *progress, uint64_t *ret_n, struct redrive_err *err)
{
    struct exporter x = {.out = out, .format = format};
    struct job_filter at = source->filter;
    uint64_t n = 0;
    int rc = 0;
    buf_init(&x.line, LINE_MAX_BYTES);
    buf_init(&x.loose, LINE_MAX_BYTES);
    if (format == EXPORT_CSV) {
        put_csv_names(&x);
        rc = write_line(&x, err);
    }
    if (rc == 0)
        rc = source->remote ? write_pages_of_server(&x, source->remote, source->query,
                                                    source->filter.limit, progress, &n, err)
                            : write_pages(&x, source->store, &at, progress, &n, err);
    if (rc == 0 && fflush(out) != 0)
        rc = err_set(err, REDRIVE_E_IO, "cannot write the export: %s", strerror(errno));
    if (ret_n)
        *ret_n = n;
    buf_release(&x.loose);
    buf_release(&x.line);
    return rc;
}

int export_jobs(struct store *store, const struct job_filter *filter, enum export_format format,
                FILE *out, struct progress *progress, uint64_t *ret_n, struct redrive_err *err)
{
    const struct export_source source = {.store = store, .filter = *filter};
    return export_from(&source, format, out, progress, ret_n, err);
}

/* ---- A file that is whole or not there ------------------------------------------------------- */

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

/* ---- The command ----------------------------------------------------------------------------- */

static int export_to(struct cli *cli, const struct export_source *source, enum export_format format,
                     FILE *out, uint64_t *ret_n, struct redrive_err *err)
{
    struct progress progress;
    progress_init(&progress, &cli->err, "export", 0, NULL);
    /* No bar when the export itself goes to a terminal. */
    bool visible = out != cli->out.file || !cli->out.is_tty;
    int rc = export_from(source, format, out, visible ? &progress : NULL, ret_n, err);
    progress_clear(&progress);
    return rc;
}

static int export_to_file(struct cli *cli, const struct export_source *source,
                          const struct export_options *options, enum export_format format,
                          struct redrive_err *err)
{
    struct export_file file;
    uint64_t n = 0;
    int rc = export_file_open(&file, "export", options->output, options->force, err);
    if (rc == 0)
        rc = export_to(cli, source, format, file.file, &n, err);
    if (rc == 0)
        rc = export_file_finish(&file, err);
    else
        export_file_abandon(&file);
    if (rc == 0)
        (void)fprintf(cli->err.file, "%" PRIu64 " job%s written to %s\n", n, n == 1 ? "" : "s",
                      options->output);
    return rc;
}

int export_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct export_options *options = invocation_options(&cli->invocation);
    bool to_file = options->output && strcmp(options->output, "-") != 0;
    enum export_format format = options->format >= 0 ? (enum export_format)options->format
                                                     : export_format_of(options->output);
    struct buf query;
    struct export_source source = {
        .store = session->store, .remote = session->remote, .query = &query};
    buf_init(&query, REMOTE_PATH_MAX);
    buf_puts(&query, "/jobs");
    job_select_query(&options->select, (uint32_t)cli_variant(cli), &query);
    remote_query(&query, "order", "oldest");
    job_select_filter(cli, session_now_ms(session), &source.filter);
    source.filter.limit = (size_t)options->limit;
    int rc = to_file ? export_to_file(cli, &source, options, format, err)
                     : export_to(cli, &source, format, cli->out.file, NULL, err);
    buf_release(&query);
    return rc;
}
