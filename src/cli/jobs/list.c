/* list.c - prints a page of jobs, and the facts of a job in a few words. */
#include "cli/jobs/list.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "store/job_json.h"
#include "store/plan.h"

const char *const JOB_LIST_ORDERS[] = {
    [ORDER_OLDEST] = "oldest", [ORDER_NEWEST] = "newest", [ORDER_FINISHED] = "finished", NULL};

int job_list_read(const struct job_list *list, struct job_filter *filter, struct redrive_err *err)
{
    filter->order = (enum job_order)list->order;
    filter->limit = (size_t)list->limit;
    if (!list->cursor)
        return 0;
    int rc = job_cursor_read(str_of(list->cursor), filter, err);
    return rc < 0 ? REDRIVE_E_USAGE : 0;
}

int job_list_check(struct cli *cli, struct redrive_err *err)
{
    const struct job_list_options *options = invocation_options(&cli->invocation);
    struct job_filter ignored = {0};
    int rc = job_select_check(cli, err);
    return rc < 0 ? rc : job_list_read(&options->list, &ignored, err);
}

/* Whether the jobs belong to several tenants, so that ids alone do not tell them apart. */
static bool has_tenants(const struct job_page *page)
{
    for (size_t i = 1; i < page->n; i++)
        if (!str_eq(page->jobs[i].spec.tenant, page->jobs[0].spec.tenant))
            return true;
    return false;
}

/* A page, and how its table is to be. */
struct job_table {
    struct job_page page;
    int64_t now_ms;
    bool with_tenant;
    bool by_end;
    struct buf *cell;
};

static void add_job_json(struct json_writer *w, const void *list, size_t i)
{
    const struct job_table *table = list;
    job_write_json(w, &table->page.jobs[i], NULL);
}

/* What it waits for, or why it is where it is: `in 40s`, `now`, `breaker`, `exhausted`. */
static void add_next(struct buf *out, const struct job *job, int64_t now_ms)
{
    const struct job_status *s = &job->status;
    const char *reason = job_reason_word(s);
    char text[AGE_TEXT_MAX];
    if (reason) {
        buf_puts(out, reason);
        return;
    }
    switch (s->state) {
    case REDRIVE_STATE_SCHEDULED:
    case REDRIVE_STATE_RETRYING:
        if (s->process_after_ms > now_ms)
            buf_printf(out, "in %s", age_text(s->process_after_ms - now_ms + 999, text));
        else
            buf_puts(out, "now");
        break;
    case REDRIVE_STATE_QUEUED: buf_puts(out, "now"); break;
    default: buf_putc(out, '-'); break;
    }
}

static void add_job_row(struct table *t, const void *list, size_t i)
{
    const struct job_table *table = list;
    const struct job *job = &table->page.jobs[i];
    const struct job_status *s = &job->status;
    char age[AGE_TEXT_MAX];
    if (table->with_tenant)
        table_add_str(t, job->spec.tenant);
    table_add_str(t, job->spec.id);
    table_add_str(t, job->spec.task);
    table_add_styled(t, job_state_style(s->state), redrive_state_name(s->state));
    table_addf(t, "%u/%u", s->attempts, job_max_attempts(job));
    int64_t since_ms = table->by_end ? s->finished_ms : s->created_ms;
    table_add(t, since_ms == 0 ? "-" : age_text(table->now_ms - since_ms, age));
    buf_reset(table->cell);
    add_next(table->cell, job, table->now_ms);
    table_add_buf(t, table->cell);
    buf_reset(table->cell);
    job_add_error(table->cell, &s->error);
    table_add_buf(t, table->cell);
}

static void warn_of_unreadable(struct cli *cli, const struct job_page *page)
{
    struct redrive_err warning = {0};
    if (page->n_unreadable == 0)
        return;
    err_set(&warning, REDRIVE_E_CORRUPT, "%zu job%s cannot be read and %s left out",
            page->n_unreadable, page->n_unreadable == 1 ? "" : "s",
            page->n_unreadable == 1 ? "is" : "are");
    if (page->unreadable)
        err_detail(&warning, "the first: %s%s%s", page->unreadable->message,
                   page->unreadable->detail[0] ? "; " : "", page->unreadable->detail);
    err_hint(&warning, "`redrive doctor` says what can be done");
    cli_warn(cli, &warning);
}

static int print_page(struct cli *cli, const struct job_table *table, const char *next,
                      struct redrive_err *err)
{
    const char *columns = table->by_end ? "TENANT|ID|TASK|STATE|>ATTEMPTS|>ENDED|WHY|LAST ERROR"
                                        : "TENANT|ID|TASK|STATE|>ATTEMPTS|>AGE|NEXT|LAST ERROR";
    const struct listing listing = {
        .columns = table->with_tenant ? columns : strchr(columns, '|') + 1,
        .n = table->page.n,
        .item = add_job_json,
        .row = add_job_row,
        .list = table,
        .next = next,
    };
    int rc = cli_list(cli, &listing, err);
    warn_of_unreadable(cli, &table->page);
    if (rc == 0 && next && !cli->globals->json) {
        (void)fflush(cli->out.file);
        (void)fprintf(cli->err.file, "there are more: --cursor %s\n", next);
    }
    return rc;
}

static int read_from_store(struct cli *cli, struct store *store, struct job_table *table,
                           char cursor[JOB_CURSOR_MAX], const char **ret_next,
                           struct redrive_err *err)
{
    const struct job_list_options *options = invocation_options(&cli->invocation);
    struct job_filter filter;
    job_select_filter(cli, table->now_ms, &filter);
    filter.skips_unreadable = true;
    int rc = job_list_read(&options->list, &filter, err);
    if (rc == 0)
        rc = job_filter_plan(store, &filter, NULL, err);
    if (rc > 0)
        rc = store_ops(store)->list(store, &filter, &table->page, err);
    if (rc == 0 && table->page.more)
        *ret_next = job_cursor_write(&filter, &table->page.jobs[table->page.n - 1], cursor);
    return rc;
}

static int read_from_server(struct cli *cli, struct remote *remote, struct job_table *table,
                            const char **ret_next, struct redrive_err *err)
{
    const struct job_list_options *options = invocation_options(&cli->invocation);
    struct str next = {0};
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    buf_puts(&path, "/jobs");
    job_select_query(&options->select, (uint32_t)cli_variant(cli), &path);
    remote_query(&path, "order", JOB_LIST_ORDERS[options->list.order]);
    int rc = remote_jobs(remote, &path, (size_t)options->list.limit, options->list.cursor,
                         &table->page, &next, err);
    *ret_next = next.ptr;
    return rc;
}

int job_list_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct job_list_options *options = invocation_options(&cli->invocation);
    struct buf cell;
    struct job_table table = {.now_ms = session_now_ms(session),
                              .by_end = options->list.order == ORDER_FINISHED,
                              .cell = &cell};
    char cursor[JOB_CURSOR_MAX];
    const char *next = NULL;
    buf_init(&cell, CLI_OUTPUT_MAX);
    int rc = session->remote ? read_from_server(cli, session->remote, &table, &next, err)
                             : read_from_store(cli, session->store, &table, cursor, &next, err);
    table.with_tenant = has_tenants(&table.page);
    if (rc == 0)
        rc = print_page(cli, &table, next, err);
    buf_release(&cell);
    job_page_release(&table.page);
    return rc;
}

/* ---- The facts of a job in a few words ------------------------------------------------------- */

const char *age_text(int64_t ms, char out[AGE_TEXT_MAX])
{
    int64_t s = ms > 0 ? ms / 1000 : 0;
    int64_t n = s < 60 ? s : s < 3600 ? s / 60 : s < 48 * 3600 ? s / 3600 : s / 86400;
    (void)snprintf(out, AGE_TEXT_MAX, "%" PRId64 "%c", n,
                   s < 60          ? 's'
                   : s < 3600      ? 'm'
                   : s < 48 * 3600 ? 'h'
                                   : 'd');
    return out;
}

/* A message may have 64 KiB, and a listing many of them. */
static void cut(struct buf *out, size_t from)
{
    if (buf_failed(out) || out->len == from)
        return;
    const struct str all = {out->data + from, out->len - from};
    const struct str fit = text_fit(all, JOB_ERROR_COLUMNS);
    if (fit.len == all.len)
        return;
    buf_truncate(out, from + text_fit(all, JOB_ERROR_COLUMNS - 1).len);
    buf_puts(out, "…");
}

void job_add_error(struct buf *out, const struct job_error *error)
{
    const size_t from = out->len;
    if (error->class_ == REDRIVE_CLASS_SUCCESS)
        return;
    /* The last line of a traceback begins with the type. */
    bool says_type = error->type.len > 0 && str_starts_with(error->message, error->type);
    if (says_type)
        buf_add_str(out, error->message);
    else if (error->type.len > 0)
        buf_add_str(out, error->type);
    else
        buf_puts(out, redrive_class_name(error->class_));
    if (error->message.len > 0 && !says_type) {
        buf_puts(out, ": ");
        buf_add_str(out, error->message);
    }
    cut(out, from);
}

enum style job_state_style(enum redrive_state state)
{
    switch (state) {
    case REDRIVE_STATE_COMPLETED: return STYLE_GREEN;
    case REDRIVE_STATE_DEAD_LETTER:
    case REDRIVE_STATE_FAILED: return STYLE_RED;
    case REDRIVE_STATE_RETRYING:
    case REDRIVE_STATE_PARKED: return STYLE_YELLOW;
    case REDRIVE_STATE_RUNNING: return STYLE_CYAN;
    default: return STYLE_PLAIN;
    }
}
