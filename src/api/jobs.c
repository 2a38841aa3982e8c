/* jobs.c - jobs: pages of them, one with all there is to tell, and those that belong to a workflow.
 */
#include <stdio.h>

#include "api/api.h"
#include "api/job_view.h"
#include "api/redact.h"
#include "api/search.h"
#include "base/err.h"
#include "engine/gates/view.h"
#include "engine/report/workflow.h"

/* ---- Which jobs ------------------------------------------------------------------------------ */

static int refuse_search(struct field_reader *r, const char *parameter)
{
    int rc =
        field_fault(r, parameter, REDRIVE_E_DENIED, "only a token with the scope admin may search");
    err_detail(r->err, "this server hides values of jobs (redact), and errors may quote them");
    return rc;
}

int api_query(const struct api_context *c, unsigned uses, enum job_order order,
              struct job_query *ret, struct redrive_err *err)
{
    job_query_init(ret, c->tenant, uses, order, c->now_ms, c->arena, err);
    api_each(c, job_query_add, ret);
    int rc = job_query_finish(ret);
    if (rc == 0 && c->redact && ret->filter.text.len > 0)
        rc = refuse_search(&ret->reader, "text");
    else if (rc == 0 && c->redact && ret->filter.error_type.len > 0)
        rc = refuse_search(&ret->reader, "type");
    return api_note_fault(c, rc, ret->reader.place);
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Jobs that are read at a time, and how large a page grows before it ends early. */
#define READ_FIRST     8
#define READ_MOST      50
#define PAGE_MAX_BYTES (8u * 1024 * 1024)

/* What redaction makes of a job is gone before the next one: it may be as large as the payload, and
 * leave only a word of it on the page, so that the page never ends early. The work that it was. */
static uint64_t write_job(const struct api_context *c, const struct job *job, api_view_fn view,
                          struct json_writer *w)
{
    struct redactor redactor;
    RELEASED_BY(arena_release) struct arena arena = {0};
    redactor_init(&redactor, c->redact, &arena);
    const struct job shown = redact_job(&redactor, job);
    view(w, &shown, NULL);
    return redactor.work;
}

static bool is_full(const struct json_writer *w, uint64_t work)
{
    return w->out->len >= PAGE_MAX_BYTES || work >= API_WORK_MAX;
}

/* How many jobs are read next, when `n` have made so much of the page: about as many as still fit,
 * for large ones would be read for nothing. */
static size_t step_after(const struct json_writer *w, size_t n, size_t left)
{
    const size_t room = PAGE_MAX_BYTES - w->out->len;
    const size_t fits = n == 0 ? READ_FIRST : room / (w->out->len / n + 1) + 1;
    const size_t step = fits < READ_MOST ? fits : READ_MOST;
    return step < left ? step : left;
}

/* Writes jobs until the filter's limit, until the page is large, or until it has taken long. */
static int write_jobs(const struct api_context *c, struct search *search, api_view_fn view,
                      struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    const size_t limit = search->filter.limit;
    size_t n_written = 0;
    uint64_t work = 0;
    int rc = 0;
    while (rc == 0 && !search->is_over && !search->is_late && n_written < limit &&
           !is_full(w, work)) {
        size_t n = 0;
        rc = search_next(search, step_after(w, n_written, limit - n_written), &page, err);
        while (n < page.n && !is_full(w, work))
            work += write_job(c, &page.jobs[n++], view, w);
        n_written += n;
        search_take(search, &page, n);
    }
    return rc;
}

static void write_unreadable(const struct api_context *c, const struct search *search,
                             struct json_writer *w)
{
    const struct redrive_err *why = &search->unreadable;
    const bool has_more = c->tells_places && why->detail[0];
    char text[sizeof why->message + sizeof why->detail + 2];
    (void)snprintf(text, sizeof text, "%s%s%s", why->message, has_more ? "; " : "",
                   has_more ? why->detail : "");
    json_field_int(w, "unreadable", (int64_t)search->n_unreadable);
    json_field_cstr(w, "unreadable_first", text);
}

int api_write_page(const struct api_context *c, const struct job_filter *filter, api_view_fn view,
                   struct json_writer *w, struct redrive_err *err)
{
    struct search search;
    char cursor[JOB_CURSOR_MAX];
    json_begin_object(w);
    json_open_array(w, "items");
    int rc = search_init(&search, c->store, filter, err);
    if (rc == 0)
        rc = write_jobs(c, &search, view, w, err);
    if (rc < 0)
        return rc;
    json_end_array(w);
    json_field_cstr(w, "next", search_cursor(&search, cursor));
    if (search.n_unreadable > 0)
        write_unreadable(c, &search, w);
    json_end_object(w);
    return 0;
}

#define LIST_USES (JOB_QUERY_JOBS | JOB_QUERY_STATE | JOB_QUERY_PAGE)

static int read_jobs(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    struct job_query query;
    int rc = api_query(c, LIST_USES, ORDER_NEWEST, &query, err);
    return rc == 0 ? api_write_page(c, &query.filter, view_job, w, err) : rc;
}

/* ---- One job --------------------------------------------------------------------------------- */

static int ambiguous(struct str id, const struct job_page *page, struct redrive_err *err)
{
    const struct str a = page->jobs[0].spec.tenant, b = page->jobs[1].spec.tenant;
    (void)err_set(err, REDRIVE_E_USAGE, "several tenants have a job '%.*s'",
                  (int)(id.len < 100 ? id.len : 100), id.ptr);
    err_detail(err, "among them %.*s and %.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
    return REDRIVE_E_USAGE;
}

int api_not_there(struct str id, bool letter, struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_NOT_FOUND, "there is no %s '%.*s'",
                   letter ? "dead letter" : "job", (int)(id.len < 100 ? id.len : 100), id.ptr);
}

int api_no_letter(struct str id, enum redrive_state state, struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_STATE, "job '%.*s' is no dead letter: it is %s",
                   (int)(id.len < 100 ? id.len : 100), id.ptr, redrive_state_name(state));
}

int api_find_job(const struct api_context *c, uint32_t states, struct job_page *ret,
                 struct redrive_err *err)
{
    const struct str id = c->name;
    const struct job_filter filter = {
        .tenant = c->tenant, .id = id, .limit = c->tenant.ptr ? 1 : 2};
    int rc = id.len > 0 ? store_ops(c->store)->list(c->store, &filter, ret, err) : 0;
    if (rc < 0)
        return rc;
    if (ret->n > 1)
        return ambiguous(id, ret, err);
    if (ret->n == 0)
        return api_not_there(id, states != 0, err);
    const enum redrive_state state = ret->jobs[0].status.state;
    return states == 0 || states >> state & 1 ? 0 : api_no_letter(id, state, err);
}

static int read_around(const struct api_context *c, const struct job *job, struct whole_job *whole,
                       struct gate_info *gate, struct edge_views *edges, struct redrive_err *err)
{
    int rc = gate_read(c->store, job, c->now_ms, gate, err);
    if (rc == 0)
        rc = pause_read(c->store, job, &whole->is_paused, err);
    if (rc == 0)
        rc = edge_views_read(c->store, job, edges, err);
    return rc;
}

int api_write_job(const struct api_context *c, uint32_t states, struct json_writer *w,
                  struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    RELEASED_BY(attempt_page_release) struct attempt_page history = {0};
    RELEASED_BY(edge_views_release) struct edge_views edges = {0};
    struct gate_info gate = {0};
    struct redactor redactor;
    int rc = api_find_job(c, states, &page, err);
    if (rc == 0)
        rc = store_ops(c->store)->history(c->store, &page.jobs[0].status.seq, 1, &history, err);
    if (rc < 0)
        return rc;
    redactor_init(&redactor, c->redact, c->arena);
    const struct job shown = redact_job(&redactor, &page.jobs[0]);
    redact_history(&redactor, &history);
    struct whole_job whole = {.job = &shown,
                              .history = &history,
                              .gate = &gate,
                              .edges = &edges,
                              .is_letter = states != 0};
    rc = read_around(c, &page.jobs[0], &whole, &gate, &edges, err);
    if (rc == 0)
        view_whole_job(w, &whole);
    return rc;
}

static int read_job(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    return api_write_job(c, 0, w, err);
}

static int read_workflow(const struct api_context *c, struct json_writer *w,
                         struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    struct workflow workflow = {0};
    int rc = api_find_job(c, 0, &page, err);
    if (rc == 0)
        rc = workflow_read(c->store, &page.jobs[0], &workflow, err);
    if (rc == 0)
        workflow_write_json(w, &workflow);
    workflow_release(&workflow);
    return rc;
}

#define JOBS "/jobs"

const struct operation API_JOBS = {.path = JOBS,
                                   .summary = "List jobs, a page at a time",
                                   .scope = CONFIG_SCOPE_READ,
                                   .read = read_jobs,
                                   .parameters = {JOB_QUERY_FIELDS, LIST_USES}};
const struct operation API_JOB = {.path = JOBS "/{id}",
                                  .summary = "Show a job with its history",
                                  .scope = CONFIG_SCOPE_READ,
                                  .read = read_job};
const struct operation API_WORKFLOW = {.path = JOBS "/{id}/workflow",
                                       .summary =
                                           "The jobs that edges connect with a job, up to 1000",
                                       .scope = CONFIG_SCOPE_READ,
                                       .read = read_workflow};
