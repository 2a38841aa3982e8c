/* stats.c - `redrive dlq stats` and `redrive dlq groups`: what died, and of what? */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "cli/jobs/list.h"
#include "cli/shared/session.h"
#include "engine/report/dead_letters.h"

/* ---- stats ----------------------------------------------------------------------------------- */

struct stats_options {
    struct job_select select;
};

static const struct field STATS_OPTIONS[] = {
    JOB_SELECT_ROWS(struct stats_options, select),
    {0},
};

static const char *const COLUMNS[] = {[DEAD_BY_CLASS] = ">JOBS|CLASS",
                                      [DEAD_BY_REASON] = ">JOBS|REASON",
                                      [DEAD_BY_TASK] = ">JOBS|TASK",
                                      [DEAD_BY_TYPE] = ">JOBS|TYPE"};

/* Each member of the object is a name, and how many there are. */
static void put_counts(const struct object *counts, const char *columns, const struct term *term,
                       struct buf *out)
{
    struct table t;
    table_init(&t, columns);
    for (size_t i = 0; i < counts->n; i++) {
        table_add_str(&t, counts->members[i].value);
        table_add_str(&t, counts->members[i].name);
    }
    buf_putc(out, '\n');
    table_finish(&t, term->width, term->color, out);
}

static int print_stats(struct cli *cli, struct answer *answer, struct redrive_err *err)
{
    const struct object stats = answer->object;
    const int64_t total = object_int(&stats, "total_jobs");
    struct buf out;
    buf_init(&out, CLI_OUTPUT_MAX);
    buf_printf(&out, "%" PRId64 " dead letter%s\n", total, total == 1 ? "" : "s");
    for (int i = 0; i < DEAD_BY_COUNT && total > 0; i++) {
        const struct object counts = object_object(&stats, dead_counts_key((enum dead_by)i));
        put_counts(&counts, COLUMNS[i], &cli->out, &out);
    }
    if (answer->arena.failed)
        out.failed = REDRIVE_E_NOMEM;
    return cli_print(cli, &out, err);
}

static void each_selected(void *select, api_take_fn take, void *ctx)
{
    (void)job_select_each(select, 0, take, ctx);
}

static int run_stats(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct stats_options *options = invocation_options(&cli->invocation);
    struct job_select select = options->select;
    struct api_input input = {.each = each_selected, .from = &select};
    const struct ask ask = {
        .operation = &API_DEAD_STATS, .tenant = str_of(select.tenant), .input = &input};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_ask(session, &ask, &answer, err);
    if (rc < 0)
        return rc;
    return cli->globals->json ? answer_print(cli, &answer, err) : print_stats(cli, &answer, err);
}

const struct command cmd_dlq_stats = {
    .name = "stats",
    .summary = "count dead letters by class, reason, task and type",
    .description = "They are counted where they are kept; no payload is read.",
    OPTIONS_INTO(STATS_OPTIONS, struct stats_options),
    .examples = EXAMPLES({"redrive dlq stats --newer-than 24h", "what died since yesterday?"}),
    .check = job_select_check,
    .run_on_store = run_stats,
    .variant = DLQ_STATES,
};

/* ---- groups ---------------------------------------------------------------------------------- */

struct groups_options {
    struct job_select select;
    int64_t limit;
};

static const struct field GROUPS_OPTIONS[] = {
    OPTION("limit", 'n', "N", "how many groups, the largest first",
           INTO_INT(struct groups_options, limit), .min = 1, .max = STORE_PAGE_MAX,
           .default_text = "50"),
    JOB_SELECT_ROWS(struct groups_options, select),
    {0},
};

struct rows {
    int64_t now_ms;
    struct buf *cell;
};

static void add_group(struct table *t, const struct object *group, const void *ctx)
{
    const struct rows *rows = ctx;
    const struct object error = object_object(group, "example");
    char age[AGE_TEXT_MAX];
    table_add_str(t, object_text(group, "fingerprint"));
    table_addf(t, "%" PRId64, object_int(group, "count"));
    table_add(t, age_text(rows->now_ms - object_time(group, "first_seen"), age));
    table_add(t, age_text(rows->now_ms - object_time(group, "last_seen"), age));
    table_add_str(t, object_text(group, "task"));
    table_add_str(t, object_text(group, "example_id"));
    buf_reset(rows->cell);
    job_add_error(rows->cell, &error);
    table_add_buf(t, rows->cell);
}

static int run_groups(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct groups_options *options = invocation_options(&cli->invocation);
    struct job_select select = options->select;
    RELEASED_BY(buf_release) struct buf cell = BUF_MAX(CLI_OUTPUT_MAX);
    const struct rows rows = {.now_ms = session_now_ms(session), .cell = &cell};
    const struct answer_table table = {
        .columns = "GROUP|>JOBS|>FIRST|>LAST|TASK|EXAMPLE|ERROR", .row = add_group, .ctx = &rows};
    struct api_input input = {.each = each_selected, .from = &select};
    const struct ask ask = {
        .operation = &API_DEAD_GROUPS, .tenant = str_of(select.tenant), .input = &input};
    RELEASED_BY(answer_pages_release) struct answer_pages pages;
    answer_pages_init(&pages, session, &ask, (size_t)options->limit, NULL);
    return answer_print_pages(cli, &pages, &table, err);
}

const struct command cmd_dlq_groups = {
    .name = "groups",
    .summary = "group dead letters whose errors look alike",
    .description = "Errors look alike when they have type, class and message in common once "
                   "numbers, names and addresses are taken out of the message. Each group has a "
                   "fingerprint, which --group of `list`, `retry`, `purge` and `export` takes, the "
                   "number of its jobs, the first and the last of their times, and an example.",
    OPTIONS_INTO(GROUPS_OPTIONS, struct groups_options),
    .examples =
        EXAMPLES({"redrive dlq groups", "of what do jobs die?"},
                 {"redrive dlq retry --group 9f86d081884c7d65 --rate 10/s", "redrive one group"}),
    .check = job_select_check,
    .run_on_store = run_groups,
    .variant = DLQ_STATES,
};
