/* list.c - prints a page of jobs. */
#include "cli/jobs/list.h"

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/jobs/text.h"
#include "cli/output/listing.h"
#include "cli/output/table.h"
#include "cli/shared/session.h"
#include "store/page.h"
#include "store/job_json.h"

#define TEXT_MAX (256u * 1024 * 1024)

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

/* Written job by job: a page of large payloads need not be in memory twice. */
static int print_json(struct cli *cli, const struct job_page *page, const char *next,
                      struct redrive_err *err)
{
    struct json_writer w;
    struct buf out;
    int rc = 0;
    buf_init(&out, TEXT_MAX);
    listing_begin(&w, &out);
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        job_write_json(&w, &page->jobs[i], NULL);
        rc = buf_failed(&out);
        term_write(&cli->out, &out);
        buf_reset(&out);
    }
    if (rc < 0) {
        buf_release(&out);
        return err_set(err, rc, "cannot print a job: %s", redrive_err_text(rc));
    }
    listing_end(&w, next);
    return cli_print(cli, &out, err);
}

/* Whether the jobs belong to several tenants, so that ids alone do not tell them apart. */
static bool has_tenants(const struct job_page *page)
{
    for (size_t i = 1; i < page->n; i++)
        if (!str_eq(page->jobs[i].spec.tenant, page->jobs[0].spec.tenant))
            return true;
    return false;
}

static void add_row(struct table *t, const struct job *job, bool with_tenant, bool by_end,
                    int64_t now_ms, struct buf *cell)
{
    const struct job_status *s = &job->status;
    char age[AGE_TEXT_MAX];
    if (with_tenant)
        table_addf(t, "%.*s", (int)job->spec.tenant.len, job->spec.tenant.ptr);
    table_addf(t, "%.*s", (int)job->spec.id.len, job->spec.id.ptr);
    table_addf(t, "%.*s", (int)job->spec.task.len, job->spec.task.ptr);
    table_add_styled(t, job_state_style(s->state), redrive_state_name(s->state));
    table_addf(t, "%u/%u", s->attempts, job_max_attempts(job));
    int64_t since_ms = by_end ? s->finished_ms : s->created_ms;
    table_add(t, since_ms == 0 ? "-" : age_text(now_ms - since_ms, age));
    buf_reset(cell);
    job_add_next(cell, job, now_ms);
    table_add(t, buf_cstr(cell));
    buf_reset(cell);
    job_add_error(cell, &s->error);
    table_add(t, buf_cstr(cell));
}

static int print_table(struct cli *cli, const struct job_page *page, bool by_end, const char *next,
                       int64_t now_ms, struct redrive_err *err)
{
    const struct table_column columns[] = {
        {"TENANT", ALIGN_LEFT},
        {"ID", ALIGN_LEFT},
        {"TASK", ALIGN_LEFT},
        {"STATE", ALIGN_LEFT},
        {"ATTEMPTS", ALIGN_RIGHT},
        {by_end ? "ENDED" : "AGE", ALIGN_RIGHT},
        {by_end ? "WHY" : "NEXT", ALIGN_LEFT},
        {"LAST ERROR", ALIGN_LEFT},
    };
    const size_t n_columns = sizeof columns / sizeof columns[0];
    const bool with_tenant = has_tenants(page);
    struct table t;
    struct buf out, cell;
    table_init(&t, with_tenant ? columns : columns + 1, with_tenant ? n_columns : n_columns - 1);
    buf_init(&out, TEXT_MAX);
    buf_init(&cell, TEXT_MAX);
    for (size_t i = 0; i < page->n; i++)
        add_row(&t, &page->jobs[i], with_tenant, by_end, now_ms, &cell);
    int rc = buf_failed(&cell);
    if (rc == 0)
        rc = table_render(&t, cli->out.width, cli->out.color, &out);
    table_release(&t);
    buf_release(&cell);
    if (rc < 0) {
        buf_release(&out);
        return err_set(err, rc, "cannot print the jobs: %s", redrive_err_text(rc));
    }
    rc = cli_print(cli, &out, err);
    if (rc == 0 && next) {
        (void)fflush(cli->out.file);
        (void)fprintf(cli->err.file, "there are more: --cursor %s\n", next);
    }
    return rc;
}

int job_list_run(struct cli *cli, const struct job_select *select, struct job_filter *filter,
                 struct redrive_err *err)
{
    char cursor[JOB_CURSOR_MAX];
    const char *next = NULL;
    struct job_page page = {0};
    struct session session;
    int rc = session_open_existing(cli, &session, err);
    const int64_t now_ms = rc == 0 ? engine_now_ms(session.engine) : 0;
    job_select_date(select, now_ms, filter);
    if (rc == 0)
        rc = store_ops(session.store)->list(session.store, filter, &page, err);
    if (rc == 0 && page.more)
        next = job_cursor_write(filter->order, &page.jobs[page.n - 1], cursor);
    if (rc == 0 && cli->globals->json)
        rc = print_json(cli, &page, next, err);
    else if (rc == 0)
        rc = print_table(cli, &page, filter->order == ORDER_FINISHED, next, now_ms, err);
    job_page_release(&page);
    session_close(&session);
    return rc;
}
