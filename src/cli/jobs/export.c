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
#include "cli/jobs/list.h"
#include "cli/shared/answer.h"
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

struct exporter {
    FILE *out;
    enum export_format format;
    struct progress *progress; /* NULL: none is shown */
    uint64_t n;
    struct buf line;
    struct buf loose; /* JSON as it comes, before its space is taken out */
};

/* What clients see of a job besides what is exported of it: other names, and lengths. */
static bool is_exported(struct str member)
{
    static const char *const NOT[] = {"job_id",       "task_name",     "status",
                                      "scheduled_at", "payload_bytes", "result_bytes"};
    for (size_t i = 0; i < sizeof NOT / sizeof NOT[0]; i++)
        if (str_is(member, NOT[i]))
            return false;
    return true;
}

static void put_members(struct json_writer *w, const struct object *job)
{
    json_begin_object(w);
    for (size_t i = 0; i < job->n; i++)
        if (is_exported(job->members[i].name)) {
            json_key_str(w, job->members[i].name);
            json_put_raw(w, job->members[i].value);
        }
    json_end_object(w);
}

#define COLUMNS_MAX 14

static const char *const COLUMNS[COLUMNS_MAX] = {
    "id",    "task",       "queue",   "state",      "reason",      "attempts", "max_attempts",
    "class", "error_type", "message", "created_at", "finished_at", "payload",  "result",
};

static void put_row(struct exporter *x, const struct str cells[COLUMNS_MAX])
{
    struct csv_writer w;
    csv_writer_init(&w, &x->line);
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        csv_put_str(&w, cells[i]);
    csv_end_row(&w);
}

static void put_names(struct exporter *x)
{
    struct str names[COLUMNS_MAX];
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        names[i] = str_of(COLUMNS[i]);
    put_row(x, names);
}

static struct str time_text(int64_t at_ms, char out[CLOCK_TEXT_MAX])
{
    return str_of(at_ms == 0 ? NULL : clock_format(at_ms, out));
}

/* A job of a store, byte for byte. */
static void put_job(struct exporter *x, const struct job *job)
{
    const struct job_status *s = &job->status;
    const bool failed = s->error.class_ != REDRIVE_CLASS_SUCCESS;
    char attempts[16], max_attempts[16], created[CLOCK_TEXT_MAX], finished[CLOCK_TEXT_MAX];
    (void)snprintf(attempts, sizeof attempts, "%" PRIu32, s->attempts);
    (void)snprintf(max_attempts, sizeof max_attempts, "%" PRIu32, job_max_attempts(job));
    const struct str cells[COLUMNS_MAX] = {
        job->spec.id,
        job->spec.task,
        job->spec.queue,
        str_of(redrive_state_name(s->state)),
        str_of(job_reason_word(s)),
        str_of(attempts),
        str_of(max_attempts),
        str_of(failed ? redrive_class_name(s->error.class_) : NULL),
        s->error.type,
        s->error.message,
        time_text(s->created_ms, created),
        time_text(s->finished_ms, finished),
        job->spec.payload,
        s->result,
    };
    put_row(x, cells);
}

/* One as clients see it. */
static void put_item(struct exporter *x, const struct object *job)
{
    const struct object error = object_object(job, "last_error");
    const struct str cells[COLUMNS_MAX] = {
        object_text(job, "id"),
        object_text(job, "task"),
        object_text(job, "queue"),
        object_text(job, "state"),
        object_text(job, "reason"),
        object_json(job, "attempts"),
        object_json(job, "max_attempts"),
        object_text(&error, "class"),
        object_text(&error, "type"),
        object_text(&error, "message"),
        object_text(job, "created_at"),
        object_text(job, "finished_at"),
        object_value(job, "payload", "payload_bytes"),
        object_value(job, "result", "result_bytes"),
    };
    put_row(x, cells);
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

static void put_compact(struct exporter *x)
{
    json_compact(buf_str(&x->loose), &x->line);
    buf_putc(&x->line, '\n');
}

static int write_item(struct exporter *x, const struct object *job, struct redrive_err *err)
{
    struct json_writer w;
    if (x->format == EXPORT_CSV) {
        put_item(x, job);
    } else {
        buf_reset(&x->loose);
        json_writer_init(&w, &x->loose);
        put_members(&w, job);
        put_compact(x);
    }
    return job->arena->failed ? err_nomem(err) : write_line(x, err);
}

static int write_job(struct exporter *x, const struct job *job, struct redrive_err *err)
{
    struct json_writer w;
    if (x->format == EXPORT_CSV) {
        put_job(x, job);
    } else {
        buf_reset(&x->loose);
        json_writer_init(&w, &x->loose);
        job_write_json(&w, job, NULL);
        put_compact(x);
    }
    return write_line(x, err);
}

static void count(struct exporter *x, size_t n)
{
    x->n += n;
    if (x->progress)
        progress_update(x->progress, x->n);
}

static int write_pages(struct exporter *x, struct store *store, struct job_filter *filter,
                       struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    size_t left = filter->limit > 0 ? filter->limit : SIZE_MAX;
    int rc = job_filter_plan(store, filter, NULL, err);
    if (rc <= 0)
        return rc;
    do {
        filter->limit = left < PAGE_JOBS ? left : PAGE_JOBS;
        rc = store_ops(store)->list(store, filter, &page, err);
        for (size_t i = 0; i < page.n && rc == 0; i++)
            rc = write_job(x, &page.jobs[i], err);
        if (rc < 0 || page.n == 0)
            break;
        count(x, page.n);
        left -= page.n;
        filter->after_seq = page.jobs[page.n - 1].status.seq;
        filter->after_ms = page.jobs[page.n - 1].status.finished_ms;
    } while (page.more && left > 0);
    return rc;
}

static int write_pages_of_server(struct exporter *x, struct answer_pages *pages,
                                 struct redrive_err *err)
{
    const struct answer *page;
    int rc;
    while ((rc = answer_pages_next(pages, &page, err)) > 0) {
        for (size_t i = 0; i < page->n && rc > 0; i++) {
            RELEASED_BY(arena_release) struct arena arena = {0};
            const struct object item = answer_item(page, i, &arena);
            const int written = write_item(x, &item, err);
            rc = written < 0 ? written : rc;
        }
        if (rc < 0)
            break;
        count(x, page->n);
    }
    return rc;
}

/* Where the jobs are, and which. */
struct export_source {
    struct store *store;
    const struct job_filter *filter;
    struct answer_pages *pages; /* in place of those: of a server */
};

static int export_from(const struct export_source *source, enum export_format format, FILE *out,
                       struct progress *progress, uint64_t *ret_n, struct redrive_err *err)
{
    struct exporter x = {.out = out, .format = format, .progress = progress};
    int rc = 0;
    buf_init(&x.line, LINE_MAX_BYTES);
    buf_init(&x.loose, LINE_MAX_BYTES);
    if (format == EXPORT_CSV) {
        put_names(&x);
        rc = write_line(&x, err);
    }
    if (rc == 0 && source->pages) {
        rc = write_pages_of_server(&x, source->pages, err);
    } else if (rc == 0) {
        struct job_filter at = *source->filter;
        rc = write_pages(&x, source->store, &at, err);
    }
    if (rc == 0 && fflush(out) != 0)
        rc = err_set(err, REDRIVE_E_IO, "cannot write the export: %s", strerror(errno));
    if (ret_n)
        *ret_n = x.n;
    buf_release(&x.loose);
    buf_release(&x.line);
    return rc;
}

int export_jobs(struct store *store, const struct job_filter *filter, enum export_format format,
                FILE *out, struct progress *progress, uint64_t *ret_n, struct redrive_err *err)
{
    const struct export_source source = {.store = store, .filter = filter};
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

static void each_parameter(void *from, api_take_fn take, void *ctx)
{
    const struct cli *cli = from;
    const struct export_options *options = invocation_options(&cli->invocation);
    (void)(job_select_each(&options->select, (uint32_t)cli_variant(cli), take, ctx) &&
           take(STR("order"), str_of(JOB_LIST_ORDERS[ORDER_OLDEST]), ctx));
}

int export_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct export_options *options = invocation_options(&cli->invocation);
    bool to_file = options->output && strcmp(options->output, "-") != 0;
    enum export_format format = options->format >= 0 ? (enum export_format)options->format
                                                     : export_format_of(options->output);
    struct api_input input = {.each = each_parameter, .from = cli};
    const struct ask ask = {.operation = &API_JOBS, .input = &input};
    RELEASED_BY(answer_pages_release) struct answer_pages pages;
    struct job_filter filter;
    answer_pages_init(&pages, session, &ask, (size_t)options->limit, NULL);
    const struct export_source source = {
        .store = session->store, .filter = &filter, .pages = session->remote ? &pages : NULL};
    job_select_filter(cli, session_now_ms(session), &filter);
    filter.limit = (size_t)options->limit;
    return to_file ? export_to_file(cli, &source, options, format, err)
                   : export_to(cli, &source, format, cli->out.file, NULL, err);
}
