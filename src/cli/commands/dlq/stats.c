/* stats.c - `redrive dlq stats` and `redrive dlq groups`: what died, and of what? */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/time/clock.h"
#include "cli/jobs/list.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "core/classify/fingerprint.h"
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

static void stats_as_json(struct json_writer *w, const void *thing)
{
    dead_counts_write(w, thing);
}

static void stats_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct dead_counts *counts = thing;
    buf_printf(out, "%" PRIu64 " dead letter%s\n", counts->total, counts->total == 1 ? "" : "s");
    for (size_t i = 0; i < DEAD_BY_COUNT && counts->total > 0; i++) {
        struct table t;
        size_t n;
        const struct name_count *rows = name_counts_sorted(&counts->by[i], &n);
        if (!rows)
            out->failed = REDRIVE_E_NOMEM;
        table_init(&t, COLUMNS[i]);
        for (size_t k = 0; rows && k < n; k++) {
            table_addf(&t, "%" PRIu64, rows[k].n);
            table_add_str(&t, rows[k].name);
        }
        buf_putc(out, '\n');
        table_finish(&t, term->width, term->color, out);
    }
}

/* The path of a request about the dead letters that the options select. */
static void make_path(const struct cli *cli, const char *route, struct buf *path)
{
    const struct job_select *select = invocation_options(&cli->invocation);
    buf_puts(path, route);
    job_select_query(select, 0, path);
}

static int ask_for_stats(struct cli *cli, struct remote *remote, struct dead_counts *ret,
                         struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    make_path(cli, "/retry/dead-letters/stats", &path);
    return remote_dead_counts(remote, &path, ret, err);
}

static int run_stats(struct cli *cli, struct session *session, struct redrive_err *err)
{
    struct job_filter filter;
    RELEASED_BY(dead_counts_release) struct dead_counts counts;
    dead_counts_init(&counts, (uint64_t)clock_monotonic_ns());
    job_select_filter(cli, session_now_ms(session), &filter);
    int rc = session->remote ? ask_for_stats(cli, session->remote, &counts, err)
                             : dead_counts_read(&counts, session->store, &filter, err);
    return rc == 0 ? cli_show(cli, &counts, stats_as_json, stats_as_text, err) : rc;
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

struct groups {
    struct group_page page;
    int64_t now_ms;
    struct buf *cell;
};

static void add_group_json(struct json_writer *w, const void *list, size_t i)
{
    group_write_json(w, &((const struct groups *)list)->page.groups[i]);
}

static void add_group_row(struct table *t, const void *list, size_t i)
{
    const struct groups *groups = list;
    const struct group_count *g = &groups->page.groups[i];
    char text[FINGERPRINT_TEXT_MAX], age[AGE_TEXT_MAX];
    table_add(t, fingerprint_text(g->fingerprint, text));
    table_addf(t, "%" PRIu64, g->count);
    table_add(t, age_text(groups->now_ms - g->first_ms, age));
    table_add(t, age_text(groups->now_ms - g->last_ms, age));
    table_add_str(t, g->example.spec.task);
    table_add_str(t, g->example.spec.id);
    buf_reset(groups->cell);
    job_add_error(groups->cell, &g->example.status.error);
    table_add_buf(t, groups->cell);
}

static int read_groups(struct cli *cli, struct session *session, struct groups *groups,
                       struct redrive_err *err)
{
    const struct groups_options *options = invocation_options(&cli->invocation);
    struct job_filter filter;
    char limit[24];
    if (!session->remote) {
        job_select_filter(cli, groups->now_ms, &filter);
        filter.limit = (size_t)options->limit;
        return store_ops(session->store)->groups(session->store, &filter, &groups->page, err);
    }
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    make_path(cli, "/retry/dead-letters/groups", &path);
    (void)snprintf(limit, sizeof limit, "%" PRId64, options->limit);
    remote_query(&path, "limit", limit);
    return remote_groups(session->remote, &path, &groups->page, err);
}

static int run_groups(struct cli *cli, struct session *session, struct redrive_err *err)
{
    struct groups groups = {.now_ms = session_now_ms(session)};
    struct listing listing = {
        .columns = "GROUP|>JOBS|>FIRST|>LAST|TASK|EXAMPLE|ERROR",
        .item = add_group_json,
        .row = add_group_row,
        .list = &groups,
    };
    RELEASED_BY(buf_release) struct buf cell = BUF_MAX(CLI_OUTPUT_MAX);
    groups.cell = &cell;
    int rc = read_groups(cli, session, &groups, err);
    listing.n = groups.page.n;
    if (rc == 0)
        rc = cli_list(cli, &listing, err);
    group_page_release(&groups.page);
    return rc;
}

const struct command cmd_dlq_groups = {
    .name = "groups",
    .summary = "group dead letters whose errors look alike",
    .description = "Errors look alike when they have type, class and message in common once "
                   "numbers, names and addresses are taken out of the message. Each group has a "
                   "fingerprint, which --group of `list`, `retry`, `purge` and `export` takes.",
    OPTIONS_INTO(GROUPS_OPTIONS, struct groups_options),
    .examples =
        EXAMPLES({"redrive dlq groups", "of what do jobs die?"},
                 {"redrive dlq retry --group 9f86d081884c7d65 --rate 10/s", "redrive one group"}),
    .check = job_select_check,
    .run_on_store = run_groups,
    .variant = DLQ_STATES,
};
