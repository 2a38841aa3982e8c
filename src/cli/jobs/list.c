/* list.c - prints jobs as a list, and the facts of a job in a few words. */
#include "cli/jobs/list.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "cli/output/table.h"
#include "cli/output/term.h"

const char *const JOB_LIST_ORDERS[] = {
    [ORDER_OLDEST] = "oldest", [ORDER_NEWEST] = "newest", [ORDER_FINISHED] = "finished", NULL};

int job_list_check(struct cli *cli, struct redrive_err *err)
{
    const struct job_list_options *options = invocation_options(&cli->invocation);
    struct job_filter ignored = {.order = (enum job_order)options->list.order};
    int rc = job_select_check(cli, err);
    if (rc == 0 && options->list.cursor &&
        job_cursor_read(str_of(options->list.cursor), &ignored, err) < 0)
        rc = REDRIVE_E_USAGE;
    return rc;
}

/* How the rows of a list are made. */
struct rows {
    int64_t now_ms;
    bool by_end;
    struct buf *cell;
};

/* What it waits for, or why it is where it is: `in 40s`, `now`, `breaker`, `exhausted`. */
static void add_next(struct buf *out, const struct object *job, int64_t now_ms)
{
    const struct str reason = object_text(job, "reason"), state = object_text(job, "state");
    const int64_t after_ms = object_time(job, "process_after");
    char text[AGE_TEXT_MAX];
    const bool has_time = str_is(state, "scheduled") || str_is(state, "retrying");
    if (reason.len > 0)
        buf_add_str(out, reason);
    else if (has_time && after_ms > now_ms)
        buf_printf(out, "in %s", age_text(after_ms - now_ms + 999, text));
    else
        buf_puts(out, has_time || str_is(state, "queued") ? "now" : "-");
}

static void add_job_row(struct table *t, const struct object *job, const void *ctx)
{
    const struct rows *rows = ctx;
    const struct object error = object_object(job, "last_error");
    const int64_t since_ms = object_time(job, rows->by_end ? "finished_at" : "created_at");
    char age[AGE_TEXT_MAX];
    table_add_str(t, object_text(job, "tenant"));
    table_add_str(t, object_text(job, "id"));
    table_add_str(t, object_text(job, "task"));
    job_add_state(t, object_text(job, "state"));
    table_addf(t, "%" PRId64 "/%" PRId64, object_int(job, "attempts"),
               object_int(job, "max_attempts"));
    table_add(t, since_ms == 0 ? "-" : age_text(rows->now_ms - since_ms, age));
    buf_reset(rows->cell);
    add_next(rows->cell, job, rows->now_ms);
    table_add_buf(t, rows->cell);
    buf_reset(rows->cell);
    job_add_error(rows->cell, &error);
    table_add_buf(t, rows->cell);
}

static void warn_of_unreadable(struct cli *cli, const struct answer_pages *pages)
{
    struct redrive_err warning = {0};
    const bool is_one = pages->n_unreadable == 1;
    if (pages->n_unreadable == 0)
        return;
    err_set(&warning, REDRIVE_E_CORRUPT, "%" PRId64 " job%s cannot be read and %s left out",
            pages->n_unreadable, is_one ? "" : "s", is_one ? "is" : "are");
    if (pages->unreadable.message[0])
        err_detail(&warning, "the first: %s", pages->unreadable.message);
    err_hint(&warning, "`redrive doctor` says what can be done");
    cli_warn(cli, &warning);
}

static void each_parameter(void *from, api_take_fn take, void *ctx)
{
    const struct cli *cli = from;
    const struct job_list_options *options = invocation_options(&cli->invocation);
    (void)(job_select_each(&options->select, 0, take, ctx) &&
           take(STR("order"), str_of(JOB_LIST_ORDERS[options->list.order]), ctx));
}

int job_list_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct job_list_options *options = invocation_options(&cli->invocation);
    RELEASED_BY(buf_release) struct buf cell = BUF_MAX(CLI_OUTPUT_MAX);
    const struct rows rows = {.now_ms = session_now_ms(session),
                              .by_end = options->list.order == ORDER_FINISHED,
                              .cell = &cell};
    const struct answer_table table = {
        .columns = rows.by_end ? "TENANT|ID|TASK|STATE|>ATTEMPTS|>ENDED|WHY|LAST ERROR"
                               : "TENANT|ID|TASK|STATE|>ATTEMPTS|>AGE|NEXT|LAST ERROR",
        .row = add_job_row,
        .ctx = &rows,
        .hides_first = true,
    };
    struct api_input input = {.each = each_parameter, .from = cli};
    const struct ask ask = {.operation = cli_variant(cli) ? &API_DEAD_LETTERS : &API_JOBS,
                            .tenant = str_of(options->select.tenant),
                            .input = &input};
    RELEASED_BY(answer_pages_release) struct answer_pages pages;
    answer_pages_init(&pages, session, &ask, (size_t)options->list.limit, options->list.cursor);
    int rc = answer_print_pages(cli, &pages, &table, err);
    warn_of_unreadable(cli, &pages);
    if (rc == 0 && pages.cursor[0] && !cli->globals->json) {
        (void)fflush(cli->out.file);
        (void)fprintf(cli->err.file, "there are more: --cursor %s\n", pages.cursor);
    }
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

void job_add_error_text(struct buf *out, struct str class, struct str type, struct str message)
{
    const size_t from = out->len;
    /* The last line of a traceback begins with the type. */
    const bool says_type = type.len > 0 && str_starts_with(message, type);
    if (!says_type)
        buf_add_str(out, type.len > 0 ? type : class);
    if (message.len > 0 && !says_type)
        buf_puts(out, ": ");
    buf_add_str(out, message);
    cut(out, from);
}

void job_add_error(struct buf *out, const struct object *error)
{
    if (error->members)
        job_add_error_text(out, object_text(error, "class"), object_text(error, "type"),
                           object_text(error, "message"));
}

/* A state of a newer server has no colour. */
static enum style style_of(struct str state)
{
    const int known = vocabulary_find(VOCABULARY_STATE, state);
    switch (known) {
    case REDRIVE_STATE_COMPLETED: return STYLE_GREEN;
    case REDRIVE_STATE_DEAD_LETTER:
    case REDRIVE_STATE_FAILED: return STYLE_RED;
    case REDRIVE_STATE_RETRYING:
    case REDRIVE_STATE_PARKED: return STYLE_YELLOW;
    case REDRIVE_STATE_RUNNING: return STYLE_CYAN;
    default: return STYLE_PLAIN;
    }
}

void job_add_state(struct table *t, struct str state)
{
    table_add_str_styled(t, style_of(state), state);
}

void job_put_state(struct buf *out, bool color, struct str state)
{
    style_add_clean(out, color, style_of(state), state);
}
